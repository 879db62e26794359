"""Promises about what is left in a database: nothing that was deleted, nothing that was not asked
for, nothing that nobody needs."""

import asyncio
import glob
import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest

from graphs import Log, elsewhere, line, thread, until
from milepost._db.postgres import source as pg_source
from milepost._db.sqlite import engine
from milepost.checkpoint._sql.schema import TABLES
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import NotErasedError
from milepost.graph import START, StateGraph
from milepost.types import Command, interrupt

CANARY = "canary-in-the-coal-mine"


class Raw:
    """The bytes of a database as they are on the disk."""

    def __init__(self, request: pytest.FixtureRequest, saver: Any) -> None:
        self.path = request.getfixturevalue("path") if isinstance(saver, SqliteSaver) else None
        self.uri = None if self.path else request.getfixturevalue("uri")

    def files(self) -> list[str]:
        """The SQLite file with its log, or the files of all Postgres tables and indexes."""
        if self.path is not None:
            return glob.glob(f"{self.path}*")
        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
            place = Path(connection.execute("SHOW data_directory").fetchone()[0])
            relations = connection.execute(
                "SELECT pg_relation_filepath(oid) FROM pg_class WHERE relkind IN ('r', 'i', 't')"
            ).fetchall()
        return [file for (name,) in relations if name for file in glob.glob(f"{place / name}*")]

    def learn(self) -> None:
        """Let the planner take its samples of the tables, as a server does now and then."""
        if self.uri is not None:
            with psycopg.connect(self.uri, autocommit=True) as connection:
                connection.execute("ANALYZE")

    def holds(self, text: str) -> bool:
        return any(text.encode() in Path(file).read_bytes() for file in self.files())

    def size(self) -> int:
        """Of the SQLite file with its log, or of the saver's own tables with their indexes."""
        if self.path is not None:
            return sum(os.path.getsize(file) for file in self.files())
        with psycopg.connect(self.uri, autocommit=True) as connection:
            sizes = [
                connection.execute("SELECT pg_total_relation_size(%s)", (table,)).fetchone()[0]
                for table in TABLES
            ]
        return sum(sizes)


@pytest.fixture
def uri(server: Any) -> Iterator[str]:
    """The address of a database that no test had before: its files have only what is stored here.

    Samples of the planner, which hold values, stay in the catalog's files after the tables went.
    """
    name = f"promises_{uuid.uuid4().hex[:10]}"
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield str(server.get_uri(name))
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def raw(request: pytest.FixtureRequest, saver: Any) -> Raw:
    return Raw(request, saver)


def test_secrets_of_the_config_are_nowhere_in_the_files(saver, raw):
    def ask(state: Log) -> Any:
        return {"log": ["visible", interrupt("?")]}

    builder = StateGraph(Log).add_node("ask", ask).add_edge(START, "ask")
    graph = builder.compile(checkpointer=saver)
    secretive: Any = {
        "configurable": {"thread_id": "t", "api_key": CANARY, "user": {"token": CANARY}},
        "tags": [CANARY],
    }
    graph.invoke({"log": ["plainly visible"]}, secretive, durability="sync")
    assert raw.holds("plainly visible"), "the search would not find anything"
    assert not raw.holds(CANARY)
    graph.invoke(Command(resume="!"), secretive)
    graph.update_state(secretive, {"log": ["edit"]})
    assert not raw.holds(CANARY)
    asked: Any = {**thread("u"), "metadata": {"note": "asked for"}}
    graph.invoke({"log": []}, asked)
    assert raw.holds("asked for")


def test_deleted_text_is_nowhere_in_the_files_after_erase(saver, raw):
    graph = line("a").compile(checkpointer=saver)
    for n in range(6):
        graph.invoke({"log": [f"{CANARY} {n} " * 20]}, thread(f"gone:{n % 2}"))
    graph.invoke({"log": ["stays"]}, thread("kept"))
    saver.set_thread_metadata("gone:0", {"owner": CANARY})
    raw.learn()
    assert raw.holds(CANARY)
    removed = saver.erase(prefix="gone:")
    assert sorted(removed.threads) == ["gone:0", "gone:1"]
    assert removed.checkpoints == 18
    assert not raw.holds(CANARY)
    assert graph.get_state(thread("kept")).values == {"log": ["stays", "a"]}


def test_deleted_text_is_nowhere_in_the_files_after_delete_and_vacuum(saver, raw):
    graph = line("a").compile(checkpointer=saver)
    for _ in range(3):
        graph.invoke({"log": [CANARY * 20]}, thread("gone"))
    saver.delete_thread("gone")
    saver.vacuum()
    assert not raw.holds(CANARY)


@contextmanager
def reading(raw: Raw, *, table: bool = True) -> Any:
    """Somebody else, whose transaction has begun and goes on."""
    if raw.path is not None:
        with closing(sqlite3.connect(raw.path, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT COUNT(*) FROM threads").fetchall()
            yield connection
    else:
        with psycopg.connect(raw.uri) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute("SELECT COUNT(*) FROM threads" if table else "SELECT 1")
            yield connection


@pytest.fixture
def impatient(saver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is waited for for long."""
    monkeypatch.setattr(pg_source, "LOCK_TIMEOUT", 0.1)
    if isinstance(saver, SqliteSaver):
        saver.conn.execute("PRAGMA busy_timeout=100")


def told(saver: Any) -> None:
    """Store the canary in a thread."""
    graph = line("a").compile(checkpointer=saver)
    for _ in range(3):
        graph.invoke({"log": [CANARY * 20]}, thread("gone"))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("run", ["sync", "async"])
@pytest.mark.parametrize("table", [True, False], ids=["the table", "something else"])
def test_text_that_others_can_still_read_is_not_said_to_be_erased(saver, raw, run, table):
    told(saver)
    with reading(raw, table=table):
        with pytest.raises(NotErasedError, match=r"still in the files.*vacuum\(\), or erase\(\)"):
            saver.erase(["gone"]) if run == "sync" else asyncio.run(saver.aerase(["gone"]))
        assert saver.get_tuple(thread("gone")) is None
        assert raw.holds(CANARY), "otherwise it should have been said to be erased"
    assert saver.erase(["gone"]).threads == []
    assert not raw.holds(CANARY)


def test_a_reader_that_ends_in_time_is_waited_for(saver, raw, monkeypatch):
    told(saver)
    with reading(raw, table=False) as reader:
        if raw.path is not None:
            monkeypatch.setattr(engine.time, "sleep", lambda _: reader.execute("ROLLBACK"))
            assert saver.erase(["gone"]).threads == ["gone"]
        else:
            erasing = Thread(target=saver.erase, args=(["gone"],))
            erasing.start()
            with psycopg.connect(raw.uri, autocommit=True) as looker:
                waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
                until(lambda: looker.execute(waits).fetchall(), "it waits for the reader")
            reader.rollback()
            erasing.join(60)
            assert not erasing.is_alive()
        assert not raw.holds(CANARY)


def test_nothing_is_said_to_be_erased_by_a_role_that_may_not_do_it(postgres, uri, request):
    raw = Raw(request, postgres)
    told(postgres)
    with psycopg.connect(uri, autocommit=True) as owner:
        owner.execute("CREATE ROLE guest")
        try:
            owner.execute("GRANT SELECT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO guest")
            with psycopg.connect(uri, autocommit=True) as connection:
                connection.execute("SET ROLE guest")
                with pytest.raises(NotErasedError, match="not this role's"):
                    PostgresSaver(connection).erase(["gone"])
            assert raw.holds(CANARY)
            postgres.vacuum()
            assert not raw.holds(CANARY)
        finally:
            owner.execute("DROP OWNED BY guest")
            owner.execute("DROP ROLE guest")


def test_a_database_that_fails_meanwhile_does_not_make_it_erased(sqlite, monkeypatch):
    told(sqlite)

    def fail(*_: Any) -> None:
        raise sqlite3.OperationalError("some failure")

    monkeypatch.setattr(sqlite.engine, "_cursor", fail)
    with pytest.raises(NotErasedError, match=r"still in the files.*some failure"):
        sqlite.erase(["gone"])


def three_questions(saver: Any) -> Any:
    def node(state: Log) -> Any:
        return {"log": [interrupt("one"), interrupt("two"), interrupt("three")]}

    builder = StateGraph(Log).add_node("a", lambda s: {"log": ["a"]}).add_node("node", node)
    return builder.add_edge(START, "a").add_edge("a", "node").compile(checkpointer=saver)


def orphans(saver: Any) -> list[Any]:
    """Stored values and writes that no checkpoint of thread `t` needs."""
    rows = saver.conn.execute(
        "SELECT channel, version, base_channel, base FROM checkpoint_blobs WHERE thread_id = 't'"
    ).fetchall()
    base = {(row[0], row[1]): (row[2] or row[0], row[3]) for row in rows}
    needed = set()
    for found in saver.list(thread("t")):
        for place in found.checkpoint["channel_versions"].items():
            while place in base and place not in needed:
                needed.add(place)
                place = base[place]
    lost = saver.conn.execute(
        "SELECT checkpoint_id, task_id FROM checkpoint_writes w WHERE NOT EXISTS ("
        " SELECT 1 FROM checkpoints c WHERE c.thread_id = w.thread_id"
        " AND c.checkpoint_ns = w.checkpoint_ns AND c.checkpoint_id = w.checkpoint_id)"
    ).fetchall()
    return [*sorted(set(base) - needed), *lost]


@pytest.mark.parametrize("at", [1, 2, 3])
def test_pruned_in_the_middle_of_three_interrupts_a_resume_is_identical(saver, raw, at):
    graph = three_questions(saver)
    filler = line("x", "y").compile(checkpointer=saver)
    outcomes: list[list[Any]] = []
    for thread_id in ("whole", "t"):
        for n in range(30):
            filler.invoke({"log": [f"{n}" * 2000]}, thread(thread_id))
        seen = [graph.invoke({"log": ["in"]}, thread(thread_id))]
        for n in (1, 2, 3):
            if thread_id == "t" and n == at:
                saver.vacuum()
                before = raw.size()
                assert saver.prune(["t"]).checkpoints > 0
                assert saver.get_thread("t").checkpoints == 1
                saver.vacuum()
                assert raw.size() < before
                assert orphans(saver) == []
                assert saver.verify() == []
            seen.append(graph.invoke(Command(resume=n), thread(thread_id)))
        outcomes.append([(s["log"], [i.value for i in s.get("__interrupt__", ())]) for s in seen])
    assert outcomes[0] == outcomes[1]
    assert outcomes[1][-1][0][-3:] == [1, 2, 3]
    assert saver.verify() == []


@pytest.mark.parametrize("size", [20_000_000])
def test_a_large_binary_over_fifty_steps_is_one_copy(saver, raw, size):
    from typing_extensions import TypedDict

    class State(TypedDict, total=False):
        image: bytes
        n: int

    def node(state: State) -> Any:
        return {"n": state.get("n", 0) + 1}

    builder = StateGraph(State).add_node("node", node).add_edge(START, "node")
    builder.add_conditional_edges("node", lambda s: "node" if s["n"] < 50 else "__end__")
    graph = builder.compile(checkpointer=saver)
    image = os.urandom(size)
    result = graph.invoke({"image": image}, {**thread("t"), "recursion_limit": 100})
    assert result["n"] == 50
    assert graph.get_state(thread("t")).values["image"] == image
    saver.vacuum()
    assert size < raw.size() < 1.1 * size
    saver.delete_thread("t")
    saver.vacuum()
    assert raw.size() < 1_000_000


def test_two_schemas_share_nothing(uri):
    """Not a row, not a head, not a token: runs on the same thread id do not meet."""
    with (
        PostgresSaver.from_conn_string(uri, schema="one") as one,
        PostgresSaver.from_conn_string(uri, schema="two") as two,
    ):
        one.setup()
        two.setup()
        other = line("y").compile(checkpointer=two)

        def node(state: Log) -> Any:
            elsewhere(lambda: other.invoke({"log": ["two"]}, thread("t")))
            return {"log": ["x"]}

        builder = StateGraph(Log).add_node("x", node).add_edge(START, "x")
        graph = builder.compile(checkpointer=one)
        assert graph.invoke({"log": ["one"]}, thread("t"), durability="sync")["log"] == ["one", "x"]
        assert other.get_state(thread("t")).values == {"log": ["two", "y"]}
        two.erase(["t"])
        assert graph.get_state(thread("t")).values == {"log": ["one", "x"]}
        assert [info.thread_id for info in two.list_threads()] == []
