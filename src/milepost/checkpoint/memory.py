"""A saver that keeps threads in this process: for tests, demos and short-lived programs.

It keeps to the same rules as the savers on disk. Values are stored as bytes, so nothing that a
program does to its objects later changes what was saved; one entry is stored for each changed
channel, not the whole state; writers are fenced.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from milepost.checkpoint.commit import NewCheckpoint, StepCommit, StepSaver, TaskWrites
from milepost.checkpoint.records import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    Place,
    copy_checkpoint,
    get_checkpoint_id,
    place_of,
)
from milepost.checkpoint.serde.base import SerializerProtocol, dumps_at, loads_at
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.errors import SerdeError
from milepost.ids import getrandbits
from milepost.types import MISSING, RunnableConfig

if TYPE_CHECKING:
    from milepost.checkpoint.commit import Fence

_Typed = tuple[str, bytes]
_EMPTY: _Typed = ("empty", b"")
_NULL: _Typed = JsonPlusSerializer().dumps_typed(None)


class _Stored(NamedTuple):
    """One checkpoint. The mappings inside are never changed, so they can be shared."""

    id: str
    v: int
    ts: str
    versions: ChannelVersions
    seen: Mapping[str, ChannelVersions]
    updated: Sequence[str] | None
    metadata: _Typed
    parent_id: str | None


_StoredWrite = tuple[str, str, _Typed, str]
"""Task id, channel, value, task path. A plain tuple: the garbage collector stops looking at it."""

_Rows = list[tuple[tuple[str, int], _StoredWrite]]
_Blobs = list[tuple[tuple[str, str, str, Any], _Typed]]
_Pending = list[PendingWrite]  # named, since `list` is a method of the saver


class _Thread:
    """The registry's entry for a thread: its head, and the run that owns it."""

    __slots__ = ("early_writes", "head", "token")

    def __init__(self, head: str | None) -> None:
        self.head = head
        self.token: str | None = None
        self.early_writes: set[tuple[str, str, str]] = set()
        """Where writes are whose checkpoint was not there when they came."""


class _Prepared(NamedTuple):
    """A step in its stored form."""

    place: Place
    writes: _Rows
    blobs: _Blobs
    stored: _Stored | None
    fence: Fence | None


class InMemorySaver(StepSaver[_Prepared]):
    """Keeps threads in memory; they are lost when the process ends.

    `factory` makes the three mappings `storage`, `writes` and `blobs`; it is called like
    `collections.defaultdict`.
    """

    instant = True

    storage: MutableMapping[str, dict[str, dict[str, _Stored]]]
    """Thread → namespace → checkpoint id → checkpoint."""
    writes: MutableMapping[tuple[str, str, str], dict[tuple[str, int], _StoredWrite]]
    """Thread, namespace and checkpoint → task and place → write."""
    blobs: MutableMapping[tuple[str, str, str, Any], _Typed]
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
        self._threads: dict[str, _Thread] = {}
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

    def prepare(self, step: StepCommit) -> _Prepared:
        place = Place(step.thread_id, step.checkpoint_ns, step.checkpoint_id)
        once: dict[int, _Typed] = {}
        writes: _Rows = []
        for task in step.writes:
            self._encode_writes(place, task, writes, once)
        if step.new is None:
            return _Prepared(place, writes, [], None, step.fence)
        return _Prepared(
            place,
            writes,
            self._encode_blobs(place, step.new, once),
            self._encode_checkpoint(place, step.new),
            step.fence,
        )

    def commit(self, steps: Sequence[_Prepared]) -> list[Exception | None]:
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

    async def acommit(self, steps: Sequence[_Prepared]) -> list[Exception | None]:
        return self.commit(steps)

    def head(self, thread_id: str) -> str | None:
        with self._lock:
            if (thread := self._threads.get(thread_id)) is not None:
                return thread.head
            # The mappings may have been filled by a factory that remembers.
            return max(self.storage.get(thread_id, {}).get("", {}), default=None)

    async def ahead(self, thread_id: str) -> str | None:
        return self.head(thread_id)

    def _store(self, step: _Prepared) -> None:
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
            thread = self._threads[thread_id] = _Thread(head)
        if fence is not None:
            thread.token = fence.token
            fence.taken = True
        if step.writes:
            assert checkpoint_id is not None
            write_key = (thread_id, ns, checkpoint_id)
            rows = self.writes.get(write_key)
            if rows is None:
                rows = self.writes[write_key] = {}
                if checkpoint_id not in self.storage.get(thread_id, {}).get(ns, {}):
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
        step = _Prepared(
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
        rows: _Rows = []
        self._encode_writes(place, TaskWrites(task_id, task_path, "", writes), rows, {})
        step = _Prepared(place, rows, [], None, None)
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
                for blob_key in _blobs_of(thread_id, ns, saved):
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
                    _Prepared(
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
                        if not _leans_on_ancestors(latest) or latest.parent_config is None:
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
                    self._keep(thread_id, _not_in(doomed))

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002
        """A counter that orders versions, and random digits that keep branches apart."""
        count = 0 if current is None else int(str(current)[:32].partition(".")[0])
        return f"{count + 1:032}.{getrandbits(64):016x}"

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

    # -- encoding and decoding

    @property
    def _plain(self) -> Callable[[Any], _Typed] | None:
        """How to encode where the place does not matter; None if the serializer binds to it.

        Naming a place costs as much as encoding a small value, and only encryption needs it.
        """
        serde = self.serde
        return serde.dumps_typed if isinstance(serde, JsonPlusSerializer) else None

    def _encode_writes(
        self, place: Place, task: TaskWrites, rows: _Rows, once: dict[int, _Typed]
    ) -> None:
        """Encode what a task wrote; `once` remembers it, in case it is a channel's value too."""
        plain = self._plain
        task_id, task_path = task.task_id, task.task_path
        for position, (channel, value) in enumerate(task.writes):
            at = (task_id, WRITES_IDX_MAP.get(channel, position))
            try:
                if plain is None:
                    typed = dumps_at(self.serde, value, _write_place(place, *at))
                elif value is None:
                    typed = _NULL
                else:
                    typed = once[id(value)] = plain(value)
            except SerdeError as error:
                raise error.at(thread=place.thread_id, node=task.node, channel=channel) from None
            rows.append((at, (task_id, channel, typed, task_path)))

    def _encode_blobs(self, place: Place, new: NewCheckpoint, once: dict[int, _Typed]) -> _Blobs:
        plain = self._plain
        thread_id, ns, _ = place
        versions = new.checkpoint["channel_versions"]
        rows = []
        for channel, value in new.changed.items():
            key = (thread_id, ns, channel, versions[channel])
            try:
                if value is MISSING:
                    blob = _EMPTY
                elif plain is None:
                    blob = dumps_at(self.serde, value, _blob_place(key))
                elif value is None:
                    blob = _NULL
                else:
                    # The writes are still alive, so no other object can have their ids.
                    blob = once.get(id(value)) or plain(value)
            except SerdeError as error:
                raise error.at(thread=thread_id, channel=channel) from None
            rows.append((key, blob))
        return rows

    def _encode_checkpoint(self, place: Place, new: NewCheckpoint) -> _Stored:
        given = new.checkpoint
        return _Stored(
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

    def _encode_metadata(self, place: Place, new: NewCheckpoint) -> _Typed:
        plain = self._plain
        if plain is not None:
            return plain(new.metadata)
        where = _metadata_place(place, new.checkpoint["id"])
        return dumps_at(self.serde, new.metadata, where)

    def _read(self, place: Place, stored: _Stored) -> CheckpointTuple:
        thread_id, ns, checkpoint_id = place
        assert checkpoint_id is not None
        values = {}
        for channel, version in stored.versions.items():
            key = (thread_id, ns, channel, version)
            blob = self.blobs.get(key)
            if blob is not None and blob[0] != "empty":
                try:
                    values[channel] = loads_at(self.serde, blob, _blob_place(key))
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

    def _metadata(self, place: Place, stored: _Stored) -> CheckpointMetadata:
        metadata: CheckpointMetadata = loads_at(
            self.serde, stored.metadata, _metadata_place(place, stored.id)
        )
        return metadata

    def _read_writes(self, place: Place) -> _Pending:
        thread_id, ns, checkpoint_id = place
        rows = self.writes.get((thread_id, ns, checkpoint_id or ""))
        if not rows:
            return []
        result = []
        in_order = sorted(rows.items(), key=lambda item: (item[1][3], item[0]))
        for at, (task_id, channel, typed, _) in in_order:
            try:
                value = loads_at(self.serde, typed, _write_place(place, *at))
            except SerdeError as error:
                raise error.at(thread=thread_id, channel=channel) from None
            result.append((task_id, channel, value))
        return result

    def _moved(
        self, source: Place, target: Place, at: tuple[str, int], row: _StoredWrite
    ) -> _StoredWrite:
        """A stored write for another thread: an encrypted one is sealed anew for its place."""
        task_id, channel, typed, task_path = row
        value = loads_at(self.serde, typed, _write_place(source, *at))
        return (task_id, channel, dumps_at(self.serde, value, _write_place(target, *at)), task_path)

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
            unused = _blobs_of(thread_id, ns, saved)
            for checkpoint_id in [id for id in saved if not wanted((ns, id))]:
                del saved[checkpoint_id]
                self.writes.pop((thread_id, ns, checkpoint_id), None)
            for blob_key in unused - _blobs_of(thread_id, ns, saved):
                self.blobs.pop(blob_key, None)
        head = max(self.storage.get(thread_id, {}).get("", {}), default=None)
        self._threads.setdefault(thread_id, _Thread(head)).head = head


MemorySaver = InMemorySaver
"""The older name of InMemorySaver."""


def _blobs_of(
    thread_id: str, ns: str, saved: Mapping[str, _Stored]
) -> set[tuple[str, str, str, Any]]:
    """Where the values of some checkpoints are."""
    return {
        (thread_id, ns, channel, version)
        for stored in saved.values()
        for channel, version in stored.versions.items()
    }


def _not_in(doomed: set[tuple[str, str]]) -> Callable[[tuple[str, str]], bool]:
    return lambda place: place not in doomed


def _leans_on_ancestors(found: CheckpointTuple) -> bool:
    """Whether a delta channel of this checkpoint has no stored value of its own."""
    return any(
        channel not in found.checkpoint["channel_values"]
        for channel in found.metadata.get("counters_since_delta_snapshot") or ()
    )


def _blob_place(key: tuple[str, str, str, Any]) -> str:
    thread_id, ns, channel, version = key
    return f"blob\0{thread_id}\0{ns}\0{channel}\0{version}"


def _write_place(place: Place, task_id: str, position: int) -> str:
    return (
        f"write\0{place.thread_id}\0{place.checkpoint_ns}\0{place.checkpoint_id}"
        f"\0{task_id}\0{position}"
    )


def _metadata_place(place: Place, checkpoint_id: str) -> str:
    return f"metadata\0{place.thread_id}\0{place.checkpoint_ns}\0{checkpoint_id}"
