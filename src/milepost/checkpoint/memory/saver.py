"""The methods of the saver in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from milepost.checkpoint.commit import NewCheckpoint, TaskWrites
from milepost.checkpoint.memory.keeping import Keeping
from milepost.checkpoint.records import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    Place,
    copy_checkpoint,
    get_checkpoint_id,
    place_of,
)
from milepost.ids import getrandbits
from milepost.types import MISSING, RunnableConfig


class InMemorySaver(Keeping):
    """Keeps threads in memory; they are lost when the process ends.

    `factory` makes the three mappings `storage`, `writes` and `blobs`; it is called like
    `collections.defaultdict`.
    """

    _last_version: tuple[str | None, int] = (None, 0)

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
            metadata,
            {channel: values.get(channel, MISSING) for channel in new_versions},
            values.copy,
        )
        new.checkpoint = copy_checkpoint(checkpoint)
        new.checkpoint["channel_versions"].update(new_versions)
        step = self._codes.step(place, (), new, None, None, None)
        with self._lock:
            self._store(step)
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
        step = self._codes.step(place, [task], None, None, None, None)
        with self._lock:
            self._store(step)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        place = place_of(config)
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
        for place in self._places(config, get_checkpoint_id(before) if before else None):
            if left is not None and left <= 0:
                return
            with self._lock:
                saved = self.storage.get(place.thread_id, {}).get(place.checkpoint_ns, {})
                stored = saved.get(place.checkpoint_id or "")
                if stored is None:  # deleted since the listing began
                    continue
                if filter:
                    metadata = self._metadata(place, stored)
                    if any(metadata.get(key, MISSING) != wanted for key, wanted in filter.items()):
                        continue
                found = self._read(place, stored)
            yield found
            if left is not None:
                left -= 1

    def delete_thread(self, thread_id: str) -> None:
        with self._lock:
            self._remove_thread(str(thread_id))

    # -- optional methods

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        with self._lock:
            self._copy_thread(str(source_thread_id), str(target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"Unknown strategy '{strategy}': use 'keep_latest' or 'delete'.")
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
                continue
            with self._lock:
                latest = [
                    self.get_tuple(Place(thread_id, ns, None).config())
                    for ns in self.storage.get(thread_id, {})
                ]
                self._keep(thread_id, self._with_ancestors(latest).__contains__)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        runs = set(map(str, run_ids))
        with self._lock:
            for thread_id in tuple(self.storage):
                found = tuple(self._all(thread_id))
                left = [one for one in found if str(one.metadata.get("run_id")) not in runs]
                if len(left) < len(found):
                    self._keep(thread_id, self._with_ancestors(left).__contains__)

    def _with_ancestors(self, wanted: Sequence[CheckpointTuple | None]) -> set[tuple[str, str]]:
        """Namespaces and ids of checkpoints, and of those that their delta channels depend on."""
        kept: set[tuple[str, str]] = set()
        for found in wanted:
            while found is not None:
                kept.add((place_of(found.config).checkpoint_ns, found.checkpoint["id"]))
                if not leans_on_ancestors(found) or found.parent_config is None:
                    break
                found = self.get_tuple(found.parent_config)
        return kept

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002
        """A counter that orders versions, and random digits that keep branches apart."""
        known, count = self._last_version
        if current is not known:  # a run asks for the one after the one that it got last
            count = 0 if current is None else int(str(current)[:32].partition(".")[0])
        version = "%032d.%016x" % (count + 1, getrandbits(64))  # noqa: UP031 - half the time
        self._last_version = (version, count + 1)
        return version

    # -- walking

    def _places(self, config: RunnableConfig | None, before: str | None) -> Iterator[Place]:
        """The checkpoints that a listing is about, newest first within a thread."""
        with self._lock:
            if config is None:
                threads: Sequence[str] = tuple(self.storage)
                ns_wanted, id_wanted = None, None
            else:
                place = place_of(config)
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

    def _all(self, thread_id: str) -> Iterator[CheckpointTuple]:
        return self.list({"configurable": {"thread_id": thread_id}})

    # -- the other colour: nothing here waits, so there is nothing to write twice

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

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self.prune(thread_ids, strategy=strategy)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        self.delete_for_runs(run_ids)


MemorySaver = InMemorySaver
"""The older name of InMemorySaver."""


def leans_on_ancestors(found: CheckpointTuple) -> bool:
    """Whether a delta channel of this checkpoint has no stored value of its own."""
    return any(
        channel not in found.checkpoint["channel_values"]
        for channel in found.metadata.get("counters_since_delta_snapshot") or ()
    )
