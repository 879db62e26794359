"""The cache of values and manifests that a saver has stored or read, so that it can store deltas.

Losing the cache is harmless: the next version of a value is then stored in full. The value of a
version never changes, so a cached value cannot be out of date. But a cached version may not be
stored yet, and never will be if its run loses the thread. Until a version is stored, only its own
run may build on it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost._internal import log
from milepost._internal.dataclass_tools import record
from milepost.checkpoint._delta.copies import Copies
from milepost.checkpoint._delta.split import split_like

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from milepost.checkpoint._contract.step_saver import StoredWrites
    from milepost.checkpoint._delta.diff import Buffer, Parts
    from milepost.checkpoint._delta.encode import Codec, Encoded
    from milepost.checkpoint._sql.manifest import Manifest

NOT_STORED = ""
"""The owner of a row that could not be stored: no run may build on such a row."""


class OlderVersion(NamedTuple):
    """An older version whose elements are a prefix of a newer one: its head, and its size in
    bytes."""

    version: str
    head: bytes
    size: int


@record
class Chain:
    """How a version is stored: the rows between it and a full row."""

    rows: int = 1
    """Rows that a read must fetch."""
    spent: int = 0
    """Bytes of the deltas since the full row."""
    roots: tuple[OlderVersion, ...] | None = ()
    """The full row and the large rows before this version. None unless each version only added
    to the version before."""
    tail: tuple[OlderVersion, ...] = ()
    """The small rows between the last root and this version."""
    is_root: bool = True
    """Whether this version's own row is a full or a large row."""
    compactions: int = 0
    """How often older versions were compacted: stored again as parts of the full row."""

    @classmethod
    def of_changes(cls, rows: int, spent: int) -> Chain:
        """The chain of a version that does not only add to earlier versions."""
        return cls(rows, spent, roots=None, is_root=False)


@record(frozen=False)
class CachedRow:
    """What cached values and cached manifests have in common."""

    owner: str | None
    """The token of the run that is about to store the row; None once the row is stored."""
    epoch: int | None
    """The thread's epoch when the row was stored or read. Rows of an earlier epoch may be gone."""

    def supports(self, token: str | None, epoch: int | None) -> bool:
        """Whether a new row may be stored as a delta from this row."""
        return self.epoch == epoch if self.owner is None else self.owner == token


@record(frozen=False)
class CachedValue(CachedRow):
    """One version of a channel's value."""

    version: str
    encoded: Encoded
    chain: Chain
    size: int
    """About how many bytes of memory the value takes."""

    @property
    def kind(self) -> str:
        return self.encoded.kind

    def pieces(self) -> Sequence[Buffer]:
        return self.encoded.parts.pieces()

    def decoded(self, codec: Codec, place: tuple[str, ...]) -> Any:
        """The value, decoded for this caller alone."""
        return codec.decode_again(self.encoded, place)

    def cut_like(self, later: Parts) -> None:
        """Cut the value into parts, at the places where a later version is cut."""
        encoded = self.encoded
        if later.head and not encoded.parts.head:
            self.encoded = encoded._replace(parts=split_like(encoded.parts.join(), later))


@record(frozen=False)
class CachedManifest(CachedRow):
    checkpoint_id: str
    manifest: Manifest
    rows: int
    """Rows that a read must fetch."""
    spent: int
    """Bytes of the changes since the complete manifest."""
    size: int
    """Bytes of the complete manifest."""
    partial: bool = False
    """Whether `manifest.inline` still has channels that are INHERITED."""
    memory: int = 0
    """About how many bytes of memory the cached manifest takes."""
    written: StoredWrites | None = None
    """The rows of writes that runs of this process have stored at the checkpoint, if known."""


class EarlyWrite(NamedTuple):
    """A large write that was stored before its step had ended."""

    checkpoint_id: str
    task_id: str
    task_path: str
    position: int
    channel: str
    encoded: Encoded
    token: str


@record(frozen=False)
class _Graph:
    """What is cached of one graph of one thread. The most recent entry of a list is the last."""

    manifests: list[CachedManifest] = field(default_factory=list)
    values: dict[str, list[CachedValue]] = field(default_factory=dict)
    early: list[EarlyWrite] = field(default_factory=list)

    def memory(self) -> int:
        """About how many bytes of memory the graph takes."""
        size = sum(manifest.memory for manifest in self.manifests)
        size += sum(_memory_of(cached) for line in self.values.values() for cached in line)
        return size + sum(write.encoded.size for write in self.early)


def _memory_of(cached: CachedValue) -> int:
    return cached.size + _VALUE_SIZE


class _Thread(dict[str, _Graph]):
    """The graphs of one thread, the most recently used last."""

    def __init__(self) -> None:
        self.size = _THREAD_SIZE


_NO_GRAPHS: Mapping[str, _Graph] = {}
"""The graphs of a thread that is not cached."""
_MAX_VERSIONS = 3
"""Cached versions of a value, and cached manifests of a graph: enough for a few branches."""
_MAX_GRAPHS = 256
"""Cached graphs of one thread. A node that calls a graph makes a new namespace in each run."""

# About how many bytes the objects take besides the values, measured with tracemalloc.
_THREAD_SIZE = 700
_MANIFEST_SIZE = 650
_CHANNEL_SIZE = 220
_VALUE_SIZE = 900

CACHE_LIMIT = 64 * 1024 * 1024
"""The default limit of a saver's cache, in bytes."""

_SHARE_OF_COPIES = 4
"""The share of the limit for decoded copies of lists, as a divisor. With copies a thread takes more
than twice the memory, so not every thread may have copies."""

_MAX_EARLY_WRITES = 256
"""Cached large writes of one graph."""

_LINE_INTERVAL = 60.0
"""Seconds between two log lines about dropped threads."""


class ThreadCache:
    """The cache of threads. The least recently used thread is dropped first.

    The cache takes at most `limit` bytes, besides the thread that is in use.
    """

    def __init__(self, limit: int = CACHE_LIMIT) -> None:
        self.copies = Copies(0)
        """Decoded copies of the most recently used lists; they count towards the limit."""
        self.limit = limit
        self._threads: OrderedDict[str, _Thread] = OrderedDict()
        self._size = 0
        self._dropped = 0
        """Threads that were dropped since the last line in the log."""
        self._next_line = 0.0
        """When the next line may be logged, by `time.monotonic`."""
        self._lock = threading.Lock()

    @property
    def limit(self) -> int:
        """About how many bytes of memory the cache may take."""
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._limit = limit
        self.copies.limit = limit // _SHARE_OF_COPIES

    def holds(self, thread_id: str, ns: str) -> bool:
        """Whether any manifest of a graph is cached."""
        with self._lock:
            graph = self._threads.get(thread_id, _NO_GRAPHS).get(ns)
            return graph is not None and bool(graph.manifests)

    def manifest(
        self, thread_id: str, ns: str, id: str, token: str | None
    ) -> CachedManifest | None:
        """The manifest of a checkpoint, if a run with this token may build on it."""
        with self._lock:
            graph = self._threads.get(thread_id, _NO_GRAPHS).get(ns)
            for cached in reversed(graph.manifests) if graph is not None else ():
                if cached.checkpoint_id == id and (cached.owner is None or cached.owner == token):
                    return cached
            return None

    def latest(
        self, thread_id: str, ns: str, channel: str, token: str | None
    ) -> CachedValue | None:
        """The most recent version of a value that a run with this token may build on."""
        with self._lock:
            graph = self._threads.get(thread_id, _NO_GRAPHS).get(ns)
            for cached in reversed(graph.values.get(channel, ())) if graph is not None else ():
                if cached.owner in (None, token):
                    return cached
            return None

    def value(self, thread_id: str, ns: str, channel: str, version: str) -> CachedValue | None:
        """One cached version of a value, if it is stored too."""
        with self._lock:
            graph = self._threads.get(thread_id, _NO_GRAPHS).get(ns)
            for cached in graph.values.get(channel, ()) if graph is not None else ():
                if cached.version == version and cached.owner is None:
                    return cached
            return None

    def learn(
        self,
        thread_id: str,
        ns: str,
        manifest: CachedManifest | None,
        values: Mapping[str, CachedValue],
    ) -> None:
        """Cache the manifest of a checkpoint, and versions of values."""
        with self._lock:
            thread = self._threads.get(thread_id)
            if thread is None:
                thread = self._threads[thread_id] = _Thread()
            else:
                self._threads.move_to_end(thread_id)
                self._size -= thread.size
            thread[ns] = graph = thread.pop(ns, None) or _Graph()  # moved to the end
            if len(thread) > _MAX_GRAPHS:
                thread.size -= thread.pop(next(iter(thread))).memory()
            manifests = graph.manifests
            if manifest is not None and not (manifests and manifests[-1] is manifest):
                for known in manifests:
                    if known.checkpoint_id == manifest.checkpoint_id:
                        manifests.remove(known)
                        thread.size -= known.memory
                        break
                manifest.memory = _MANIFEST_SIZE + _CHANNEL_SIZE * len(manifest.manifest.versions)
                manifests.append(manifest)
                thread.size += manifest.memory
                if len(manifests) > _MAX_VERSIONS:
                    thread.size -= manifests.pop(0).memory
            for channel, cached in values.items():
                line = graph.values.setdefault(channel, [])
                if line and line[-1] is cached:
                    continue
                for old in line:
                    if old.version == cached.version:
                        line.remove(old)
                        thread.size -= _memory_of(old)
                        break
                line.append(cached)
                thread.size += _memory_of(cached)
                if len(line) > _MAX_VERSIONS:
                    thread.size -= _memory_of(line.pop(0))
            self._size += thread.size
            is_full = self._size + self.copies.size > self._limit
            if is_full:
                self._make_room()
        if is_full:
            self._log_dropped()

    def _make_room(self) -> None:
        while self._size + self.copies.size > self._limit and len(self._threads) > 1:
            _, dropped = self._threads.popitem(last=False)
            self._size -= dropped.size
            self._dropped += 1

    def _log_dropped(self) -> None:
        """Log how many threads were dropped, at most once in a while.

        Not under the lock: a handler of the program may call the saver.
        """
        if not self._dropped:
            return
        with self._lock:
            now = time.monotonic()
            if now < self._next_line:
                return
            dropped, self._dropped = self._dropped, 0
            self._next_line = now + _LINE_INTERVAL
        full = "A saver's cache of %d KB is full; threads that it has dropped: %d."
        log.info(log.STORAGE, full, self._limit // 1024, dropped)

    def add_early_write(self, thread_id: str, ns: str, write: EarlyWrite) -> None:
        """Cache a large write until its step ends."""
        self.learn(thread_id, ns, None, {})
        with self._lock:
            thread = self._threads.get(thread_id)
            graph = thread.get(ns) if thread is not None else None
            if thread is not None and graph is not None and len(graph.early) < _MAX_EARLY_WRITES:
                graph.early.append(write)
                thread.size += write.encoded.size
                self._size += write.encoded.size
                self._make_room()
        self._log_dropped()

    def take_early_writes(self, thread_id: str, ns: str, id: str, token: str) -> list[EarlyWrite]:
        """Remove a graph's cached large writes; return those of this run at this checkpoint."""
        with self._lock:
            thread = self._threads.get(thread_id)
            graph = thread.get(ns) if thread is not None else None
            if thread is None or graph is None or not graph.early:
                return []
            found, graph.early = graph.early, []
            size = sum(write.encoded.size for write in found)
            thread.size -= size
            self._size -= size
            return [w for w in found if w.checkpoint_id == id and w.token == token]

    def forget(self, thread_id: str) -> None:
        """Drop a thread: its rows were removed, or could not be stored."""
        with self._lock:
            thread = self._threads.pop(thread_id, None)
            if thread is not None:
                self._size -= thread.size
        self.copies.clear()
