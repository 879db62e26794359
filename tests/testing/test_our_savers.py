"""Our own savers keep every clause of the contract."""

from __future__ import annotations

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


def postgres(database: str) -> Iterator[PostgresSaver]:
    with PostgresSaver.from_conn_string(database, schema="plain") as saver:
        saver.setup()
        yield saver


async def async_postgres(database: str) -> AsyncIterator[AsyncPostgresSaver]:
    async with AsyncPostgresSaver.from_conn_string(database, schema="async") as saver:
        await saver.setup()
        yield saver


def shallow_postgres(database: str) -> Iterator[ShallowPostgresSaver]:
    with ShallowPostgresSaver.from_conn_string(database, schema="shallow") as saver:
        saver.setup()
        yield saver


async def async_shallow_postgres(database: str) -> AsyncIterator[AsyncShallowPostgresSaver]:
    async with AsyncShallowPostgresSaver.from_conn_string(database, schema="asyncshallow") as saver:
        await saver.setup()
        yield saver


FIVE = ("put", "get_tuple", "list", "put_writes", "delete_thread")
"""What a saver that keeps the latest checkpoint only is tested for."""

deprecated = pytest.mark.filterwarnings("ignore:.*ShallowPostgresSaver:DeprecationWarning")

test_in_memory = saver_tests(InMemorySaver)
test_sqlite = saver_tests(sqlite, persistent=True)
test_async_sqlite = saver_tests(async_sqlite, persistent=True)
test_postgres = saver_tests(postgres, persistent=True)
test_async_postgres = saver_tests(async_postgres, persistent=True)
test_shallow_postgres = deprecated(saver_tests(shallow_postgres, keeps_history=False, groups=FIVE))
test_async_shallow_postgres = deprecated(
    saver_tests(async_shallow_postgres, keeps_history=False, groups=FIVE)
)
