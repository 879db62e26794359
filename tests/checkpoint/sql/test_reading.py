"""Reading back: how many statements it takes, what is decoded, and what damage does."""

from __future__ import annotations

import asyncio
import operator
import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest

from milepost import START, StateGraph
from milepost.channels import DeltaChannel
from milepost.checkpoint._sql.read.reader import CheckpointReader
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import BrokenChainError, DamagedRowError, MilepostError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Log(TypedDict):
    lines: Annotated[list[str], operator.add]


def graph(saver: Any) -> Any:
    builder = StateGraph(Log).add_node("node", lambda s: {"lines": [f"{len(s['lines'])} " * 60]})
    return builder.add_edge(START, "node").compile(checkpointer=saver)


def fill(saver: Any, thread_id: str = "t", turns: int = 12, **metadata: Any) -> Any:
    config = {"configurable": {"thread_id": thread_id}, "metadata": metadata}
    for turn in range(turns):
        graph(saver).invoke({"lines": [f"turn {turn} " * 100]}, config, durability="sync")
    return {"configurable": {"thread_id": thread_id}}


@contextmanager
def statements(saver: Any) -> Iterator[list[str]]:
    """What a saver asks its database from here on."""
    asked: list[str] = []
    run = saver.engine.run

    def watched(work: Any, *, write: bool) -> Any:
        def operation() -> Any:
            inner, answer = work(), None
            while True:
                try:
                    statement = inner.send(answer)
                except StopIteration as done:
                    return done.value
                queries = getattr(statement, "queries", [statement])
                sqls = [getattr(query, "sql", "a large cell") for query in queries]
                asked.extend(sql for sql in sqls if "plan_cache_mode" not in sql)
                answer = yield statement

        return run(operation, write=write)

    saver.engine.run = watched
    yield asked
    saver.engine.run = run


def count(saver: Any, asked: list[str]) -> int:
    """How many queries that is; SQLite's look up the rows of a chain one by one."""
    return len(asked if saver.dialect.remote else set(asked))


# -- statements


def test_a_checkpoint_is_read_with_two_queries_at_most(saver, reopen):
    config = fill(saver)
    with reopen() as cold, statements(cold) as asked:
        found = cold.get_tuple(config)
        assert count(cold, asked) == (1 if cold.dialect.remote else 2)
        assert len(found.checkpoint["channel_values"]["lines"]) == 24
        asked.clear()
        cold.get_tuple(found.parent_config)
        assert count(cold, asked) == 2


def test_no_row_of_a_chain_is_looked_up_twice(path):
    with SqliteSaver.from_conn_string(path) as saver:
        config = fill(saver)
    with SqliteSaver.from_conn_string(path) as cold:
        seen: list[str] = []
        cold.conn.set_trace_callback(seen.append)  # with the parameters in their places
        cold.get_tuple(config)
        looked = [sql for sql in seen if "checkpoint_held" in sql]
        assert len(looked) == len(set(looked)) > 4


@contextmanager
def between_statements(saver: Any, act: Any) -> Iterator[None]:
    """Calls `act` after the first statement of a saver's next operation; each is a transaction."""
    run, left = saver.engine.run, [act]

    def alone(statement: Any) -> Any:
        return (yield statement)

    def stepped(work: Any, *, write: bool) -> Any:
        operation, answer = work(), None
        while True:
            try:
                statement = operation.send(answer)
            except StopIteration as done:
                return done.value
            answer = run(partial(alone, statement), write=write)
            if left:
                left.pop()()

    saver.engine.run = stepped
    yield
    saver.engine.run = run


@pytest.mark.parametrize("is_known", [True, False])
def test_a_thread_whose_latest_checkpoint_is_removed_while_it_is_read_is_found(
    saver, reopen, is_known
):
    config = fill(saver, turns=2)
    past = list(saver.list(config))[3].config
    graph(saver).update_state(past, {"lines": ["a fork"]}, as_node="node")
    with reopen() as reader:
        if is_known or not reader.dialect.remote:  # in one transaction otherwise
            reader.get_tuple(config)

        def go_on() -> None:
            graph(saver).invoke({"lines": ["more"]}, config, durability="sync")
            saver.prune(["t"], keep=1)

        with between_statements(reader, go_on):
            found = reader.get_tuple(config)
    assert found is not None
    assert found.checkpoint["id"] == saver.get_tuple(config).checkpoint["id"]
    assert "more" in found.checkpoint["channel_values"]["lines"]


def test_what_a_saver_remembers_is_not_fetched_again(saver, reopen):
    config = fill(saver)
    with reopen() as cold, statements(cold) as asked:
        first = cold.get_tuple(config)
        asked.clear()
        assert cold.get_tuple(config) == first
        assert len(asked) == 1


def test_sqlite_reads_the_largest_cells_without_a_query_and_leaves_its_cache_as_it_was(path):
    builder = StateGraph(Log).add_node("node", lambda s: {"lines": ["x" * 200_000]})
    builder.add_edge(START, "node")
    config = {"configurable": {"thread_id": "t"}}
    with SqliteSaver.from_conn_string(path) as saver:
        expected = builder.compile(checkpointer=saver).invoke({"lines": ["y" * 90_000]}, config)
    with SqliteSaver.from_conn_string(path) as cold, statements(cold) as asked:
        cold.conn.execute("PRAGMA cache_size=-1234")
        assert builder.compile(checkpointer=cold).get_state(config).values == expected
        assert asked.count("a large cell") == 1
        assert cold.conn.execute("PRAGMA cache_size").fetchone() == (-1234,)
        asked.clear()
        newest, *_ = cold.list(config)
        assert newest.checkpoint["channel_values"] == expected
        assert asked.count("a large cell") == 1


@pytest.mark.parametrize("knows", ["nothing", "an older state", "a state before the fork"])
@pytest.mark.parametrize("steps_back", [3, 9, 18, 30])
def test_a_fork_of_an_old_checkpoint_is_read_by_a_saver_that_knows(
    saver, reopen, knows, steps_back
):
    """The manifests of a long thread are differences, and a fork's begins far behind the newest."""
    config = fill(saver, turns=18)
    with reopen() as other:
        if knows == "an older state":
            graph(other).get_state(config)
        fill(saver, turns=2)
        at = [state.config for state in graph(saver).get_state_history(config)][steps_back]
        if knows == "a state before the fork":
            graph(other).get_state(config)
        before = graph(saver).get_state(at).values["lines"]
        fork = graph(saver).update_state(at, {"lines": ["fork"]})
        state = graph(other).get_state(config)
        assert state.config == fork
        assert state.values["lines"] == [*before, "fork"]
        after = graph(other).invoke({"lines": ["on"]}, config)["lines"]
        assert after[:-1] == [*before, "fork", "on"]
        assert list(other.verify()) == []
    with reopen() as cold:
        assert graph(cold).get_state(config).values["lines"] == after


def test_a_state_with_its_metadata_takes_no_more(saver, reopen):
    config = fill(saver)
    with reopen() as cold, statements(cold) as asked:
        state = graph(cold).get_state(config)
        assert state.metadata["writes"] == {"node": {"lines": state.values["lines"][-1:]}}
        assert state.next == ()
        assert count(cold, asked) == (1 if cold.dialect.remote else 2)


def test_the_newest_states_take_one_page(saver, reopen):
    config = fill(saver)
    with reopen() as cold:
        whole = [tuple(s) for s in graph(cold).get_state_history(config)]
    with reopen() as cold, statements(cold) as asked:
        newest = list(graph(cold).get_state_history(config, limit=10))
        assert len(asked) <= 3
        assert [tuple(s) for s in newest] == whole[:10]
        assert len(asked) <= 3


@pytest.mark.parametrize("inner", [False, True])
def test_a_thread_is_sorted_for_each_page_only_if_it_has_inner_graphs(saver, config, inner):
    class Count(TypedDict):
        n: int

    step = StateGraph(Count).add_node("step", lambda s: {"n": s["n"] + 1})
    child = step.add_edge(START, "step").compile(checkpointer=inner)
    builder = StateGraph(Count).add_node("child", child).add_edge(START, "child")
    outer = builder.compile(checkpointer=saver)
    for turn in range(30):
        outer.invoke({"n": turn}, config, durability="sync")
    with statements(saver) as asked:
        ids = [found.config["configurable"]["checkpoint_id"] for found in saver.list(config)]
    pages = [sql for sql in asked if "DESC" in sql]
    assert len(pages) > 2
    assert [("checkpoint_ns DESC" in sql) for sql in pages] == [True, *[inner] * (len(pages) - 1)]
    assert ids == sorted(set(ids), reverse=True)
    assert len(ids) >= 60


def test_a_listing_knows_which_checkpoint_comes_after_another_unless_it_leaves_some_out(
    saver, monkeypatch
):
    config = fill(saver)
    told: list[tuple[list[str], dict[str, str]]] = []
    rows_of = CheckpointReader.rows_of

    def watched(self: Any, *arguments: Any, after: Any, **settings: Any) -> Any:
        told.append((arguments[2], after))
        return rows_of(self, *arguments, after=after, **settings)

    monkeypatch.setattr(CheckpointReader, "rows_of", watched)
    found = list(saver.list(config))
    assert len(told) == 2
    for ids, after in told:
        assert after == {ids[n + 1]: ids[n] for n in range(len(ids) - 1)}
    told.clear()
    loops = list(saver.list(config, filter={"source": "loop"}))
    assert 0 < len(loops) < len(found)
    assert [after for _, after in told] == [{}] * len(told)
    same = {f.config["configurable"]["checkpoint_id"]: f.pending_writes for f in found}
    for one in loops:
        assert one.pending_writes == same[one.config["configurable"]["checkpoint_id"]]


def test_delta_channels_are_rebuilt_with_three_queries(saver, config, reopen):
    class Delta(TypedDict):
        log: Annotated[list[str], DeltaChannel(lambda a, b: [*a, *b], snapshot_frequency=5)]

    def build(saver: Any) -> Any:
        builder = StateGraph(Delta).add_node("node", lambda s: {"log": [str(len(s["log"])) * 200]})
        return builder.add_edge(START, "node").compile(checkpointer=saver)

    for turn in range(7):
        build(saver).invoke({"log": [str(turn) * 200]}, config, durability="sync")
    expected = build(saver).get_state(config).values["log"]
    ids = [found.config["configurable"]["checkpoint_id"] for found in saver.list(config)]
    for id in [None, *ids]:
        place = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        if id is not None:
            place["configurable"]["checkpoint_id"] = id
        with reopen() as cold, statements(cold) as asked:
            found = cold.get_delta_channel_history(config=place, channels=["log"])
            assert len(asked) == 3, "two are sent together"
        if id in (None, ids[0]):
            seed = found["log"].get("seed", [])
            seed = getattr(seed, "value", seed)
            assert [*seed, *(write[2] for write in found["log"]["writes"])] == expected


# -- listings


def watched(call: Any, results: list[Any]) -> Any:
    """The same function, which also keeps what it returns."""

    def wrapper(*args: Any) -> Any:
        results.append(call(*args))
        return results[-1]

    return wrapper


def test_a_listing_decodes_nothing_until_it_is_looked_at(saver, monkeypatch):
    config = fill(saver)
    opened: list[str] = []
    decoded: list[str] = []
    unseal, decode = saver._codec.unseal, saver._codec.decode
    monkeypatch.setattr(
        saver._codec,
        "unseal",
        lambda data, place, beside: opened.append(place[0]) or unseal(data, place, beside),
    )
    monkeypatch.setattr(
        saver._codec,
        "decode",
        lambda kind, pieces, *at: decoded.append(at[0]) or decode(kind, pieces, *at),
    )
    monkeypatch.setattr(
        saver._codec, "decode_elements", watched(saver._codec.decode_elements, decoded)
    )
    found = list(saver.list(config))
    assert len(found) == 36
    assert [f.config["configurable"]["checkpoint_id"] for f in found] == sorted(
        (f.config["configurable"]["checkpoint_id"] for f in found), reverse=True
    )
    assert decoded == []
    assert "metadata" not in opened
    assert found[0].metadata["step"] == 34
    assert "metadata" in opened
    assert decoded == []
    assert len(found[0].checkpoint["channel_values"]["lines"]) == 24
    assert len(decoded) > 0


def test_what_versions_have_in_common_is_decoded_once(saver, reopen, monkeypatch):
    config = fill(saver)
    with reopen() as other:
        made: list[list[str]] = []
        decode = watched(other._codec.decode_elements, made)
        monkeypatch.setattr(other._codec, "decode_elements", decode)
        read = [found.checkpoint["channel_values"].get("lines", []) for found in other.list(config)]
    longest = read[0]
    assert len(longest) == 24
    assert all(lines == longest[: len(lines)] for lines in read)
    # Once for each of two pages, and an element for each version, to check that it ends there.
    assert sum(map(len, made)) <= 2 * 24 + len(set(map(len, read)))
    assert sum(map(len, read)) > 12 * 24


def test_a_record_that_was_given_away_is_held_by_nobody(saver):
    listing = saver.list(fill(saver))
    assert sys.getrefcount(next(listing)) == sys.getrefcount(object())


def test_what_was_listed_stays_readable_whatever_becomes_of_the_rows(saver, reopen):
    config = fill(saver)
    with reopen() as other:
        expected = [other.get_tuple(found.config) for found in other.list(config)]
        found = list(other.list(config))
        other.delete_thread("t")
    # The rows are gone, and so is the connection.
    assert found == expected


def test_listed_values_belong_to_one_record_each(saver):
    config = fill(saver, turns=2)
    first, second = list(saver.list(config))[:2], list(saver.list(config))[:2]
    first[0].checkpoint["channel_values"]["lines"].append("mine")
    assert first[1].checkpoint == second[1].checkpoint
    assert second[0] == next(iter(saver.list(config)))


def test_both_colours_list_the_same(path):
    with SqliteSaver.from_conn_string(path) as saver:
        config = fill(saver)

        async def listed() -> list[Any]:
            return [found async for found in saver.alist(config)]

        assert asyncio.run(listed()) == list(saver.list(config))


def test_a_run_id_is_looked_up_in_an_index(saver, reopen):
    for thread in range(3):
        fill(saver, f"t{thread}", turns=2, run_id=f"run{thread}")
    with reopen() as other, statements(other) as asked:
        found = list(other.list(None, filter={"run_id": "run1"}))
        assert {f.config["configurable"]["thread_id"] for f in found} == {"t1"}
        assert len(found) == 6
        # One for the threads, one page, the frames and values on it: nothing of other threads.
        assert len(asked) <= 4
        found = list(other.list({"configurable": {"thread_id": "t2"}}, filter={"run_id": "run1"}))
        assert found == []
        source = list(other.list(None, filter={"run_id": "run2", "source": "input"}))
        assert len(source) == 2


@pytest.mark.parametrize(
    "name", ["thread_page_of_run", "page_of_graph_and_run", "page_of_thread_and_run"]
)
def test_sqlite_uses_that_index(sqlite, name):
    fill(sqlite, turns=1)
    sql = getattr(sqlite._queries, name)
    plan = sqlite.conn.execute(f"EXPLAIN QUERY PLAN {sql}", ["x"] * sql.count("?")).fetchall()
    steps = " ".join(row[3] for row in plan)
    assert "checkpoints_by_run" in steps
    assert "SCAN" not in steps


def test_a_walk_through_all_threads_goes_page_by_page(saver, reopen):
    for thread in range(5):
        fill(saver, f"t{thread}", turns=1)
    with reopen() as other, statements(other) as asked:
        walk = other.list(None)
        next(walk)
        first = len(asked)
        assert first <= 4
        assert len([next(walk), next(walk)]) == 2
        assert len(asked) == first
        assert len(list(walk)) == 12


def test_a_filter_is_decided_from_metadata_alone(saver, reopen):
    config = fill(saver)
    with reopen() as other, statements(other) as asked:
        assert list(other.list(config, filter={"source": "nowhere"})) == []
        assert not [sql for sql in asked if "checkpoint_blobs" in sql or "checkpoint_writes" in sql]


# -- damage

CELLS = {
    "frame": ("checkpoints", "frame", "checkpoint_id"),
    "metadata": ("checkpoints", "metadata", "checkpoint_id"),
    "blob": ("checkpoint_blobs", "blob", "version"),
    "write": ("checkpoint_writes", "blob", "checkpoint_id"),
}


@contextmanager
def raw(request: Any, saver: Any) -> Iterator[Any]:
    """A connection of our own, and the mark of its parameters."""
    if isinstance(saver, SqliteSaver):
        yield saver.conn, "?"
        return
    import psycopg

    with psycopg.connect(request.getfixturevalue("uri"), autocommit=True) as connection:
        yield connection, "%s"


def flip(request: Any, saver: Any, cell: str, at: float) -> str:
    """Change one bit of a stored cell; the key of its row."""
    table, column, key = CELLS[cell]
    with raw(request, saver) as (connection, mark):
        rows = connection.execute(
            f"SELECT {key}, {column} FROM {table} WHERE thread_id = 't' ORDER BY {key}"
        ).fetchall()
        name, data = rows[len(rows) // 2]
        data = bytearray(data)
        data[int(at * (len(data) - 1))] ^= 4
        connection.execute(
            f"UPDATE {table} SET {column} = {mark} WHERE thread_id = 't' AND {key} = {mark}"
            f" AND {column} = {mark}",
            (bytes(data), name, bytes(rows[len(rows) // 2][1])),
        )
    return name


@pytest.mark.parametrize("at", [0, 0.5, 1], ids=["start", "middle", "end"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_flipped_bit_is_found_named_and_never_read_as_a_value(request, saver, reopen, cell, at):
    config = fill(saver, turns=8)
    fill(saver, "sound", turns=1)
    sound = {f.config["configurable"]["checkpoint_id"]: f for f in map(_whole, saver.list(config))}
    name = flip(request, saver, cell, at)
    with reopen() as other:
        failures = []
        for id, expected in sound.items():
            place = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": id}}
            try:
                assert other.get_tuple(place) == expected
            except DamagedRowError as error:
                failures.append(str(error))
        assert failures
        assert all("thread 't'" in text and name in text for text in failures)
        if cell == "blob":
            assert all("channel 'lines'" in text or "'__start__'" in text for text in failures)
        problems = other.verify()
        assert {problem.thread_id for problem in problems} == {"t"}
        table = CELLS[cell][0]
        assert any(p.table == table and name in p.key and "damaged" in p.reason for p in problems)


@pytest.mark.parametrize("cell", CELLS)
def test_salvage_returns_what_is_sound_and_says_what_is_lost(request, saver, reopen, cell):
    config = fill(saver, turns=8)
    sound = {f.config["configurable"]["checkpoint_id"]: f for f in map(_whole, saver.list(config))}
    name = flip(request, saver, cell, 0.5)
    with reopen() as other:
        before = _content(other)
        salvaged = other.salvage("t")
        assert asyncio.run(other.asalvage("t")) == salvaged
        assert _content(other) == before
        ids = [s.saved.checkpoint["id"] for s in salvaged]
        assert ids == sorted(ids, reverse=True)
        lost = {reason for s in salvaged for reason in s.lost.values()}
        if cell == "frame":
            assert name not in ids
        else:
            assert len(ids) == len(sound)
            assert any(name in reason for reason in lost)
        whole = [s.saved for s in salvaged if not s.lost]
        assert whole
        for saved in whole:
            assert saved == sound[saved.checkpoint["id"]]
        for one in salvaged:
            expected = sound[one.saved.checkpoint["id"]]
            values = expected.checkpoint["channel_values"]
            for channel, value in one.saved.checkpoint["channel_values"].items():
                assert value == values[channel]
            assert all(write in expected.pending_writes for write in one.saved.pending_writes)


def test_a_cell_that_was_exchanged_for_another_is_noticed(sqlite, path):
    config = fill(sqlite)
    rows = sqlite.conn.execute(
        "SELECT version, blob FROM checkpoint_blobs WHERE channel = 'lines' AND base IS NOT NULL"
        " ORDER BY version DESC LIMIT 2"
    ).fetchall()
    sqlite.conn.execute(
        "UPDATE checkpoint_blobs SET blob = ? WHERE version = ?", (rows[1][1], rows[0][0])
    )
    with SqliteSaver.from_conn_string(path) as other, pytest.raises(DamagedRowError):
        other.get_tuple(config)


def test_one_damaged_record_does_not_keep_others_from_being_listed(request, saver, reopen):
    config = fill(saver, turns=8)
    flip(request, saver, "metadata", 0.5)
    with reopen() as other:
        bad = 0
        for found in other.list(config):
            try:
                assert found.metadata["step"] >= -1
            except MilepostError:
                bad += 1
        assert bad == 1


def test_lists_in_both_directions_of_a_missing_base_raise(sqlite, path):
    config = fill(sqlite)
    sqlite.conn.execute("DELETE FROM checkpoint_blobs WHERE base IS NULL AND channel = 'lines'")
    with SqliteSaver.from_conn_string(path) as other:
        with pytest.raises(BrokenChainError, match="lines"):
            other.get_tuple(config)
        newest = next(iter(other.list(config)))
        with pytest.raises(BrokenChainError, match="lines"):
            _ = newest.checkpoint
        assert newest.metadata["step"] == 34


def _whole(found: Any) -> Any:
    return found._replace()


def _content(saver: Any) -> list[Any]:
    return list(saver.dump(["t"]))
