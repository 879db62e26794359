"""What is stored: only what changed, once, readable from every checkpoint."""

import operator
import os
import random
from itertools import pairwise
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from graphs import thread
from milepost._db.dialect import POSTGRES, SQLITE, Bounds
from milepost._db.operations import LinkedRows, Queries
from milepost.channels import DeltaChannel
from milepost.checkpoint._contract.records import Place
from milepost.checkpoint._delta.encode import Codec
from milepost.checkpoint._sql.read.query_result import found_at
from milepost.checkpoint._sql.write.chains import blob_row
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import END, START, StateGraph


class Chat(TypedDict):
    messages: Annotated[list[Any], operator.add]


class Free(TypedDict, total=False):
    messages: list[Any]
    image: bytes
    note: int


def text(size: int) -> str:
    return os.urandom(size // 2).hex()


def chat(saver: Any, size: int) -> Any:
    def answer(state: Chat) -> dict[str, Any]:
        return {"messages": [{"role": "assistant", "content": text(size)}]}

    builder = StateGraph(Chat).add_node("answer", answer).add_edge(START, "answer")
    return builder.compile(checkpointer=saver)


def bytes_after_chat(path: str, turns: int, size: int) -> int:
    with SqliteSaver.from_conn_string(path) as saver:
        graph = chat(saver, size)
        for _ in range(turns):
            graph.invoke(
                {"messages": [{"role": "user", "content": text(size)}]},
                thread("t"),
                durability="sync",
            )
        assert len(graph.get_state(thread("t")).values["messages"]) == 2 * turns
    return os.path.getsize(path)


def test_a_chat_takes_at_most_three_times_its_payload(tmp_path):
    short = bytes_after_chat(str(tmp_path / "short.db"), 250, 1000)
    long = bytes_after_chat(str(tmp_path / "long.db"), 500, 1000)
    assert long <= 3 * 500 * 2000
    assert long <= 2.2 * short


def rewriting(saver: Any, change: Any) -> Any:
    """A graph whose only node replaces the messages."""

    def node(state: Free) -> dict[str, Any]:
        return {"messages": change(list(state.get("messages", [])))}

    builder = StateGraph(Free).add_node("node", node).add_edge(START, "node")
    return builder.compile(checkpointer=saver)


def stored_bytes(saver: Any) -> int:
    info = saver.get_thread("t")
    return info.bytes


def message() -> dict[str, str]:
    return {"role": "user", "content": text(1000)}


def edit_two(messages: list[Any]) -> list[Any]:
    messages[3] = message()
    messages[-3] = message()
    return messages


@pytest.mark.parametrize(
    ("change", "each"),
    [
        (lambda m: [*m[1:], message()], 1),
        (edit_two, 2),
        (lambda m: [*m[:50], message(), *m[50:]], 1),
        (lambda m: [message(), *m], 1),
        (lambda m: [*m[:-1], message()], 1),
    ],
    ids=["sliding window", "two edits", "insert", "prepend", "replace last"],
)
def test_a_change_of_a_long_list_costs_what_changed(saver, change, each, config):
    graph = rewriting(saver, change)
    graph.invoke({"messages": [message() for _ in range(100)]}, config)
    before = stored_bytes(saver)
    for n in range(60):
        graph.invoke({"note": n}, config)
    grown = stored_bytes(saver) - before
    assert grown < 60 * (each * 1100 + 700) + 110_000  # a full value may be due once


def test_a_constant_value_is_stored_once(saver, config):
    graph = rewriting(saver, lambda m: m)
    graph.invoke({"image": os.urandom(1_000_000), "messages": []}, config)
    for n in range(100):
        graph.invoke({"note": n}, config)
    assert stored_bytes(saver) < 1_150_000


def test_a_large_binary_is_one_copy_and_deleting_the_thread_frees_it(path, config):
    with SqliteSaver.from_conn_string(path) as saver:
        graph = rewriting(saver, lambda m: m)
        graph.invoke({"image": os.urandom(20_000_000), "messages": []}, config)
        for n in range(50):
            graph.invoke({"note": n}, config)
        saver.vacuum()
        assert os.path.getsize(path) < 21_000_000
        saver.delete_thread("t")
        saver.vacuum()
        assert os.path.getsize(path) < 200_000


def test_a_read_touches_a_bounded_number_of_rows(sqlite, path, config):
    graph = chat(sqlite, 200)
    for _ in range(300):
        graph.invoke({"messages": [message()]}, config, durability="exit")
    with SqliteSaver.from_conn_string(path) as cold:
        fetched: list[int] = []
        run = cold.engine.run

        def shown(onward: Any) -> Any:
            return lambda row: fetched.append(1) or onward(row)

        def counted(work: Any, *, write: bool) -> Any:
            def watched() -> Any:
                operation = work()
                answer = None
                while True:
                    try:
                        statement = operation.send(answer)
                    except StopIteration as done:
                        return done.value
                    if isinstance(statement, LinkedRows):
                        statement = statement._replace(onward=shown(statement.onward))
                    answer = yield statement
                    if isinstance(statement, Queries):
                        fetched.extend(map(len, answer))
                    elif not isinstance(statement, LinkedRows):
                        fetched.append(len(answer))

            return run(watched, write=write)

        cold.engine.run = counted  # type: ignore[method-assign]
        assert len(cold.get_tuple(config).checkpoint["channel_values"]["messages"]) == 600
        # 24 of the value, 9 of the frames (and of the parent's), the writes and the thread.
        assert 5 < sum(fetched) <= 38


def chains(first: str, versions: int, bounds: Bounds) -> list[int]:
    """How many rows each version of a list is read from, to which one element after the other is
    added."""
    codec = Codec(JsonPlusSerializer())
    value, cached, rows = [first], None, []
    for number in range(versions):
        encoded = codec.encode(value, after=None if cached is None else cached.encoded)
        cached = blob_row("c", str(number), encoded, cached, None, bounds).cached
        rows.append(cached.chain.rows)
        value.append("y" * 200)
    return rows


@pytest.mark.parametrize(("dialect", "most"), [(SQLITE, 24), (POSTGRES, 96)])
def test_a_value_is_read_from_a_bounded_number_of_rows(dialect, most):
    assert max(chains("first", 2200, dialect.chain)) == most


@pytest.mark.parametrize(("size", "more"), [(1000, 0), (3 << 20, 3)])
def test_of_a_large_value_there_are_more_rows_before_a_full_one(size, more):
    rows = chains("x" * size, 60, Bounds(2, 2, 8))
    assert max(rows) == 2 + 2 + more
    # Three versions for each large row, and then a full one.
    full = [number for number, count in enumerate(rows) if count == 1]
    assert {after - before for before, after in pairwise(full)} == {1 + 3 * (1 + more) + 2}


def test_versions_of_a_list_that_shrank_once_are_not_taken_for_parts_of_later_ones(path, config):
    def named(name: Any) -> dict[str, str]:
        return {"role": "user", "content": f"{name} " + "x" * 200}

    builder = StateGraph(Free)
    builder.add_node("node", lambda state: {})
    builder.add_edge(START, "node")
    value = [named(number) for number in range(40)]
    expected = {}
    for opened, turns in enumerate((3, 1, 60)):  # what a saver has read is continued too
        with SqliteSaver.from_conn_string(path) as saver:
            graph = builder.compile(checkpointer=saver)
            for number in range(turns):
                if opened == 0 and number == 1:
                    value = value[:25]
                elif opened or number:
                    value = [*value, named((opened, number))]
                graph.invoke({"messages": value}, config, durability="exit")
                made = graph.get_state(config).config["configurable"]["checkpoint_id"]
                expected[made] = value
    with SqliteSaver.from_conn_string(path) as saver:
        read = {}
        for state in builder.compile(checkpointer=saver).get_state_history(config):
            read[state.config["configurable"]["checkpoint_id"]] = state.values["messages"]
        assert saver.verify() == []
    assert {id: read[id] for id in expected} == expected


def test_the_input_is_not_stored_a_second_time(sqlite, config):
    graph = chat(sqlite, 200)
    graph.invoke(
        {"messages": [{"role": "user", "content": text(100_000)}]}, config, durability="sync"
    )
    assert stored_bytes(sqlite) < 110_000
    first = list(graph.get_state_history(config))[-1]
    assert first.metadata["writes"] is None or len(first.metadata["writes"]) <= 1
    assert graph.invoke(None, first.config)["messages"][0]["role"] == "user"


def test_a_large_write_of_a_parallel_task_is_stored_once(saver, config, reopen):
    def writes(letter: str) -> Any:
        return lambda state: {"messages": [letter * 50_000]}

    builder = StateGraph(Chat)
    for letter in "abc":
        builder.add_node(letter, writes(letter)).add_edge(START, letter)
    builder.compile(checkpointer=saver).invoke({"messages": []}, config, durability="sync")
    assert stored_bytes(saver) < 165_000
    with reopen() as other:
        written = [w for found in other.list(config) for w in found.pending_writes]
        texts = [value for _, channel, value in written if channel == "messages" and value]
        assert sorted(texts) == [["a" * 50_000], ["b" * 50_000], ["c" * 50_000]]


def test_a_checkpoint_that_is_put_again_leaves_its_children_as_they_are(saver, config):
    graph = rewriting(saver, lambda m: m)
    graph.invoke({"messages": ["kept"], "note": 1}, config)
    graph.invoke({"messages": ["kept"], "note": 2}, config)
    found = list(saver.list(config))
    oldest = found[-1]
    changed = {**oldest.checkpoint, "channel_values": {"note": 99, "messages": ["changed"]}}
    version = saver.get_next_version(None, None)
    changed["channel_versions"] = {"note": version, "messages": version}
    place = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    saver.put(place, changed, oldest.metadata, changed["channel_versions"])
    again = list(saver.list(config))
    assert again[:-1] == found[:-1]
    assert again[-1].checkpoint["channel_values"] == {"note": 99, "messages": ["changed"]}


def test_a_checkpoint_that_is_put_again_as_it_was_read_keeps_its_parent_and_its_writes(opened):
    class State(TypedDict):
        log: Annotated[list[str], operator.add]
        rebuilt: Annotated[list[str], DeltaChannel(lambda value, writes: sum(writes, value))]

    def b(state: State) -> dict[str, Any]:
        if not failed:
            failed.append(True)
            raise ValueError
        return {"log": ["b"]}

    failed: list[bool] = []
    builder = StateGraph(State).add_node("a", lambda _: {"log": ["a"], "rebuilt": ["a"]})
    builder.add_node("b", b).add_edge(START, "a").add_edge(START, "b")
    with opened() as saver:
        graph = builder.compile(checkpointer=saver)
        with pytest.raises(ValueError):
            graph.invoke({"log": [], "rebuilt": ["in"]}, thread("t"))
        found = saver.get_tuple(thread("t"))
        saver.put(found.config, found.checkpoint, found.metadata, {})
        assert repr(saver.get_tuple(thread("t"))) == repr(found)
        after = {"log": ["a", "b"], "rebuilt": ["in", "a"]}
        assert graph.invoke(None, thread("t")) == after
        first = saver.put(
            {"configurable": {"thread_id": "new", "checkpoint_ns": "", "checkpoint_id": "1"}},
            {**found.checkpoint, "id": "1"},
            {},
            {},
        )
        assert saver.get_tuple(first).parent_config is None


def test_a_checkpoint_that_an_older_version_stored_as_its_own_parent_has_its_writes_once():
    row = (1, "1", "task", 0, None, b"", None, "log", "", None)
    answer = [(at, "1", "1", 1, None, b"", b"", None, None, None) for at in (0, -1)]
    assert len(found_at(Place("t", "", "1"), [*answer, row, row]).writes) == 1


def oracle_steps(seed: int) -> list[Any]:
    """A random program of updates, forks, copies and prunes."""
    rng = random.Random(seed)
    return [
        (rng.choice(["run", "run", "update", "fork", "edit", "prune"]), rng.random())
        for _ in range(60)
    ]


def edits(rng: random.Random, messages: list[Any]) -> list[Any]:
    messages = list(messages)
    for _ in range(rng.randrange(3)):
        if messages and rng.random() < 0.5:
            del messages[rng.randrange(len(messages))]
        else:
            messages.insert(
                rng.randrange(len(messages) + 1), {"text": rng.randbytes(rng.randrange(200)).hex()}
            )
    return messages


@pytest.mark.parametrize("seed", range(40 if os.environ.get("MILEPOST_LONG") else 4))
@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "encrypted"])
def test_every_branch_reads_as_a_full_snapshot_would_after_reopening(tmp_path, seed, sealed):
    """Run, fork, update and prune at random on SQLite and in memory: both say the same."""
    path = str(tmp_path / "random.db")
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"k" * 32) if sealed else None
    reference = InMemorySaver()
    rng = random.Random(seed)
    pairs: list[tuple[Any, Any]] = []
    plan = oracle_steps(seed)

    def graphs(saver: Any) -> Any:
        return rewriting(saver, lambda m: m)

    expected = graphs(reference)
    while plan:
        # A new process every few steps: nothing may depend on what a saver remembers.
        with SqliteSaver.from_conn_string(path, serde=serde) as saver:
            actual = graphs(saver)
            for kind, _chance in plan[:8]:
                left, right = (
                    rng.choice(pairs)
                    if kind in ("fork", "edit") and pairs
                    else (
                        thread("t"),
                        thread("t"),
                    )
                )
                messages = list(expected.get_state(left).values.get("messages", []))
                update = {"messages": edits(rng, messages), "note": rng.randrange(9)}
                if kind == "prune":
                    if rng.random() < 0.15:
                        saver.prune(["t"])
                        head = expected.get_state(thread("t"))
                        reference.prune(["t"])
                        pairs = [(head.config, actual.get_state(thread("t")).config)]
                    continue
                if kind == "run":
                    expected.invoke(update, left)
                    actual.invoke(update, right)
                else:
                    left = expected.update_state(left, update, as_node="node")
                    right = actual.update_state(right, update, as_node="node")
                pairs = [
                    (a.config, b.config)
                    for a, b in zip(
                        expected.get_state_history(thread("t")),
                        actual.get_state_history(thread("t")),
                        strict=True,
                    )
                ]
        plan = plan[8:]
    with SqliteSaver.from_conn_string(path, serde=serde) as saver:
        actual = graphs(saver)
        assert pairs
        for left, right in pairs:
            assert actual.get_state(right).values == expected.get_state(left).values
        listed = [s.values for s in actual.get_state_history(thread("t"))]
        assert listed == [s.values for s in expected.get_state_history(thread("t"))]


class Wide(TypedDict):
    log: Annotated[list[str], operator.add]
    count: int
    note: str
    image: bytes


def wide(saver: Any) -> Any:
    def node(state: Wide) -> dict[str, Any]:
        count = state["count"] + 1
        return {"count": count, "log": [f"{count} " * 100]}

    builder = StateGraph(Wide).add_node("node", node).add_edge(START, "node")
    builder.add_conditional_edges("node", lambda s: "node" if s["count"] % 40 else END)
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("sealed", [False, True])
def test_a_saver_that_forgets_everything_between_two_steps_loses_nothing(
    tmp_path, durability, sealed, monkeypatch
):
    path = str(tmp_path / "threads.db")
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0" * 16) if sealed else None
    given = {"log": [], "count": 0, "note": "short", "image": b"x" * 5000}
    with SqliteSaver.from_conn_string(path, serde=serde) as saver:
        prepare = saver.prepare

        def forgetful(step: Any) -> Any:
            prepared = prepare(step)
            saver._cache.forget(step.thread_id)
            return prepared

        monkeypatch.setattr(saver, "prepare", forgetful)
        wide(saver).invoke(given, thread("t"), durability=durability)
        wide(saver).invoke({"note": "new"}, thread("t"), durability=durability)
    memory = InMemorySaver()
    wide(memory).invoke(given, thread("t"), durability=durability)
    wide(memory).invoke({"note": "new"}, thread("t"), durability=durability)
    with SqliteSaver.from_conn_string(path, serde=serde) as saver:
        history = wide(saver).get_state_history(thread("t"))
        expected = wide(memory).get_state_history(thread("t"))
        assert [s.values for s in history] == [s.values for s in expected]
        assert saver.verify() == []
