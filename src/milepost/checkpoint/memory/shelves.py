"""Keeps steps in mappings: encodes them, stores them under a fence, and reads them back."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import ExitStack
from typing import Any, Self

from milepost.checkpoint.commit import Fence, NewCheckpoint, StepCommit, StepSaver, TaskWrites
from milepost.checkpoint.memory.rows import (
    EMPTY,
    NULL,
    Blobs,
    Pending,
    Prepared,
    Rows,
    Stored,
    StoredWrite,
    Thread,
    Typed,
    blob_place,
    metadata_place,
    write_place,
)
from milepost.checkpoint.records import (
    WRITES_IDX_MAP,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    Place,
)
from milepost.checkpoint.serde.base import SerializerProtocol, dumps_at, loads_at
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.errors import SerdeError
from milepost.types import MISSING


class Shelves(StepSaver[Prepared]):
    """Three mappings, and how steps get into them and out again."""

    instant = True

    storage: MutableMapping[str, dict[str, dict[str, Stored]]]
    """Thread → namespace → checkpoint id → checkpoint."""
    writes: MutableMapping[tuple[str, str, str], dict[tuple[str, int], StoredWrite]]
    """Thread, namespace and checkpoint → task and place → write."""
    blobs: MutableMapping[tuple[str, str, str, Any], Typed]
    """Thread, namespace, channel and version → value."""

    def __init__(
        self,
        *,
        serde: SerializerProtocol | None = None,
        factory: Callable[..., MutableMapping[Any, Any]] = defaultdict,
    ) -> None:
        super().__init__(serde=serde)
        self.storage = factory(dict)
        self.writes = factory(dict)
        self.blobs = factory(bytes)
        self._threads: dict[str, Thread] = {}
        self._lock = threading.RLock()
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        # A factory may make mappings that have to be opened and closed, such as files.
        mappings: tuple[Any, ...] = (self.storage, self.writes, self.blobs)
        for mapping in mappings:
            if hasattr(mapping, "__enter__"):
                self._opened.enter_context(mapping)
        return self

    def __exit__(self, *exc: Any) -> None:
        self._opened.__exit__(*exc)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *exc: Any) -> None:
        self.__exit__(*exc)

    # -- a step in one go

    def prepare(self, step: StepCommit) -> Prepared:
        place = Place(step.thread_id, step.checkpoint_ns, step.checkpoint_id)
        once: dict[int, Typed] = {}
        writes: Rows = []
        for task in step.writes:
            self._encode_writes(place, task, writes, once)
        if step.new is None:
            return Prepared(place, writes, [], None, step.fence)
        return Prepared(
            place,
            writes,
            self._encode_blobs(place, step.new, once),
            self._encode_checkpoint(place, step.new),
            step.fence,
        )

    def commit(self, steps: Sequence[Prepared]) -> list[Exception | None]:
        outcome: list[Exception | None] = []
        with self._lock:
            for step in steps:
                try:
                    self._store(step)
                except Exception as error:
                    outcome.append(error)
                else:
                    outcome.append(None)
        return outcome

    async def acommit(self, steps: Sequence[Prepared]) -> list[Exception | None]:
        return self.commit(steps)

    def head(self, thread_id: str) -> str | None:
        with self._lock:
            if (thread := self._threads.get(thread_id)) is not None:
                return thread.head
            # The mappings may have been filled by a factory that remembers.
            return max(self.storage.get(thread_id, {}).get("", {}), default=None)

    async def ahead(self, thread_id: str) -> str | None:
        return self.head(thread_id)

    def hold(self, thread_id: str, fence: Fence) -> None:
        with self._lock:
            thread = self._threads.get(thread_id)
            before = "idle"
            if thread is None:
                head = self.head(thread_id)
                thread, before = Thread(head), before if head else ""
            holder = thread.fence
            # No lease: in one process a run cannot die without ending.
            fence.claim(thread_id, thread.token, holder is not None and not holder.ended)
            self._threads[thread_id] = thread
            thread.token, thread.fence = fence.token, fence
            fence.held(before)

    async def ahold(self, thread_id: str, fence: Fence) -> None:
        self.hold(thread_id, fence)

    def release(self, thread_id: str, fence: Fence, status: str) -> None:
        with self._lock:
            thread = self._threads.get(thread_id)
            if thread is not None and thread.fence is fence and thread.head is None and not status:
                del self._threads[thread_id]

    async def arelease(self, thread_id: str, fence: Fence, status: str) -> None:
        self.release(thread_id, fence, status)

    def _store(self, step: Prepared) -> None:
        thread_id, ns, checkpoint_id = step.place
        thread = self._threads.get(thread_id)
        fence = step.fence
        if fence is not None:
            fence.check(
                thread_id,
                thread.head if thread else self.head(thread_id),
                thread.token if thread else None,
            )
        if thread is None:
            head = max(self.storage.get(thread_id, {}).get("", {}), default=None)
            thread = self._threads[thread_id] = Thread(head)
        if fence is not None:
            thread.token = fence.token
            thread.fence = fence
            fence.taken = True
        if step.writes:
            assert checkpoint_id is not None
            write_key = (thread_id, ns, checkpoint_id)
            rows = self.writes.get(write_key)
            if rows is None:
                rows = self.writes[write_key] = {}
                known = self.storage.get(thread_id)
                if known is None or ns not in known or checkpoint_id not in known[ns]:
                    thread.early_writes.add(write_key)
            for at, write in step.writes:
                if at[1] < 0 or at not in rows:
                    rows[at] = write
        for blob_key, blob in step.blobs:
            self.blobs[blob_key] = blob
        if (stored := step.stored) is not None:
            new_id = stored.id
            by_ns = self.storage.get(thread_id)
            if by_ns is None:
                by_ns = self.storage[thread_id] = {}
            by_ns.setdefault(ns, {})[new_id] = stored
            if ns == "" and (fence is not None or thread.head is None or new_id > thread.head):
                thread.head = new_id

    # -- encoding and decoding

    @property
    def _plain(self) -> Callable[[Any], Typed] | None:
        """How to encode where the place does not matter; None if the serializer binds to it.

        Naming a place costs as much as encoding a small value, and only encryption needs it.
        """
        serde = self.serde
        return serde.dumps_typed if isinstance(serde, JsonPlusSerializer) else None

    def _encode_writes(
        self, place: Place, task: TaskWrites, rows: Rows, once: dict[int, Typed]
    ) -> None:
        """Encode what a task wrote; `once` remembers it, in case it is a channel's value too."""
        plain = self._plain
        task_id, task_path = task.task_id, task.task_path
        for position, (channel, value) in enumerate(task.writes):
            at = (task_id, WRITES_IDX_MAP.get(channel, position))
            try:
                if plain is None:
                    typed = dumps_at(self.serde, value, write_place(place, *at))
                elif value is None:
                    typed = NULL
                else:
                    typed = once[id(value)] = plain(value)
            except SerdeError as error:
                raise error.at(thread=place.thread_id, node=task.node, channel=channel) from None
            rows.append((at, (task_id, channel, typed, task_path)))

    def _encode_blobs(self, place: Place, new: NewCheckpoint, once: dict[int, Typed]) -> Blobs:
        plain = self._plain
        thread_id, ns, _ = place
        versions = new.checkpoint["channel_versions"]
        rows = []
        for channel, value in new.changed.items():
            key = (thread_id, ns, channel, versions[channel])
            try:
                if value is MISSING:
                    blob = EMPTY
                elif plain is None:
                    blob = dumps_at(self.serde, value, blob_place(key))
                elif value is None:
                    blob = NULL
                else:
                    # The writes are still alive, so no other object can have their ids.
                    blob = once.get(id(value)) or plain(value)
            except SerdeError as error:
                raise error.at(thread=thread_id, channel=channel) from None
            rows.append((key, blob))
        return rows

    def _encode_checkpoint(self, place: Place, new: NewCheckpoint) -> Stored:
        given = new.checkpoint
        return Stored(
            given["id"],
            given["v"],
            given["ts"],
            # The inner mappings of `versions_seen` are not copied: the runtime replaces them, and
            # never changes one that it has handed over.
            given["channel_versions"].copy(),
            given["versions_seen"].copy(),
            given.get("updated_channels"),
            self._encode_metadata(place, new),
            place.checkpoint_id,
        )

    def _encode_metadata(self, place: Place, new: NewCheckpoint) -> Typed:
        plain = self._plain
        if plain is not None:
            return plain(new.metadata)
        where = metadata_place(place, new.checkpoint["id"])
        return dumps_at(self.serde, new.metadata, where)

    def _read(self, place: Place, stored: Stored) -> CheckpointTuple:
        thread_id, ns, checkpoint_id = place
        assert checkpoint_id is not None
        values = {}
        for channel, version in stored.versions.items():
            key = (thread_id, ns, channel, version)
            blob = self.blobs.get(key)
            if blob is not None and blob[0] != "empty":
                try:
                    values[channel] = loads_at(self.serde, blob, blob_place(key))
                except SerdeError as error:
                    raise error.at(thread=thread_id, channel=channel) from None
        return CheckpointTuple(
            place.config(),
            Checkpoint(
                v=stored.v,
                id=checkpoint_id,
                ts=stored.ts,
                channel_values=values,
                channel_versions=stored.versions.copy(),
                versions_seen={node: seen.copy() for node, seen in stored.seen.items()},
                updated_channels=None if stored.updated is None else list(stored.updated),
            ),
            self._metadata(place, stored),
            place._replace(checkpoint_id=stored.parent_id).config() if stored.parent_id else None,
            self._read_writes(place),
        )

    def _metadata(self, place: Place, stored: Stored) -> CheckpointMetadata:
        metadata: CheckpointMetadata = loads_at(
            self.serde, stored.metadata, metadata_place(place, stored.id)
        )
        return metadata

    def _read_writes(self, place: Place) -> Pending:
        thread_id, ns, checkpoint_id = place
        rows = self.writes.get((thread_id, ns, checkpoint_id or ""))
        if not rows:
            return []
        result = []
        in_order = sorted(rows.items(), key=lambda item: (item[1][3], item[0]))
        for at, (task_id, channel, typed, _) in in_order:
            try:
                value = loads_at(self.serde, typed, write_place(place, *at))
            except SerdeError as error:
                raise error.at(thread=thread_id, channel=channel) from None
            result.append((task_id, channel, value))
        return result

    def _moved(
        self, source: Place, target: Place, at: tuple[str, int], row: StoredWrite
    ) -> StoredWrite:
        """A stored write for another thread: an encrypted one is sealed anew for its place."""
        task_id, channel, typed, task_path = row
        value = loads_at(self.serde, typed, write_place(source, *at))
        return (task_id, channel, dumps_at(self.serde, value, write_place(target, *at)), task_path)
