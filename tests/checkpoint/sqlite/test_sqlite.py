"""The SQLite savers: connections of all kinds, both colours, one transaction for many."""

import asyncio
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import aiosqlite
import pytest

from graphs import elsewhere, line, thread, two_nodes
from milepost import inspect
from milepost._db.group_commit import MOST
from milepost._db.sqlite.errors import explain
from milepost.cache.sqlite import SqliteCache
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver
from milepost.errors import (
    ColourError,
    ConnectionUnusableError,
    ForeignDatabaseError,
    InvalidIdError,
    MilepostError,
    ReadOnlyError,
    SaverError,
    StorageError,
    StorageFullError,
)
from milepost.store.sqlite import SqliteStore
from milepost.store.sqlite.aio import AsyncSqliteStore
from savers import first_step


@pytest.fixture
def connection(path):
    found = sqlite3.connect(path, check_same_thread=False)
    yield found
    found.close()


def runs(saver: Any, thread_id: str = "t") -> Any:
    graph = two_nodes().compile(checkpointer=saver)
    graph.invoke({"foo": ""}, thread(thread_id))
    return graph.get_state(thread(thread_id)).values


DONE = {"foo": "b", "bar": ["a", "b"]}

# -- connections


def test_from_conn_string_works_in_memory_and_in_a_file(path):
    for name in (":memory:", path, Path(path)):
        with SqliteSaver.from_conn_string(name) as saver:
            assert runs(saver, str(type(name))) == DONE
    assert len(os.listdir(os.path.dirname(path))) == 1


def test_every_database_opens_by_a_path_object(tmp_path):
    async def on_a_loop() -> None:
        async with AsyncSqliteSaver.from_conn_string(tmp_path / "threads.db") as saver:
            await saver.acreate_thread("1")
        async with AsyncSqliteStore.from_conn_string(tmp_path / "store.db") as store:
            await store.aput(("a",), "k", {"n": 1})

    asyncio.run(on_a_loop())
    with inspect.open_database(tmp_path / "threads.db") as database:
        assert [row.thread_id for row in inspect.threads(database).items] == ["1"]
    with SqliteStore.from_conn_string(tmp_path / "store.db") as store:
        assert store.get(("a",), "k").value == {"n": 1}
    SqliteCache(path=tmp_path / "cache.db").close()


def test_from_conn_string_without_with_is_refused_with_the_line_to_write():
    with pytest.raises(TypeError, match=r"with SqliteSaver\.from_conn_string"):
        two_nodes().compile(checkpointer=SqliteSaver.from_conn_string(":memory:"))


def test_from_conn_string_of_the_async_saver_without_with_is_refused_with_the_line_to_write(path):
    with pytest.raises(TypeError, match=r"async with AsyncSqliteSaver\.from_conn_string"):
        two_nodes().compile(checkpointer=AsyncSqliteSaver.from_conn_string(path))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3 has autocommit from 3.12 on")
def test_a_connection_with_the_newer_autocommit_works_or_says_what_to_change(path):
    always = sqlite3.connect(path, check_same_thread=False, autocommit=True)
    assert runs(SqliteSaver(always)) == DONE
    always.close()
    never = sqlite3.connect(path, check_same_thread=False, autocommit=False)
    with pytest.raises(ConnectionUnusableError, match="autocommit"):
        SqliteSaver(never).get_tuple(thread("t"))
    never.close()


def test_a_file_name_instead_of_a_connection_is_refused():
    with pytest.raises(TypeError, match="from_conn_string"):
        SqliteSaver("threads.db")  # type: ignore[arg-type]


def test_what_is_saved_is_there_in_the_next_process(path):
    with SqliteSaver.from_conn_string(path) as saver:
        runs(saver)
    with SqliteSaver.from_conn_string(path) as saver:
        graph = two_nodes().compile(checkpointer=saver)
        assert graph.get_state(thread("t")).values == DONE
        assert len(list(graph.get_state_history(thread("t")))) == 4


def test_the_log_is_written_ahead_and_synced_in_full(sqlite):
    runs(sqlite)
    assert sqlite.conn.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert sqlite.conn.execute("PRAGMA synchronous").fetchone() == (2,)


def test_normal_is_an_option(path):
    with SqliteSaver.from_conn_string(path, synchronous="NORMAL") as saver:
        runs(saver)
        assert saver.conn.execute("PRAGMA synchronous").fetchone() == (1,)
    with closing(sqlite3.connect(":memory:")) as conn, pytest.raises(ValueError, match="FULL"):
        SqliteSaver(conn, synchronous="OFF")


@pytest.mark.parametrize("level", [None, "", "DEFERRED", "IMMEDIATE", "EXCLUSIVE"])
def test_a_users_connection_works_in_every_isolation_level(connection, level):
    connection.isolation_level = level
    assert runs(SqliteSaver(connection)) == DONE
    assert not connection.in_transaction


def test_an_open_transaction_of_the_user_is_neither_committed_nor_lost(connection):
    connection.execute("CREATE TABLE mine (n)")
    connection.execute("INSERT INTO mine VALUES (1)")
    assert connection.in_transaction
    saver = SqliteSaver(connection)
    with pytest.raises(ConnectionUnusableError, match="open transaction"):
        saver.get_tuple(thread("t"))
    connection.rollback()
    assert runs(saver) == DONE
    connection.execute("BEGIN")
    with pytest.raises(ConnectionUnusableError, match="Commit it"):
        saver.delete_thread("t")
    connection.rollback()
    assert connection.execute("SELECT COUNT(*) FROM mine").fetchone() == (0,)


def test_a_connection_that_belongs_to_one_thread_says_so(path):
    connection = sqlite3.connect(path)
    saver = SqliteSaver(connection)
    graph = two_nodes().compile(checkpointer=saver)
    assert graph.invoke({"foo": ""}, thread("t"), durability="sync") == DONE
    with pytest.raises(ConnectionUnusableError, match="check_same_thread=False"):
        elsewhere(lambda: saver.get_tuple(thread("t")))
    with pytest.raises(ConnectionUnusableError, match="check_same_thread=False"):
        asyncio.run(saver.aget_tuple(thread("t")))
    saver.engine.release()
    connection.close()


def test_a_closed_connection_says_so(path):
    with SqliteSaver.from_conn_string(path) as saver:
        runs(saver)
    with pytest.raises(ConnectionUnusableError, match="closed"):
        saver.get_tuple(thread("t"))
    with pytest.raises(SaverError, match="closed"):
        runs(saver, "other")


def test_row_factories_of_the_user_do_not_matter(connection):
    connection.row_factory = sqlite3.Row
    assert runs(SqliteSaver(connection)) == DONE
    connection.row_factory = lambda cursor, row: None
    assert SqliteSaver(connection).get_tuple(thread("t")) is not None


def test_a_text_factory_of_the_user_is_refused(connection):
    connection.text_factory = bytes
    with pytest.raises(ConnectionUnusableError, match="text_factory"):
        SqliteSaver(connection).get_tuple(thread("t"))


def test_a_full_disk_is_a_typed_error_and_the_database_is_intact(path):
    with SqliteSaver.from_conn_string(path) as saver:
        runs(saver)
        pages = saver.conn.execute("PRAGMA page_count").fetchone()[0]
        saver.conn.execute(f"PRAGMA max_page_count={pages + 4}")
        graph = line("a").compile(checkpointer=saver)
        with pytest.raises(StorageFullError, match="Make room"):
            graph.invoke({"log": ["x" * 50_000]}, thread("full"), durability="sync")
        assert saver.conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        graph = two_nodes().compile(checkpointer=saver)
        assert graph.get_state(thread("t")).values == DONE
        saver.conn.execute("PRAGMA max_page_count=1000000")
        assert runs(saver, "again") == DONE


@pytest.mark.parametrize(
    ("code", "name", "kind", "says"),
    [
        (sqlite3.SQLITE_FULL, "SQLITE_FULL", StorageFullError, "Make room"),
        (sqlite3.SQLITE_IOERR, "SQLITE_IOERR", StorageError, "does not say why"),
        (sqlite3.SQLITE_IOERR_READ, "SQLITE_IOERR_READ", StorageError, "system's log"),
        (sqlite3.SQLITE_IOERR_FSYNC, "SQLITE_IOERR_FSYNC", StorageError, "SQLITE_IOERR_FSYNC"),
        (sqlite3.SQLITE_CORRUPT, "SQLITE_CORRUPT", SaverError, "Put a backup back"),
        (sqlite3.SQLITE_TOOBIG, "SQLITE_TOOBIG", SaverError, "1 GB at most"),
        (sqlite3.SQLITE_ERROR, "SQLITE_ERROR", SaverError, "disk I/O error"),
    ],
)
def test_only_a_full_disk_is_called_full(code, name, kind, says):
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode, error.sqlite_errorname = code, name
    explained = explain(error)
    assert type(explained) is kind
    assert says in str(explained)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (sqlite3.SQLITE_READONLY, "Reading works"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, "for reading too"),
        (sqlite3.SQLITE_READONLY_CANTINIT, "for reading too"),
    ],
)
def test_reading_is_said_to_work_only_where_it_does(code, says):
    error = sqlite3.OperationalError("attempt to write a readonly database")
    error.sqlite_errorcode = code
    explained = explain(error)
    assert type(explained) is ReadOnlyError
    assert says in str(explained)


def test_a_value_that_is_too_large_says_what_can_be_stored(path):
    with SqliteSaver.from_conn_string(path) as saver:
        graph = line("a").compile(checkpointer=saver)
        before = graph.invoke({"log": []}, thread("t"))
        saver.conn.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100_000)
        with pytest.raises(SaverError, match="1 GB at most"):
            graph.invoke({"log": ["x" * 200_000]}, thread("t"))
        assert graph.get_state(thread("t")).values == before


def test_a_file_with_missing_pages_is_said_to_be_damaged(path):
    with SqliteSaver.from_conn_string(path) as saver:
        runs(saver)
    os.truncate(path, os.path.getsize(path) // 2)
    with (
        SqliteSaver.from_conn_string(path) as saver,
        pytest.raises(SaverError, match=r"file is damaged.*\.recover"),
    ):
        runs(saver)


def test_a_database_of_langgraph_is_recognised_and_not_touched(path):
    from langgraph.checkpoint.sqlite import SqliteSaver as Theirs

    with Theirs.from_conn_string(path) as theirs:
        theirs.setup()
    before = dump(path)
    with SqliteSaver.from_conn_string(path) as saver:
        for _ in range(2):
            with pytest.raises(ForeignDatabaseError, match="milepost import --from-langgraph"):
                saver.get_tuple(thread("t"))
    assert dump(path) == before


def dump(path: str) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def test_a_file_that_is_no_database_is_a_typed_error(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"not a database at all" * 100)
    with (
        SqliteSaver.from_conn_string(str(path)) as saver,
        pytest.raises(ForeignDatabaseError, match="another file name"),
    ):
        saver.get_tuple(thread("t"))
    assert path.read_bytes() == b"not a database at all" * 100


@pytest.mark.parametrize("opens", [SqliteSaver.from_conn_string, SqliteStore.from_conn_string])
def test_a_file_that_cannot_be_opened_is_named(tmp_path, opens):
    for place in (tmp_path, tmp_path / "no" / "such.db"):
        with pytest.raises(ConnectionUnusableError, match=f"'{place}'.*directory"):
            opens(str(place)).__enter__()


@pytest.mark.parametrize("secret", ["key=s3cr3t", "hexkey=s3cr3t", "cache=private&Key=s3cr3t"])
def test_a_key_in_an_address_is_not_shown(tmp_path, secret):
    with (
        pytest.raises(ConnectionUnusableError) as raised,
        SqliteSaver.from_conn_string(f"file:{tmp_path}/none/a.db?{secret}"),
    ):
        pass
    assert "none/a.db?" in str(raised.value)
    assert "s3cr3t" not in str(raised.value)


# -- ids

HOSTILE = [
    "a\0b",
    "x" * 10_000_000,
    "\ud800",
    'a"; DROP TABLE checkpoints; --',
    "' OR 1=1 --",
    "%_",
    "ü",
    "",
]


@pytest.mark.parametrize("name", HOSTILE, ids=lambda n: repr(n[:12]))
def test_a_hostile_thread_id_is_literal_or_refused(saver, name):
    runs(saver, "victim")
    if "\0" in name or "\ud800" in name or len(name) > 1024:
        with pytest.raises(InvalidIdError, match="thread_id") as caught:
            runs(saver, name)
        assert len(str(caught.value)) < 300
    else:
        assert runs(saver, name) == DONE
        saver.delete_thread(name)
        assert saver.get_tuple(thread(name)) is None
    assert saver.get_tuple(thread("victim")) is not None


@pytest.mark.parametrize("name", [3, None, b"bytes", ["list"]])
def test_a_namespace_or_checkpoint_id_that_is_no_text_is_refused(saver, name):
    for key in ("checkpoint_id", "checkpoint_ns"):
        if not name:
            continue
        with pytest.raises(MilepostError):
            saver.get_tuple({"configurable": {"thread_id": "t", key: name}})


def test_hostile_filters_match_nothing_and_break_nothing(saver):
    runs(saver)
    for key in ("source' OR '1'='1", "$.step", "step\0", "a" * 100_000):
        assert list(saver.list(thread("t"), filter={key: "loop"})) == []
        assert saver.list_threads(metadata={key: "loop"}) == []
    for value in ("\0", "\ud800", "' OR 1=1 --", "x" * 100_000):
        for key in ("run_id", "source"):
            assert list(saver.list(None, filter={key: value})) == []
        assert saver.list_threads(metadata={"owner": value, "tags": [value]}) == []
    assert list(saver.list(None, filter={"source": {"$ne": 1}})) == []
    assert len(list(saver.list(thread("t")))) == 4


# -- both colours


def test_every_saver_answers_in_both_colours(path):
    with SqliteSaver.from_conn_string(path) as saver:
        assert runs(saver) == DONE

        async def main() -> Any:
            graph = two_nodes().compile(checkpointer=saver)
            await graph.ainvoke({"foo": ""}, thread("async"))
            blocking = saver.get_tuple(thread("async"))
            assert blocking == await saver.aget_tuple(thread("async"))
            return [found async for found in saver.alist(thread("async"))]

        assert len(asyncio.run(main())) == 4
        assert elsewhere(lambda: saver.get_tuple(thread("async"))) is not None


def test_the_async_saver_answers_in_both_colours(path):
    async def main() -> None:
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            graph = two_nodes().compile(checkpointer=saver)
            await graph.ainvoke({"foo": ""}, thread("t"))
            found = await saver.aget_tuple(thread("t"))
            assert saver.get_tuple(thread("t")) == found
            assert await asyncio.to_thread(saver.get_tuple, thread("t")) == found

    asyncio.run(main())


def test_an_aiosqlite_connection_is_used_from_its_own_thread(path):
    async def main() -> None:
        async with aiosqlite.connect(path) as connection:
            saver = AsyncSqliteSaver(connection)
            graph = two_nodes().compile(checkpointer=saver)
            await graph.ainvoke({"foo": ""}, thread("t"))
            found = await saver.aget_tuple(thread("t"))
            with pytest.raises(ColourError, match="async method"):
                saver.get_tuple(thread("t"))
            assert await asyncio.to_thread(saver.get_tuple, thread("t")) == found
        with pytest.raises(ConnectionUnusableError):
            await saver.aget_tuple(thread("t"))

    asyncio.run(main())


def test_an_aiosqlite_connection_that_was_not_awaited_says_so(path):
    async def main() -> None:
        connection = aiosqlite.connect(path)
        with pytest.raises(ConnectionUnusableError, match="await"):
            await AsyncSqliteSaver(connection).aget_tuple(thread("t"))

    asyncio.run(main())


# -- one transaction for many


class Counting:
    """Counts the transactions that a saver commits."""

    def __init__(self, saver: Any) -> None:
        self.commits = 0
        saver.conn.set_trace_callback(self._see)

    def _see(self, statement: str) -> None:
        self.commits += statement == "COMMIT"


def test_a_step_with_its_writes_is_one_transaction(sqlite):
    graph = line("a", "b").compile(checkpointer=sqlite)
    graph.invoke({}, thread("warm"))
    counting = Counting(sqlite)
    graph.invoke({}, thread("t"), durability="sync")
    reads = 3
    assert counting.commits <= 4 + reads
    counting.commits = 0
    graph.invoke({}, thread("u"), durability="exit")
    assert counting.commits <= 1 + reads


def test_runs_at_the_same_time_share_transactions(path):
    async def main() -> None:
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            graph = line("a", "b").compile(checkpointer=saver)
            await graph.ainvoke({}, thread("warm"))
            await asyncio.gather(
                *(graph.ainvoke({}, thread(str(n)), durability="sync") for n in range(64))
            )
            counting = Counting(saver)
            steps = [
                saver.prepare(step) for step in [first_step(saver, f"n{n}") for n in range(64)]
            ]
            outcomes = await asyncio.gather(*(saver.acommit([step]) for step in steps))
            assert outcomes == [[None]] * 64
            assert counting.commits < 64 / 4
            for n in range(64):
                assert await saver.aget_tuple(thread(f"n{n}")) is not None

    asyncio.run(main())


def test_a_commit_that_was_begun_has_ended_when_its_cancellation_is_felt(path):
    async def main() -> None:
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            await saver.setup()
            step = saver.prepare(first_step(saver, "t"))
            with saver.engine.lock:
                committing = asyncio.create_task(saver.acommit([step]))
                await asyncio.sleep(0)
                for _ in range(3):
                    committing.cancel()
                    await asyncio.sleep(0)
                assert not committing.done()
            with pytest.raises(asyncio.CancelledError):
                await committing
            with closing(sqlite3.connect(path)) as reader:
                found = reader.execute("SELECT COUNT(*) FROM checkpoints").fetchone()
            assert found == (1,)

    asyncio.run(main())


def test_one_stale_step_fails_alone(sqlite):
    good, stale, also = (
        sqlite.prepare(first_step(sqlite, "a")),
        sqlite.prepare(first_step(sqlite, "b", head="not the head")),
        sqlite.prepare(first_step(sqlite, "c")),
    )
    first, second, third = sqlite.commit([good, stale, also])
    assert first is None
    assert third is None
    assert "b" in str(second)
    assert sqlite.get_tuple(thread("b")) is None
    assert sqlite.get_tuple(thread("c")) is not None


def test_more_may_wait_than_go_into_one_transaction(sqlite):
    """The step that is stored first may have come last."""
    committer = sqlite._committer
    waiting = [
        committer.add([sqlite.prepare(first_step(sqlite, f"t{n:03}"))]) for n in range(2 * MOST + 1)
    ]
    assert sqlite.engine.commit(committer, waiting[-1]) == [None]
    assert {tuple(one.outcome) for one in waiting} == {(None,)}
    assert len(sqlite.list_threads(limit=1000)) == 2 * MOST + 1
