"""LangGraph's tables, read as they are."""

import json
import sqlite3
from contextlib import closing

import ormsgpack
import pytest

pytest.importorskip("langgraph")

from milepost.integrations.langgraph._formats.decoding import StrictSerializer
from milepost.integrations.langgraph._formats.tables import SqliteReader

CHECKPOINTS = (
    "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT,"
    " parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB)"
)


def test_a_listing_of_all_graphs_misses_none_between_two_pages_and_needs_no_writes():
    """Three graphs have made checkpoints of the same ids; there is no table of writes."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(CHECKPOINTS)
        for step in range(100):
            for ns in ("", "a:1", "b:2"):
                checkpoint = {"v": 4, "id": f"{step:04}", "ts": "", "channel_values": {"n": step}}
                row = ("t", ns, f"{step:04}", None, "msgpack", ormsgpack.packb(checkpoint))
                about = json.dumps({"step": step}).encode()
                connection.execute("INSERT INTO checkpoints VALUES (?,?,?,?,?,?,?)", (*row, about))
        reader = SqliteReader(
            lambda sql, values: connection.execute(sql, values).fetchall(), StrictSerializer(None)
        )
        found = list(reader.list({"configurable": {"thread_id": "t"}}))
    places = {(one.config["configurable"]["checkpoint_ns"], one.checkpoint["id"]) for one in found}
    assert (len(found), len(places)) == (300, 300)
    assert [one.metadata["step"] for one in found] == sorted([*range(100)] * 3, reverse=True)
    assert all(one.pending_writes == [] for one in found)
