"""Stores steps in mappings, under a fence, and reads checkpoints back."""

from __future__ import annotations

import copy
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple, Self, TypeAlias

from milepost._db.sweeper import Sweeper
from milepost._internal import fork_guard
from milepost._internal.fork_guard import ProcessBound
from milepost.checkpoint._contract.names import NameChecker, check_name
from milepost.checkpoint._contract.records import (
    WRITES_IDX_MAP,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    Place,
)
from milepost.checkpoint._contract.step_saver import (
    Fence,
    NewCheckpoint,
    StepCommit,
    StepSaver,
    TaskWrites,
)
from milepost.checkpoint._contract.thread_metadata import ThreadMetadata, keys_of_thread
from milepost.checkpoint._contract.threads import is_trigger, parent_gone
from milepost.checkpoint._contract.versions import TextVersions
from milepost.checkpoint._delta.encode import Encoded, Value
from milepost.checkpoint._delta.split import as_parts
from milepost.checkpoint._memory import manifests
from milepost.checkpoint._memory.manifests import StoredCheckpoint, version_in
from milepost.checkpoint._memory.rows import (
    BlobKey,
    EncodedOnce,
    Encoder,
    Pending,
    Prepared,
    RegistryEntry,
    StoredWrite,
    blob_place,
    blobs_of,
    metadata_place,
    write_place,
)
from milepost.checkpoint._memory.value_log import (
    SMALL,
    Slice,
    StoredValue,
    keep,
    part,
    read,
    share,
    whole,
)
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.checkpoint.serde.base import SerializerProtocol
from milepost.constants import ERROR, INTERRUPT, RESUME, START
from milepost.errors import SerdeError

_STATUSES = {
    WRITES_IDX_MAP[ERROR]: "error",
    WRITES_IDX_MAP[INTERRUPT]: "interrupted",
    WRITES_IDX_MAP[RESUME]: "running",
}
"""The thread's status after a special write, by the write's position."""


class MemoryStorage(StepSaver[Prepared], ProcessBound, TextVersions, BaseCheckpointSaver[str]):
    """Stores steps in three mappings, and reads checkpoints from them."""

    instant = True
    steadfast = True

    storage: MutableMapping[str, dict[str, dict[str, StoredCheckpoint]]]
    """Thread → namespace → checkpoint id → checkpoint."""
    writes: MutableMapping[tuple[str, str, str], dict[tuple[str, int], StoredWrite]]
    """Thread, namespace and checkpoint → task and position → write."""
    blobs: MutableMapping[BlobKey, StoredValue]
    """Thread, namespace, channel and version → value."""

    def __init__(
        self,
        *,
        serde: SerializerProtocol | None = None,
        factory: Callable[..., MutableMapping[Any, Any]] = defaultdict,
        thread_metadata: Iterable[str] | None = (),
        seal_thread_metadata: bool | Iterable[str] | None = False,
    ) -> None:
        super().__init__(serde=serde)
        self.thread_metadata = keys_of_thread(thread_metadata)
        self._thread_metadata = ThreadMetadata(self.serde, seal_thread_metadata)
        self.storage = factory(dict)
        self.writes = factory(dict)
        self.blobs = factory(bytes)
        self._threads: dict[str, RegistryEntry] = {}
        self._sweeper = Sweeper(type(self).__name__)
        self._lock = fork_guard.held_at_fork(threading.RLock())
        self._opened = ExitStack()
        self._encoder = Encoder(self.serde)
        self._names = NameChecker()
        self._latest: dict[str, StoredCheckpoint] = {}
        """Thread → its last prepared checkpoint, stored or not."""

    def with_serde(self, serde: SerializerProtocol) -> Self:
        twin = super().with_serde(serde)
        twin._thread_metadata = ThreadMetadata(serde, self._thread_metadata.sealed)
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A saver with a copy of all threads. Runs in progress go on in the original."""
        with self._lock:
            twin = self.__copy__()
            memo[id(self)] = twin
            # In one call, since a write may be a slice of a value's log.
            kept = copy.deepcopy((self.storage, self.writes, self.blobs), memo)
            twin.storage, twin.writes, twin.blobs = kept
            twin._threads = {name: thread.copy() for name, thread in self._threads.items()}
            twin._latest = {}
        twin._sweeper = Sweeper(type(self).__name__)
        twin._lock = fork_guard.held_at_fork(threading.RLock())
        twin._opened = ExitStack()
        twin._names = NameChecker()
        return twin

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
        self._names.check(place, step.writes, step.new)
        base = self._latest.get(place.thread_id)
        if base is None or base.id != place.checkpoint_id:
            base = self._stored(place)
        prepared = self._encoded(place, base, step.writes, step.new, step.fence, step.status)
        if prepared.stored is not None:
            self._latest[place.thread_id] = prepared.stored
        return prepared

    def _encoded(
        self,
        place: Place,
        base: StoredCheckpoint | None,
        tasks: Sequence[TaskWrites],
        new: NewCheckpoint | None,
        fence: Fence | None = None,
        status: str | None = None,
    ) -> Prepared:
        """A step that starts from `base`, encoded."""
        codes = self._codes
        once: EncodedOnce = {}
        writes = codes.writes(place, tasks, once)
        if new is None:
            return Prepared(place, writes, (), None, fence, status)
        before = partial(self._value_in, place, base)
        blobs = codes.blobs(place, new, once, before)
        return Prepared(place, writes, blobs, codes.checkpoint(place, new, base), fence, status)

    def commit(self, steps: Sequence[Prepared]) -> list[Exception | None]:
        with self._lock:
            outcome = [self._try_to_store(step) for step in steps]
        for at, step in enumerate(steps):
            if (fence := step.fence) is not None and (fence.overtakes or fence.refusal):
                fence.log_outcome(step.place.thread_id, outcome[at])
        return outcome

    async def acommit(self, steps: Sequence[Prepared]) -> list[Exception | None]:
        return self.commit(steps)

    def head(self, thread_id: str) -> str | None:
        check_name("thread_id", thread_id)
        with self._lock:
            if (thread := self._threads.get(thread_id)) is not None:
                return thread.head
            # A factory may have made mappings that were filled before.
            return max(self.storage.get(thread_id, {}).get("", {}), default=None)

    async def ahead(self, thread_id: str) -> str | None:
        return self.head(thread_id)

    def hold(self, thread_id: str, fence: Fence) -> None:
        check_name("thread_id", thread_id)
        with self._lock:
            thread = self._threads.get(thread_id)
            if thread is None:
                thread = RegistryEntry(self.head(thread_id))
                thread.claimed = thread.head is None
                if thread.claimed:
                    thread.metadata = self._described(thread_id, None, fence.thread_metadata)
            before = "" if thread.claimed else self._status_of(thread_id, thread)
            holder = thread.fence
            # A lease is not needed: within one process every run sets `ended`.
            fence.claim(thread_id, thread.token, holder is not None and not holder.ended)
            self._threads[thread_id] = thread
            thread.token, thread.fence = fence.token, fence
            thread.status, thread.updated_at = "running", time.time()
            fence.held("interrupted" if before == "running" else before)

    async def ahold(self, thread_id: str, fence: Fence) -> None:
        self.hold(thread_id, fence)

    def release(self, thread_id: str, fence: Fence, status: str) -> None:
        with self._lock:
            thread = self._threads.get(thread_id)
            if thread is None or thread.fence is not fence:
                return
            if status:
                thread.status, thread.updated_at = status, time.time()
            elif thread.claimed:
                del self._threads[thread_id]
            elif thread.head is None:  # `create_thread` was called after the claim
                thread.token, thread.status = None, None

    async def arelease(self, thread_id: str, fence: Fence, status: str) -> None:
        self.release(thread_id, fence, status)

    def _registered(self, thread_id: str) -> RegistryEntry:
        """The registry's entry for a thread, added if there is none."""
        thread = self._threads.get(thread_id)
        if thread is None:
            thread = self._threads[thread_id] = RegistryEntry(self.head(thread_id))
        return thread

    def _status_of(self, thread_id: str, thread: RegistryEntry) -> str:
        """The stored status, or else `running` if a task waits at the head of the thread."""
        if thread.status is not None:
            return thread.status
        stored = self._stored(Place(thread_id, "", thread.head))
        for channel, version in manifests.read(stored).versions.items() if stored else ():
            if is_trigger(channel) and (thread_id, "", channel, version) in self.blobs:
                return "running"
        return "idle"

    def _described(
        self, thread_id: str, thread: RegistryEntry | None, more: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The stored form of a thread's metadata, with `more` added."""
        known = thread.metadata if thread is not None else {}
        if more:
            known = json.loads(self._thread_metadata.merged(thread_id, known, more).text)
        return known

    @property
    def _codes(self) -> Encoder:
        encoder = self._encoder
        if encoder.serde is not self.serde:  # the saver has a new serializer
            encoder = self._encoder = Encoder(self.serde)
        return encoder

    def _written(self, thread_id: str) -> set[tuple[str, str, str]]:
        """Where a thread may have writes: keys of `writes`."""
        thread = self._threads.get(thread_id)
        early = set() if thread is None else thread.early_writes
        graphs = self.storage.get(thread_id, {}).items()
        return early.union((thread_id, ns, id) for ns, saved in graphs for id in saved)

    def _changed(self, source: str, target: str, change: Change) -> Contents:
        """Everything that is stored of a thread, for the thread `target`, with changed values."""
        blobs, writes, graphs = Contents({}, {}, {})
        for ns, saved in self.storage.get(source, {}).items():
            for key in blobs_of(source, ns, saved.values()):
                if (kept := self.blobs.get(key)) is not None:
                    new_key = (target, *key[1:])
                    blobs[new_key] = change(kept, blob_place(key), blob_place(new_key))
            for id, stored in saved.items():
                old, new = Place(source, ns, id), Place(target, ns, id)
                metadata = change(stored.metadata, metadata_place(old, id), metadata_place(new, id))
                same = metadata is stored.metadata  # then others may build on this very object
                new_saved = graphs.setdefault(ns, {})
                new_saved[id] = stored if same else stored._replace(metadata=metadata)
        for _, ns, id in self._written(source):
            old, new = Place(source, ns, id), Place(target, ns, id)
            for at, (task_id, channel, kept, path) in self.writes.get((source, ns, id), {}).items():
                moved = change(kept, write_place(old, *at), write_place(new, *at))
                writes.setdefault((target, ns, id), {})[at] = (task_id, channel, moved, path)
        return Contents(blobs, writes, graphs)

    def _stored(self, place: Place) -> StoredCheckpoint | None:
        thread_id, ns, checkpoint_id = place
        graphs = self.storage.get(thread_id)
        graph = graphs.get(ns) if graphs is not None else None
        return graph.get(checkpoint_id or "") if graph is not None else None

    def _value_in(
        self, place: Place, checkpoint: StoredCheckpoint | None, channel: str
    ) -> StoredValue | None:
        """The value of a channel in a checkpoint of the graph at `place`."""
        version = None if checkpoint is None else version_in(checkpoint, channel)
        return self.blobs.get((*place[:2], channel, version))

    def _is_overtaken(self, step: Prepared) -> bool:
        """Whether another run has stored something since this run loaded the thread.

        These are writes of tasks that this run has called too; or, if this run starts from an older
        checkpoint, a newer one: this run's checkpoints would sort between the other run's.
        """
        fence, stored = step.fence, step.stored
        if fence is None:
            return False
        thread_id, ns, parent_id = step.place
        writes = self.writes.get((thread_id, ns, parent_id or "")) or ()
        if not fence.has_loaded(ns, parent_id, [task_id for task_id, _ in writes]):
            return True
        if not fence.forced:
            return False
        graphs = self.storage.get(thread_id) or {}
        first = fence.first_ids(ns, stored.id if stored is not None else None)
        return any(other > id for graph, id in first.items() for other in graphs.get(graph) or ())

    def _try_to_store(self, step: Prepared) -> Exception | None:
        try:
            self._store(step)
        except Exception as error:
            return error
        return None

    def _store(self, step: Prepared) -> None:
        """Store a step, unless its run has lost the thread or the parent checkpoint is gone."""
        place, writes, blobs, stored, fence, status = step
        thread_id, ns, checkpoint_id = place
        thread = self._threads.get(thread_id)
        by_ns = self.storage.get(thread_id)
        graph = by_ns.get(ns) if by_ns is not None else None
        if fence is not None:
            self._check_fence(step, thread, by_ns, graph)
            if fence.thread_metadata:
                # First of all, since sealing may raise, and then nothing may be stored.
                described = self._described(thread_id, thread, fence.thread_metadata)
                thread = self._registered(thread_id)
                thread.metadata, fence.thread_metadata = described, {}
            fence.taken = True
            if stored is not None and not ns:
                fence.reached = stored.id
        if thread is None:
            thread = self._registered(thread_id)
        if fence is not None:
            thread.token, thread.fence = fence.token, fence
            fence.status = thread.status = status
        thread.claimed = False
        thread.updated_at = time.time()
        large = self._store_values(place, blobs) if blobs else {}
        if large and (early := self.writes.get((thread_id, ns, checkpoint_id or ""))):
            _compact_early(early, large)
        if writes:
            is_early = graph is None or checkpoint_id not in graph
            rows = self._store_writes(step, thread, large, is_early=is_early)
            if large:
                self._share_input(place, rows)
        if stored is not None:
            if by_ns is None:
                by_ns = self.storage[thread_id] = {}
            if graph is None:
                graph = by_ns[ns] = {}
            if stored.parent_id == stored.id:
                # Put again with the config that it was read with: it keeps its parent.
                former = graph.get(stored.id)
                stored = stored._replace(parent_id=None if former is None else former.parent_id)
            graph[stored.id] = stored
            # If a node called `update_state` on its own thread, the run's next id may be older.
            if ns == "" and (thread.head is None or stored.id >= thread.head):
                thread.head = stored.id
                thread.status = status
                if fence is None or fence.is_of_other_runtime:  # its writes may have come first
                    for _, position in self.writes.get((thread_id, ns, stored.id), ()):
                        thread.status = _STATUSES.get(position, thread.status)

    def _check_fence(
        self,
        step: Prepared,
        thread: RegistryEntry | None,
        by_ns: Mapping[str, Mapping[str, StoredCheckpoint]] | None,
        graph: Mapping[str, StoredCheckpoint] | None,
    ) -> None:
        """Raise ThreadConflict if the run of a step has lost the thread, and BrokenChainError if
        the parent checkpoint, or the run's root checkpoint, is gone."""
        thread_id, ns, parent_id = step.place
        fence, stored = step.fence, step.stored
        assert fence is not None
        if thread is None or thread.token != fence.token:
            head = thread.head if thread else self.head(thread_id)
            token = thread.token if thread else None
            fence.check(thread_id, head, token, self._is_overtaken(step))
            holder = thread.fence if thread is not None else None
            is_held = holder is not None and not holder.ended
            fence.overtakes = is_held and not fence.is_of_other_runtime
        if parent_id and parent_id not in (graph or ()):
            raise parent_gone(thread_id, stored.id if stored else None, parent_id)
        if fence.taken and ns and (root := fence.root) and root not in (by_ns or {}).get("", ()):
            raise parent_gone(thread_id, stored.id if stored else None, root)

    def _store_values(self, place: Place, blobs: Sequence[tuple[BlobKey, Value]]) -> Large:
        """Store the new versions of channels; return the large ones."""
        large: Large = {}
        stored = self.blobs
        for key, blob in blobs:
            if not isinstance(blob, Encoded):
                stored[key] = blob
            elif key not in stored or read(stored[key]) != whole(blob):
                # An equal version that is stored stays: other slices may share its log by now.
                base = self._value_in(place, self._stored(place), key[2])
                stored[key] = kept = keep(blob, base)
                large[key[2]] = (kept, blob)
        return large

    def _store_writes(
        self, step: Prepared, thread: RegistryEntry, large: Large, *, is_early: bool
    ) -> dict[tuple[str, int], StoredWrite]:
        """Store the writes of a step, and return all writes at its checkpoint.

        `is_early`: the checkpoint is not stored yet. The first ordinary write at a position stays.
        A special write, at a negative position, replaces the one before and sets the status.
        """
        thread_id, ns, checkpoint_id = step.place
        key = (thread_id, ns, checkpoint_id or "")
        rows = self.writes.get(key)
        if rows is None:
            rows = self.writes[key] = {}
            if is_early:
                thread.early_writes.add(key)
        for at, row in step.writes:
            if at[1] < 0:
                if step.fence is None and (checkpoint_id or "") >= (thread.head or ""):
                    thread.status = _STATUSES.get(at[1], thread.status)
            elif at in rows:
                continue
            task_id, channel, value, task_path = row
            if isinstance(value, Encoded):
                placed = _placed(value, large.get(channel))
                rows[at] = (task_id, channel, placed, task_path)
            else:
                rows[at] = row  # type: ignore[assignment]
        return rows

    def _share_input(self, place: Place, rows: Mapping[tuple[str, int], StoredWrite]) -> None:
        """Share the bytes of a graph's input with the write that it became one step later."""
        given = self._value_in(place, self._stored(place), START)
        if isinstance(given, Slice):
            any(share(given, row[2]) for row in rows.values() if isinstance(row[2], Slice))

    # -- reading

    def _read(self, place: Place, stored: StoredCheckpoint) -> CheckpointTuple:
        thread_id, ns, checkpoint_id = place
        assert checkpoint_id is not None
        codes = self._codes
        manifest = manifests.read(stored)
        values = {}
        for channel, version in manifest.versions.items():
            key = (thread_id, ns, channel, version)
            blob = self.blobs.get(key)
            if blob is None:
                continue
            try:
                values[channel] = codes.value(read(blob), "" if codes.cuts else blob_place(key))
            except SerdeError as error:
                raise error.at(thread=thread_id, channel=channel) from None
        return CheckpointTuple(
            place.config(),
            Checkpoint(
                v=manifest.v,
                id=checkpoint_id,
                ts=manifest.ts,
                channel_values=values,
                channel_versions=manifest.versions,
                versions_seen=manifest.seen,
                updated_channels=manifest.updated,
            ),
            self._metadata(place, stored),
            place._replace(checkpoint_id=stored.parent_id).config() if stored.parent_id else None,
            self._read_writes(place),
        )

    def _metadata(self, place: Place, stored: StoredCheckpoint) -> CheckpointMetadata:
        metadata: CheckpointMetadata
        metadata = self._codes.value(stored.metadata, metadata_place(place, stored.id))
        return metadata

    def _read_writes(self, place: Place) -> Pending:
        thread_id, ns, checkpoint_id = place
        rows = self.writes.get((thread_id, ns, checkpoint_id or ""))
        if not rows:
            return []
        codes = self._codes
        result = []
        in_order = sorted(rows.items(), key=lambda item: (item[1][3], item[0]))
        for at, (task_id, channel, kept, _) in in_order:
            try:
                value = codes.value(read(kept), "" if codes.cuts else write_place(place, *at))
            except SerdeError as error:
                raise error.at(thread=thread_id, channel=channel) from None
            result.append((task_id, channel, value))
        return result


class Contents(NamedTuple):
    """What is stored of one thread, as parts of the three mappings."""

    blobs: dict[BlobKey, StoredValue]
    writes: dict[tuple[str, str, str], dict[tuple[str, int], StoredWrite]]
    graphs: dict[str, dict[str, StoredCheckpoint]]


Change: TypeAlias = Callable[[StoredValue, str, str], Any]
"""Makes a value that is sealed for one place into one that is sealed for another."""
Large: TypeAlias = dict[str, tuple[Slice, Encoded]]
"""The large values that a step has stored: channel → stored form, and encoded form with parts."""


def _placed(value: Encoded, place: tuple[Slice, Encoded] | None) -> StoredValue:
    """The stored form of a write: a slice of the large value that contains it, or whole."""
    return (part(*place, value) if place is not None else None) or whole(value)


def _compact_early(rows: dict[tuple[str, int], StoredWrite], large: Large) -> None:
    """Replace writes that were stored before their step ended by slices of the step's values."""
    for at, (task_id, channel, value, task_path) in tuple(rows.items()):
        if channel in large and not isinstance(value, Slice) and len(value[1]) >= SMALL:
            found = part(*large[channel], as_parts(value))
            if found is not None:
                rows[at] = (task_id, channel, found, task_path)
