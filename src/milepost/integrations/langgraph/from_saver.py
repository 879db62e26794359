"""Their savers for our graphs."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from langgraph.checkpoint.base import BaseCheckpointSaver as TheirSaver

from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.checkpoint.records import CheckpointTuple
from milepost.integrations.langgraph.translation import to_ours, to_theirs

if TYPE_CHECKING:
    from langgraph.checkpoint.base import CheckpointTuple as TheirTuple

    from milepost.checkpoint.records import ChannelVersions, Checkpoint, CheckpointMetadata
    from milepost.types import RunnableConfig


def from_langgraph(saver: TheirSaver[Any]) -> BaseCheckpointSaver[Any]:
    """A milepost saver that keeps its threads in one of LangGraph's savers.

    Such a saver has neither fencing nor one-transaction steps, and its own serializer decides
    what it writes and reads; nothing of that is simulated here.
    """
    if not isinstance(saver, TheirSaver):
        raise TypeError(
            f"from_langgraph needs a saver of LangGraph's, not {type(saver).__name__}."
            " A milepost saver needs no adapter in milepost's graphs."
        )
    return ForeignSaver(saver)


class ForeignSaver(BaseCheckpointSaver[Any]):
    """A LangGraph saver behind milepost's contract. Made by `from_langgraph`."""

    def __init__(self, saver: TheirSaver[Any]) -> None:
        super().__init__()
        # Any: the two libraries' configs and checkpoints are the same dicts with other names.
        self._saver: Any = saver

    def __repr__(self) -> str:
        return f"from_langgraph({self._saver!r})"

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self._saver.get_next_version(current, channel)

    # -- reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found = self._saver.get_tuple(config)
        return None if found is None else _ours(found)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found = await self._wait("get_tuple", config)
        return None if found is None else _ours(found)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        return map(_ours, self._saver.list(config, filter=filter, before=before, limit=limit))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        wanted: Any = {"filter": filter, "before": before, "limit": limit}
        try:
            async for found in self._saver.alist(config, **wanted):
                yield _ours(found)
        except NotImplementedError:
            listing = self.list(config, **wanted)
            for known in await asyncio.to_thread(builtins.list, listing):
                yield known

    # -- writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        stored = self._saver.put(config, _with_theirs(checkpoint), metadata, new_versions)
        return cast("RunnableConfig", stored)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        stored = await self._wait("put", config, _with_theirs(checkpoint), metadata, new_versions)
        return cast("RunnableConfig", stored)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        self._saver.put_writes(config, to_theirs(builtins.list(writes)), task_id, task_path)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        theirs = to_theirs(builtins.list(writes))
        await self._wait("put_writes", config, theirs, task_id, task_path)

    # -- maintenance

    def delete_thread(self, thread_id: str) -> None:
        self._saver.delete_thread(thread_id)

    async def adelete_thread(self, thread_id: str) -> None:
        await self._wait("delete_thread", thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._saver.delete_for_runs(run_ids)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._wait("delete_for_runs", run_ids)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._saver.copy_thread(source_thread_id, target_thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._wait("copy_thread", source_thread_id, target_thread_id)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._saver.prune(thread_ids, strategy=strategy)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._wait("prune", thread_ids, strategy=strategy)

    async def _wait(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call the saver from an event loop.

        LangGraph's sync savers have the async methods too, and say NotImplementedError: those are
        called in a thread.
        """
        try:
            return await getattr(self._saver, f"a{method}")(*arguments, **named)
        except NotImplementedError:
            return await asyncio.to_thread(getattr(self._saver, method), *arguments, **named)


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


def _with_theirs(checkpoint: Checkpoint) -> Checkpoint:
    return {**checkpoint, "channel_values": to_theirs(checkpoint["channel_values"])}
