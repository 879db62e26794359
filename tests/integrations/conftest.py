"""Savers and stores of both libraries, in both colours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import pytest


class Opener:
    """Enters context managers of either colour, on the harness's loop if there is one."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self._sync = ExitStack()
        self._async = AsyncExitStack()

    def enter(self, manager: Any) -> Any:
        if hasattr(manager, "__aenter__") and self.run.colour == "async":
            return self.run._runner.run(self._async.enter_async_context(manager))
        return self._sync.enter_context(manager)

    def later(self, call: Any) -> None:
        self._sync.callback(call)

    def wait(self, awaitable: Any) -> Any:
        return self.run._runner.run(awaitable)

    def close(self) -> None:
        if self.run.colour == "async":
            self.run._runner.run(self._async.aclose())
        self._sync.close()


@pytest.fixture
def opener(run: Any) -> Iterator[Opener]:
    opened = Opener(run)
    yield opened
    opened.close()


@pytest.fixture(params=["sqlite", "postgres"])
def addresses(request, tmp_path) -> tuple[str, str]:
    """Where LangGraph's threads are, and where ours are to be."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/theirs.db", f"sqlite:///{tmp_path}/ours.db"
    make = request.getfixturevalue("new_database")
    return make(), make()


@pytest.fixture
def files(tmp_path) -> tuple[str, str]:
    return f"sqlite:///{tmp_path}/theirs.db", f"sqlite:///{tmp_path}/ours.db"
