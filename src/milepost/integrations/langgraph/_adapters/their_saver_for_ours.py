"""Their savers for our graphs."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterable, AsyncIterator, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver as TheirSaver

from milepost._internal.asyncio_tools import in_thread
from milepost._internal.generators import GeneratorDriver, adrive, drive
from milepost.checkpoint._contract.records import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    place_of,
)
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.integrations.langgraph._adapters.open_steps import NameTranslation
from milepost.integrations.langgraph._adapters.saver_adapter import (
    Call,
    Calls,
    SaverAdapter,
    awaitable,
    blocking,
)
from milepost.integrations.langgraph._formats.records import to_theirs, tuple_to_ours

if TYPE_CHECKING:
    from milepost.types import RunnableConfig

_PAGE: Final = 64
"""Checkpoints that are listed at once."""


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

    def __init__(self, saver: TheirSaver[Any], translation: NameTranslation | None = None) -> None:
        super().__init__()
        # Any: the two libraries' configs and checkpoints are the same dicts with other names.
        self._saver: Any = saver
        self._names = NameTranslation() if translation is None else translation

    def __repr__(self) -> str:
        return f"from_langgraph({self._saver!r})"

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self._saver.get_next_version(current, channel)

    async def _acall(self, wanted: Call) -> Any:
        """LangGraph's sync savers have the async methods too, and say NotImplementedError: those
        are called in a thread."""
        try:
            answer = getattr(self._saver, f"a{wanted.method}")(*wanted.arguments, **wanted.named)
            if isinstance(answer, AsyncIterable):
                return [one async for one in answer]
            return await answer
        except NotImplementedError:
            return await in_thread(self._call, wanted)

    # -- reading

    def _get_tuple(self, config: RunnableConfig) -> Calls[CheckpointTuple | None]:
        found = yield Call("get_tuple", self._names.theirs(config))
        return None if found is None else (yield from self._names.translated(tuple_to_ours(found)))

    get_tuple, aget_tuple = blocking(_get_tuple), awaitable(_get_tuple)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        there = config and self._names.theirs(config)
        pages = GeneratorDriver(_pages(config, filter, before, limit))
        for wanted in pages:
            pages.answer = found = drive(self._page(there, wanted), self._call)
            yield from found

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        there = config and self._names.theirs(config)
        pages = GeneratorDriver(_pages(config, filter, before, limit))
        for wanted in pages:
            pages.answer = found = await adrive(self._page(there, wanted), self._acall)
            for one in found:
                yield one

    def _page(
        self, config: RunnableConfig | None, wanted: dict[str, Any]
    ) -> Calls[Sequence[CheckpointTuple]]:
        # Not as they come: LangGraph's SQLite saver is locked until its listing has ended, and the
        # caller may want to read something in between.
        listed = yield Call("list", config, **wanted)
        found = []
        for one in listed:
            found.append((yield from self._names.translated(tuple_to_ours(one))))
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
        yield Call("put", self._names.theirs(config), theirs, metadata, new_versions)
        return place_of(config)._replace(checkpoint_id=checkpoint["id"]).config()

    def _put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> Calls[None]:
        there, theirs = self._names.theirs(config), to_theirs(builtins.list(writes))
        yield Call("put_writes", there, theirs, task_id, task_path)

    put, aput = blocking(_put), awaitable(_put)
    put_writes, aput_writes = blocking(_put_writes), awaitable(_put_writes)


def _pages(
    config: RunnableConfig | None,
    filter: dict[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
) -> Generator[dict[str, Any], Sequence[CheckpointTuple], None]:
    """A long listing in parts, so that a thread's history need not fit into memory.

    Yields what to ask for, and is sent the checkpoints.
    """
    configurable = (config or {}).get("configurable") or {}
    # Only within one graph of one thread is the order the same in all of LangGraph's savers.
    in_parts = "thread_id" in configurable and "checkpoint_ns" in configurable
    while limit is None or limit > 0:
        size = limit
        if in_parts:
            size = _PAGE if limit is None else min(_PAGE, limit)
        found = yield {"filter": filter, "before": before, "limit": size}
        if not in_parts or len(found) != size:
            return
        before = found[-1].config
        limit = None if limit is None else limit - len(found)
