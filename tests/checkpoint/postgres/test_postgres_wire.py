"""How the Postgres savers speak to the server: round trips, pipelines, prepared statements."""

import asyncio
from typing import Any

import psycopg
import pytest
from psycopg.pq import PipelineStatus
from psycopg.rows import dict_row

from graphs import Log, line, thread
from milepost._db.operations import (
    Batch,
    ConditionalInsert,
    Execute,
    ExecuteMany,
    GuardedBatch,
    Queries,
    Query,
)
from milepost._db.postgres import transaction as pg_transaction
from milepost._db.postgres import wire
from milepost._db.postgres.transaction import insert_statements
from milepost.checkpoint._contract.step_saver import Fence
from milepost.checkpoint._sql.saver import queries_for
from milepost.checkpoint._sql.write import store
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
from milepost.errors import SaverError, ThreadConflict
from milepost.graph import START, StateGraph
from milepost.types import Send
from savers import first_step

INSERT = "INSERT INTO t (a, b) VALUES (%s, %s) ON CONFLICT DO NOTHING"
GUARD = "WITH held AS ({}) SELECT 1 / (count(*) = %s)::integer FROM held"
"""How the guards in `postgres_statements.py` are written."""
INSERT_NEW = GUARD.format(
    "INSERT INTO t (a, b) SELECT * FROM unnest(%s::text[], %s::bigint[])"
    " ON CONFLICT DO NOTHING RETURNING 1"
)
REPLACE = "INSERT INTO t (a, b) VALUES (%s, %s) ON CONFLICT (a) DO UPDATE SET b = excluded.b"


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The statements of each round trip, as they are made."""
    made: list[list[str]] = []
    exchange = pg_transaction.exchange

    def counted(connection: Any, statements: Any, **settings: Any) -> Any:
        made.append([" ".join(sql.split()) for sql, _ in statements])
        return (yield from exchange(connection, statements, **settings))

    monkeypatch.setattr(pg_transaction, "exchange", counted)
    return made


@pytest.fixture
def table(postgres: Any) -> Any:
    """Runs operations on a table with one row: ("x", 1)."""

    def run(*statements: Any, write: bool = True) -> list[Any]:
        def work() -> Any:
            answers = []
            for statement in statements:
                answers.append((yield statement))
            return answers

        return postgres.engine.run(work, write=write)

    run(
        Execute("CREATE TABLE t (a TEXT PRIMARY KEY, b BIGINT)"),
        Execute("INSERT INTO t VALUES ('x', 1)"),
    )
    return run


def kinds(trip: list[str]) -> list[str]:
    return [statement.split(" ")[0] for statement in trip]


# -- round trips


def test_a_step_is_one_round_trip_and_so_is_taking_the_thread(postgres, trips):
    graph = line("a", "b", "c", "d").compile(checkpointer=postgres)
    for guards in (1, 2):  # a new thread, then one that the saver knows
        trips.clear()
        graph.invoke({}, thread("t"), durability="sync")
        read, first, *steps, last = trips
        assert kinds(read) == ["WITH" if guards == 1 else "SELECT"]
        # The first takes the thread, sees that nobody has stored writes there since it was read,
        # and holds the input and the step that takes it over.
        assert kinds(first) == [*["WITH"] * guards, "INSERT", "INSERT"]
        assert [kinds(trip) for trip in steps] == [["INSERT"]] * 3
        # The last one also says in the registry that the run has ended.
        assert kinds(last) == ["WITH", "INSERT"]


def test_runs_that_begin_at_once_take_their_threads_together(postgres, trips):
    steps = [postgres.prepare(first_step(postgres, f"t{n}")) for n in range(23)]
    trips.clear()
    assert postgres.commit(steps) == [None] * 23
    assert len(trips) == 1
    assert [postgres.head(f"t{n}") is not None for n in range(23)] == [True] * 23


def test_a_commit_in_a_schema_is_one_round_trip_as_well(uri, trips):
    with PostgresSaver.from_conn_string(uri, schema="mine") as saver:
        saver.setup()
        line("a", "b").compile(checkpointer=saver).invoke({}, thread("t"), durability="sync")
    assert kinds(trips[-1])[:3] == ["BEGIN", "SET", "WITH"]
    assert kinds(trips[-1])[-1] == "COMMIT"


def chatted(saver: PostgresSaver, turns: int = 8) -> Any:
    """A graph with a log that has grown over several turns, in rows of its own."""
    builder = StateGraph(Log).add_node("say", lambda state: {"log": [f"{len(state['log'])} " * 90]})
    graph = builder.add_edge(START, "say").compile(checkpointer=saver)
    for _ in range(turns):
        graph.invoke({"log": ["asked " * 50]}, thread("t"), durability="sync")
    return graph


@pytest.mark.parametrize("schema", [None, "mine"])
def test_a_state_is_read_in_one_round_trip_by_a_saver_that_remembers_nothing(uri, trips, schema):
    with PostgresSaver.from_conn_string(uri, schema=schema) as saver:
        saver.setup()
        expected = chatted(saver).get_state(thread("t"))
        with PostgresSaver.from_conn_string(uri, schema=schema) as cold:
            graph = chatted(cold, turns=0)
            trips.clear()
            assert graph.get_state(thread("t")) == expected
    expected = ["WITH"] if schema is None else ["BEGIN", "SET", "WITH", "COMMIT"]
    assert [kinds(trip) for trip in trips] == [expected]


def test_if_another_saver_has_gone_on_with_the_thread_it_is_one_more(postgres, uri, trips):
    graph = chatted(postgres)
    with PostgresSaver.from_conn_string(uri) as other:
        expected = chatted(other).get_state(thread("t"))
    trips.clear()
    assert graph.get_state(thread("t")) == expected
    assert [kinds(trip) for trip in trips] == [["SELECT"], ["WITH"]]


def test_where_the_newest_values_are_not_those_of_the_latest_checkpoint_it_is_read_anew(
    postgres, uri, trips
):
    graph = chatted(postgres)
    early = [s for s in graph.get_state_history(thread("t")) if len(s.values["log"]) == 4][-1]
    graph.update_state(early.config, {"log": ["another way " * 60]}, "say")
    expected = [*early.values["log"], "another way " * 60]
    with PostgresSaver.from_conn_string(uri) as cold:
        trips.clear()
        assert chatted(cold, turns=0).get_state(thread("t")).values["log"] == expected
    assert [kinds(trip)[-1] for trip in trips] == ["WITH", "WITH", "COMMIT"]
    assert "REPEATABLE READ" in trips[1][0]


def test_what_takes_several_statements_is_planned_once_for_all_parameters(postgres):
    chatted(postgres)
    for _ in range(4):
        assert len(list(postgres.list(thread("t")))) == 24
    plans = postgres.conn.execute(
        "SELECT statement, custom_plans, generic_plans FROM pg_prepared_statements"
        " WHERE statement LIKE '%RECURSIVE%' AND statement NOT LIKE '%tip (channel,%'"
    ).fetchall()  # the latest state is a statement by itself, which the server plans five times
    assert plans
    assert [custom for _, custom, _ in plans] == [0] * len(plans)


@pytest.mark.parametrize("analyzed", [False, True])
def test_no_statement_seems_so_costly_that_the_server_compiles_it(postgres, uri, analyzed):
    """Compiling takes tens of milliseconds, at each run: a read takes less than one."""
    chatted(postgres)
    if analyzed:
        postgres.conn.execute("ANALYZE")
    with PostgresSaver.from_conn_string(uri) as cold:
        graph = chatted(cold, turns=1)
        [*_, old] = graph.get_state_history(thread("t"), limit=9)
        graph.get_state(old.config)
        prepared = cold.conn.execute(
            "SELECT name, statement, cardinality(parameter_types) FROM pg_prepared_statements"
            " WHERE name LIKE 'milepost%' AND statement !~ '^(SET|BEGIN|COMMIT)'"
        ).fetchall()
        assert sum("RECURSIVE" in statement for _, statement, _ in prepared) > 2
        [(most,)] = cold.conn.execute("SHOW jit_above_cost").fetchall()
        cold.conn.execute("SET plan_cache_mode TO force_generic_plan")
        for name, statement, count in prepared:
            given = f" ({', '.join(['NULL'] * count)})" if count else ""
            [(plan,), *_] = cold.conn.execute(f"EXPLAIN EXECUTE {name}{given}").fetchall()
            assert float(plan.partition("..")[2].partition(" ")[0]) < float(most), statement


def test_guards_look_their_rows_up_whatever_the_parameters_are(postgres):
    connection = postgres.conn
    connection.execute(
        "INSERT INTO threads (thread_id, created_at, updated_at)"
        " SELECT 'x' || n, 1, 1 FROM generate_series(1, 3000) n"
    )
    connection.execute("ANALYZE threads")
    connection.execute("SET plan_cache_mode TO force_generic_plan")
    texts = queries_for(postgres.statements, postgres.dialect)
    for name in ("holds_thread", "hold_thread", "take_thread", "has_writes"):
        sql = wire._numbered(getattr(texts, name)).decode()
        connection.execute(f"PREPARE {name} AS {sql}")
        nothing = ", ".join(["NULL"] * getattr(texts, name).count("%s"))
        plan = str(connection.execute(f"EXPLAIN EXECUTE {name} ({nothing})").fetchall())
        assert "Index" in plan
        assert "Seq Scan" not in plan


def test_what_is_first_and_last_is_one_round_trip_without_a_transaction_around_it(table, trips):
    trips.clear()
    assert table(Query("SELECT a, b FROM t", (), True), write=False) == [[("x", 1)]]
    assert trips == [["SELECT a, b FROM t"]]


def test_queries_that_do_not_depend_on_each_other_share_one_and_a_snapshot(table, trips):
    trips.clear()
    two = Queries([Query("SELECT a FROM t"), Query("SELECT b FROM t WHERE b = %s", (1,))], True)
    assert table(two, write=False) == [[[("x",)], [(1,)]]]
    assert [kinds(trip) for trip in trips] == [["BEGIN", "SELECT", "SELECT", "COMMIT"]]
    assert "REPEATABLE READ" in trips[0][0]


def test_begin_travels_with_the_first_and_commit_with_the_last(table, trips):
    trips.clear()
    table(Query("SELECT a FROM t FOR UPDATE"), Batch([Execute("UPDATE t SET b = 2")], True))
    assert [kinds(trip) for trip in trips] == [["BEGIN", "SELECT"], ["UPDATE", "COMMIT"]]
    trips.clear()
    table(Query("SELECT a FROM t FOR UPDATE"), Batch([Execute("UPDATE t SET b = 3")]))
    assert [kinds(trip) for trip in trips] == [["BEGIN", "SELECT"], ["UPDATE"], ["COMMIT"]]


def test_a_statement_with_a_guard_in_it_is_a_transaction_by_itself(table, trips):
    insert = "INSERT INTO t (a, b) SELECT %s, b FROM t WHERE a = %s"
    trips.clear()
    assert table(ConditionalInsert(insert, ("y", "x"))) == [True]
    assert [kinds(trip) for trip in trips] == [["INSERT"]]
    assert table(
        ConditionalInsert(insert, ("z", "nobody")), Query("SELECT a FROM t ORDER BY a")
    ) == [
        False,
        [("x",), ("y",)],
    ]


def test_if_its_row_is_there_already_nothing_is_changed(table):
    insert = "INSERT INTO t (a, b) SELECT %s, 2 FROM t WHERE a = %s"
    found = table(ConditionalInsert(insert, ("x", "x")), Query("SELECT a, b FROM t"))
    assert found == [False, [("x", 1)]]


@pytest.mark.parametrize("schema", [None, "agents"])
def test_a_step_whose_acknowledgement_was_lost_is_stored_once(uri, monkeypatch, schema):
    exchange = pg_transaction.exchange
    lost: list[str] = []

    def losing(connection: Any, statements: Any, **settings: Any) -> Any:
        answers = yield from exchange(connection, statements, **settings)
        told = [sql for sql, _ in statements if "FROM threads" in sql and "INSERT" in sql]
        if told and not lost:
            lost.extend(told)
            connection.close()
            raise psycopg.OperationalError("the server closed the connection")
        return answers

    with PostgresSaver.from_conn_string(uri, schema=schema) as saver:
        saver.setup()
        monkeypatch.setattr(pg_transaction, "exchange", losing)
        graph = line("a", "b", "c").compile(checkpointer=saver)
        done = graph.invoke({}, thread("t"), durability="sync")
        assert len(lost) == 1
        assert done["log"] == ["a", "b", "c"]
        history = list(graph.get_state_history(thread("t")))
        assert [state.next for state in history] == [(), ("c",), ("b",), ("a",), ("__start__",)]


def test_a_guard_that_does_not_hold_undoes_all_of_it(table):
    guard = GUARD.format(
        "UPDATE t SET b = b + 1 FROM unnest(%s::text[]) AS claim (a) WHERE t.a = claim.a"
        " RETURNING 1"
    )
    held = table(GuardedBatch([ExecuteMany(guard, [("x",)])], [ExecuteMany(INSERT, [("y", 5)])]))
    assert held == [True]
    both = GuardedBatch(
        [ExecuteMany(guard, [("x",), ("nobody",)])], [ExecuteMany(INSERT, [("z", 6)])]
    )
    assert table(both, Query("SELECT a, b FROM t ORDER BY a")) == [False, [("x", 2), ("y", 5)]]


def test_a_guard_of_many_rows_holds_only_if_each_of_them_does(table, trips):
    table(ExecuteMany(INSERT, [(f"g{n}", n) for n in range(23)]))
    guard = GUARD.format(
        "UPDATE t SET b = COALESCE(claim.b, t.b) FROM unnest(%s::bigint[], %s::text[])"
        " AS claim (b, a) WHERE t.a = claim.a RETURNING 1"
    )
    rows = [(None if n % 3 else -1, f"g{n}") for n in range(23)]
    trips.clear()
    assert table(GuardedBatch([ExecuteMany(guard, rows)], [])) == [True]
    assert [len(trip) for trip in trips] == [1]
    total = Query("SELECT sum(b)::bigint FROM t WHERE a LIKE 'g%%'")
    expected = sum(-1 if n % 3 == 0 else n for n in range(23))
    assert table(total) == [[(expected,)]]
    for missing in (0, 20, 22):
        broken = [(7, f"g{n}" if n != missing else "nobody") for n in range(23)]
        assert table(GuardedBatch([ExecuteMany(guard, broken)], []), total) == [
            False,
            [(expected,)],
        ]


def test_a_guard_may_add_rows_that_must_be_new(table, trips):
    rows = [(f"g{n}", n) for n in range(23)]
    trips.clear()
    new = GuardedBatch([ExecuteMany(INSERT_NEW, rows)], [ExecuteMany(INSERT, [("y", 5)])])
    assert table(new) == [True]
    assert [len(trip) for trip in trips] == [2]
    for there in (0, 20, 22):
        again = [(f"h{n}" if n != there else f"g{n}", n) for n in range(23)]
        guarded = GuardedBatch([ExecuteMany(INSERT_NEW, again)], [ExecuteMany(INSERT, [("z", 6)])])
        assert table(guarded, Query("SELECT a FROM t WHERE a = 'z' OR a LIKE 'h%%'")) == [False, []]


def test_a_guard_may_be_a_query_that_finds_one_row_each(table, trips):
    table(ExecuteMany(INSERT, [(f"g{n}", n) for n in range(23)]))
    guard = GUARD.format(
        "SELECT 1 FROM t JOIN unnest(%s::text[], %s::bigint[]) AS claim (a, b) USING (a, b)"
        " FOR UPDATE OF t"
    )
    rows = [(f"g{n}", n) for n in range(23)]
    trips.clear()
    assert table(GuardedBatch([ExecuteMany(guard, rows)], [ExecuteMany(INSERT, [("y", 5)])])) == [
        True
    ]
    assert [len(trip) for trip in trips] == [2]
    for missing in (0, 20, 22):
        broken = [(a, b if b != missing else 99) for a, b in rows]
        guarded = GuardedBatch([ExecuteMany(guard, broken)], [ExecuteMany(INSERT, [("z", 6)])])
        assert table(guarded, Query("SELECT b FROM t WHERE a = 'z'")) == [False, []]


def test_a_guard_takes_any_text_and_any_number_as_it_is(table):
    texts = [
        "",
        " ",
        "NULL",
        "null",
        "{",
        "}",
        '{"a"}',
        ",",
        '"',
        "\\",
        '\\"',
        "\n\t",
        "ü \U0001f40d",
        "x y",
    ]
    numbers = [0, -1, 2**63 - 1, -(2**63), *range(len(texts) - 5), None]
    rows = [*zip(texts, numbers, strict=True)]
    assert table(GuardedBatch([ExecuteMany(INSERT_NEW, rows)], [])) == [True]
    [found] = table(Query("SELECT a, b FROM t WHERE a <> 'x'"))
    assert sorted(found, key=str) == sorted(rows, key=str)


def test_a_guard_with_a_text_that_cannot_be_stored_sends_nothing(table, trips):
    trips.clear()
    with pytest.raises(SaverError, match="NUL"):
        table(GuardedBatch([ExecuteMany(INSERT_NEW, [("a\0b", 1)])], []))
    assert table(Query("SELECT a FROM t")) == [[("x",)]]


def test_steps_of_many_threads_are_guarded_together(postgres, trips, monkeypatch):
    """One thread among them that was taken by another run refuses only its own step."""
    monkeypatch.setattr(store, "_REGISTRY_INTERVAL", 3600.0)  # however slow this is
    names = ["plain", "it's", 'a "quoted" one', "back\\slash", "{braces, and a comma}", "NULL"]
    fences = {name: Fence(None) for name in names}

    def commit() -> Any:
        steps = [postgres.prepare(first_step(postgres, at, fence=fences[at])) for at in names]
        trips.clear()
        return postgres.commit(steps)

    assert commit() == [None] * 6
    assert [kinds(trip)[:2] for trip in trips] == [["WITH", "INSERT"]]
    assert commit() == [None] * 6
    assert [kinds(trip)[:2] for trip in trips] == [["WITH", "INSERT"]]
    postgres.conn.execute("UPDATE threads SET token = 'other' WHERE thread_id = 'NULL'")
    *stored, refused = commit()
    assert stored == [None] * 5
    assert isinstance(refused, ThreadConflict)
    assert [postgres.get_thread(name).checkpoints for name in names] == [3] * 5 + [2]


@pytest.mark.parametrize("schema", [None, "mine"])
def test_a_run_that_lost_its_thread_gets_a_conflict_and_changes_nothing(uri, schema):
    with (
        PostgresSaver.from_conn_string(uri, schema=schema) as saver,
        PostgresSaver.from_conn_string(uri, schema=schema) as rival,
    ):
        saver.setup()

        def late(state: Log) -> Any:
            editor = line("x", "a", "b").compile(checkpointer=rival)
            editor.update_state(thread("t"), {"log": ["taken"]}, "x")
            return {"log": ["late"]}

        builder = StateGraph(Log).add_node("a", lambda state: {"log": ["a"]}).add_node("b", late)
        graph = builder.add_edge(START, "a").add_edge("a", "b").compile(checkpointer=saver)
        with pytest.raises(ThreadConflict):
            graph.invoke({}, thread("t"), durability="sync")
        assert graph.get_state(thread("t")).values["log"] == ["a", "taken"]


# -- failures among others


@pytest.mark.parametrize("first", [True, False])
def test_a_query_that_fails_among_its_rows_raises_and_leaves_the_connection_usable(table, first):
    fails = Query("SELECT 1 / (9 - n) FROM generate_series(1, 11) n")
    more = Query("SELECT a FROM t")
    with pytest.raises(SaverError, match="division by zero"):
        table(Queries([fails, more] if first else [more, fails]), write=False)
    assert table(more, write=False) == [[("x",)]]


# -- many rows


def test_many_rows_are_few_statements():
    rows = [(str(n), None if n % 2 else n) for n in range(87)]
    statements = list(insert_statements(INSERT, rows))
    assert [sql.count("(%s, %s)") for sql, _ in statements] == [64, 16, 4, 1, 1, 1]
    assert [value for _, values in statements for value in values] == [
        v for row in rows for v in row
    ]


def test_rows_that_replace_one_another_stay_apart(table):
    rows = [("x", 1), ("y", 2), ("x", 3), ("z", 4)]
    assert len(list(insert_statements(REPLACE, rows))) == 4
    assert len(list(insert_statements(REPLACE, [*rows[1:], ("w", 5)]))) == 1
    found = table(ExecuteMany(REPLACE, rows), Query("SELECT a, b FROM t ORDER BY a"))
    assert found[1] == [("x", 3), ("y", 2), ("z", 4)]


def test_what_is_no_plain_insert_runs_row_by_row(table):
    table(ExecuteMany(INSERT, [(str(n), n) for n in range(10)]))
    table(ExecuteMany("UPDATE t SET b = %s WHERE a = %s", [(n * 2, str(n)) for n in range(10)]))
    assert table(Query("SELECT sum(b)::bigint FROM t WHERE a <> 'x'")) == [[(90,)]]


def test_a_wide_step_comes_back_whole(postgres):
    def spread(state: Log) -> Any:
        return [Send("work", {"log": [str(n)]}) for n in range(150)]

    builder = StateGraph(Log).add_node("work", lambda state: {"log": state["log"]})
    graph = builder.add_conditional_edges(START, spread, ["work"]).compile(checkpointer=postgres)
    graph.invoke({}, thread("t"), durability="sync")
    with_writes = next(f for f in postgres.list(thread("t")) if f.metadata["step"] == 0)
    assert len({task for task, _, _ in with_writes.pending_writes}) == 150
    assert sorted(map(int, graph.get_state(thread("t")).values["log"])) == list(range(150))


# -- pipelines


def stored(uri: str) -> int:
    with psycopg.connect(uri) as other:
        return int(other.execute("SELECT COUNT(*) FROM checkpoints").fetchone()[0])  # type: ignore[index]


@pytest.mark.parametrize("named", [True, False])
def test_an_open_pipeline_of_the_user_is_used(postgres, uri, named):
    with psycopg.connect(uri, autocommit=True, row_factory=dict_row) as connection:
        connection.execute("CREATE TABLE mine (n INT)")
        with connection.pipeline() as pipe:
            saver = PostgresSaver(connection, pipe if named else None)
            cursor = connection.execute("INSERT INTO mine VALUES (1) RETURNING n")
            graph = line("a", "b").compile(checkpointer=saver)
            seen: list[int] = []
            for _ in graph.stream({}, thread("t"), durability="sync", stream_mode="updates"):
                seen.append(stored(uri))
            # What is acknowledged is there for others, though the pipeline is still open.
            assert seen[-1] == 4
            assert cursor.fetchone() == {"n": 1}
            assert connection.pgconn.pipeline_status == PipelineStatus.ON
            assert graph.get_state(thread("t")).values["log"] == ["a", "b"]
        assert connection.execute("SELECT COUNT(*) AS n FROM mine").fetchone() == {"n": 1}


def test_an_open_async_pipeline_of_the_user_is_used(postgres, uri):
    async def main() -> None:
        async with (
            await psycopg.AsyncConnection.connect(uri, autocommit=True) as connection,
            connection.pipeline() as pipe,
        ):
            saver = AsyncPostgresSaver(connection, pipe)
            cursor = await connection.execute("SELECT 7")
            graph = line("a", "b").compile(checkpointer=saver)
            await graph.ainvoke({}, thread("t"), durability="sync")
            assert await asyncio.to_thread(stored, uri) == 4
            assert await cursor.fetchone() == (7,)

    asyncio.run(main())


# -- prepared statements


def test_prepared_statements_that_were_removed_are_prepared_again(postgres):
    graph = line("a", "b").compile(checkpointer=postgres)
    graph.invoke({}, thread("t"), durability="sync")
    assert postgres.conn.execute("SELECT COUNT(*) FROM pg_prepared_statements").fetchone()[0] > 3
    postgres.conn.execute("DEALLOCATE ALL")
    graph.invoke({"log": []}, thread("t"), durability="sync")
    assert graph.get_state(thread("t")).values["log"] == ["a", "b", "a", "b"]


def test_a_connection_that_forbids_it_has_none(postgres, uri):
    with psycopg.connect(uri, autocommit=True, prepare_threshold=None) as connection:
        line("a").compile(checkpointer=PostgresSaver(connection)).invoke({}, thread("t"))
        found = connection.execute("SELECT COUNT(*) FROM pg_prepared_statements").fetchone()
    assert found == (0,)


def test_what_cannot_be_encoded_leaves_the_connection_usable(table):
    for text in ("\ud800", "cut\0short"):
        with pytest.raises(SaverError, match=r"surrogates|NUL"):
            table(Batch([Execute("DELETE FROM t"), ExecuteMany(INSERT, [(text, 1)])]))
    assert table(Query("SELECT a FROM t")) == [[("x",)]]


def test_an_error_in_a_batch_undoes_the_batch_and_leaves_the_connection_usable(table):
    with pytest.raises(Exception, match="nowhere"):
        table(Batch([Execute("DELETE FROM t"), Execute("DELETE FROM nowhere")], True))
    assert table(Query("SELECT a FROM t")) == [[("x",)]]
