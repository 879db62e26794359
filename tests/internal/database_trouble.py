"""Trouble with databases: attempts, slow commits, full caches, sweeps that fail."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from canary import CONFIG, LARGE, Told, Trouble

from graphs import Log, line
from milepost._db import group_commit
from milepost._db.redis.commands import command
from milepost._db.redis.engine import RedisEngine
from milepost._db.redis.guarded import reading
from milepost.checkpoint._sql.threads.retention import SqlThreads
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.redis import RedisSaver
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import SaverError
from milepost.store.sqlite import AsyncSqliteStore, SqliteStore
from redis_servers import free_port
from savers import first_step

STORAGE = "milepost.storage"
OFTEN = 0.0001
"""Minutes between two sweeps."""


# -- attempts


def ended_connections(uri: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(uri, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )


def with_password(uri: str) -> str:
    return f"{uri}{'&' if '?' in uri else '?'}password=canary-password"


def connections_of_a_saver_are_ended(stage: Any) -> None:
    psycopg = pytest.importorskip("psycopg")
    uri = stage.asks_for("uri")

    def node(state: Log) -> Any:
        ended_connections(uri)
        return {"log": LARGE}

    with PostgresSaver.from_conn_string(with_password(uri), serde=stage.serde) as saver:
        saver.setup()
        builder = line("first").add_node("node", node).add_edge("first", "node")
        stage.run(builder.compile(checkpointer=saver))
        ended_connections(uri)
        patience = [3600.0, -1.0]

        def refuse() -> Any:
            # It is given up when no second connection can be made.
            stage.patch.setattr("milepost._db.postgres.engine.RESTART", patience.pop(0))
            raise psycopg.OperationalError("canary-error")

        stage.patch.setattr(saver.engine, "_reconnect", refuse)
        with pytest.raises(SaverError):
            saver.get_tuple(CONFIG)


def connections_of_a_store_are_ended(stage: Any) -> None:
    from milepost.store.postgres import PostgresStore

    uri = stage.asks_for("uri")
    with PostgresStore.from_conn_string(with_password(uri), serde=stage.serde) as store:
        store.put(("ns",), "key", {"text": "canary-value"})
        ended_connections(uri)
        assert store.get(("ns",), "key") is not None


class RedisClient:
    """A client whose commands fail like this, the last error first, before they answer."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def execute_command(self, *_: Any) -> Any:
        if self.errors:
            raise self.errors.pop()
        return 1


def one(effect: Any) -> Any:
    return (yield effect)


def a_connection_to_redis_is_lost(stage: Any) -> None:
    engine = RedisEngine(RedisClient(OSError("canary-error")), owner="RedisStore")
    engine.run(one(command("GET", b"canary-key")))


def a_server_of_threads_stays_away(stage: Any) -> None:
    lost = [OSError("canary-error") for _ in range(9)]
    engine = RedisEngine(RedisClient(*lost), owner="RedisSaver")
    script = reading([b"canary-key"], [])._replace(thread_id="t")
    with pytest.raises(SaverError):
        engine.run(one(script))


def no_server_is_at_an_address(stage: Any) -> None:
    url = f"redis://:canary-password@127.0.0.1:{free_port()}"
    with RedisSaver.from_conn_string(url) as saver, pytest.raises(SaverError):
        saver.get_tuple(CONFIG)


# -- slow commits, and full caches


def commits_are_slow(stage: Any) -> None:
    saver = stage.sqlite()
    stage.patch.setattr(group_commit, "SLOW", -1.0)
    stage.run(line("a").compile(checkpointer=saver))


def commits_on_redis_are_slow(stage: Any) -> None:
    with RedisSaver.from_conn_string(stage.asks_for("redis_url"), serde=stage.serde) as saver:
        stage.patch.setattr(group_commit, "SLOW", -1.0)
        stage.run(line("a").compile(checkpointer=saver))


def a_commit_of_many_threads_is_slow(stage: Any) -> None:
    saver = stage.sqlite()
    stage.patch.setattr(group_commit, "SLOW", -1.0)
    one, two = (saver.prepare(first_step(saver, name)) for name in ("one", "two"))
    saver._committer.add([one])
    assert saver.commit([two]) == [None]


def a_cache_is_full(stage: Any) -> None:
    saver = stage.sqlite()
    saver.cache_limit = 1024
    graph = line("a").compile(checkpointer=saver)

    def fill(*names: str) -> None:
        for name in names:
            graph.invoke({"log": LARGE}, {"configurable": {"thread_id": name}}, durability="sync")

    fill("one", "two", "three", "four")
    saver._cache._next_line = 0.0  # a minute later
    fill("five")


# -- sweeps


def fails_the_second_time() -> Callable[..., None]:
    calls: list[None] = []

    def sweep(*_: Any, **__: Any) -> None:
        calls.append(None)
        if len(calls) == 2:
            raise Trouble

    return sweep


def a_sweep_of_a_saver_fails(stage: Any) -> None:
    stage.patch.setattr(SqlThreads, "sweep", fails_the_second_time())
    with SqliteSaver.from_conn_string(stage.path) as saver, pytest.raises(Trouble):
        saver.start_sweeper(ttl=1.0, every=0.001).result(30)


def a_sweep_of_a_store_fails(stage: Any) -> None:
    with SqliteStore.from_conn_string(stage.path) as store:
        stage.patch.setattr(store, "_drive", fails_the_second_time())
        with pytest.raises(Trouble):
            store.start_ttl_sweeper(OFTEN).result(30)


def a_sweep_of_an_async_store_fails(stage: Any) -> None:
    async def sweep() -> None:
        async with AsyncSqliteStore.from_conn_string(stage.path) as store:
            fails = fails_the_second_time()

            async def asweep() -> None:
                fails()

            stage.patch.setattr(store, "asweep_ttl", asweep)
            await asyncio.wait_for(await store.start_ttl_sweeper(OFTEN), 30)

    with suppress(Trouble):
        asyncio.run(sweep())


def a_file_is_closed_with_free_pages(stage: Any) -> None:
    class Failing:
        """A connection on a disk that does not answer."""

        def __init__(self, connection: Any) -> None:
            self.close = connection.close

        def executescript(self, _: str) -> None:
            raise sqlite3.OperationalError("canary-error")

    with SqliteSaver.from_conn_string(stage.path) as saver:
        stage.run(line("a").compile(checkpointer=saver))
        stage.patch.setattr(saver.engine, "connection", Failing(saver.engine.connection))


def attempts(owner: str, *numbers: int) -> list[Told]:
    text = f"{owner}: attempt %d at a transaction has failed with *; again in 0.?? s."
    return [(STORAGE, "WARNING", text % number) for number in numbers]


def redis_attempts(owner: str, error: str, *pauses: tuple[int, str]) -> list[Told]:
    text = f"{owner}: attempt %d has failed with {error}; again in %s s."
    return [(STORAGE, "WARNING", text % pause) for pause in pauses]


SLOW_COMMITS = [
    (STORAGE, "WARNING", f"Thread 't': a commit of {steps} steps took *.? s.") for steps in (2, 1)
]


def failed_sweep(owner: str) -> list[Told]:
    stopped = f"The sweeper of {owner} has stopped: a sweep failed with Trouble."
    return [(STORAGE, "DEBUG", f"A sweep of {owner} has ended."), (STORAGE, "WARNING", stopped)]


DATABASE_TROUBLE: dict[Callable[[Any], None], list[Told]] = {
    connections_of_a_saver_are_ended: [
        *attempts("PostgresSaver", 1, 1, 2),
        (
            STORAGE,
            "WARNING",
            "PostgresSaver: a transaction has failed for good in attempt 3, with OperationalError.",
        ),
    ],
    connections_of_a_store_are_ended: attempts("PostgresStore", 1),
    a_connection_to_redis_is_lost: redis_attempts("RedisStore", "OSError", (1, "0.0")),
    a_server_of_threads_stays_away: [
        *redis_attempts("RedisSaver, thread 't'", "OSError", (1, "0.0"), (2, "0.1")),
        (
            STORAGE,
            "WARNING",
            "RedisSaver, thread 't': an operation has failed for good in attempt 4, with OSError.",
        ),
    ],
    no_server_is_at_an_address: [
        *redis_attempts("RedisSaver", "ConnectionError", (1, "0.0"), (2, "0.1")),
        (
            STORAGE,
            "WARNING",
            "RedisSaver: an operation has failed for good in attempt 4, with ConnectionError.",
        ),
    ],
    commits_are_slow: SLOW_COMMITS,
    commits_on_redis_are_slow: SLOW_COMMITS,
    a_commit_of_many_threads_is_slow: [
        (STORAGE, "WARNING", "A commit of 2 steps of 2 threads took *.? s.")
    ],
    a_cache_is_full: [
        (STORAGE, "INFO", f"A saver's cache of 1 KB is full; threads that it has dropped: {n}.")
        for n in (1, 3)
    ],
    a_sweep_of_a_saver_fails: failed_sweep("SqliteSaver"),
    a_sweep_of_a_store_fails: failed_sweep("SqliteStore"),
    a_sweep_of_an_async_store_fails: failed_sweep("AsyncSqliteStore"),
    a_file_is_closed_with_free_pages: [
        (
            STORAGE,
            "DEBUG",
            "SQLite: free pages were not given back at the end (OperationalError).",
        )
    ],
}
