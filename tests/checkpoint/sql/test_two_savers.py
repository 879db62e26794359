"""Two savers on one database: one changes a thread of which the other remembers how it was."""

from __future__ import annotations

import operator
import os
import threading
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from graphs import PATIENCE, thread
from milepost._db.dialect import Bounds
from milepost.channels import DeltaChannel
from milepost.checkpoint.base import empty_checkpoint
from milepost.errors import BrokenChainError, ThreadConflict
from milepost.graph import START, StateGraph

CONFIG = thread("t")

ON_REDIS = ["redis"] if os.environ.get("MILEPOST_LONG") else []
"""In the long form only: what is stored is worked out by the code that the others use."""


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    note: str


class Delta(TypedDict, total=False):
    delta: Annotated[list[str], DeltaChannel(lambda old, new: old + [x for w in new for x in w])]


def writing(saver: Any, *names: str, at: dict[str, Any] | None = None) -> Any:
    """Nodes that write their names; `at` has what is done while one of them is at work."""

    def node(name: str) -> Any:
        def write(_: State) -> dict[str, Any]:
            if at and name in at:
                at[name]()
            return {"log": [name * 300]}

        return write

    builder = StateGraph(State).add_sequence([(name, node(name)) for name in names])
    return builder.add_edge(START, names[0]).compile(checkpointer=saver)


def states(graph: Any) -> list[Any]:
    return [state.values for state in graph.get_state_history(CONFIG)]


@pytest.fixture(params=["memory", "sqlite", "postgres", *ON_REDIS])
def saver(request: pytest.FixtureRequest) -> Any:
    """An empty saver of each kind."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def other(reopen: Any) -> Any:
    """Another one on the same database; in memory, the same."""
    with reopen() as opened:
        yield opened


def sound(saver: Any) -> bool:
    return not hasattr(saver, "verify") or not saver.verify()


def test_a_step_is_refused_if_what_it_builds_on_was_pruned_meanwhile(saver, other):
    meanwhile: list[Any] = []
    graph = writing(saver, "a", "b", "c", at={"b": lambda: [do() for do in meanwhile]})
    graph.invoke({"note": "n" * 300}, CONFIG, durability="sync")
    past = list(graph.get_state_history(CONFIG))[2]
    assert past.next == ("b",)
    meanwhile.append(lambda: other.prune(["t"]))
    with pytest.raises(BrokenChainError, match="Nothing of this step was stored"):
        graph.invoke(None, past.config, durability="exit")
    expected = {"log": [name * 300 for name in "abc"], "note": "n" * 300}
    assert states(graph) == states(writing(other, "a")) == [expected]
    assert sound(other)


def test_what_was_put_again_is_not_read_as_another_saver_remembers_it(saver, other):
    graph, others = (writing(one, "a") for one in (saver, other))
    graph.invoke({"note": "old"}, CONFIG)
    assert others.get_state(CONFIG).values["note"] == "old"
    found = saver.get_tuple(CONFIG)
    version = saver.get_next_version(max(found.checkpoint["channel_versions"].values()), None)
    again = {
        **found.checkpoint,
        "channel_values": {**found.checkpoint["channel_values"], "note": "new"},
        "channel_versions": {**found.checkpoint["channel_versions"], "note": version},
    }
    saver.put(found.parent_config, again, found.metadata, {"note": version})
    graph.invoke({}, CONFIG)
    listed = list(others.get_state_history(CONFIG, limit=2))
    assert [state.values["note"] for state in listed] == ["new", "new"]


@pytest.mark.parametrize("saver", ["sqlite", "postgres", *ON_REDIS], indirect=True)
def test_steps_that_waited_while_others_pruned_stand_on_nothing_that_is_gone(saver, other):
    """The rows that they were to stand on were chosen before the first of them was stored."""
    saver._preparer._chain = Bounds(2, 9, 9)  # each third version stands on the third before it
    all_prepared = threading.Event()
    graph = writing(saver, *"abcde", at={"e": all_prepared.set})
    graph.invoke({"log": ["i" * 300]}, CONFIG, durability="sync")
    graph.invoke({}, CONFIG, durability="sync")  # the 11th version: the 13th stands on the 10th
    other.prune(["t"])
    all_prepared.clear()
    commit = saver.commit

    def late(steps: Any) -> Any:
        assert all_prepared.wait(PATIENCE)
        return commit(steps)

    saver.commit = late
    graph.invoke({}, CONFIG, durability="async")
    assert states(writing(other, "a"))[0]["log"] == [name * 300 for name in "i" + "abcde" * 3]
    assert sound(other)


def test_an_update_and_what_it_wrote_are_stored_together(saver):
    """Without the writes its delta channels would lack them."""
    builder = StateGraph(Delta).add_node("a", lambda _: {"delta": ["a"]}).add_edge(START, "a")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({}, CONFIG)
    commit, commits = saver.commit, []

    def counted(steps: Any) -> Any:
        commits.append(len(steps))
        return commit(steps)

    saver.commit = counted
    graph.update_state(CONFIG, {"delta": ["u"]}, as_node="a")
    assert commits == [2]
    assert graph.get_state(CONFIG).values["delta"] == ["a", "u"]


@pytest.mark.parametrize("saver", ["sqlite", "postgres", *ON_REDIS], indirect=True)
def test_no_checkpoint_comes_to_lie_between_those_of_another_run(saver, other):
    """What tasks wrote may be in the row of the checkpoint that is next to their own."""
    is_at_work, may_end = threading.Event(), threading.Event()

    def waits(_: Delta) -> Any:
        is_at_work.set()
        assert may_end.wait(PATIENCE)
        return {"delta": ["b"]}

    nodes = [("a", lambda _: {"delta": ["a"]}), ("b", waits), ("c", lambda _: {"delta": ["c"]})]
    builder = StateGraph(Delta).add_sequence(nodes).add_edge(START, "a")
    graph, others = builder.compile(checkpointer=saver), builder.compile(checkpointer=other)
    past = graph.update_state(CONFIG, {"delta": ["first"]}, as_node="c")
    worker = threading.Thread(target=lambda: graph.invoke({}, CONFIG, durability="sync"))
    worker.start()
    assert is_at_work.wait(PATIENCE)
    prepare = other.prepare

    def late(step: Any) -> Any:
        """The update has its id. Now the run comes to its end."""
        prepared = prepare(step)
        may_end.set()
        worker.join(PATIENCE)
        return prepared

    other.prepare = late
    with pytest.raises(ThreadConflict):
        others.update_state(past, {"delta": ["u"]}, as_node="c")
    counts = [len(values["delta"]) for values in states(graph)]
    assert counts == [4, 3, 2, 1, 1, 1]
    assert sound(other)


def test_a_thread_that_was_made_again_by_hand_has_its_new_values(saver, reopen):
    """Versions that a program counts itself may be the same as before."""

    def put(saver: Any, text: str) -> None:
        checkpoint = {
            **empty_checkpoint(),
            "id": "1ef00000-0000-6000-8000-000000000001",
            "channel_values": {"key": [text * 500]},
            "channel_versions": {"key": "1"},
        }
        saver.put(thread("t"), checkpoint, {"source": "input", "step": -1}, {"key": "1"})

    with reopen() as other:
        put(saver, "a")
        assert saver.get_tuple(thread("t")).checkpoint["channel_values"]["key"] == ["a" * 500]
        other.delete_thread("t")
        put(other, "b")
        assert saver.get_tuple(thread("t")).checkpoint["channel_values"]["key"] == ["b" * 500]
        [listed] = saver.list(thread("t"))
        assert listed.checkpoint["channel_values"]["key"] == ["b" * 500]


# -- steps whose parent is gone


def moved_on(saver: Any) -> None:
    """Have a saver remember other checkpoints than the one that a run goes on from."""
    for found in list(saver.list(CONFIG))[:4]:
        saver.get_tuple(found.config)


@pytest.fixture(params=[True, False], ids=["remembered", "moved-on"])
def removed(request: pytest.FixtureRequest, saver: Any, other: Any) -> Any:
    """Prunes the thread. Perhaps the run's own saver knows what it builds on no more."""

    def remove() -> None:
        if not request.param:
            moved_on(saver)
        other.prune(["t"])

    return remove


def past_of(saver: Any) -> Any:
    """A checkpoint long before the latest."""
    graph = writing(saver, *"abcdef")
    graph.invoke({"note": "n" * 300}, CONFIG, durability="sync")
    past = list(graph.get_state_history(CONFIG))[5]
    assert past.next == ("b",)
    return past


GONE = "which is gone. Nothing of this step was stored"


def beside_the_first_step(saver: Any, act: Any, *, before: bool) -> None:
    """Do something before the first step of a run is prepared, or between that and its commit."""
    prepare = saver.prepare

    def beside(step: Any) -> Any:
        saver.prepare = prepare
        if before:
            act()
        prepared = prepare(step)
        if not before:
            act()
        return prepared

    saver.prepare = beside


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("given", [None, {"note": "i" * 300}], ids=["replay", "input"])
def test_a_fork_of_what_was_pruned_meanwhile_is_refused(
    run, saver, other, removed, durability, before, given
):
    past = past_of(saver)
    expected = states(writing(other, "a"))[:1]
    graph = writing(saver, *"abcdef")
    beside_the_first_step(saver, removed, before=before)
    with pytest.raises(BrokenChainError, match=GONE):
        run.invoke(graph, given, past.config, durability=durability)
    assert states(graph) == states(writing(other, "a")) == expected
    assert sound(other)


def test_a_run_that_is_stored_at_its_end_is_refused_if_its_parent_was_pruned(
    run, saver, other, removed
):
    past = past_of(saver)
    expected = states(writing(other, "a"))[:1]
    graph = writing(saver, *"abcdef", at={"f": removed})
    with pytest.raises(BrokenChainError, match=GONE):
        run.invoke(graph, {"note": "i" * 300}, past.config, durability="exit")
    assert states(graph) == states(writing(other, "a")) == expected
    assert sound(other)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_an_update_of_what_was_pruned_meanwhile_is_refused(run, saver, other, removed, before):
    past = past_of(saver)
    expected = states(writing(other, "a"))[:1]
    beside_the_first_step(saver, removed, before=before)
    graph = writing(saver, *"abcdef")
    with pytest.raises(BrokenChainError, match=GONE):
        run.update_state(graph, past.config, {"note": "u"}, as_node="a")
    assert states(graph) == states(writing(other, "a")) == expected
    assert sound(other)


def test_writes_at_a_checkpoint_that_was_removed_are_refused(run, saver, other):
    """What one of two tasks wrote is stored as soon as that has ended."""
    run_id = "11111111-1111-1111-1111-111111111111"
    writing(saver, "a").invoke({"note": "n" * 300}, CONFIG, durability="sync")
    expected = states(writing(other, "a"))
    is_removed, was_stored = threading.Event(), threading.Event()
    commit, acommit = saver.commit, saver.acommit

    def told(steps: Any) -> Any:
        outcome = commit(steps)
        was_stored.set() if is_removed.is_set() else None
        return outcome

    async def atold(steps: Any) -> Any:
        outcome = await acommit(steps)
        was_stored.set() if is_removed.is_set() else None
        return outcome

    def quick(_: State) -> dict[str, Any]:
        other.delete_for_runs([run_id])
        is_removed.set()
        return {"log": ["q" * 300]}

    def slow(_: State) -> dict[str, Any]:
        assert was_stored.wait(PATIENCE)
        return {"log": ["s" * 300]}

    builder = StateGraph(State).add_node("a", lambda _: None).add_edge(START, "a")
    builder.add_node("b", quick).add_node("c", slow).add_edge("a", "b").add_edge("a", "c")
    graph = builder.compile(checkpointer=saver)
    saver.commit, saver.acommit = told, atold
    with pytest.raises(BrokenChainError, match=GONE):
        run.invoke(graph, {}, {**CONFIG, "run_id": run_id}, durability="sync")
    assert states(writing(other, "a")) == expected
    assert sound(other)
