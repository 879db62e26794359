"""The methods of the saver in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from milepost.checkpoint._contract.faceted_saver import FacetedSaver
from milepost.checkpoint._contract.names import check_name, check_place
from milepost.checkpoint._contract.older_names import with_metadata_of
from milepost.checkpoint._contract.records import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    Place,
    copy_checkpoint,
    get_checkpoint_id,
    metadata_matches,
    place_of,
)
from milepost.checkpoint._contract.step_saver import NewCheckpoint, TaskWrites
from milepost.checkpoint._contract.threads import status_left
from milepost.checkpoint._memory.reencrypt import MemoryAdmin
from milepost.checkpoint._memory.storage import MemoryStorage
from milepost.checkpoint._memory.threads import MemoryThreads
from milepost.types import MISSING, RunnableConfig


class InMemorySaver(FacetedSaver, MemoryStorage):  # type: ignore[misc] # what prune returns
    """Keeps threads in memory; they are lost when the process ends.

    Args:
        serde: Turns values into bytes and back.
        factory: Makes the three mappings `storage`, `writes` and `blobs`; it is called like
            `collections.defaultdict`.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.graph import START, StateGraph
        >>> saver = InMemorySaver()
        >>> builder = StateGraph(dict).add_node("work", lambda state: {"n": 1})
        >>> graph = builder.add_edge(START, "work").compile(checkpointer=saver)
        >>> config = {"configurable": {"thread_id": "1"}}
        >>> graph.invoke({}, config)
        {'n': 1}
    """

    _always_short = False

    @property
    def threads(self) -> MemoryThreads:
        """Whole threads: listed, created, described, copied, pruned, swept, erased."""
        return MemoryThreads(self, self._sweeping)

    @property
    def admin(self) -> MemoryAdmin:
        """All that is stored: sealed with another key."""
        return MemoryAdmin(self)

    # -- the five methods

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        place = place_of(config)
        values = checkpoint["channel_values"]
        new = NewCheckpoint(
            checkpoint,
            with_metadata_of(config, metadata),
            {channel: values.get(channel, MISSING) for channel in new_versions},
            values.copy,
        )
        new.checkpoint = copy_checkpoint(checkpoint)
        new.checkpoint["channel_versions"].update(new_versions)
        self._names.checkpoint(place, new)
        base = self._stored(place)
        step = self._encoded(place, base, (), new, status=status_left(new.changed))
        with self._lock:
            self._store(step)
            # `_latest` may be a checkpoint that this one replaces: the next step must read it.
            self._latest.pop(place.thread_id, None)
        return place._replace(checkpoint_id=checkpoint["id"]).config()

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        place = place_of(config)
        task = TaskWrites(task_id, task_path, "", writes)
        self._names.writes(place, task)
        step = self._encoded(place, None, [task], None)
        with self._lock:
            self._store(step)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        place = check_place(place_of(config))
        with self._lock:
            saved = self.storage.get(place.thread_id, {}).get(place.checkpoint_ns)
            if not saved:
                return None
            wanted = place.checkpoint_id
            if wanted is None:
                wanted = self.head(place.thread_id) if place.checkpoint_ns == "" else max(saved)
            if wanted is None or wanted not in saved:
                return None
            return self._read(place._replace(checkpoint_id=wanted), saved[wanted])

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        left = limit
        end = get_checkpoint_id(before) if before else None
        if end is not None:
            check_name("checkpoint_id", end)
        for place in self._places(config, end):
            if left is not None and left <= 0:
                return
            with self._lock:
                saved = self.storage.get(place.thread_id, {}).get(place.checkpoint_ns, {})
                stored = saved.get(place.checkpoint_id or "")
                if stored is None:  # deleted since the listing began
                    continue
                if filter:
                    metadata = self._metadata(place, stored)
                    if not metadata_matches(metadata, filter):
                        continue
                found = self._read(place, stored)
            yield found
            if left is not None:
                left -= 1

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        # Under the lock, the thread cannot be deleted and created again during the walk.
        with self._lock:
            return super().get_delta_channel_history(config=config, channels=channels)

    # -- walking

    def _places(self, config: RunnableConfig | None, before: str | None) -> Iterator[Place]:
        """The checkpoints of a listing, newest first within a thread."""
        with self._lock:
            if config is None:
                threads: Sequence[str] = tuple(self.storage)
                ns_wanted, id_wanted = None, None
            else:
                place = check_place(place_of(config))
                threads = (place.thread_id,)
                ns_wanted = (config.get("configurable") or {}).get("checkpoint_ns")
                id_wanted = place.checkpoint_id
            found = [
                Place(thread_id, ns, checkpoint_id)
                for thread_id in threads
                for checkpoint_id, ns in sorted(
                    (
                        (checkpoint_id, ns)
                        for ns, saved in self.storage.get(thread_id, {}).items()
                        if ns_wanted is None or ns == ns_wanted
                        for checkpoint_id in saved
                        if id_wanted is None or checkpoint_id == id_wanted
                        if before is None or checkpoint_id < before
                    ),
                    reverse=True,
                )
            ]
        return iter(found)

    # -- async methods: nothing here waits, so each calls its sync form

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self.get_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        for found in self.list(config, filter=filter, before=before, limit=limit):
            yield found

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return self.get_delta_channel_history(config=config, channels=channels)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        self.put_writes(config, writes, task_id, task_path)


MemorySaver = InMemorySaver
"""The older name of InMemorySaver."""
