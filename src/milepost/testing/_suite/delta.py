"""Delta channels: their history, which the runtime rebuilds their values from."""

from __future__ import annotations

import operator
from typing import Annotated, Any

from typing_extensions import TypedDict

from milepost._internal.ids import checkpoint_id
from milepost.channels import DeltaChannel
from milepost.errors import BrokenChainError, CheckpointNotFoundError
from milepost.graph import END, START, StateGraph
from milepost.testing._kit.clauses import KitEffects, Trait, call, caught, clause, holds, same
from milepost.testing._kit.saver_fixture import SaverFixture, ThreadBuilder
from milepost.testing._suite.graphs import noting
from milepost.types import _DeltaSnapshot


@clause("delta", Trait.HISTORY)
def a_history_is_the_writes_oldest_first(fixture: SaverFixture) -> KitEffects[None]:
    """The writes of all ancestors, in order; those at the checkpoint itself come later."""
    thread = yield from fixture.started(1, other=1)
    yield from thread.write([("log", "a"), ("other", 9), ("log", "b")], "t1")
    yield from thread.put(2, other=2)
    yield from thread.write([("log", "c")], "t2")
    yield from thread.put(3, other=3)
    yield from thread.write([("log", "not yet")], "t3")
    found = yield from thread.history("log")
    same(found, {"log": (None, ["a", "b", "c"])}, "the history")


@clause("delta", Trait.HISTORY)
def writes_of_one_step_are_in_path_order(fixture: SaverFixture) -> KitEffects[None]:
    """Tasks of one step count in the order of their paths, as when they were applied."""
    thread = yield from fixture.started(1, other=1)
    yield from thread.write([("log", "second")], "t1", "~2")
    yield from thread.write([("log", "first")], "t2", "~1")
    yield from thread.put(2, other=2)
    found = yield from thread.history("log")
    same(found, {"log": (None, ["first", "second"])}, "the history")


@clause("delta", Trait.HISTORY)
def a_history_ends_at_the_nearest_stored_value(fixture: SaverFixture) -> KitEffects[None]:
    """The seed is the nearest snapshot among the ancestors; a plain value counts as one."""
    thread = yield from fixture.started(1, log=_DeltaSnapshot(["too old"]), plain=["seed"])
    yield from thread.write([("log", "too old"), ("plain", "a")], "t1")
    yield from thread.put(2, log=_DeltaSnapshot(["seed"]), emptied=("plain",))
    yield from thread.write([("log", "a"), ("plain", "b")], "t2")
    yield from thread.put(3, emptied=("log",))
    found = yield from thread.history("log", "plain")
    wanted = {"log": (_DeltaSnapshot(["seed"]), ["a"]), "plain": (["seed"], ["a", "b"])}
    same(found, wanted, "the histories")


@clause("delta")
def a_channel_without_history_is_empty(fixture: SaverFixture) -> KitEffects[None]:
    """A channel that was never written has no writes and no seed; no channels, no histories."""
    thread = yield from fixture.started(1, other=1)
    yield from thread.write([("other", 2)], "t1")
    yield from thread.put(2, other=2)
    same((yield from thread.history("never")), {"never": (None, [])}, "never")
    same((yield from thread.history()), {}, "no channels")


@clause("delta", Trait.HISTORY)
def branches_have_histories_of_their_own(fixture: SaverFixture) -> KitEffects[None]:
    """A step, an update and an input that share a parent do not see each other's writes."""
    thread = yield from fixture.started(1, other=1)
    yield from thread.write([("log", "shared")], "t1")
    yield from thread.put(2, other=2)
    step, update, restart = thread, thread.branch(), thread.branch()
    yield from step.write([("log", "step")], "t2")
    yield from _edit(update, "update")
    yield from step.put(3, other=3)
    yield from restart.put(3, other=5, meta={"source": "input"})
    for branch, own in ((step, ["step"]), (update, ["update"]), (restart, [])):
        found = yield from branch.history("log")
        same(found, {"log": (None, ["shared", *own])}, f"the history of the branch with {own}")


def _edit(thread: ThreadBuilder, value: str) -> KitEffects[None]:
    """A checkpoint as `update_state` makes it: its writes carry its id."""
    above = thread.head
    checkpoint, changed = thread.next(other=4)
    task = f"{checkpoint['id']}:0"
    yield call(thread.saver, "put_writes", above, [("log", value)], task)
    metadata = {"source": "update", "step": 3}
    yield call(thread.saver, "put", above, checkpoint, metadata, changed)


@clause("delta", Trait.HISTORY)
def a_broken_chain_is_an_error(fixture: SaverFixture) -> KitEffects[None]:
    """A missing ancestor raises BrokenChainError; it does not read as an empty value."""
    thread = fixture.thread()
    thread.head = thread.at(checkpoint_id())
    yield from thread.put(1, other=1)
    yield from thread.write([("log", "a")], "t1")
    yield from thread.put(2, other=2)
    asked = fixture.call("get_delta_channel_history", config=thread.head, channels=["log"])
    error = yield from caught(asked)
    holds(isinstance(error, BrokenChainError), f"it raised {error!r}")


@clause("delta", Trait.HISTORY)
def a_deleted_checkpoint_has_no_history(fixture: SaverFixture) -> KitEffects[None]:
    """A checkpoint that is named and is gone raises CheckpointNotFoundError, and is not empty."""
    thread = yield from fixture.started(1, other=1)
    yield from thread.write([("log", "a")], "t1")
    yield from thread.put(2, other=2)
    yield fixture.call("delete_thread", thread.thread_id)
    asked = fixture.call("get_delta_channel_history", config=thread.head, channels=["log"])
    error = yield from caught(asked)
    holds(isinstance(error, CheckpointNotFoundError), f"it raised {error!r}")


def _collect(value: list[str], writes: list[list[str]]) -> list[str]:
    return [*value, *(item for write in writes for item in write)]


class _Plain(TypedDict):
    log: Annotated[list[str], operator.add]


class _Delta(TypedDict):
    log: Annotated[list[str], DeltaChannel(_collect, snapshot_frequency=3)]


@clause("delta", Trait.HISTORY)
def a_delta_channel_reads_like_a_plain_one(fixture: SaverFixture) -> KitEffects[None]:
    """In a graph, through inputs, updates and forks, every checkpoint has the same values."""
    seen = []
    for schema in (_Plain, _Delta):
        builder: StateGraph[Any] = StateGraph(schema)
        for name in ("a", "b"):
            builder.add_node(name, noting(name)).add_edge(START, name).add_edge(name, END)
        graph = builder.compile(checkpointer=fixture.saver)
        config = fixture.config(schema.__name__)
        for n in range(3):
            yield call(graph, "invoke", {"log": [f"in {n}"]}, config, durability="sync")
        yield call(graph, "update_state", config, {"log": ["edit"]}, as_node="a")
        past = (yield call(graph, "get_state_history", config))[-2].config
        fork = yield call(graph, "update_state", past, {"log": ["fork"]}, as_node="b")
        yield call(graph, "invoke", {"log": ["on the fork"]}, fork, durability="sync")
        history = yield call(graph, "get_state_history", config)
        seen.append([state.values for state in history])
    same(seen[1], seen[0], "the values of all checkpoints")
