"""One suite for all stores: a test that asks for `stores` runs on each of them, sync and async.

`stores.open(...)` opens a store with these settings, always on the same database. What it returns
has the sync names of the methods, also where they are awaited.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from milepost._db.sqlite.engine import open_sqlite
from milepost.store.memory import InMemoryStore
from milepost.store.sqlite import SqliteStore
from milepost.store.sqlite.aio import AsyncSqliteStore

KINDS = ["memory-sync", "memory-async", "sqlite-sync", "sqlite-async"]
try:
    from milepost.store.postgres import PostgresStore
    from milepost.store.postgres.aio import AsyncPostgresStore

    KINDS += ["postgres-sync", "postgres-async"]
except ImportError:
    pass
try:
    import redis  # noqa: F401

    from milepost.store.redis import RedisStore
    from milepost.store.redis.aio import AsyncRedisStore

    KINDS += ["redis-sync", "redis-async"]
except ImportError:
    pass

ON_ASYNC_REDIS = {f"test_store_{name}.py" for name in ("batching", "generations", "items")}
"""Files that run on the async store in Redis too: what is sent to the server is the same in both,
so the others do so in the long form only."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the matrix has too much of."""
    if os.environ.get("MILEPOST_LONG"):
        return
    left_out = {
        item
        for item in items
        if "callspec" in item.__dict__
        and item.callspec.params.get("stores") == "redis-async"  # type: ignore[attr-defined]
        and item.path.name not in ON_ASYNC_REDIS
    }
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1_700_000_000.0

    def __call__(self) -> float:
        return self.seconds

    def pass_minutes(self, minutes: float) -> None:
        self.seconds += minutes * 60


class Face:
    """A store, whose sync methods are called, or whose async ones."""

    def __init__(self, store: Any, runner: asyncio.Runner | None) -> None:
        self.store = store
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._runner is None:
                return getattr(self.store, name)(*args, **kwargs)
            return self._runner.run(self._awaited("a" + name, args, kwargs))

        return call

    async def _awaited(self, name: str, args: Any, kwargs: Any) -> Any:
        return await getattr(self.store, name)(*args, **kwargs)

    def run(self, function: Any) -> Any:
        """Run an async function of the store, if its async methods are called."""
        assert self._runner is not None
        return self._runner.run(function(self.store))


class Stores:
    """Opens stores of one kind, all on one database."""

    def __init__(self, kind: str, tmp_path: Any, address: str) -> None:
        self.backend, _, mode = kind.partition("-")
        self.is_async = mode == "async"
        self.runner = asyncio.Runner() if self.is_async else None
        self._file = str(tmp_path / "store.db")
        self._address = address
        self._closers: list[Any] = []

    @property
    def is_durable(self) -> bool:
        return self.backend != "memory"

    def open(self, **settings: Any) -> Face:
        return Face(self._open(settings), self.runner)

    def _open(self, settings: Any) -> Any:
        if self.backend == "memory":
            return InMemoryStore(**settings)
        if self.backend == "sqlite":
            kind = AsyncSqliteStore if self.is_async else SqliteStore
            connection = open_sqlite(self._file)
            self._closers.append(connection.close)
            store = kind(connection, **settings)
            self._closers.append(store.engine.close)
            return store
        sync, aio = _CLASSES[self.backend]()
        if self.is_async:
            manager = aio.from_conn_string(self._address, **settings)
            assert self.runner is not None
            runner = self.runner
            opened = runner.run(_enter(manager))
            self._closers.append(lambda: runner.run(_leave(manager)))
            return opened
        manager = sync.from_conn_string(self._address, **settings)
        opened = manager.__enter__()
        self._closers.append(lambda: manager.__exit__(None, None, None))
        return opened

    @property
    def has_sql(self) -> bool:
        """Whether `rows` can look into the database."""
        return self.backend in ("sqlite", "postgres")

    def rows(self, query: str) -> list[Any]:
        """Look into the database behind the store's back."""
        if self.backend == "sqlite":
            connection = sqlite3.connect(self._file)
            try:
                return connection.execute(query).fetchall()
            finally:
                connection.close()
        import psycopg

        with psycopg.connect(self._address) as connection:
            return connection.execute(query).fetchall()

    def vector_tables(self) -> list[str]:
        """The names of the tables of vectors."""
        names = {
            "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE"
            " 'milepost_vectors%'",
            "postgres": "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace ="
            " current_schema()::regnamespace AND relname LIKE 'milepost_vectors%'",
        }
        return [name for (name,) in self.rows(names[self.backend])]

    def stored(self) -> bytes:
        """All that a Redis server holds, in one piece."""
        import redis

        found = []
        with redis.Redis.from_url(self._address) as client:
            for key in client.scan_iter():
                found += [key, client.dump(key) or b""]
                if client.type(key) == b"hash":
                    found += [part for pair in client.hgetall(key).items() for part in pair]
        return b" ".join(found)

    def close(self) -> None:
        for close in reversed(self._closers):
            close()
        if self.runner is not None:
            self.runner.close()


_CLASSES: dict[str, Any] = {
    "postgres": lambda: (PostgresStore, AsyncPostgresStore),
    "redis": lambda: (RedisStore, AsyncRedisStore),
}


async def _enter(manager: Any) -> Any:
    return await manager.__aenter__()


async def _leave(manager: Any) -> None:
    await manager.__aexit__(None, None, None)


@pytest.fixture(scope="session")
def with_vectors(server: Any) -> str:
    """A database with pgvector, for all tests of stores: each makes a schema of its own."""
    import psycopg

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE stores")
    uri = str(server.get_uri("stores"))
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
    return uri


@pytest.fixture
def postgres(with_vectors: str) -> str:
    """The address of an empty schema."""
    import psycopg

    schema = f"s{uuid.uuid4().hex}"
    with psycopg.connect(with_vectors, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")  # type: ignore[arg-type]
    sign = "&" if "?" in with_vectors else "?"
    return f"{with_vectors}{sign}options=-csearch_path%3D{schema},public"


@pytest.fixture(params=KINDS)
def stores(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Stores]:
    """Every store, sync and async."""
    servers = {"postgres": "postgres", "redis": "redis_url"}
    server = servers.get(request.param.partition("-")[0])
    address = request.getfixturevalue(server) if server else ""
    opened = Stores(request.param, tmp_path, address)
    yield opened
    opened.close()


@pytest.fixture
def store(stores: Stores) -> Face:
    """An empty store."""
    return stores.open()


@pytest.fixture
def clock() -> Clock:
    return Clock()
