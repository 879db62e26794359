"""Tables are made once: later starts look, and wait for nobody."""

import asyncio
import sqlite3

import psycopg
import pytest

from graphs import thread
from milepost._db.postgres import engine
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import DatabaseBusyError
from milepost.store.postgres import PostgresStore
from milepost.store.postgres.aio import AsyncPostgresStore
from milepost.store.sqlite import SqliteStore


@pytest.fixture
def setup_lock(uri):
    """A transaction that holds what a setup holds while it makes tables."""
    with psycopg.connect(uri) as connection:
        yield lambda: connection.execute("SELECT pg_advisory_xact_lock(hashtext('milepost '))")


def impatient(uri: str) -> str:
    return f"{uri}{'&' if '?' in uri else '?'}options=-clock_timeout%3D200"


def set_up(make, uri):
    with make.from_conn_string(impatient(uri)) as made:
        made.setup()


async def aset_up(make, uri):
    async with make.from_conn_string(impatient(uri)) as made:
        await made.setup()


@pytest.mark.parametrize("make", [PostgresSaver, PostgresStore])
def test_a_setup_of_what_is_there_takes_no_lock(uri, setup_lock, make):
    set_up(make, uri)
    setup_lock()
    set_up(make, uri)


@pytest.mark.parametrize("make", [AsyncPostgresSaver, AsyncPostgresStore])
def test_an_async_setup_of_what_is_there_takes_no_lock(uri, setup_lock, make):
    asyncio.run(aset_up(make, uri))
    setup_lock()
    asyncio.run(aset_up(make, uri))


def test_a_setup_that_waits_for_another_one_says_so(uri, setup_lock, monkeypatch):
    monkeypatch.setattr(engine, "SETUP_PATIENCE", 0.1)
    setup_lock()
    with pytest.raises(DatabaseBusyError, match="waited too long for another transaction"):
        set_up(PostgresSaver, uri)
    with pytest.raises(DatabaseBusyError, match="waited too long for another transaction"):
        asyncio.run(aset_up(AsyncPostgresSaver, uri))


@pytest.mark.parametrize("make", [SqliteSaver, SqliteStore])
def test_a_start_on_a_file_that_is_set_up_waits_for_no_writer(tmp_path, make):
    path = tmp_path / "a.db"
    with make.from_conn_string(str(path)) as made:
        made.setup()
    writer = sqlite3.connect(path)
    writer.execute("BEGIN IMMEDIATE")
    connection = sqlite3.connect(path, timeout=0.05, check_same_thread=False)
    made = make(connection)
    made.setup()
    if make is SqliteSaver:
        assert made.get_tuple(thread("t")) is None
    else:
        assert made.get(("n",), "k") is None
    writer.close()
    connection.close()
