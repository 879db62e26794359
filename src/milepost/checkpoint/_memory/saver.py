"""The methods of the saver in memory, and its `admin`, which seals with the newest key."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from milepost.checkpoint._contract.faceted_saver import Admin, FacetedSaver
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
from milepost.checkpoint._contract.thread_admin import thread_ids_of
from milepost.checkpoint._contract.threads import Problem, status_left
from milepost.checkpoint._delta.encode import Typed
from milepost.checkpoint._memory.rows import RegistryEntry
from milepost.checkpoint._memory.storage import MemoryStorage
from milepost.checkpoint._memory.threads import MemoryThreads
from milepost.checkpoint._memory.value_log import StoredValue, read
from milepost.checkpoint.serde._rotation import NOT_ENCRYPTED, Reencrypted, rotates
from milepost.errors import CheckpointError, SerdeError
from milepost.types import MISSING, RunnableConfig

if TYPE_CHECKING:
    from milepost._db.engine import Transactions
    from milepost._internal.progress import Progress


_TABLES = {"blob": "blobs", "metadata": "storage", "write": "writes"}
"""The mapping that a value is in, by the first word of its place."""


class MemoryAdmin(Admin):
    """Seals everything in memory with the newest key. `vacuum` has no effect here."""

    def __init__(self, saver: MemoryStorage) -> None:
        super().__init__(None)
        self._saver = saver

    def _reseal(
        self, thread_ids: Sequence[str] | None, progress: Progress | None
    ) -> Transactions[Reencrypted[Problem]]:
        if not rotates(self._saver.serde):
            raise CheckpointError(NOT_ENCRYPTED)
        done: Reencrypted[Problem] = Reencrypted()
        with self._saver._lock:
            known = {*self._saver.storage, *self._saver._threads}
        wanted = sorted(known if thread_ids is None else thread_ids_of(thread_ids))
        for at, thread_id in enumerate(wanted, 1):
            with self._saver._lock:
                self._reseal_thread(thread_id, done)
            if progress is not None:
                progress(at, len(wanted))
        yield from ()
        return done

    def _reseal_thread(self, thread_id: str, done: Reencrypted[Problem]) -> None:
        def resealed(kept: StoredValue, place: str, _same: str) -> StoredValue:
            """The value sealed with the newest key, if it is not already, and can be unsealed."""
            typed, serde = read(kept), cast(Any, self._saver.serde)
            if serde.is_current(typed[1]):
                done.current += 1
                return kept
            try:
                new: Typed = serde.reseal_typed(typed, place)
            except SerdeError as error:
                what, _, ns, *key = place.split("\0")
                problem = Problem(thread_id, ns, _TABLES[what], " ".join(key), str(error))
                done.refused.append(problem)
                return kept
            done.resealed += 1
            return new

        blobs, writes, graphs = self._saver._changed(thread_id, thread_id, resealed)
        self._saver.blobs.update(blobs)
        self._saver.writes.update(writes)
        if graphs:
            self._saver.storage[thread_id] = graphs
        if (thread := self._saver._threads.get(thread_id)) is not None:
            self._reseal_entry(thread_id, thread, done)

    def _reseal_entry(
        self, thread_id: str, thread: RegistryEntry, done: Reencrypted[Problem]
    ) -> None:
        current = self._saver._thread_metadata.is_current(thread.metadata)
        done.current += current is True
        if current is False:
            try:
                again = self._saver._thread_metadata.merged(thread_id, thread.metadata, {})
                thread.metadata = json.loads(again.text)
                done.resealed += 1
            except SerdeError as error:
                done.refused.append(Problem(thread_id, "", "threads", thread_id, str(error)))


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

    @property
    def threads(self) -> MemoryThreads:
        """Whole threads: listed, created, described, copied, pruned, swept, erased."""
        return MemoryThreads(self, self._sweeper)

    @property
    def admin(self) -> MemoryAdmin:
        """Operations on all that is stored: re-encryption."""
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
        kept = copy_checkpoint(checkpoint)
        kept["channel_versions"].update(new_versions)
        changed = {channel: values.get(channel, MISSING) for channel in new_versions}
        new = NewCheckpoint.of(kept, with_metadata_of(config, metadata), changed, values.copy)
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
        end = get_checkpoint_id(before) if before else None
        if end is not None:
            check_name("checkpoint_id", end)
        read = (self._matching(place, filter or {}) for place in self._places(config, end))
        found = (one for one in read if one is not None)
        yield from islice(found, None if limit is None else max(limit, 0))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        # Under the lock, the thread cannot be deleted and created again during the walk.
        with self._lock:
            return super().get_delta_channel_history(config=config, channels=channels)

    # -- walking

    def _matching(self, place: Place, filter: Mapping[str, Any]) -> CheckpointTuple | None:
        """A checkpoint of a listing; None if its metadata differ, or if it was deleted since."""
        with self._lock:
            stored = self._stored(place)
            if stored is None:
                return None
            if filter and not metadata_matches(self._metadata(place, stored), filter):
                return None
            return self._read(place, stored)

    def _places(self, config: RunnableConfig | None, before: str | None) -> Iterator[Place]:
        """The checkpoints of a listing, newest first within a thread."""
        with self._lock:
            if not config:
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
