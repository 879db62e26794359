"""Their savers for our graphs.

Steps that LangGraph left open are seen under our names while they stay where they are. Its names of
tasks, inner graphs and interrupts are translated when a checkpoint is read. What our run then
writes has our names already; only the checkpoints of an inner graph that was interrupted go on in
the namespace that LangGraph gave it.

A question from an inner graph is in the enclosing graph's checkpoint, too, and only the inner
graph's checkpoint has its name. So what reads a checkpoint reads those of inner graphs as well.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from langgraph.checkpoint.base import BaseCheckpointSaver as TheirSaver

from milepost._internal.asyncio_tools import in_thread
from milepost.checkpoint._contract.records import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    Place,
    place_of,
)
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.constants import INTERRUPT
from milepost.integrations.langgraph._adapters.saver_adapter import (
    Call,
    Calls,
    SaverAdapter,
    completed,
    sync_and_async,
)
from milepost.integrations.langgraph._formats.names import Names
from milepost.integrations.langgraph._formats.records import to_theirs, tuple_to_ours

if TYPE_CHECKING:
    from milepost.types import RunnableConfig

_MOST_THREADS: Final = 10_000
"""For at most this many threads the other names of inner graphs are cached."""


def from_langgraph(saver: TheirSaver[Any]) -> BaseCheckpointSaver[Any]:
    """A milepost saver that keeps its threads in one of LangGraph's savers.

    Such a saver has neither fencing nor one-transaction steps, and its own serializer decides
    what it writes and reads; nothing of that is simulated here.

    Args:
        saver: Where threads are kept.

    Examples:
        >>> from langgraph.checkpoint.memory import InMemorySaver
        >>> from milepost.graph import START, StateGraph
        >>> from milepost.integrations.langgraph import from_langgraph
        >>> builder = StateGraph(dict).add_node("work", lambda state: {"n": 1})
        >>> graph = builder.add_edge(START, "work").compile(from_langgraph(InMemorySaver()))
        >>> graph.invoke({}, {"configurable": {"thread_id": "1"}})
        {'n': 1}
    """
    if not isinstance(saver, TheirSaver):
        raise TypeError(
            f"from_langgraph needs a saver of LangGraph's, not {type(saver).__name__}."
            " A milepost saver needs no adapter in milepost's graphs."
        )
    return ForeignSaver(saver)


class ForeignSaver(SaverAdapter, BaseCheckpointSaver[Any]):
    """A LangGraph saver behind milepost's contract. Made by `from_langgraph`."""

    def __init__(self, saver: TheirSaver[Any], *, translates: bool = True) -> None:
        super().__init__()
        self._saver = saver
        self._translates = translates
        """A move does not: it stores LangGraph's names as they are, and compares them."""
        self._spaces: dict[str, dict[str, str]] = {}
        """Thread → the namespaces that LangGraph made there, and ours for them."""

    def __repr__(self) -> str:
        return f"from_langgraph({self._saver!r})"

    async def _acall(self, wanted: Call) -> Any:
        """LangGraph's sync savers have the async methods too, and say NotImplementedError: those
        are called in a thread."""
        try:
            answer = getattr(self._saver, f"a{wanted.method}")(*wanted.arguments, **wanted.named)
            return await completed(answer)
        except NotImplementedError:
            return await in_thread(self._call, wanted)

    # -- reading

    def _get_tuple(self, config: RunnableConfig) -> Calls[CheckpointTuple | None]:
        found = yield Call("get_tuple", self._theirs(config))
        return None if found is None else (yield from self._ours(tuple_to_ours(found)))

    get_tuple, aget_tuple = sync_and_async(_get_tuple)

    def _page(self, config: Any, wanted: dict[str, Any]) -> Calls[Sequence[CheckpointTuple]]:
        listed = yield Call("list", config and self._theirs(config), **wanted)
        found = []
        for one in listed:
            found.append((yield from self._ours(tuple_to_ours(one))))
        return found

    # -- writing

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Calls[RunnableConfig]:
        theirs = {**checkpoint, "channel_values": to_theirs(checkpoint["channel_values"])}
        yield Call("put", self._theirs(config), theirs, metadata, new_versions)
        return place_of(config)._replace(checkpoint_id=checkpoint["id"]).config()

    def _put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> Calls[None]:
        there, theirs = self._theirs(config), to_theirs(builtins.list(writes))
        yield Call("put_writes", there, theirs, task_id, task_path)

    put, aput = sync_and_async(_put)
    put_writes, aput_writes = sync_and_async(_put_writes)

    # -- names of steps that LangGraph left open

    def _ours(self, found: CheckpointTuple) -> Calls[CheckpointTuple]:
        """A checkpoint under our names."""
        place = place_of(found.config)
        spaces = self._spaces.get(place.thread_id, {})
        wrote = {task_id for task_id, _, _ in found.pending_writes or ()}
        if wrote and self._translates:
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

    def _theirs(self, config: RunnableConfig) -> RunnableConfig:
        """A config with the namespace that LangGraph knows."""
        configurable = config.get("configurable") or {}
        spaces = self._spaces.get(str(configurable.get("thread_id")))
        ns = configurable.get("checkpoint_ns")
        if not spaces or not ns:
            return config
        there = next((their_ns for their_ns, our_ns in spaces.items() if our_ns == ns), ns)
        return _with_space(config, there)


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
