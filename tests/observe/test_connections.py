"""The gauge of open connections."""

import sqlite3

import psycopg
import psycopg_pool

from milepost._db.connections import HOLDERS
from milepost._internal.weak_registry import WeakRegistry
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.store.sqlite import SqliteStore


def counted(recorded, system, state="idle"):
    wanted = {"db.system.name": system, "db.client.connection.state": state}
    found = [p.value for p in recorded.points("milepost.connections") if p.attributes == wanted]
    return found[0] if found else 0


def test_a_savers_own_connection_counts_while_it_is_open(recorded):
    before = counted(recorded, "sqlite")
    with SqliteSaver.from_conn_string(":memory:") as saver:
        saver.setup()
        assert counted(recorded, "sqlite") == before + 1
    assert counted(recorded, "sqlite") == before


def test_a_connection_that_a_saver_and_a_store_share_counts_once(recorded):
    before = counted(recorded, "sqlite")
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    saver, store = SqliteSaver(connection), SqliteStore(connection)
    assert counted(recorded, "sqlite") == before + 1
    connection.close()
    assert counted(recorded, "sqlite") == before
    del saver, store


def test_a_connection_in_a_transaction_is_used(recorded):
    used = counted(recorded, "sqlite", "used")
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    saver = SqliteSaver(connection)
    connection.execute("BEGIN")
    assert counted(recorded, "sqlite", "used") == used + 1
    connection.execute("ROLLBACK")
    assert counted(recorded, "sqlite", "used") == used
    connection.close()
    del saver


def test_the_connections_of_a_pool_count_as_idle_and_used(recorded, uri):
    idle, used = (counted(recorded, "postgresql", state) for state in ("idle", "used"))
    with psycopg_pool.ConnectionPool(uri, min_size=2, max_size=3) as pool:
        pool.wait()
        saver = PostgresSaver(pool)
        assert counted(recorded, "postgresql") == idle + 2
        with pool.connection():
            assert counted(recorded, "postgresql") == idle + 1
            assert counted(recorded, "postgresql", "used") == used + 1
    assert counted(recorded, "postgresql") == idle
    del saver


def test_a_single_connection_to_a_server_counts(run, recorded, uri):
    idle = counted(recorded, "postgresql")
    with psycopg.connect(uri, autocommit=True) as connection:
        saver = PostgresSaver(connection)
        assert counted(recorded, "postgresql") == idle + 1
    assert counted(recorded, "postgresql") == idle
    del saver


def test_an_async_savers_own_connection_counts(recorded, uri):
    import asyncio

    idle = counted(recorded, "postgresql")

    async def main():
        async with AsyncPostgresSaver.from_conn_string(uri) as saver:
            await saver.setup()
            assert counted(recorded, "postgresql") == idle + 1

    asyncio.run(main())
    assert counted(recorded, "postgresql") == idle


def test_a_registry_forgets_what_has_gone():
    class Thing:
        pass

    registry, thing = WeakRegistry(), Thing()
    registry.add(thing)
    assert registry.alive() == [thing]
    del thing
    assert registry.alive() == []


def test_an_engine_is_not_kept_alive_by_the_registry():
    saver = SqliteSaver(sqlite3.connect(":memory:"))
    assert saver.engine in HOLDERS.alive()
    engines = len(HOLDERS.alive())
    saver.conn.close()
    del saver
    assert len(HOLDERS.alive()) < engines
