"""What is attacked: a kind of database, and how a process opens savers and stores on it."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any

from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver
from milepost.store.memory import InMemoryStore
from milepost.store.sqlite import SqliteStore
from milepost.store.sqlite.aio import AsyncSqliteStore

KEYS = [b"the older key 16", b"the newer key 16"]
POOL = {"min_size": 1, "max_size": 3}
CONNECTION = {"autocommit": True, "prepare_threshold": 0}


class Place:
    """One database, as a worker process sees it."""

    name = ""
    faults: tuple[str, ...] = ("kill", "stop", "clock")
    """Names of what the parent may do to it and its workers."""
    is_shared = True
    """Whether several processes can have it open."""
    can_fork = True
    """Whether children by fork() get through their runs while all workers use the same threads."""

    def __init__(self, address: str) -> None:
        self.address = address

    def prepare(self) -> None:
        """Make the tables, once, before the workers start."""

    def saver(self) -> Any:
        """A context manager with a new saver that answers in both colours."""
        raise NotImplementedError

    def end_connections(self, rng: random.Random) -> None:
        """Let the server end some of the connections that it has."""
        raise NotImplementedError

    def connections(self) -> list[Any]:
        """Those that others have to the database."""
        return []

    @asynccontextmanager
    async def async_saver(self) -> AsyncIterator[Any]:
        """A new saver that belongs to the running loop."""
        with self.saver() as saver:
            yield saver

    def store(self, **settings: Any) -> Any:
        """A context manager with a new store, which answers in both colours."""
        raise NotImplementedError

    @asynccontextmanager
    async def async_store(self, **settings: Any) -> AsyncIterator[Any]:
        """A new store that belongs to the running loop."""
        with self.store(**settings) as store:
            yield store


class Memory(Place):
    name = "memory"
    faults = ("clock",)
    is_shared = can_fork = False

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._saver = InMemorySaver()
        self._stores: dict[str, InMemoryStore] = {}

    @contextmanager
    def saver(self) -> Iterator[Any]:
        yield self._saver

    @contextmanager
    def store(self, **settings: Any) -> Iterator[Any]:
        """Always the same one: another would be another database."""
        yield self._stores.setdefault("store", InMemoryStore(**settings))


class Sqlite(Place):
    name = "sqlite"
    faults = ("kill", "stop", "clock", "full")

    def serde(self) -> Any:
        return None

    def saver(self) -> Any:
        return SqliteSaver.from_conn_string(self.address, serde=self.serde())

    @asynccontextmanager
    async def async_saver(self) -> AsyncIterator[Any]:
        async with AsyncSqliteSaver.from_conn_string(self.address, serde=self.serde()) as saver:
            yield saver

    def store(self, **settings: Any) -> Any:
        return SqliteStore.from_conn_string(self.address + ".store", **settings)

    def async_store(self, **settings: Any) -> Any:
        return AsyncSqliteStore.from_conn_string(self.address + ".store", **settings)


class EncryptedSqlite(Sqlite):
    name = "sqlite-encrypted"

    def serde(self) -> Any:
        """Every saver has both keys. Either may be the newest, so that `reencrypt` has work to do."""
        older, newest = random.sample(KEYS, 2)
        return EncryptedSerializer.from_pycryptodome_aes(key=newest, old_keys=[older])

    def store(self, **settings: Any) -> Any:
        return super().store(**{"serde": self.serde(), **settings})

    def async_store(self, **settings: Any) -> Any:
        return super().async_store(**{"serde": self.serde(), **settings})


class Postgres(Place):
    """On connections that savers and stores open themselves."""

    name = "postgres"
    faults = ("kill", "stop", "clock", "terminate", "restart")

    def prepare(self) -> None:
        with self.saver() as saver:
            saver.setup()

    def end_connections(self, rng: random.Random) -> None:
        import psycopg

        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE"
                " pid <> pg_backend_pid() AND datname = current_database() AND random() < 0.5"
            )

    def connections(self) -> list[Any]:
        import psycopg

        with psycopg.connect(self.address, autocommit=True) as connection:
            return connection.execute(
                "SELECT pid, state, left(query, 200) FROM pg_stat_activity WHERE"
                " datname = current_database() AND pid <> pg_backend_pid()"
                " AND backend_type = 'client backend'"
            ).fetchall()

    def saver(self) -> Any:
        from milepost.checkpoint.postgres import PostgresSaver

        return PostgresSaver.from_conn_string(self.address)

    @asynccontextmanager
    async def async_saver(self) -> AsyncIterator[Any]:
        from milepost.checkpoint.postgres.aio import AsyncPostgresSaver

        async with AsyncPostgresSaver.from_conn_string(self.address) as saver:
            yield saver

    def store(self, **settings: Any) -> Any:
        from milepost.store.postgres import PostgresStore

        return PostgresStore.from_conn_string(self.address, **settings)

    def async_store(self, **settings: Any) -> Any:
        from milepost.store.postgres.aio import AsyncPostgresStore

        return AsyncPostgresStore.from_conn_string(self.address, **settings)


class PostgresPool(Postgres):
    """On pools that the program has made."""

    name = "postgres-pool"

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from psycopg_pool import ConnectionPool

        from milepost.checkpoint.postgres import PostgresSaver

        with ExitStack() as stack:
            pool: Any = ConnectionPool(self.address, kwargs=CONNECTION, open=True, **POOL)
            yield PostgresSaver(stack.enter_context(pool))

    @asynccontextmanager
    async def async_saver(self) -> AsyncIterator[Any]:
        from psycopg_pool import AsyncConnectionPool

        from milepost.checkpoint.postgres.aio import AsyncPostgresSaver

        pool: Any = AsyncConnectionPool(self.address, kwargs=CONNECTION, open=False, **POOL)
        async with pool:
            yield AsyncPostgresSaver(pool)

    def store(self, **settings: Any) -> Any:
        from milepost.store.postgres import PostgresStore

        return PostgresStore.from_conn_string(self.address, pool_config=POOL, **settings)

    def async_store(self, **settings: Any) -> Any:
        from milepost.store.postgres.aio import AsyncPostgresStore

        return AsyncPostgresStore.from_conn_string(self.address, pool_config=POOL, **settings)


class Redis(Place):
    """A server that has each step on its disk before it answers."""

    name = "redis"
    faults = ("kill", "stop", "clock", "terminate", "restart")

    def prepare(self) -> None:
        with self.saver() as saver:
            saver.setup()

    def end_connections(self, rng: random.Random) -> None:
        with self._client() as client:
            for one in self._others(client):
                if rng.random() < 0.5:
                    client.client_kill_filter(_id=one["id"])

    def connections(self) -> list[Any]:
        with self._client() as client:
            return [(one["id"], one["cmd"]) for one in self._others(client)]

    def _client(self) -> Any:
        import redis

        return redis.Redis.from_url(self.address, decode_responses=True)

    @staticmethod
    def _others(client: Any) -> list[Any]:
        own = str(client.client_id())
        return [one for one in client.client_list() if one["id"] != own]

    def saver(self) -> Any:
        from milepost.checkpoint.redis import RedisSaver

        return RedisSaver.from_conn_string(self.address)

    @asynccontextmanager
    async def async_saver(self) -> AsyncIterator[Any]:
        from milepost.checkpoint.redis import AsyncRedisSaver

        async with AsyncRedisSaver.from_conn_string(self.address) as saver:
            yield saver

    def store(self, **settings: Any) -> Any:
        from milepost.store.redis import RedisStore

        return RedisStore.from_conn_string(self.address, **settings)

    def async_store(self, **settings: Any) -> Any:
        from milepost.store.redis import AsyncRedisStore

        return AsyncRedisStore.from_conn_string(self.address, **settings)


class RedisWithoutScripts(Redis):
    """The savers use WATCH, MULTI and EXEC. A step begins again whenever another was stored on its
    thread meanwhile: that is slow where many write to one."""

    name = "redis-no-scripts"
    can_fork = False

    def saver(self) -> Any:
        from milepost.checkpoint.redis import RedisSaver

        return RedisSaver.from_conn_string(self.address, scripts=False)

    @asynccontextmanager
    async def async_saver(self) -> AsyncIterator[Any]:
        from milepost.checkpoint.redis import AsyncRedisSaver

        async with AsyncRedisSaver.from_conn_string(self.address, scripts=False) as saver:
            yield saver


def left_open(place: Place) -> list[Any]:
    """Connections that others have. They get a moment to go: an exit is not a farewell."""
    found: list[Any] = []
    for _ in range(100):
        if not (found := place.connections()):
            break
        time.sleep(0.05)
    return found


PLACES: dict[str, type[Place]] = {
    place.name: place
    for place in (
        Sqlite,
        EncryptedSqlite,
        Postgres,
        PostgresPool,
        Redis,
        RedisWithoutScripts,
        Memory,
    )
}
