"""Real databases: SQLite files, and a PostgreSQL server that the test session starts itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from milepost.checkpoint.sqlite import SqliteSaver

if TYPE_CHECKING:
    from collections.abc import Iterator


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
def config() -> dict[str, Any]:
    """A config that names one thread."""
    return {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
