"""Databases of each kind, servers on them, and the official client, sync and async."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langgraph_sdk import get_client, get_sync_client
from serving import TOKEN, Running, asking_graph, serving

from milepost.checkpoint.sqlite import SqliteSaver
from milepost.store.sqlite import SqliteStore

LONG = bool(os.environ.get("MILEPOST_LONG"))


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with empty tables, for all tests of a module."""
    if request.param == "sqlite":
        return sqlite_database(tmp_path_factory.mktemp("server") / "threads.db")
    import psycopg

    from milepost.checkpoint.postgres import PostgresSaver
    from milepost.store.postgres import PostgresStore

    server: Any = request.getfixturevalue("server")
    name = f"ui_{uuid.uuid4().hex[:10]}"
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = str(server.get_uri(name))
    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
    with PostgresStore.from_conn_string(url) as store:
        store.setup()
    return url


def sqlite_database(file: Any) -> str:
    """A file with empty tables."""
    with SqliteSaver.from_conn_string(str(file)) as saver:
        saver.setup()
    with SqliteStore.from_conn_string(str(file)) as store:
        store.setup()
    return str(file)


@pytest.fixture
def file(tmp_path: Any) -> str:
    """A SQLite database with empty tables, for one test."""
    return sqlite_database(tmp_path / "threads.db")


@pytest.fixture(scope="module")
def ui(address: str) -> Iterator[Running]:
    """A server that may write, with one graph."""
    with serving(address, graphs={"asking": asking_graph()}, write=True) as running:
        yield running


class Sync:
    """The sync client."""

    def __init__(self, url: str, token: str) -> None:
        self._client = get_sync_client(url=url, api_key=token)

    def __getattr__(self, part: str) -> Any:
        return getattr(self._client, part)

    def close(self) -> None:
        self._client.close()


class Async:
    """The async client, each call awaited on one loop."""

    def __init__(self, url: str, token: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = get_client(url=url, api_key=token)

    def __getattr__(self, part: str) -> Any:
        return _Part(getattr(self._client, part), self._loop.run_until_complete)

    def close(self) -> None:
        self._loop.run_until_complete(self._client.aclose())
        self._loop.close()


class _Part:
    def __init__(self, part: Any, wait: Callable[[Any], Any]) -> None:
        self._part = part
        self._wait = wait

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: self._wait(getattr(self._part, name)(*args, **kwargs))


@pytest.fixture(scope="module", params=[Sync, Async])
def sdk(request: pytest.FixtureRequest, ui: Running) -> Iterator[Any]:
    """The official client of a server: sync on one kind of database, async on the other."""
    if not LONG and (request.param is Sync) is not (ui.kind == "sqlite"):
        pytest.skip("MILEPOST_LONG=1 tries both clients on both")
    made = request.param(ui.url, TOKEN)
    yield made
    made.close()
