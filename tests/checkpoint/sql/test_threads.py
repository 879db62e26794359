"""Threads as a whole: the registry, retention, erasing, copies."""

import glob
import threading
import time
from collections import Counter
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from graphs import PATIENCE, Log, elsewhere, line, thread, until
from milepost._db.sweeper import Sweeper
from milepost.channels import DeltaChannel
from milepost.checkpoint.base import empty_checkpoint
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import (
    BrokenChainError,
    CheckpointError,
    GraphRecursionError,
    InvalidIdError,
    ThreadConflict,
)
from milepost.graph import START, StateGraph
from milepost.types import Command, Overwrite, interrupt


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def saver(request: pytest.FixtureRequest) -> Any:
    """An empty saver of each kind: threads are kept in the same way in memory."""
    return request.getfixturevalue(request.param)


# -- the registry


def people(saver: Any) -> None:
    graph = line("a").compile(checkpointer=saver)
    for name in ("ann:1", "ann:2", "bob:1", "ann%", "anna:1"):
        graph.invoke({}, thread(name))
        owner = name.split(":")[0]
        saver.set_thread_metadata(name, {"owner": owner, "tags": ["x", owner], "n": 1})


def ids(found: Any) -> list[str]:
    return [info.thread_id for info in found]


def test_a_thread_whose_id_is_empty_is_found_like_any_other(saver):
    graph = line("a").compile(checkpointer=saver)
    for name in ("", "t"):
        graph.invoke({}, {**thread(name), "metadata": {"run_id": "r"}})
    assert ids(saver.list_threads()) == ["", "t"]
    assert ids(saver.list_threads(after="")) == ["t"]
    for wanted in (None, {"run_id": "r"}):
        found = saver.list(None, filter=wanted)
        assert {one.config["configurable"]["thread_id"] for one in found} == {"", "t"}
    saver.delete_thread("t")
    saver.delete_for_runs(["r"])
    assert list(saver.list(None)) == []


def test_threads_are_listed_by_metadata_prefix_status_and_time(saver):
    people(saver)
    assert ids(saver.list_threads()) == ["ann%", "ann:1", "ann:2", "anna:1", "bob:1"]
    assert ids(saver.list_threads(metadata={"owner": "ann"})) == ["ann:1", "ann:2"]
    assert ids(saver.list_threads(metadata={"tags": ["x", "bob"]})) == ["bob:1"]
    assert ids(saver.list_threads(metadata={"n": 1, "owner": "bob"})) == ["bob:1"]
    assert ids(saver.list_threads(metadata={"n": "1"})) == []
    assert ids(saver.list_threads(prefix="ann:")) == ["ann:1", "ann:2"]
    assert ids(saver.list_threads(prefix="ann%")) == ["ann%"]
    assert ids(saver.list_threads(status="idle", limit=2)) == ["ann%", "ann:1"]
    assert ids(saver.list_threads(updated_after=time.time() + 10)) == []
    assert len(saver.list_threads(updated_before=time.time() + 10)) == 5
    with pytest.raises(ValueError, match="idle, interrupted"):
        saver.list_threads(status="asleep")
    for limit in (-1, 10**30, "x", 1.5, None):
        with pytest.raises(ValueError, match="limit must be a number of threads"):
            saver.list_threads(limit=limit)


def test_metadata_are_compared_as_a_whole_and_by_type(saver):
    line("a").compile(checkpointer=saver).invoke({}, thread("t"))
    stored = {"n": 1, "flag": True, "list": [1, 2], "inner": {"b": 1, "a": 2}, "none": None}
    saver.set_thread_metadata("t", stored)
    for key, value in stored.items():
        assert ids(saver.list_threads(metadata={key: value})) == ["t"]
    assert ids(saver.list_threads(metadata={"inner": {"a": 2, "b": 1}})) == ["t"]
    for other in (
        {"list": [1]},
        {"list": []},
        {"inner": {"a": 2}},
        {"inner": {}},
        {"n": True},
        {"n": 1.0},
        {"flag": 1},
        {"none": False},
        {"missing": None},
    ):
        assert ids(saver.list_threads(metadata=other)) == [], other


def test_an_owner_that_no_index_can_hold_is_refused(saver):
    line("a").compile(checkpointer=saver).invoke({}, thread("t"))
    with pytest.raises(InvalidIdError, match="owner has 100000 characters"):
        saver.set_thread_metadata("t", {"owner": "x" * 100_000})
    assert saver.get_thread("t").metadata == {}


def test_pages_follow_each_other(saver):
    people(saver)
    first = saver.list_threads(limit=2)
    second = saver.list_threads(limit=2, after=first[-1].thread_id)
    third = saver.list_threads(limit=2, after=second[-1].thread_id)
    assert ids([*first, *second, *third]) == ids(saver.list_threads())


def test_the_status_says_how_a_thread_stands(saver):
    def ask(state: Log) -> Any:
        return {"log": [interrupt("?")]}

    def fail(state: Log) -> Any:
        raise RuntimeError("no")

    seen: list[str] = []

    def look(state: Log) -> Any:
        seen.append(saver.get_thread("looking").status)

    def graph_of(node: Any) -> Any:
        return (
            StateGraph(Log)
            .add_node("node", node)
            .add_edge(START, "node")
            .compile(checkpointer=saver)
        )

    graph_of(ask).invoke({}, thread("asking"))
    assert saver.get_thread("asking").status == "interrupted"
    graph_of(ask).invoke(Command(resume="!"), thread("asking"))
    assert saver.get_thread("asking").status == "idle"
    with pytest.raises(RuntimeError):
        graph_of(fail).invoke({}, thread("failing"), durability="sync")
    assert saver.get_thread("failing").status == "error"
    graph_of(look).invoke({}, thread("looking"), durability="sync")
    assert seen == ["running"]
    assert ids(saver.list_threads(status="interrupted")) == []
    assert ids(saver.list_threads(status="error")) == ["failing"]


def test_the_status_says_how_a_run_ended_that_stored_nothing_in_the_end(saver):
    paused = line("a", "b").compile(checkpointer=saver, interrupt_before=["b"])
    for durability in ("sync", "async", "exit"):
        paused.invoke({}, thread("paused"), durability=durability)
        assert saver.get_thread("paused").status == "interrupted"
    paused.invoke(None, thread("paused"))
    assert saver.get_thread("paused").status == "idle"
    with pytest.raises(GraphRecursionError):
        line("a", "b", "c").compile(checkpointer=saver).invoke(
            {}, {**thread("limited"), "recursion_limit": 2}, durability="sync"
        )
    assert saver.get_thread("limited").status == "error"
    paused.update_state(thread("paused"), {"log": ["edit"]}, as_node="a")
    assert saver.get_thread("paused").status == "interrupted"
    paused.update_state(thread("paused"), {"log": ["edit"]}, as_node="b")
    assert saver.get_thread("paused").status == "idle"
    events = paused.stream({}, thread("left"), durability="sync")
    next(events)
    assert saver.get_thread("left").status == "running"
    events.close()
    assert saver.get_thread("left").status == "interrupted"


def test_a_run_between_two_nodes_that_join_is_running(saver):
    seen: list[str] = []

    def look(state: Log) -> None:
        seen.append(saver.get_thread("t").status)

    builder = StateGraph(Log)
    for name in "abc":
        builder.add_node(name, look)
    builder.add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "c")
    builder.compile(checkpointer=saver).invoke({}, thread("t"), durability="sync")
    assert seen == ["running"] * 3
    assert saver.get_thread("t").status == "idle"


def test_a_thread_is_counted_and_weighed(saver):
    graph = line("a", "b").compile(checkpointer=saver)
    graph.invoke({"log": ["x" * 5000]}, thread("t"))
    info = saver.get_thread("t")
    assert info.checkpoints == 4
    assert info.writes >= 3
    assert 5000 < info.bytes < 12_000
    assert info.head == graph.get_state(thread("t")).config["configurable"]["checkpoint_id"]
    assert saver.get_thread("unknown") is None


def test_metadata_of_an_unknown_thread_is_refused(saver):
    with pytest.raises(CheckpointError, match="no thread 'nobody'"):
        saver.set_thread_metadata("nobody", {})


@pytest.mark.parametrize("text", ["\\u0000", "\\", '"', "%s", "?", "", "ü", "1"])
def test_metadata_is_found_by_any_text(saver, text):
    saver.create_thread("t", {"tags": ["x", text], "of": text})
    saver.create_thread("other", {"tags": ["x", 1], "of": 1})
    assert ids(saver.list_threads(metadata={"tags": [text]})) == ["t"]
    assert ids(saver.list_threads(metadata={"of": text})) == ["t"]


def test_a_page_of_ten_thousand_threads_is_one_query_without_values(path):
    with SqliteSaver.from_conn_string(path) as saver:
        saver.setup()
        rows = [(f"t{n:05}", f"user{n % 100}") for n in range(10_000)]
        saver.conn.execute("BEGIN")
        saver.conn.executemany(
            "INSERT INTO threads (thread_id, owner, created_at, updated_at) VALUES (?, ?, 0, 0)",
            rows,
        )
        saver.conn.execute("COMMIT")
        seen: list[str] = []
        saver.conn.set_trace_callback(seen.append)
        page = saver.list_threads(metadata={"owner": "user7"}, limit=20)
        assert len(page) == 20
        queries = [sql for sql in seen if sql.startswith("SELECT")]
        assert len(queries) == 1
        plan = " ".join(row[3] for row in saver.conn.execute(f"EXPLAIN QUERY PLAN {queries[0]}"))
        assert "threads_by_owner" in plan


# -- retention


def three_questions(saver: Any) -> Any:
    def node(state: Log) -> Any:
        return {"log": [interrupt("one"), interrupt("two"), interrupt("three")]}

    builder = StateGraph(Log).add_node("a", lambda s: {"log": ["a"]}).add_node("node", node)
    builder.add_edge(START, "a").add_edge("a", "node")
    return builder.compile(checkpointer=saver)


def orphans(saver: Any) -> list[str]:
    """Rows that no checkpoint needs."""
    found = saver.verify() if hasattr(saver, "verify") else []
    return list(found)


def test_pruning_in_the_middle_of_three_interrupts_changes_nothing(saver, config):
    graph = three_questions(saver)
    graph.invoke({"log": ["x" * 3000]}, config)
    graph.invoke(Command(resume=1), config)
    before = saver.get_thread("t")
    saver.prune(["t"])
    after = saver.get_thread("t")
    assert after.checkpoints == 1
    assert after.bytes < before.bytes
    assert [i.value for i in graph.get_state(config).interrupts] == ["two"]
    graph.invoke(Command(resume=2), config)
    assert graph.invoke(Command(resume=3), config)["log"] == ["x" * 3000, "a", 1, 2, 3]


def test_pruning_keeps_the_last_few_or_the_young_and_can_be_tried(saver, config):
    graph = line("a", "b", "c").compile(checkpointer=saver)
    for _ in range(4):
        graph.invoke({"log": ["x" * 500]}, config)
    total = saver.get_thread("t").checkpoints
    assert saver.prune(["t"], keep=5, dry_run=True).checkpoints == total - 5
    assert saver.get_thread("t").checkpoints == total
    assert saver.prune(["t"], older_than=3600).checkpoints == 0
    expected = [s.values for s in graph.get_state_history(config)]
    assert saver.prune(["t"], keep=5).checkpoints == total - 5
    assert [s.values for s in graph.get_state_history(config)] == expected[:5]
    assert saver.prune(["t"], older_than=-10).checkpoints == 4
    assert graph.get_state(config).values == expected[0]
    with pytest.raises(ValueError, match="keep_latest"):
        saver.prune(["t"], strategy="forget")


def checkpoints_by_node(saver: Any, config: Any) -> Counter[str]:
    """How many checkpoints a thread has, of the root and of graphs inside each node."""
    found = saver.list(config)
    return Counter(one.config["configurable"]["checkpoint_ns"].split(":")[0] for one in found)


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_pruning_removes_calls_of_inner_graphs_with_the_checkpoints_that_made_them(
    saver, config, durability
):
    deep = line("d").compile()
    inner = StateGraph(Log).add_node("deep", deep).add_edge(START, "deep").compile()
    memory = line("m").compile(checkpointer=True)
    asks = StateGraph(Log).add_node("ask", lambda _: {"log": [interrupt("?")]})
    graph = (
        StateGraph(Log)
        .add_sequence(
            [
                ("inner", inner),
                ("called", lambda _: inner.invoke({"log": []}) and None),
                ("memory", lambda _: memory.invoke({"log": []}) and None),
                ("asking", asks.add_edge(START, "ask").compile()),
            ]
        )
        .add_edge(START, "inner")
        .compile(checkpointer=saver)
    )
    for turn in range(3):
        graph.invoke({"log": []}, config, durability=durability)
        if turn < 2:
            graph.invoke(Command(resume=turn), config, durability=durability)
    waiting = graph.get_state(config, subgraphs=True)
    saver.prune(["t"])
    assert checkpoints_by_node(saver, config) == {"": 1, "memory": 1, "asking": 1}
    assert orphans(saver) == []
    after = graph.get_state(config, subgraphs=True)
    assert after.tasks[0].state.values == waiting.tasks[0].state.values
    of_memory = {"configurable": {"thread_id": "t", "checkpoint_ns": "memory"}}
    assert graph.get_state(of_memory).values == {"log": ["m"] * 3}
    assert graph.invoke(Command(resume="yes"), config)["log"][-1] == "yes"


def test_pruning_keeps_calls_of_inner_graphs_that_kept_checkpoints_made(saver, config):
    graph = (
        StateGraph(Log)
        .add_node("inner", line("a").compile())
        .add_edge(START, "inner")
        .compile(checkpointer=saver)
    )
    for _ in range(3):
        graph.invoke({"log": []}, config)
    saver.prune(["t"], keep=2)  # the last call began at the second of these
    assert checkpoints_by_node(saver, config) == {"": 2, "inner": 2}
    saver.prune(["t"], keep=1)
    assert checkpoints_by_node(saver, config) == {"": 1}


class Delta(TypedDict):
    log: Annotated[
        list[Any], DeltaChannel(lambda v, w: [*v, *(i for x in w for i in x)], snapshot_frequency=4)
    ]


def test_delta_channels_survive_pruning_forks_and_copies(saver, config, reopen):
    builder = (
        StateGraph(Delta)
        .add_node("node", lambda s: {"log": [len(s["log"])]})
        .add_edge(START, "node")
    )
    graph = builder.compile(checkpointer=saver)
    for n in range(7):
        graph.invoke({"log": [f"in{n}"]}, config)
    expected = graph.get_state(config).values
    fork = graph.update_state(list(graph.get_state_history(config))[3].config, {"log": ["fork"]})
    forked = graph.get_state(fork).values
    saver.copy_thread("t", "copy")
    saver.prune(["t"])
    with reopen() as other:
        again = builder.compile(checkpointer=other)
        assert again.get_state(config).values == forked
        copies = [s.values for s in again.get_state_history(thread("copy"))]
        assert forked in copies
        assert expected in copies


def test_what_a_step_overwrote_is_read_as_the_run_saw_it(saver, config, reopen):
    """An Overwrite makes the other writes of its step void, also when they are replayed."""
    builder = StateGraph(Delta).add_node("ahead", lambda s: {"log": ["void"]})
    builder.add_node("all", lambda s: {"log": Overwrite(["new"])})
    builder.add_node("behind", lambda s: {"log": ["void"]})
    for name in ("ahead", "all", "behind"):
        builder.add_edge(START, name)
    seen = builder.compile(checkpointer=saver).invoke({"log": ["in"]}, config)
    assert seen["log"] == ["new"]
    with reopen() as other:
        graph = builder.compile(checkpointer=other)
        assert graph.get_state(config).values["log"] == ["new"]
        graph.update_state(config, {"log": ["more"]}, as_node="all")
        assert graph.get_state(config).values["log"] == ["new", "more"]


def test_a_broken_chain_raises_instead_of_reading_as_empty(sqlite, config):
    builder = StateGraph(Delta).add_node("node", lambda s: {"log": [1]}).add_edge(START, "node")
    graph = builder.compile(checkpointer=sqlite)
    graph.invoke({"log": [0]}, config, durability="sync")
    oldest = min(f.checkpoint["id"] for f in sqlite.list(config))
    sqlite.conn.execute("DELETE FROM checkpoints WHERE checkpoint_id = ?", (oldest,))
    with (
        SqliteSaver.from_conn_string(
            sqlite.conn.execute("PRAGMA database_list").fetchone()[2]
        ) as other,
        pytest.raises(BrokenChainError),
    ):
        builder.compile(checkpointer=other).get_state(config)


def test_delete_for_runs_leaves_what_others_did(saver, config):
    graph = line("a").compile(checkpointer=saver)
    for run_id in ("11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"):
        graph.invoke({}, {**config, "run_id": run_id})
    saver.delete_for_runs(["22222222-2222-2222-2222-222222222222"])
    assert graph.get_state(config).values == {"log": ["a"]}
    assert graph.invoke({}, config)["log"] == ["a", "a"]


def test_a_pruned_thread_is_still_fenced(saver, config):
    graph = line("a", "b").compile(checkpointer=saver)
    graph.invoke({}, config)

    def node(state: Log) -> Any:
        saver.delete_thread("t")
        return {"log": ["late"]}

    builder = StateGraph(Log).add_node("node", node).add_edge(START, "node")
    with pytest.raises(ThreadConflict):
        builder.compile(checkpointer=saver).invoke({}, config, durability="sync")


def test_pruning_during_a_run_does_not_break_it(saver, config):
    def node(state: Log) -> Any:
        saver.prune(["t"])
        return {"log": ["y" * 400]}

    builder = StateGraph(Log).add_node("a", node).add_node("b", node)
    graph = builder.add_edge(START, "a").add_edge("a", "b").compile(checkpointer=saver)
    for _ in range(3):
        result = graph.invoke({"log": ["x" * 400]}, config, durability="sync")
    assert graph.get_state(config).values == result


# -- erasing

CANARY = "canary-in-the-coal-mine"


def test_erasing_leaves_nothing_in_the_files(path):
    with SqliteSaver.from_conn_string(path) as saver:
        graph = line("a").compile(checkpointer=saver)
        for n in range(5):
            graph.invoke({"log": [f"{CANARY}{n}" * 50]}, thread(f"gone:{n % 2}"))
        graph.invoke({"log": ["stays"]}, thread("kept"))
        removed = saver.erase(prefix="gone:")
        assert sorted(removed.threads) == ["gone:0", "gone:1"]
        assert removed.checkpoints == 15
        assert_not_in_files(path, CANARY)
        assert graph.get_state(thread("kept")).values == {"log": ["stays", "a"]}
    assert_not_in_files(path, CANARY)


def assert_not_in_files(path: str, text: str) -> None:
    for name in glob.glob(f"{path}*"):
        with open(name, "rb") as file:
            assert text.encode() not in file.read(), name


def test_erase_needs_to_be_told_what(saver):
    with pytest.raises(ValueError, match="which threads"):
        saver.erase()


def test_one_id_is_not_taken_for_a_list_of_its_letters(saver):
    graph = line("a").compile(checkpointer=saver)
    for name in ("a", "b", "ab"):
        graph.invoke({}, thread(name))
    for call in (saver.erase, saver.prune, saver.delete_for_runs):
        with pytest.raises(TypeError, match=r"must be a list of ids, not one id: \['ab'\]"):
            call("ab")
    assert ids(saver.list_threads()) == ["a", "ab", "b"]


def test_of_ids_of_which_one_is_bad_none_is_erased(saver):
    line("a").compile(checkpointer=saver).invoke({}, thread("t"))
    with pytest.raises(InvalidIdError, match="NUL"):
        saver.erase(["t", "\0"])
    assert ids(saver.list_threads()) == ["t"]


def test_erasing_by_owner_and_by_id(saver):
    people(saver)
    assert sorted(saver.erase(metadata={"owner": "ann"}).threads) == ["ann:1", "ann:2"]
    assert saver.erase(["bob:1", "unknown"]).threads == ["bob:1"]
    assert ids(saver.list_threads()) == ["ann%", "anna:1"]


# -- copies


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "encrypted"])
def test_a_copy_has_the_whole_history_and_is_independent(path, sealed):
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"k" * 32) if sealed else None
    with SqliteSaver.from_conn_string(path, serde=serde) as saver:
        graph = line("a", "b").compile(checkpointer=saver)
        for _ in range(3):
            graph.invoke({"log": ["x" * 300]}, thread("t"))
        saver.copy_thread("t", "copy")
        original = [(s.values, s.metadata) for s in graph.get_state_history(thread("t"))]
        saver.delete_thread("t")
    with SqliteSaver.from_conn_string(path, serde=serde) as saver:
        graph = line("a", "b").compile(checkpointer=saver)
        assert [(s.values, s.metadata) for s in graph.get_state_history(thread("copy"))] == original
        graph.invoke({}, thread("copy"))
        with pytest.raises(CheckpointError, match="exists already"):
            saver.copy_thread("copy", "copy")


def test_a_copy_has_writes_whose_checkpoint_comes_later(saver):
    checkpoint = empty_checkpoint()
    saver.put_writes(at("t", checkpoint["id"]), [("a", 1)], "task")
    saver.copy_thread("t", "copy")
    for thread_id in ("t", "copy"):
        config = saver.put(at(thread_id, None), checkpoint, {}, {})
        assert saver.get_tuple(config).pending_writes == [("task", "a", 1)]
    saver.delete_thread("copy")
    saver.put(at("copy", None), checkpoint, {}, {})
    assert saver.get_tuple(at("copy", None)).pending_writes == []


def at(thread_id: str, checkpoint_id: str | None) -> Any:
    place = {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": checkpoint_id}
    return {"configurable": {key: value for key, value in place.items() if value is not None}}


def test_a_copy_of_a_thread_at_work_belongs_to_nobody(saver):
    """The run goes on with the original; the copy can be resumed, also by who would be refused."""
    copied: list[str] = []

    def copy(state: Log) -> Any:
        if not copied:
            elsewhere(lambda: saver.copy_thread("t", "copy"))
            copied.append(saver.get_thread("copy").status)
        return {"log": ["b"]}

    builder = line("a").add_node("b", copy).add_edge("a", "b")
    graph = builder.compile(checkpointer=saver)
    assert graph.invoke({}, thread("t"), durability="sync") == {"log": ["a", "b"]}
    assert copied == ["interrupted"]
    assert graph.get_state(thread("copy")).next == ("b",)
    assert graph.invoke(None, thread("copy"), on_conflict="reject") == {"log": ["a", "b"]}
    assert saver.get_thread("copy").status == "idle"


def test_a_thread_that_is_used_while_others_are_swept_stays(saver, monkeypatch):
    graph = line("a").compile(checkpointer=saver)
    for name in ("t0", "t1", "t2"):
        graph.invoke({}, thread(name))
    kind = type(saver.threads)
    page = kind._found

    def then_use_one(threads: Any, wanted: Any) -> Any:
        found = yield from page(threads, wanted)
        graph.invoke({}, thread("t1"))
        return found

    monkeypatch.setattr(kind, "_found", then_use_one)
    assert saver.sweep(ttl=0).threads == ["t0", "t2"]
    assert graph.get_state(thread("t1")).values == {"log": ["a", "a"]}


def test_a_sweeper_sweeps_until_it_is_stopped(saver):
    graph = line("a").compile(checkpointer=saver)
    done = saver.start_sweeper(ttl=0, every=0.001)
    assert saver.start_sweeper(ttl=0, every=0.001) is done
    for name in ("first", "second"):
        graph.invoke({}, thread(name), durability="exit")  # stored at once: no step finds it swept
        until(lambda name=name: saver.get_thread(name) is None, "nothing was swept")
    saver.stop_sweeper()
    assert done.result(PATIENCE) is None
    graph.invoke({}, thread("later"))
    assert ids(saver.list_threads()) == ["later"]
    saver.stop_sweeper()
    with pytest.raises(ValueError, match="positive"):
        saver.start_sweeper(ttl=0, every=0)


def test_a_sweeper_that_fails_says_so(saver, monkeypatch):
    monkeypatch.setattr(type(saver.threads), "_found", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        saver.start_sweeper(ttl=0, every=0.001).result(PATIENCE)
    saver.stop_sweeper()


def test_a_sweeper_that_is_started_again_after_a_failure_has_the_new_ttl(saver, monkeypatch):
    swept: list[float] = []

    def failing(_threads: Any, *, ttl: float) -> None:
        swept.append(ttl)
        raise RuntimeError("the sweep has failed")

    monkeypatch.setattr(type(saver.threads), "sweep", failing)
    for ttl in (1.0, 2.0):
        with pytest.raises(RuntimeError, match="the sweep has failed"):
            saver.start_sweeper(ttl=ttl, every=0.001).result(PATIENCE)
    assert swept == [1.0, 2.0]
    saver.stop_sweeper()


def test_a_sweeper_that_was_stopped_can_be_started_before_its_last_sweep_has_ended():
    first, second = threading.Event(), threading.Event()
    is_sweeping = threading.Event()

    def slow() -> None:
        is_sweeping.set()
        assert first.wait(PATIENCE)

    sweeper = Sweeper("SqliteSaver")
    done = sweeper.start(0.001, slow)
    assert is_sweeping.wait(PATIENCE)
    assert not sweeper.stop(timeout=0)
    again = sweeper.start(0.001, second.set)
    assert again is not done
    assert second.wait(PATIENCE)
    first.set()
    assert sweeper.stop(PATIENCE)
    assert done.result(PATIENCE) is again.result(PATIENCE) is None
