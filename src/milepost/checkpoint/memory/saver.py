"""The methods of the saver in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from milepost.checkpoint.commit import NewCheckpoint, TaskWrites
from milepost.checkpoint.memory.rows import (
    Prepared,
    Rows,
    Thread,
    blobs_of,
    leans_on_ancestors,
)
from milepost.checkpoint.memory.shelves import Shelves
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


class InMemorySaver(Shelves):
    """Keeps threads in memory; they are lost when the process ends.

    `factory` makes the three mappings `storage`, `writes` and `blobs`; it is called like
    `collections.defaultdict`.
    """

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
        step = Prepared(
            place,
            [],
            self._encode_blobs(place, new, {}),
            self._encode_checkpoint(place, new),
            None,
        )
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
        rows: Rows = []
        self._encode_writes(place, TaskWrites(task_id, task_path, "", writes), rows, {})
        step = Prepared(place, rows, [], None, None)
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
        thread_id = str(thread_id)
        with self._lock:
            by_ns = self.storage.pop(thread_id, {})
            thread = self._threads.pop(thread_id, None)
            for write_key in thread.early_writes if thread else ():
                self.writes.pop(write_key, None)
            for ns, saved in by_ns.items():
                for checkpoint_id in saved:
                    self.writes.pop((thread_id, ns, checkpoint_id), None)
                for blob_key in blobs_of(thread_id, ns, saved):
                    self.blobs.pop(blob_key, None)

    # -- optional methods

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        with self._lock:
            for found in list(self._all(source_thread_id)):
                source = place_of(found.config)
                target = source._replace(thread_id=str(target_thread_id))
                parent = (
                    place_of(found.parent_config).checkpoint_id if found.parent_config else None
                )
                new = NewCheckpoint(
                    found.checkpoint,
                    found.metadata,
                    {
                        channel: found.checkpoint["channel_values"].get(channel, MISSING)
                        for channel in found.checkpoint["channel_versions"]
                    },
                    dict,
                )
                rows = self.writes.get(
                    (source.thread_id, source.checkpoint_ns, found.checkpoint["id"]), {}
                )
                self._store(
                    Prepared(
                        target,
                        [(at, self._moved(source, target, at, row)) for at, row in rows.items()],
                        self._encode_blobs(target, new, {}),
                        self._encode_checkpoint(target._replace(checkpoint_id=parent), new),
                        None,
                    )
                )

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"Unknown strategy '{strategy}': use 'keep_latest' or 'delete'.")
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
                continue
            with self._lock:
                kept: set[tuple[str, str]] = set()
                for ns in self.storage.get(thread_id, {}):
                    latest = self.get_tuple(Place(thread_id, ns, None).config())
                    while latest is not None:
                        kept.add((ns, latest.checkpoint["id"]))
                        if not leans_on_ancestors(latest) or latest.parent_config is None:
                            break
                        latest = self.get_tuple(latest.parent_config)
                self._keep(thread_id, kept.__contains__)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        runs = set(map(str, run_ids))
        with self._lock:
            for thread_id in tuple(self.storage):
                doomed = {
                    (place_of(found.config).checkpoint_ns, found.checkpoint["id"])
                    for found in self._all(thread_id)
                    if str(found.metadata.get("run_id")) in runs
                }
                if doomed:
                    self._keep(thread_id, not_in(doomed))

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002
        """A counter that orders versions, and random digits that keep branches apart."""
        count = 0 if current is None else int(str(current)[:32].partition(".")[0])
        return "%032d.%016x" % (count + 1, getrandbits(64))  # noqa: UP031 - half the time

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

    def _keep(self, thread_id: str, wanted: Callable[[tuple[str, str]], bool]) -> None:
        """Drop all checkpoints but the wanted ones, and what only the dropped ones used."""
        for ns, saved in self.storage.get(thread_id, {}).items():
            unused = blobs_of(thread_id, ns, saved)
            for checkpoint_id in [id for id in saved if not wanted((ns, id))]:
                del saved[checkpoint_id]
                self.writes.pop((thread_id, ns, checkpoint_id), None)
            for blob_key in unused - blobs_of(thread_id, ns, saved):
                self.blobs.pop(blob_key, None)
        head = max(self.storage.get(thread_id, {}).get("", {}), default=None)
        self._threads.setdefault(thread_id, Thread(head)).head = head

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


def not_in(doomed: set[tuple[str, str]]) -> Callable[[tuple[str, str]], bool]:
    return lambda place: place not in doomed
