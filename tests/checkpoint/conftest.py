"""Savers on a database of their own, for tests of one kind of saver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from milepost.checkpoint.sqlite import SqliteSaver


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where a SQLite file may be made."""
    return str(tmp_path / "threads.db")


@pytest.fixture
def sqlite(path: str) -> Iterator[SqliteSaver]:
    """A saver on a new file."""
    with SqliteSaver.from_conn_string(path) as saver:
        yield saver


@pytest.fixture
def postgres(uri: str) -> Iterator[Any]:
    """A saver on a new database."""
    from milepost.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(uri) as saver:
        saver.setup()
        yield saver
