"""A row says more than its bytes: what stands beside them is bound to them, sealed or not."""

import os
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from graphs import Log, appends, counter, line, thread
from milepost.channels import DeltaChannel
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.errors import BrokenChainError, SerdeError
from milepost.graph import START, StateGraph
from milepost.types import Command, interrupt

LONG = bool(os.environ.get("MILEPOST_LONG"))
BOUND = {
    "checkpoints": (
        ("checkpoint_ns", "checkpoint_id"),
        ("parent_checkpoint_id", "complete", "metadata_type"),
    ),
    "checkpoint_blobs": (
        ("checkpoint_ns", "channel", "version"),
        ("base_channel", "base", "level", "type"),
    ),
    "checkpoint_writes": (
        ("checkpoint_ns", "checkpoint_id", "task_id", "idx"),
        ("channel", "task_path", "base", "type"),
    ),
}
OTHERS: dict[str, list[Any]] = {
    "complete": [0, 1],
    "level": [0, 1, 2],
    "type": [None, "+", "json", "bytes"],
    "metadata_type": [None, "-", "json"],
}


def joined(state: list[Any], writes: Any) -> list[Any]:
    return [*state, *(item for write in writes for item in write)]


class State(TypedDict, total=False):
    log: Annotated[list[Any], lambda a, b: a + b]
    delta: Annotated[list[Any], DeltaChannel(joined, snapshot_frequency=4)]


def fill(saver: Any) -> None:
    """A thread with differences, folded rows, rows of several writes, a fork and a question."""

    def talk(state: State) -> Any:
        return {"log": ["talk" * 300], "delta": ["x"]}

    def ask(state: State) -> Any:
        return {"log": [interrupt("?" * 200)]}

    builder = StateGraph(State).add_node("talk", talk).add_node("walk", appends("walk" * 300))
    builder.add_node("ask", ask).add_edge(START, "talk").add_edge(START, "walk")
    graph = builder.add_edge(["talk", "walk"], "ask").compile(checkpointer=saver)
    graph.invoke({"log": ["in" * 200], "delta": ["in"]}, thread("t"), durability="sync")
    graph.invoke(Command(resume="!"), thread("t"), durability="sync")
    graph.invoke({"log": ["again" * 100]}, thread("t"), durability="sync")
    early = list(graph.get_state_history(thread("t")))[-2]
    graph.update_state(early.config, {"log": ["fork" * 50]}, as_node="talk")


class Database:
    """The rows of a thread, changed by hand."""

    def __init__(self, saver: Any) -> None:
        self.saver = saver
        self.mark = "?" if "Sqlite" in type(saver).__name__ else "%s"

    def rows(self, table: str) -> list[dict[str, Any]]:
        key, columns = BOUND[table]
        names = [*key, *columns]
        found = self.saver.conn.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall()
        return [dict(zip(names, row, strict=True)) for row in found]

    def change(self, table: str, row: dict[str, Any], column: str, value: Any) -> None:
        key, _ = BOUND[table]
        where = " AND ".join(f"{name} = {self.mark}" for name in key)
        self.saver.conn.execute(
            f"UPDATE {table} SET {column} = {self.mark} WHERE {where}",
            (value, *(row[name] for name in key)),
        )


def of_each_kind(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each way in which the columns may be set."""
    kinds = {
        tuple(value if name in OTHERS else value is None for name, value in row.items()): row
        for row in rows
    }
    return list(kinds.values())


def attempt(read: Any) -> Any:
    """What it gives, or that it was refused with a typed error."""
    try:
        return read()
    except (SerdeError, BrokenChainError):
        return "refused"


def content(saver: Any, places: list[Any]) -> list[Any]:
    """All that can be read of the thread by somebody who remembers nothing."""
    found: list[Any] = []
    for place in places:
        fresh = saver.with_serde(saver.serde)
        found.append(attempt(lambda place=place, fresh=fresh: tuple(fresh.get_tuple(place))))
        found.append(
            attempt(
                lambda place=place, fresh=fresh: fresh.get_delta_channel_history(
                    config=place, channels=["delta"]
                )
            )
        )
    for record in saver.with_serde(saver.serde).list(thread("t")):
        for name in record._fields:
            found.append(attempt(lambda record=record, name=name: getattr(record, name)))
    return found


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
@pytest.mark.parametrize("table", BOUND)
def test_a_column_that_was_changed_is_refused_or_makes_no_difference(saver, table, sealed):
    if sealed:
        if isinstance(saver, PostgresSaver) and not LONG:
            pytest.skip("in the long form only: cells are sealed before a database gets them")
        saver = saver.with_serde(EncryptedSerializer.from_pycryptodome_aes(key=b"k" * 16))
    fill(saver)
    assert saver.verify() == []
    places = [record.config for record in saver.list(thread("t"))]
    sound = content(saver, places)
    assert "refused" not in sound
    database = Database(saver)
    rows = database.rows(table)
    for column in BOUND[table][1]:
        # Values that other rows have are those that could pass unnoticed.
        candidates = OTHERS.get(column) or list({row[column]: None for row in rows})
        changed = 0
        for row in of_each_kind(rows):
            others = [value for value in candidates if value != row[column]]
            for value in others[:2]:
                database.change(table, row, column, value)
                found = content(saver, places)
                wrong = [
                    (was, now)
                    for was, now in zip(sound, found, strict=True)
                    if now not in ("refused", was)
                ]
                assert wrong == [], (column, row, value)
                assert saver.verify() != [], (column, row, value)
                changed += 1
            database.change(table, row, column, row[column])
        assert changed, f"no row has another {column}"
    assert content(saver, places) == sound


def test_writes_in_a_row_with_a_changed_parent_are_refused_at_the_checkpoint_they_belong_to(saver):
    counter(saver, 3).invoke({"n": 0}, thread("t"), durability="sync")
    places = [record.config for record in saver.list(thread("t"))]
    sound = content(saver, places)
    database = Database(saver)
    rows = database.rows("checkpoints")
    for at, row in enumerate(rows[1:]):
        for value in (None, rows[at - 1]["checkpoint_id"], row["checkpoint_id"]):
            database.change("checkpoints", row, "parent_checkpoint_id", value)
            found = content(saver, places)
            wrong = [pair for pair in zip(sound, found, strict=True) if pair[1] != "refused"]
            assert [now for _, now in wrong] == [was for was, _ in wrong], (at, value)
        database.change("checkpoints", row, "parent_checkpoint_id", row["parent_checkpoint_id"])
    assert content(saver, places) == sound


def test_a_thread_whose_head_is_gone_is_not_taken_for_a_new_one(saver):
    graph = line("a").compile(checkpointer=saver)
    graph.invoke({}, thread("t"))
    before, head = [s.config["configurable"] for s in graph.get_state_history(thread("t"))][1::-1]
    saver.conn.execute(f"DELETE FROM checkpoints WHERE checkpoint_id = '{head['checkpoint_id']}'")
    fresh = saver.with_serde(saver.serde)
    graph = line("a").compile(checkpointer=fresh)
    for read in (
        lambda: fresh.get_tuple(thread("t")),
        lambda: fresh.get_delta_channel_history(config=thread("t"), channels=["log"]),
        lambda: graph.get_state(thread("t")),
        lambda: graph.invoke({}, thread("t")),
    ):
        with pytest.raises(BrokenChainError, match="the latest of thread 't', is gone"):
            read()
    assert graph.invoke(None, {"configurable": before}) == {"log": ["a"]}
    assert fresh.get_tuple(thread("nobody")) is None


def test_a_thread_that_the_registry_does_not_know_is_named(saver):
    line("a").compile(checkpointer=saver).invoke({}, thread("t"))
    saver.conn.execute("DELETE FROM threads")
    [problem] = saver.verify()
    assert (problem.thread_id, problem.table) == ("t", "threads")


def test_a_row_of_a_list_that_grew_reads_like_before_after_a_sound_change(saver):
    """Compaction changes `base` and `level` of older rows: they are bound again."""
    graph = StateGraph(Log).add_node("a", appends("a" * 100)).add_edge(START, "a")
    compiled = graph.compile(checkpointer=saver)
    for n in range(40):
        compiled.invoke({"log": [f"{n}" * 60]}, thread("t"))
    fresh = saver.with_serde(saver.serde)
    assert fresh.verify() == []
    lengths = [len(s.values.get("log", ())) for s in compiled.get_state_history(thread("t"))]
    assert max(lengths) == 80
    assert lengths == sorted(lengths, reverse=True)
