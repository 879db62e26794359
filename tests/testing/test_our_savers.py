"""Our own savers keep every clause of the contract."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
from milepost.checkpoint.postgres.shallow import AsyncShallowPostgresSaver, ShallowPostgresSaver
from milepost.checkpoint.redis import (
    AsyncRedisSaver,
    AsyncShallowRedisSaver,
    RedisSaver,
    ShallowRedisSaver,
)
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver
from milepost.testing import saver_tests


@pytest.fixture(scope="session")
def database(server: Any) -> str:
    """A database for all clauses: each has threads of its own."""
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE kit")
    return server.get_uri("kit")


def sqlite(tmp_path: Path) -> AbstractContextManager[SqliteSaver]:
    # NORMAL: power cuts are not among the clauses, and a wait for the disk is not free.
    return SqliteSaver.from_conn_string(str(tmp_path / "threads.db"), synchronous="NORMAL")


def async_sqlite(tmp_path: Path) -> AbstractAsyncContextManager[AsyncSqliteSaver]:
    return AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.db"), synchronous="NORMAL")


def postgres(kind: Any) -> Any:
    """A factory for a saver on PostgreSQL, with tables of its own."""

    def factory(database: str) -> Iterator[Any]:
        with kind.from_conn_string(database, schema=kind.__name__.lower()) as saver:
            saver.setup()
            yield saver

    return factory


def async_postgres(kind: Any) -> Any:
    """The same for a saver on a loop."""

    async def factory(database: str) -> AsyncIterator[Any]:
        async with kind.from_conn_string(database, schema=kind.__name__.lower()) as saver:
            await saver.setup()
            yield saver

    return factory


def redis(kind: Any, **options: Any) -> Any:
    """A factory for a saver on Valkey, with keys of its own."""

    def factory(redis_server: Any) -> AbstractContextManager[Any]:
        prefix = f"{kind.__name__}{len(options)}"
        return kind.from_conn_string(redis_server.url, checkpoint_prefix=prefix, **options)

    return factory


GROUPS: tuple[str, ...] | None = None
if not os.environ.get("MILEPOST_LONG"):
    GROUPS = ("put", "get_tuple", "list", "put_writes", "delete_thread")
"""The groups of clauses for savers whose other half, sync or async, is tested with all groups."""
LATEST_ONLY = {"keeps_history": False, "groups": GROUPS}
"""How savers are tested that keep the latest checkpoint only; they prune at every step, slowly."""

deprecated = pytest.mark.filterwarnings("ignore:.*ShallowPostgresSaver:DeprecationWarning")

test_in_memory = saver_tests(InMemorySaver)
test_sqlite = saver_tests(sqlite, persistent=True)
test_async_sqlite = saver_tests(async_sqlite, persistent=True)
test_postgres = saver_tests(postgres(PostgresSaver), persistent=True)
test_async_postgres = saver_tests(async_postgres(AsyncPostgresSaver), persistent=True)
test_shallow_postgres = deprecated(saver_tests(postgres(ShallowPostgresSaver), **LATEST_ONLY))
test_async_shallow_postgres = deprecated(
    saver_tests(async_postgres(AsyncShallowPostgresSaver), **LATEST_ONLY)
)
test_redis = saver_tests(redis(RedisSaver), persistent=True)
test_async_redis = saver_tests(redis(AsyncRedisSaver), persistent=True, groups=GROUPS)
test_redis_without_scripts = saver_tests(
    redis(RedisSaver, scripts=False), persistent=True, groups=GROUPS
)
test_shallow_redis = saver_tests(redis(ShallowRedisSaver), **LATEST_ONLY)
test_async_shallow_redis = saver_tests(redis(AsyncShallowRedisSaver), **LATEST_ONLY)
