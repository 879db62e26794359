"""Their savers for our graphs."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from langgraph.checkpoint.base import BaseCheckpointSaver as TheirSaver
from langgraph.checkpoint.base import CheckpointTuple as TheirTuple

from milepost._internal.asyncio_tools import in_thread
from milepost._internal.generators import adrive, drive
from milepost.checkpoint._contract.records import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    place_of,
)
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.integrations.langgraph._adapters.open_steps import Adoption
from milepost.integrations.langgraph._adapters.thread_methods import Upkeep
from milepost.integrations.langgraph._formats.records import to_ours, to_theirs

if TYPE_CHECKING:
    from milepost.types import RunnableConfig


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


class ForeignSaver(Upkeep, BaseCheckpointSaver[Any]):
    """A LangGraph saver behind milepost's contract. Made by `from_langgraph`."""

    def __init__(self, saver: TheirSaver[Any], adoption: Adoption | None = None) -> None:
        super().__init__()
        # Any: the two libraries' configs and checkpoints are the same dicts with other names.
        self._saver: Any = saver
        self._adoption = Adoption() if adoption is None else adoption

    def __repr__(self) -> str:
        return f"from_langgraph({self._saver!r})"

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self._saver.get_next_version(current, channel)

    # -- reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found = self._saver.get_tuple(self._adoption.theirs(config))
        return None if found is None else self._ours(found)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found = await self._wait("get_tuple", self._adoption.theirs(config))
        return None if found is None else await self._aours(found)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        pages = _Pages(self._adoption, config, filter, before, limit)
        while not pages.done:
            # Not as they come: LangGraph's SQLite saver is locked until its listing has ended, and
            # the caller may want to read something in between.
            found = builtins.list(self._saver.list(pages.config, **pages.wanted))
            yield from pages.turn([self._ours(one) for one in found])

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        pages = _Pages(self._adoption, config, filter, before, limit)
        while not pages.done:
            for known in pages.turn(await self._page(pages.config, pages.wanted)):
                yield known

    async def _page(self, config: Any, wanted: dict[str, Any]) -> Sequence[CheckpointTuple]:
        try:
            found = [one async for one in self._saver.alist(config, **wanted)]
        except NotImplementedError:
            found = await in_thread(lambda: [*self._saver.list(config, **wanted)])
        return [await self._aours(one) for one in found]

    def _ours(self, found: TheirTuple) -> CheckpointTuple:
        def read(wanted: RunnableConfig) -> CheckpointTuple | None:
            return _ours_or_none(self._saver.get_tuple(wanted))

        return drive(self._adoption.adopted(_ours(found)), read)

    async def _aours(self, found: TheirTuple) -> CheckpointTuple:
        async def read(wanted: RunnableConfig) -> CheckpointTuple | None:
            return _ours_or_none(await self._wait("get_tuple", wanted))

        return await adrive(self._adoption.adopted(_ours(found)), read)

    # -- writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        there = self._adoption.theirs(config)
        self._saver.put(there, _with_theirs(checkpoint), metadata, new_versions)
        return _stored(config, checkpoint)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        there = self._adoption.theirs(config)
        await self._wait("put", there, _with_theirs(checkpoint), metadata, new_versions)
        return _stored(config, checkpoint)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        there = self._adoption.theirs(config)
        self._saver.put_writes(there, to_theirs(builtins.list(writes)), task_id, task_path)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        there, theirs = self._adoption.theirs(config), to_theirs(builtins.list(writes))
        await self._wait("put_writes", there, theirs, task_id, task_path)

    async def _wait(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call the saver from an event loop.

        LangGraph's sync savers have the async methods too, and say NotImplementedError: those are
        called in a thread.
        """
        try:
            return await getattr(self._saver, f"a{method}")(*arguments, **named)
        except NotImplementedError:
            return await in_thread(getattr(self._saver, method), *arguments, **named)


class _Pages:
    """A long listing in parts, so that a thread's history need not fit into memory."""

    SIZE = 64

    def __init__(
        self,
        adoption: Adoption,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> None:
        self.config = config and adoption.theirs(config)
        configurable = (config or {}).get("configurable") or {}
        # Only within one graph of one thread is the order the same in all of LangGraph's savers.
        self._in_parts = "thread_id" in configurable and "checkpoint_ns" in configurable
        self._left = limit
        self.wanted: dict[str, Any] = {"filter": filter, "before": before, "limit": self._next()}
        self.done = limit is not None and limit <= 0

    def _next(self) -> int | None:
        if not self._in_parts:
            return self._left
        return self.SIZE if self._left is None else min(self.SIZE, self._left)

    def turn(self, found: Sequence[CheckpointTuple]) -> Sequence[CheckpointTuple]:
        """Take a page, and get ready for the next."""
        if self._left is not None:
            self._left -= len(found)
        full = self._in_parts and len(found) == self.wanted["limit"]
        self.done = not full or self._left == 0
        if not self.done:
            self.wanted |= {"before": found[-1].config, "limit": self._next()}
        return found


def _stored(config: RunnableConfig, checkpoint: Checkpoint) -> RunnableConfig:
    """The config of a checkpoint that was put."""
    return place_of(config)._replace(checkpoint_id=checkpoint["id"]).config()


def _ours(found: TheirTuple) -> CheckpointTuple:
    checkpoint = cast("Checkpoint", found.checkpoint)
    values = to_ours(checkpoint["channel_values"])
    return CheckpointTuple(
        cast("RunnableConfig", found.config),
        {**checkpoint, "channel_values": values},
        cast("CheckpointMetadata", found.metadata),
        cast("RunnableConfig | None", found.parent_config),
        # Some savers give tuples, others lists.
        [(task, channel, to_ours(value)) for task, channel, value in found.pending_writes or ()],
    )


def _ours_or_none(found: TheirTuple | None) -> CheckpointTuple | None:
    return None if found is None else _ours(found)


def _with_theirs(checkpoint: Checkpoint) -> Checkpoint:
    return {**checkpoint, "channel_values": to_theirs(checkpoint["channel_values"])}
