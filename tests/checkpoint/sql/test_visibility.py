"""A reader never sees a half-written batch: it reads in the middle of a commit, and sees nothing."""

import operator
import threading
from typing import Annotated, Any

import psycopg
import pytest
from typing_extensions import TypedDict

from graphs import PATIENCE, thread
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import START, StateGraph
from milepost.types import interrupt


class Wide(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    text: str


def graph_of(saver: Any) -> Any:
    """Its steps write to every table: checkpoints, large values, writes, the registry."""

    def node(state: Wide) -> Any:
        return {"log": ["y" * 500], "text": "z" * 500}

    def ask(state: Wide) -> Any:
        interrupt("?")

    builder = StateGraph(Wide).add_node("node", node).add_node("ask", ask)
    return builder.add_edge(START, "node").add_edge("node", "ask").compile(checkpointer=saver)


def content(reader: Any) -> Any:
    """All that a reader can find out."""
    return (
        [(f.config, f.checkpoint, f.metadata, f.pending_writes) for f in reader.list(None)],
        reader.get_tuple(thread("t")),
        [info._replace(updated_at=0.0) for info in reader.list_threads()],
    )


def counts(connection: Any) -> list[int]:
    """How many rows another connection sees."""
    tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "threads")
    return [connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in tables]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_between_any_two_statements_of_a_commit_another_connection_sees_what_was_before(
    path, durability
):
    with SqliteSaver.from_conn_string(path) as saver, SqliteSaver.from_conn_string(path) as reader:
        graph = graph_of(saver)
        graph.invoke({"log": ["x" * 500]}, thread("t"))
        looked: list[str] = []
        state: dict[str, Any] = {"inside": False, "before": None}

        def look(statement: str) -> None:
            """Called by SQLite before it carries a statement out."""
            if statement.startswith("BEGIN IMMEDIATE"):
                state.update(inside=True, before=(content(reader), counts(reader.conn)))
            elif state["inside"]:
                looked.append(statement.split()[0])
                if (content(reader), counts(reader.conn)) != state["before"]:
                    looked.append(f"half a batch before: {statement}")
                state["inside"] = not statement.startswith("COMMIT")

        saver.conn.set_trace_callback(look)
        graph.invoke({"log": ["x" * 500]}, thread("t"), durability=durability)
        saver.conn.set_trace_callback(None)
        assert [seen for seen in looked if seen.startswith("half")] == []
        assert len(looked) > 4
        assert {"INSERT", "COMMIT"} <= set(looked)
        assert content(reader) == content(saver)
        assert len(reader.get_tuple(thread("t")).checkpoint["channel_values"]["log"]) == 4


@pytest.mark.parametrize(
    "table", ["checkpoints", "checkpoint_blobs", "checkpoint_writes", "threads"]
)
def test_a_commit_that_waits_in_the_middle_is_not_seen_on_postgres(postgres, uri, table):
    """Somebody holds one of the tables, so that the commit stops there."""
    graph = graph_of(postgres)
    graph.invoke({"log": ["x" * 500]}, thread("t"))
    with (
        psycopg.connect(uri, autocommit=True) as watcher,
        psycopg.connect(uri) as blocker,
        PostgresSaver.from_conn_string(uri) as reader,
    ):
        before = content(reader), counts(watcher)
        blocker.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
        worker = threading.Thread(
            target=graph.invoke,
            args=({"log": ["x" * 500]}, thread("t")),
            kwargs={"durability": "exit"},
            daemon=True,
        )
        worker.start()
        waits = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted"
        while watcher.execute(waits).fetchone()[0] == 0:
            assert worker.is_alive()
        assert (content(reader), counts(watcher)) == before
        blocker.rollback()
        worker.join(PATIENCE)
        assert not worker.is_alive()
        assert content(reader) == content(postgres)
        assert counts(watcher) != before[1]
