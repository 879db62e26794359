"""Suites over several savers: `saver` is one of each kind, `reopen` another on its database."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.redis import RedisSaver
from milepost.checkpoint.sqlite import SqliteSaver

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def redis(redis_server: Any) -> Iterator[RedisSaver]:
    """A saver on an empty Valkey server."""
    with RedisSaver.from_conn_string(redis_server.url) as saver:
        saver.engine.client.flushall()
        yield saver


@pytest.fixture
def memory() -> InMemorySaver:
    """A saver without a database, to which the same rules apply."""
    return InMemorySaver()


@pytest.fixture(params=["sqlite", "postgres"])
def saver(request: pytest.FixtureRequest) -> Any:
    """An empty saver of each kind."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def reopen(request: pytest.FixtureRequest, saver: Any) -> Any:
    """Another saver on the same database, as another process would have it."""
    if isinstance(saver, InMemorySaver):
        return lambda: nullcontext(saver)
    if isinstance(saver, RedisSaver):
        return lambda: RedisSaver.from_conn_string(request.getfixturevalue("redis_server").url)
    if isinstance(saver, SqliteSaver):
        return lambda: SqliteSaver.from_conn_string(request.getfixturevalue("path"))
    return lambda: PostgresSaver.from_conn_string(request.getfixturevalue("uri"))


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def opened(request: pytest.FixtureRequest) -> Any:
    """Opens a saver with options; on a database each call opens the same one."""
    kind = request.param
    where = {"memory": None, "sqlite": "path", "postgres": "uri", "redis": "redis_server"}[kind]
    place = None if where is None else request.getfixturevalue(where)
    if kind == "redis":
        place.client().flushall()

    @contextmanager
    def memory(**options: Any) -> Any:
        yield InMemorySaver(**options)

    def sqlite(**options: Any) -> Any:
        return SqliteSaver.from_conn_string(place, **options)

    @contextmanager
    def postgres(**options: Any) -> Any:
        with PostgresSaver.from_conn_string(place, **options) as saver:
            saver.setup()
            yield saver

    def redis(**options: Any) -> Any:
        return RedisSaver.from_conn_string(place.url, **options)

    return {"memory": memory, "sqlite": sqlite, "postgres": postgres, "redis": redis}[kind]


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Any:
    """Calls a method of a saver, or its async form."""

    def called(saver: Any, name: str, *args: Any, **options: Any) -> Any:
        if request.param == "sync":
            return getattr(saver, name)(*args, **options)
        return asyncio.run(getattr(saver, f"a{name}")(*args, **options))

    return called
