"""The first turn of a new process loads what it needs, and no more."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

TURN = """
import operator, sys
from typing import Annotated, TypedDict
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import END, START, StateGraph

class State(TypedDict):
    said: Annotated[list, operator.add]

builder = StateGraph(State).add_node("reply", lambda state: {"said": ["hello"]})
builder.add_edge(START, "reply").add_edge("reply", END)
with SqliteSaver.from_conn_string(":memory:") as saver:
    graph = builder.compile(checkpointer=saver)
    result = graph.invoke({"said": ["hi"]}, {"configurable": {"thread_id": "1"}})
assert result == {"said": ["hi", "hello"]}
print("\\n".join(sys.modules))
"""

NOT_NEEDED = (
    "asyncio",
    "concurrent.futures",
    "hashlib",
    "langchain_core",
    "langgraph",
    "logging",
    "milepost._engine.drivers.aio",
    "milepost._internal.asyncio_tools",
    "milepost.checkpoint._sql.postgres_statements",
    "milepost.integrations",
    "milepost.messages._light",
    "psycopg",
    "pydantic",
    "socket",
    "ssl",
)
"""An event loop, other databases, other libraries."""


@pytest.mark.parametrize("environment", [{}, {"LANGSMITH_TRACING": "false"}])
def test_a_first_sync_turn_on_sqlite_does_not_load(environment):
    done = subprocess.run(
        [sys.executable, "-c", TURN],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    loaded = set(done.stdout.split())
    assert "milepost.checkpoint._sql.saver" in loaded
    assert [name for name in NOT_NEEDED if name in loaded] == []


def test_methods_that_look_after_databases_are_those_of_the_facet(tmp_path):
    from inspect import iscoroutinefunction, signature

    from milepost.checkpoint._sql.admin.maintenance import DatabaseAdmin
    from milepost.checkpoint.sqlite import SqliteSaver

    for name in ("dump", "load", "verify", "salvage"):
        assert signature(getattr(SqliteSaver, name)) == signature(getattr(DatabaseAdmin, name))
    assert iscoroutinefunction(SqliteSaver.averify)
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        assert saver.verify() == []
        assert list(saver.dump())
