"""Large values on SQLite: in a table of their own, read as if they were in their rows."""

from __future__ import annotations

import operator
import sqlite3
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest

from graphs import thread
from milepost import START, StateGraph
from milepost._db.operations import ReadCells
from milepost._db.sqlite.transaction import read_cells
from milepost.checkpoint._sql import postgres_statements, sqlite_statements
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.keyring import AesKeyRing
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import DamagedRowError

if TYPE_CHECKING:
    from milepost.checkpoint.serde.base import SerializerProtocol


class Log(TypedDict):
    lines: Annotated[list[str], operator.add]
    page: str


def fill(saver: Any, turns: int = 40, thread_id: str = "t") -> Any:
    """Long lines, enough of them that rows are folded, and a page that is new in each turn."""
    builder = StateGraph(Log)
    builder.add_node("node", lambda s: {"lines": ["a" * 800], "page": f"{len(s['lines'])} " * 999})
    graph = builder.add_edge(START, "node").compile(checkpointer=saver)
    for turn in range(turns):
        graph.invoke({"lines": [f"turn {turn} " * 200]}, thread(thread_id), durability="sync")
    return graph


def numbers(saver: Any) -> list[int]:
    """The numbers of large values; each is in one row, and each row's number has its value."""
    rows = "SELECT blob FROM checkpoint_blobs WHERE TYPEOF(blob) = 'integer' ORDER BY 1"
    used = [row[0] for row in saver.conn.execute(rows)]
    there = [row[0] for row in saver.conn.execute("SELECT id FROM checkpoint_large ORDER BY 1")]
    assert used == there
    return used


def states(graph: Any, thread_id: str = "t") -> list[Any]:
    return [state.values for state in graph.get_state_history(thread(thread_id))]


def keys(**keys: bytes) -> SerializerProtocol:
    return EncryptedSerializer(AesKeyRing(keys))


def test_no_row_is_longer_than_its_page(sqlite):
    fill(sqlite)
    assert len(numbers(sqlite)) > 10
    longest = "SELECT MAX(LENGTH(blob)) FROM checkpoint_blobs WHERE TYPEOF(blob) = 'blob'"
    assert sqlite.conn.execute(longest).fetchone()[0] <= 750


def test_what_is_folded_into_another_leaves_no_value_behind(sqlite):
    graph = fill(sqlite)
    few = numbers(sqlite)
    assert max(few) > len(few)  # some are gone
    read = states(graph)
    assert [len(values["lines"]) for values in read[:3]] == [80, 79, 78]
    assert read[0]["page"].startswith("79 ")


def test_copies_have_values_of_their_own(sqlite):
    graph = fill(sqlite)
    before = numbers(sqlite)
    sqlite.copy_thread("t", "u")
    assert len(numbers(sqlite)) == 2 * len(before)
    sqlite.delete_thread("t")
    assert len(numbers(sqlite)) == len(before)
    assert len(states(graph, "u")[0]["lines"]) == 80
    assert sqlite.verify() == []
    sqlite.delete_thread("u")
    assert numbers(sqlite) == []


def test_what_is_made_whole_again_goes_where_large_values_are(sqlite, path):
    fill(sqlite, turns=20)
    sqlite.prune(["t"], strategy="keep_latest")
    assert len(numbers(sqlite)) == 2
    with SqliteSaver.from_conn_string(path) as other:
        found = other.get_tuple(thread("t"))
        assert len(found.checkpoint["channel_values"]["lines"]) == 40
        assert other.verify() == []


def test_values_that_are_sealed_anew_stay_there(path):
    with SqliteSaver.from_conn_string(path, serde=keys(old=b"o" * 32)) as saver:
        expected = states(fill(saver, turns=20))
        before = numbers(saver)
    with SqliteSaver.from_conn_string(path, serde=keys(old=b"o" * 32, new=b"n" * 32)) as saver:
        assert saver.reencrypt().refused == []
        assert len(numbers(saver)) == len(before)
    with SqliteSaver.from_conn_string(path, serde=keys(new=b"n" * 32)) as saver:
        assert states(fill(saver, turns=0)) == expected


def test_a_row_that_is_there_is_left_alone(sqlite):
    fill(sqlite, turns=3)
    before = numbers(sqlite)
    stored = sqlite.conn.execute("SELECT * FROM checkpoint_values").fetchall()
    for row in stored:
        other = (*row[:-1], bytes(2000))
        sqlite.conn.execute(f"INSERT INTO checkpoint_values VALUES ({', '.join('?' * 9)})", other)
    assert numbers(sqlite) == before
    assert sqlite.conn.execute("SELECT * FROM checkpoint_values").fetchall() == stored


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM checkpoint_large",
        "UPDATE checkpoint_large SET data = SUBSTR(data, 2)",
        "UPDATE checkpoint_blobs SET blob = blob + 100 WHERE TYPEOF(blob) = 'integer'",
    ],
)
def test_a_value_that_is_gone_or_damaged_is_told(sqlite, path, damage):
    fill(sqlite, turns=3)
    sqlite.conn.execute(damage)
    with SqliteSaver.from_conn_string(path) as other:
        with pytest.raises(DamagedRowError, match="stored value"):
            other.get_tuple(thread("t"))
        assert "checkpoint_blobs" in {problem.table for problem in other.verify()}


def test_cells_are_read_alike_where_the_module_can_only_ask_for_them():
    rows = [(3, b"three"), (70, b"seventy" * 99)]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, data BLOB)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
        without = SimpleNamespace(connection=object(), execute=connection.execute)
        cursors = (connection.cursor(), True), (connection.cursor(), False), (without, True)
        for cursor, own in cursors:
            cells = read_cells(cursor, ReadCells("t", "data", [70, 3]), own=own)
            assert cells == [b"seventy" * 99, b"three"]


def test_elsewhere_values_are_in_their_rows():
    for module, place in (
        (postgres_statements, "checkpoint_blobs"),
        (sqlite_statements, "checkpoint_values"),
    ):
        texts = module.STATEMENTS
        for statement in (texts.look_at_blobs, texts.blobs_between, texts.seal_blob):
            assert f" {place}" in statement
    assert "INTO checkpoint_blobs" in postgres_statements.STATEMENTS.add_blob
    assert postgres_statements.STATEMENTS.add_blob.endswith("ON CONFLICT DO NOTHING")
    assert "INTO checkpoint_values" in sqlite_statements.STATEMENTS.add_blob
    assert "CONFLICT" not in sqlite_statements.STATEMENTS.add_blob
