"""The Postgres savers: setting up, connections that die, pools, schemas, both colours."""

import asyncio
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from graphs import Log, elsewhere, line, thread, two_nodes, until
from milepost._db import calls
from milepost._db.postgres.engine import Retries
from milepost.checkpoint._contract.step_saver import Fence
from milepost.checkpoint._sql.write import store as storing
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
from milepost.checkpoint.postgres.shallow import AsyncShallowPostgresSaver, ShallowPostgresSaver
from milepost.errors import (
    ColourError,
    ConnectionUnusableError,
    ForeignDatabaseError,
    InvalidIdError,
    NotSetUpError,
    SaverError,
    ThreadConflict,
)
from milepost.graph import START, StateGraph
from savers import first_step

DONE = {"foo": "b", "bar": ["a", "b"]}
DOCUMENTED: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}


def runs(saver: Any, thread_id: str = "t") -> Any:
    graph = two_nodes().compile(checkpointer=saver)
    graph.invoke({"foo": ""}, thread(thread_id))
    return graph.get_state(thread(thread_id)).values


async def aruns(saver: Any, thread_id: str = "t") -> Any:
    graph = two_nodes().compile(checkpointer=saver)
    await graph.ainvoke({"foo": ""}, thread(thread_id))
    return (await graph.aget_state(thread(thread_id))).values


# -- setting up


def test_used_before_setup_the_error_says_so(uri):
    with PostgresSaver.from_conn_string(uri) as saver:
        with pytest.raises(NotSetUpError, match=r"saver\.setup\(\)"):
            saver.get_tuple(thread("t"))
        saver.setup()
        saver.setup()
        assert runs(saver) == DONE


@pytest.mark.parametrize("path", ["''", "missing"])
def test_a_setup_without_a_schema_names_the_search_path(uri, path):
    with psycopg.connect(uri, **DOCUMENTED) as connection:
        connection.execute(f"SET search_path TO {path}")
        with pytest.raises(NotSetUpError, match=r"^setup\(\) has no schema .*search_path"):
            PostgresSaver(connection).setup()


def test_tables_in_a_schema_that_is_not_searched_are_said_to_be_elsewhere(postgres, uri):
    runs(postgres)
    with psycopg.connect(uri, **DOCUMENTED) as connection:
        connection.execute("SET search_path TO pg_temp")
        with pytest.raises(NotSetUpError, match=r"of the search_path.*`schema=`"):
            PostgresSaver(connection).get_tuple(thread("t"))


def test_a_role_that_may_not_make_tables_is_told_and_uses_those_that_there_are(uri):
    with psycopg.connect(uri, **DOCUMENTED) as owner, psycopg.connect(uri, **DOCUMENTED) as own:
        owner.execute("CREATE ROLE worker")
        try:
            own.execute("SET ROLE worker")
            with pytest.raises(SaverError, match=r"^setup\(\) may not make .*as a role that may"):
                PostgresSaver(own).setup()
            PostgresSaver(owner).setup()
            rights = "SELECT, INSERT, UPDATE, DELETE"
            owner.execute(f"GRANT {rights} ON ALL TABLES IN SCHEMA public TO worker")
            saver = PostgresSaver(own)
            saver.setup()
            assert runs(saver) == DONE
        finally:
            own.execute("RESET ROLE")
            owner.execute("DROP OWNED BY worker")
            owner.execute("DROP ROLE worker")


def test_the_documented_tables_are_there_and_the_recipe_works(postgres, uri):
    for name in ("user:alice:1", "user:alice:2", "user:bob:1"):
        runs(postgres, name)
    with psycopg.connect(uri) as connection:
        rows = connection.execute(
            "SELECT DISTINCT thread_id FROM checkpoints WHERE thread_id LIKE 'user:alice:%' ORDER BY 1"
        ).fetchall()
        assert rows == [("user:alice:1",), ("user:alice:2",)]
        for table in ("checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations"):
            connection.execute(f"SELECT COUNT(*) FROM {table}")
    for (name,) in rows:
        postgres.delete_thread(name)
    assert {f.config["configurable"]["thread_id"] for f in postgres.list(None)} == {"user:bob:1"}


SET_UP = """
import os, sys
from milepost.checkpoint.postgres import PostgresSaver

waiting, beginning = os.pipe()
ready, opened = os.pipe()
children = []
for _ in range(8):
    if (child := os.fork()) == 0:
        os.close(beginning)
        with PostgresSaver.from_conn_string(sys.argv[1], schema=sys.argv[2] or None) as saver:
            os.write(opened, b".")
            os.read(waiting, 1)  # until the parent closes its end
            saver.setup()
        sys.exit()
    children.append(child)
for _ in children:
    os.read(ready, 1)
os.close(beginning)
print([os.waitpid(child, 0)[1] for child in children])
"""


@pytest.mark.parametrize("schema", ["", "fresh"])
def test_eight_processes_may_set_up_at_once(uri, schema):
    done = subprocess.run(
        [sys.executable, "-c", SET_UP, uri, schema],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"{[0] * 8}\n", "")
    with PostgresSaver.from_conn_string(uri, schema=schema or None) as saver:
        assert runs(saver) == DONE


def test_two_schemas_stay_apart(uri):
    with (
        PostgresSaver.from_conn_string(uri, schema="one") as one,
        PostgresSaver.from_conn_string(uri, schema="Two") as two,
    ):
        one.setup()
        two.setup()
        runs(one)
        assert two.get_tuple(thread("t")) is None
        assert one.get_tuple(thread("t")) is not None
    with pytest.raises(ValueError, match="plain identifier"):
        PostgresSaver.from_conn_string(uri, schema='x"; DROP SCHEMA public').__enter__()


def test_a_database_of_langgraph_is_recognised_and_not_touched(uri):
    from langgraph.checkpoint.postgres import PostgresSaver as Theirs

    with Theirs.from_conn_string(uri) as theirs:
        theirs.setup()
    with PostgresSaver.from_conn_string(uri) as saver:
        with pytest.raises(ForeignDatabaseError, match="milepost import --from-langgraph"):
            saver.setup()
        with pytest.raises(SaverError):
            saver.get_tuple(thread("t"))
    with Theirs.from_conn_string(uri) as theirs:
        assert list(theirs.list(None)) == []


# -- connections


def test_a_pool_with_the_documented_settings(uri):
    with ConnectionPool(uri, min_size=1, max_size=4, kwargs=DOCUMENTED, open=True) as pool:
        saver = PostgresSaver(pool)
        saver.setup()
        assert runs(saver) == DONE


def test_a_pool_that_was_closed_is_an_error_at_once(uri, monkeypatch):
    with ConnectionPool(uri, min_size=1, open=True) as pool:
        saver = PostgresSaver(pool)
        saver.setup()
    monkeypatch.setattr(calls, "time", None)  # nobody sleeps and tries again
    with pytest.raises(ConnectionUnusableError, match="closed"):
        saver.get_tuple(thread("t"))


def test_a_pool_that_was_not_opened_says_so(uri):
    pool = ConnectionPool(uri, min_size=1, open=False)
    with pytest.raises(ConnectionUnusableError, match=r"not open yet\. Open the pool before"):
        PostgresSaver(pool).get_tuple(thread("t"))


def test_a_pool_together_with_a_pipeline_is_refused(uri):
    with (
        ConnectionPool(uri, min_size=1, open=True) as pool,
        pytest.raises(ValueError, match="pipe"),
    ):
        PostgresSaver(pool, pipe=object())


@pytest.mark.parametrize(
    "settings",
    [{}, {"autocommit": True}, {"row_factory": dict_row}, {"prepare_threshold": None}],
    ids=["plain", "autocommit", "dict rows", "not prepared"],
)
def test_a_connection_without_the_documented_settings_works_too(uri, settings):
    with psycopg.connect(uri, **settings) as connection:
        saver = PostgresSaver(connection)
        saver.setup()
        assert runs(saver) == DONE
        assert connection.autocommit is settings.get("autocommit", False)


def test_a_connection_that_cannot_send_an_id_names_the_setting(postgres, uri):
    with psycopg.connect(uri, autocommit=True, client_encoding="LATIN1") as connection:
        saver = PostgresSaver(connection)
        assert runs(saver, "zoë") == DONE
        with pytest.raises(SaverError, match="client_encoding"):
            runs(saver, "日本")
    assert [info.thread_id for info in postgres.list_threads()] == ["zoë"]


def test_an_open_transaction_of_the_user_is_refused(postgres, uri):
    with psycopg.connect(uri) as connection:
        connection.execute("SELECT 1")
        with pytest.raises(ConnectionUnusableError, match="autocommit=True"):
            PostgresSaver(connection).get_tuple(thread("t"))


def test_a_string_or_an_async_pool_is_refused(uri):
    with pytest.raises(TypeError, match="from_conn_string"):
        PostgresSaver(uri)
    pool = AsyncConnectionPool(uri, open=False)
    with pytest.raises(TypeError, match="AsyncConnectionPool"):
        PostgresSaver(pool)


@pytest.mark.parametrize("options", [{}, {"pipeline": True}, {"pool_config": {"min_size": 1}}])
def test_after_the_with_block_the_error_says_so(uri, options):
    """The connection is not quietly replaced: nobody would close the new one."""
    with PostgresSaver.from_conn_string(uri, **options) as saver:
        saver.setup()
        assert runs(saver) == DONE
    for use in (
        lambda: saver.get_tuple(thread("t")),
        lambda: saver.delete_thread("t"),
        saver.setup,
        saver.vacuum,
        lambda: asyncio.run(saver.aget_tuple(thread("t"))),
    ):
        with pytest.raises(ConnectionUnusableError, match=r"`with` block .* has ended"):
            use()

    async def main() -> Any:
        async with AsyncPostgresSaver.from_conn_string(uri, **options) as saver:
            assert await aruns(saver, "a") == DONE
        for use in (saver.aget_tuple, saver.adelete_thread):
            with pytest.raises(ConnectionUnusableError, match=r"`with` block .* has ended"):
                await use(thread("a"))
        with pytest.raises(SaverError, match=r"`with` block .* has ended"):
            await aruns(saver, "a")

    asyncio.run(main())
    with PostgresSaver.from_conn_string(uri) as saver:
        assert saver.get_tuple(thread("t")) is not None


def test_ids_that_are_too_long_for_an_index_fail_alone(postgres):
    """Each is allowed by itself; what PostgreSQL cannot index is not taken for a full disk."""
    random = Random(7)

    def name() -> str:
        return "".join(chr(random.randrange(0x4E00, 0x9FFF)) for _ in range(1000))

    sound, bad = (postgres.prepare(first_step(postgres, id)) for id in ("sound", name()))
    ours, theirs = postgres._committer.add([bad]), postgres._committer.add([sound])
    postgres.engine.commit(postgres._committer, ours)
    assert theirs.outcome == [None]
    [error] = ours.outcome
    assert isinstance(error, InvalidIdError)
    assert "use shorter ones" in str(error)
    assert [info.thread_id for info in postgres.list_threads()] == ["sound"]


def test_a_saver_needs_none_of_the_threads_that_asyncio_has(uri):
    """They may all be waiting, in sync code, for a run on the loop that they were called from."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        with ConnectionPool(uri, min_size=1, open=True) as pool:
            saver = PostgresSaver(pool)
            saver.setup()

            def sync_code() -> Any:
                values = asyncio.run_coroutine_threadsafe(aruns(saver), loop).result(20)
                asyncio.run_coroutine_threadsafe(saver.avacuum(), loop).result(20)
                return values

            assert await asyncio.to_thread(sync_code) == DONE

    asyncio.run(main())


@pytest.mark.parametrize("pipeline", [False, True])
def test_from_conn_string_takes_pipeline(uri, pipeline):
    with PostgresSaver.from_conn_string(uri, pipeline=pipeline) as saver:
        saver.setup()
        assert runs(saver) == DONE


@pytest.mark.parametrize("kind", [PostgresSaver, ShallowPostgresSaver])
@pytest.mark.filterwarnings("ignore:ShallowPostgresSaver:DeprecationWarning")
def test_from_conn_string_makes_a_pool_on_request(uri, kind):
    config = {"min_size": 1, "max_size": 3, "kwargs": {"application_name": "ours"}}
    with kind.from_conn_string(uri, pool_config=config, schema="mine") as saver:
        saver.setup()
        assert runs(saver) == DONE
        assert (saver.conn.max_size, saver.engine.settings.schema) == (3, "mine")
        with saver.conn.connection() as connection:
            assert connection.autocommit
            assert connection.info.get_parameters()["application_name"] == "ours"
    assert saver.conn.closed


def test_an_async_saver_makes_a_pool_on_request(uri):
    async def main() -> None:
        config = {"min_size": 1, "max_size": 3}
        async with AsyncPostgresSaver.from_conn_string(uri, pool_config=config) as saver:
            await saver.setup()
            results = await asyncio.gather(*(aruns(saver, str(n)) for n in range(5)))
            assert results == [DONE] * 5
            assert saver.conn.max_size == 3
        assert saver.conn.closed

    asyncio.run(main())


def test_a_setting_that_a_pool_does_not_have_is_refused(uri):
    async def main() -> None:
        async with AsyncPostgresSaver.from_conn_string(uri, pool_config={"max": 3}):
            pass

    with pytest.raises(TypeError, match="'max'"):
        PostgresSaver.from_conn_string(uri, pool_config={"max": 3}).__enter__()
    with pytest.raises(TypeError, match="'max'"):
        asyncio.run(main())


def test_behind_a_pooler_nothing_is_prepared(uri):
    with PostgresSaver.from_conn_string(uri, pooler_safe=True, schema="mine") as saver:
        saver.setup()
        assert runs(saver) == DONE
        prepared = saver.conn.execute("SELECT COUNT(*) FROM pg_prepared_statements").fetchone()
        path = saver.conn.execute("SHOW search_path").fetchone()
    assert prepared == (0,)
    assert "mine" not in path[0]


# -- connections that die


def kill_all(uri: str) -> None:
    with psycopg.connect(uri, autocommit=True) as killer:
        killer.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )


def killing_graph(saver: Any, uri: str) -> Any:
    def slow(state: Log) -> Any:
        kill_all(uri)
        return {"log": ["slow"]}

    builder = StateGraph(Log).add_node("a", slow).add_node("b", slow)
    return builder.add_edge(START, "a").add_edge("a", "b").compile(checkpointer=saver)


def assert_no_duplicates(saver: Any, config: Any) -> None:
    steps = [found.metadata["step"] for found in saver.list(config)]
    assert steps == [2, 1, 0, -1]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_run_survives_the_death_of_its_connection(postgres, uri, config, durability):
    graph = killing_graph(postgres, uri)
    assert graph.invoke({}, config, durability=durability)["log"] == ["slow", "slow"]
    if durability != "exit":
        assert_no_duplicates(postgres, config)


def test_a_run_on_a_pool_survives_the_death_of_its_connection(uri, config):
    with ConnectionPool(uri, min_size=2, max_size=4, kwargs=DOCUMENTED, open=True) as pool:
        saver = PostgresSaver(pool)
        saver.setup()
        graph = killing_graph(saver, uri)
        assert graph.invoke({}, config, durability="sync")["log"] == ["slow", "slow"]
        assert_no_duplicates(saver, config)


def test_an_async_run_survives_the_death_of_its_connection(uri, config):
    async def main() -> None:
        async with AsyncPostgresSaver.from_conn_string(uri) as saver:
            await saver.setup()
            graph = killing_graph(saver, uri)
            result = await graph.ainvoke({}, config, durability="sync")
            assert result["log"] == ["slow", "slow"]

    asyncio.run(main())


def test_a_users_own_connection_that_died_says_what_to_use(uri):
    with psycopg.connect(uri, autocommit=True) as connection:
        saver = PostgresSaver(connection)
        saver.setup()
        kill_all(uri)
        with pytest.raises(ConnectionUnusableError, match="pool"):
            saver.get_tuple(thread("t"))


# -- both colours


def test_an_async_saver_can_be_made_where_no_loop_runs(uri):
    pool = AsyncConnectionPool(uri, min_size=1, max_size=4, kwargs=DOCUMENTED, open=False)
    saver = AsyncPostgresSaver(pool)

    async def main() -> None:
        await pool.open()
        try:
            await saver.setup()
            assert await aruns(saver) == DONE
            found = await saver.aget_tuple(thread("t"))
            assert await asyncio.to_thread(saver.get_tuple, thread("t")) == found
            with pytest.raises(ColourError, match="async method"):
                saver.get_tuple(thread("t"))
            results = await asyncio.gather(*(aruns(saver, str(n)) for n in range(20)))
            assert results == [DONE] * 20
        finally:
            await pool.close()

    asyncio.run(main())
    with pytest.raises(ColourError, match="PostgresSaver"):
        saver.get_tuple(thread("t"))


def test_a_sync_saver_works_on_a_loop(postgres):
    assert asyncio.run(aruns(postgres)) == DONE


# -- two processes' worth of writers


def test_two_savers_on_one_thread_do_not_both_succeed(postgres, uri, config):
    with PostgresSaver.from_conn_string(uri) as rival:

        def node(state: Log) -> Any:
            elsewhere(
                lambda: line("x").compile(checkpointer=rival).invoke({}, config, durability="sync")
            )
            return {"log": ["late"]}

        builder = StateGraph(Log).add_node("node", node).add_edge(START, "node")
        with pytest.raises(ThreadConflict):
            builder.compile(checkpointer=postgres).invoke({}, config, durability="sync")
    history = list(line("x").compile(checkpointer=postgres).get_state_history(config))
    assert [s.parent_config for s in history] == [*(s.config for s in history[1:]), None]
    assert history[0].values["log"] == ["x"]


# -- only the latest


def test_the_shallow_saver_warns_and_keeps_the_latest(uri, config):
    manager = ShallowPostgresSaver.from_conn_string(uri)
    with pytest.warns(DeprecationWarning, match="durability='exit'"):
        saver = manager.__enter__()
    try:
        saver.setup()
        graph = line("a", "b", "c").compile(checkpointer=saver, interrupt_before=["c"])
        graph.invoke({}, config)
        assert len(list(saver.list(config))) == 1
        assert graph.invoke(None, config)["log"] == ["a", "b", "c"]
        assert len(list(saver.list(config))) == 1
    finally:
        manager.__exit__(None, None, None)


def test_the_async_shallow_saver_warns_and_keeps_the_latest(uri, config):
    async def main() -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            manager = AsyncShallowPostgresSaver.from_conn_string(uri)
            saver = await manager.__aenter__()
        assert [w.category for w in caught] == [DeprecationWarning]
        await saver.setup()
        graph = line("a", "b").compile(checkpointer=saver)
        assert (await graph.ainvoke({}, config))["log"] == ["a", "b"]
        assert len([found async for found in saver.alist(config)]) == 1
        await manager.__aexit__(None, None, None)

    asyncio.run(main())


def test_a_commit_that_was_begun_has_ended_when_its_cancellation_is_felt(uri):
    async def main(other: Any) -> None:
        async with AsyncPostgresSaver.from_conn_string(uri) as saver:
            await saver.setup()
            step = saver.prepare(first_step(saver, "t"))
            other.execute("BEGIN")
            other.execute("LOCK TABLE checkpoints")
            committing = asyncio.create_task(saver.acommit([step]))
            for _ in range(3):
                await asyncio.sleep(0)
                committing.cancel()
            assert not committing.done()
            other.execute("COMMIT")
            with pytest.raises(asyncio.CancelledError):
                await committing
            assert await saver.aget_tuple(thread("t")) is not None
            assert await aruns(saver, "u") == DONE

    with psycopg.connect(uri, autocommit=True) as other:
        asyncio.run(main(other))


def test_two_that_lock_the_same_threads_in_another_order_both_come_to_an_end(uri, monkeypatch):
    """Guards are in order within a kind of them, but not across: the server breaks off one of the
    transactions, which is then repeated."""
    refused: list[Any] = []
    pause = Retries.pause

    def seen(self: Retries, error: Any, connection: Any) -> float:
        refused.append(type(error))
        return pause(self, error, connection)

    monkeypatch.setattr(Retries, "pause", seen)
    monkeypatch.setattr(storing, "_REGISTRY_INTERVAL", 3600.0)  # however slow this is
    url = f"{uri}&options=-c%20deadlock_timeout%3D100ms"
    with (
        PostgresSaver.from_conn_string(url) as one,
        PostgresSaver.from_conn_string(url) as other,
        psycopg.connect(uri) as gate,
    ):
        one.setup()
        fences = {name: Fence(None) for name in ("a", "ab", "z", "zz")}
        begun = [first_step(one, name, fence=fence) for name, fence in fences.items()]
        assert one.commit([one.prepare(step) for step in begun]) == [None] * 4
        gate.execute("SELECT 1 FROM threads WHERE thread_id IN ('ab', 'zz') FOR UPDATE")
        ours = [first_step(one, name, fence=fences[name]) for name in ("a", "z", "zz")]
        ours[0].status = "idle"  # so that it comes after the others, which go on
        theirs = [
            first_step(other, name, fence=Fence(None, forced=True)) for name in ("a", "ab", "z")
        ]
        with ThreadPoolExecutor(2) as threads:
            commits = [
                threads.submit(saver.commit, [saver.prepare(step) for step in steps])
                for saver, steps in ((one, ours), (other, theirs))
            ]
            with psycopg.connect(uri, autocommit=True) as looker:
                waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                until(
                    lambda: len(looker.execute(waiting).fetchall()) == 2, "both stand at the gate"
                )
            gate.rollback()
            first, second = (commit.result(60) for commit in commits)
        assert psycopg.errors.DeadlockDetected in refused
        assert second == [None] * 3
        assert all(error is None or isinstance(error, ThreadConflict) for error in first)
        assert one.verify() == []
