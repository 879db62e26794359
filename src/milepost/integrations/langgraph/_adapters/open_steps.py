"""Steps that LangGraph left open, seen under our names while they stay where they are.

Its names of tasks, inner graphs and interrupts are translated when a checkpoint is read. What our
run then writes has our names already; only the checkpoints of an inner graph that was interrupted
go on in the namespace that LangGraph gave it.

A question from an inner graph is in the enclosing graph's checkpoint, too, and only the inner
graph's checkpoint has its name. So what reads a checkpoint reads those of inner graphs as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from milepost.checkpoint._contract.records import (
    CheckpointMetadata,
    CheckpointTuple,
    Place,
    place_of,
)
from milepost.constants import INTERRUPT
from milepost.integrations.langgraph._adapters.saver_adapter import Call, Calls
from milepost.integrations.langgraph._formats.names import Names
from milepost.integrations.langgraph._formats.records import tuple_to_ours

if TYPE_CHECKING:
    from milepost.types import RunnableConfig

_MOST_THREADS: Final = 10_000
"""Of so many threads it is remembered which inner graphs are called otherwise."""


class NameTranslation:
    """What is known of the threads that were read."""

    def __init__(self) -> None:
        self._spaces: dict[str, dict[str, str]] = {}
        """Thread → the namespaces that LangGraph made there, and ours for them."""

    def translated(self, found: CheckpointTuple) -> Calls[CheckpointTuple]:
        """A checkpoint under our names."""
        place = place_of(found.config)
        spaces = self._spaces.get(place.thread_id, {})
        wrote = {task_id for task_id, _, _ in found.pending_writes or ()}
        if wrote:
            names = Names(spaces=dict(spaces))
            names.learn(found, {})
            theirs = {task_id for task_id in wrote if task_id in names.tasks}
            if theirs:
                yield from _look_inside(names, found)
                spaces = self._remember(place.thread_id, names, place.checkpoint_ns, theirs)
                found = _renamed(found, names, theirs)
        return _moved(found, spaces) if spaces else found

    def _remember(self, thread_id: str, names: Names, ns: str, theirs: set[str]) -> dict[str, str]:
        known = self._spaces.setdefault(thread_id, {})
        for task_id in theirs:
            known |= names.inside(ns, task_id)
        if len(self._spaces) > _MOST_THREADS:
            del self._spaces[next(iter(self._spaces))]
        return known

    def theirs(self, config: RunnableConfig) -> RunnableConfig:
        """A config with the namespace that LangGraph knows."""
        configurable = config.get("configurable") or {}
        spaces = self._spaces.get(str(configurable.get("thread_id")))
        ns = configurable.get("checkpoint_ns")
        if not spaces or not ns:
            return config
        there = next((their_ns for their_ns, our_ns in spaces.items() if our_ns == ns), ns)
        return _with_space(config, there)


class NoTranslation(NameTranslation):
    """For a move, which gives things LangGraph's names and wants to see them."""

    def translated(self, found: CheckpointTuple) -> Calls[CheckpointTuple]:
        yield from ()
        return found


def _look_inside(names: Names, found: CheckpointTuple) -> Calls[None]:
    """Learn the names of questions that come from inner graphs."""
    place = place_of(found.config)
    for task_id, channel, value in found.pending_writes or ():
        if channel != INTERRUPT or task_id not in names.tasks or names.knows_all(value):
            continue
        (ns,) = names.inside(place.checkpoint_ns, task_id)
        found_inside = yield Call("get_tuple", Place(place.thread_id, ns, None).config())
        if found_inside is not None:
            inner = tuple_to_ours(found_inside)
            names.learn(inner, {})
            yield from _look_inside(names, inner)


def _renamed(found: CheckpointTuple, names: Names, theirs: set[str]) -> CheckpointTuple:
    writes = found.pending_writes or []
    wrote = {task_id for task_id, _, _ in writes}
    # What we have stored of a task since then counts, and not what was there before.
    replaced = {task_id for task_id in theirs if names.task(task_id) in wrote}
    return found._replace(
        pending_writes=[
            (names.task(task_id), channel, names.value(value) if channel == INTERRUPT else value)
            for task_id, channel, value in writes
            if task_id not in replaced
        ]
    )


def _moved(found: CheckpointTuple, spaces: dict[str, str]) -> CheckpointTuple:
    def ours(config: Any) -> Any:
        if config is None:
            return None
        ns = config["configurable"].get("checkpoint_ns", "")
        return _with_space(config, spaces[ns]) if ns in spaces else config

    parents = found.metadata.get("parents") or {}
    metadata = {
        **found.metadata,
        "parents": {spaces.get(ns, ns): checkpoint_id for ns, checkpoint_id in parents.items()},
    }
    return found._replace(
        config=ours(found.config),
        parent_config=ours(found.parent_config),
        metadata=cast("CheckpointMetadata", metadata),
    )


def _with_space(config: RunnableConfig, ns: str) -> RunnableConfig:
    return {**config, "configurable": {**config["configurable"], "checkpoint_ns": ns}}
