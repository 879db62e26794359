"""Values on their way through a graph and a database: refused with their place, or read exactly."""

import operator
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import permutations
from typing import Annotated, Any, TypedDict

import pytest

from graphs import thread
from milepost.checkpoint.base import empty_checkpoint
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import DecryptionError, SerializationError
from milepost.graph import END, START, StateGraph
from milepost.types import Command, Send, interrupt

SECRET = "the canary sings " * 20


class State(TypedDict, total=False):
    a: Any
    log: Annotated[list[Any], operator.add]


@dataclass
class Question:
    """Seen by no schema, only in this module."""

    text: str
    options: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Job:
    number: int


@pytest.fixture(params=["memory", "sqlite", "sealed"])
def saver(request: pytest.FixtureRequest, path: str) -> Iterator[Any]:
    if request.param == "memory":
        yield InMemorySaver()
        return
    sealed = EncryptedSerializer.from_pycryptodome_aes(key=b"k" * 16)
    serde = sealed if request.param == "sealed" else None
    with SqliteSaver.from_conn_string(path, serde=serde) as saver:
        yield saver


def test_what_cannot_be_read_back_is_refused_where_it_was_made(saver):
    bad: list[Any] = [object(), {"b": [0, 1, 2, {"c": object()}]}]

    def make(state: State) -> Any:
        return {"a": bad.pop() if bad else 1, "log": ["made"]}

    builder = StateGraph(State).add_node("before", lambda _: {"log": ["before"]})
    builder.add_node("make", make).add_edge(START, "before").add_edge("before", "make")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(SerializationError, match="register_type") as refused:
        graph.invoke({"log": ["in"]}, thread("t"))
    error = refused.value
    assert (error.thread, error.node, error.channel) == ("t", "make", "a")
    assert error.path == "b[3].c"
    for part in ("'t'", "'make'", "'a'", "b[3].c"):
        assert part in str(error)
    state = graph.get_state(thread("t"))
    assert (state.values, state.next) == ({"log": ["in", "before"]}, ("make",))
    bad.clear()
    assert graph.invoke(None, thread("t"))["log"] == ["in", "before", "made"]


def test_payloads_of_interrupts_and_sends_need_no_registration(saver, recwarn):
    def fan(_: State) -> Any:
        return [Send("work", {"job": Job(n)}) for n in range(2)]

    def work(given: Any) -> Any:
        assert type(given["job"]) is Job
        answer = interrupt(Question("sure?", [str(given["job"].number)]))
        return {"log": [(given["job"], answer)]}

    builder = StateGraph(State).add_node("work", work)
    builder.add_conditional_edges(START, fan, ["work"]).add_edge("work", END)
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"a": Job(7)}, thread("t"))
    asked = graph.get_state(thread("t")).interrupts
    assert [q.value for q in asked] == [Question("sure?", ["0"]), Question("sure?", ["1"])]
    answers = {q.id: Job(10 + n) for n, q in enumerate(asked)}
    done = graph.invoke(Command(resume=answers), thread("t"))
    assert done == {"a": Job(7), "log": [(Job(0), Job(10)), (Job(1), Job(11))]}
    assert graph.get_state(thread("t")).values == done
    assert not recwarn.list


class TestSealedRows:
    """Someone who can write to the database can break a thread, but neither read nor forge one."""

    CELLS = (
        ("checkpoints", "frame"),
        ("checkpoints", "metadata"),
        ("checkpoint_blobs", "blob"),
        ("checkpoint_writes", "blob"),
    )

    @pytest.fixture
    def filled(self, path: str) -> str:
        with self.opened(path) as saver:
            for name in ("t", "other"):
                self.asking(saver).invoke({"log": [SECRET, name]}, thread(name))
        return path

    def opened(self, path: str, key: bytes = b"k" * 16) -> Any:
        serde = EncryptedSerializer.from_pycryptodome_aes(key=key)
        return SqliteSaver.from_conn_string(path, serde=serde)

    def asking(self, saver: Any) -> Any:
        builder = StateGraph(State).add_node("ask", lambda _: {"log": [interrupt(SECRET)]})
        return builder.add_edge(START, "ask").compile(checkpointer=saver)

    def read(self, saver: Any) -> Any:
        return [(f.checkpoint, f.metadata, f.pending_writes) for f in saver.list(thread("t"))]

    def change(self, path: str, table: str, cell: str, how: Any) -> None:
        """Replace a cell of every row of thread `t` by what `how` makes of it."""
        with closing(sqlite3.connect(path)) as db, db:
            key = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[5]]
            columns = ", ".join(key)
            rows = db.execute(f"SELECT {cell}, {columns} FROM {table} WHERE thread_id = 't'")
            others = db.execute(f"SELECT {cell} FROM {table} WHERE thread_id = 'other'").fetchall()
            where = " AND ".join(f"{column} = ?" for column in key)
            for (data, *at), (other,) in zip(rows.fetchall(), others, strict=False):
                sql = f"UPDATE {table} SET {cell} = ? WHERE {where}"
                db.execute(sql, (how(data, other), *at))
        db.close()

    def refused(self, path: str, key: bytes = b"k" * 16) -> None:
        with self.opened(path, key) as saver, pytest.raises(DecryptionError) as refused:
            self.read(saver)
        error: BaseException | None = refused.value
        assert refused.value.thread == "t"
        while error is not None:
            assert "canary" not in f"{error!s} {error!r} {error.__dict__}"
            error = error.__cause__ or error.__context__

    @pytest.mark.parametrize(("table", "cell"), CELLS)
    @pytest.mark.parametrize(
        "how",
        [
            lambda data, _: data[:-1] + bytes([data[-1] ^ 1]),
            lambda data, _: data[:-5],
            lambda data, _: data[:3],
            lambda _data, other: other,
            lambda _data, _: b"\x81\xa1a\x01",
        ],
        ids=["altered", "cut", "cut to nothing", "of another thread", "in the clear"],
    )
    def test_a_row_that_is_not_what_was_written_does_not_open(self, filled, table, cell, how):
        with self.opened(filled) as saver:
            assert self.read(saver)
        self.change(filled, table, cell, how)
        self.refused(filled)

    @pytest.mark.parametrize(("table", "cell"), CELLS)
    def test_a_cell_opens_in_no_other_row_of_its_thread(self, path, table, cell):
        """Nor in another checkpoint, version, task or graph."""
        with self.opened(path) as saver:
            inner = StateGraph(State).add_node("ask", lambda _: {"log": [interrupt(SECRET)]})
            inner.add_node("say", lambda _: {"a": SECRET}).add_edge(START, "say")
            builder = StateGraph(State).add_node("inner", inner.add_edge("say", "ask").compile())
            graph = builder.add_edge(START, "inner").compile(checkpointer=saver)
            graph.invoke({"log": [SECRET]}, thread("t"))
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            key = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[5]]
            rows = db.execute(f"SELECT {cell}, {', '.join(key)} FROM {table}").fetchall()
            assert len({row[1 + key.index("checkpoint_ns")] for row in rows}) == 2
            where = " AND ".join(f"{column} = ?" for column in key)
            for (data, *at), (other, *_) in permutations(rows, 2):
                for put in (other, data):
                    db.execute(f"UPDATE {table} SET {cell} = ? WHERE {where}", (put, *at))
                    if put is other:
                        self.refused(path)
        with self.opened(path) as saver:
            assert self.read(saver)

    def test_without_a_key_it_is_said_that_there_is_one(self, filled):
        with SqliteSaver.from_conn_string(filled) as saver:
            with pytest.raises(DecryptionError, match=r"encrypted.*serde=EncryptedSerializer"):
                self.read(saver)
            assert "is encrypted" in saver.verify(["t"])[0].reason

    def test_another_key_opens_nothing(self, filled):
        self.refused(filled, b"x" * 16)
        with open(filled, "rb") as file:
            assert b"canary" not in file.read()


@pytest.mark.parametrize(
    "metadata",
    [
        {"source": "loop", "step": 3, "parents": {}},
        {"source": "loop", "step": 3},
        {"source": "loop", "step": 3, "parents": {"": "1"}},
        {"source": "loop", "step": 3, "parents": {}, "user": "ann"},
        {"source": "loop", "step": True, "parents": {}},
        {"source": "loop", "step": 2**80, "parents": {}},
        {"source": "loop", "step": 3.0, "parents": {}},
        {"source": None, "step": 3, "parents": {}},
        {"parents": {}, "step": 3, "source": "loop"},
        {"source": "loop", "step": 3, "parents": []},
        {},
    ],
    ids=str,
)
def test_metadata_comes_back_as_it_was(saver, metadata):
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    stored = saver.put(config, empty_checkpoint(), metadata, {})
    found = saver.get_tuple(stored).metadata
    assert found == metadata
    assert type(found.get("step")) is type(metadata.get("step"))
    assert type(found.get("parents")) is type(metadata.get("parents"))
