"""The cache of what a saver has stored or read, so that the saver can store only differences.

Losing all of it is harmless: the next version of a value is then stored in full. A version never
changes its value, so nothing here can be out of date; but a version may not have been stored yet,
or never will be if its run loses the thread. Until it is stored only its own run may build on it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

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
"""The owner of what could not be stored: no run may build on it."""


class OlderVersion(NamedTuple):
    """An older version whose elements are a prefix of a newer one: its head, and how much of the
    newer one it has."""

    version: str
    head: bytes
    size: int


@record
class Chain:
    """How a version is stored: how far it is from a full one."""

    rows: int = 1
    """Rows that a read must fetch."""
    spent: int = 0
    """Bytes of the differences since the full row."""
    roots: tuple[OlderVersion, ...] | None = ()
    """The full row and the large ones after it, if each version only added to the one before."""
    tail: tuple[OlderVersion, ...] = ()
    """The small rows since then."""
    is_root: bool = True
    """Whether it is the last of the roots itself."""
    compactions: int = 0
    """How often older versions were compacted: stored again as parts of the full row."""

    @classmethod
    def of_changes(cls, rows: int, spent: int) -> Chain:
        """Of a version that builds on earlier versions in some other way, or in an unknown way."""
        return cls(rows, spent, roots=None, is_root=False)


@record(frozen=False)
class CachedRow:
    """What is common to values and manifests."""

    owner: str | None
    """The token of the run that is about to store it; None once it is stored."""
    epoch: int | None
    """The thread's epoch when it was stored or read: rows of an earlier one may be gone."""

    def supports(self, token: str | None, epoch: int | None) -> bool:
        """Whether a row may be stored now as a difference from this one."""
        return self.epoch == epoch if self.owner is None else self.owner == token


@record(frozen=False)
class CachedValue(CachedRow):
    """One version of a channel's value."""

    version: str
    encoded: Encoded
    chain: Chain
    size: int
    """What it takes in memory, about."""

    @property
    def kind(self) -> str:
        """How it is encoded."""
        return self.encoded.kind

    def pieces(self) -> Sequence[Buffer]:
        """Its bytes, in pieces."""
        return self.encoded.parts.pieces()

    def decoded(self, codec: Codec, place: tuple[str, ...]) -> Any:
        """The value, decoded for this caller alone."""
        return codec.decode_again(self.encoded, place)

    def cut_like(self, later: Parts) -> None:
        """Have it in parts, which are best told apart where a later version has the same."""
        encoded = self.encoded
        if later.head and not encoded.parts.head:
            self.encoded = encoded._replace(parts=split_like(encoded.parts.join(), later))


@record(frozen=False)
class CachedManifest(CachedRow):
    """One checkpoint's manifest."""

    checkpoint_id: str
    manifest: Manifest
    rows: int
    """Rows that a read must fetch."""
    spent: int
    """Bytes of the differences since the complete one."""
    size: int
    """Bytes of the complete one."""
    partial: bool = False
    """Whether `manifest.inline` still has channels that are INHERITED."""
    memory: int = 0
    """What it takes in memory while it is cached, about."""
    written: StoredWrites | None = None
    """What runs of this process have stored at the checkpoint, as far as that is known."""


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
    """What is cached of one graph of one thread; the most recent last."""

    manifests: list[CachedManifest] = field(default_factory=list)
    newest: str = ""
    """The checkpoint that no other of the manifests is newer than."""
    values: dict[str, list[CachedValue]] = field(default_factory=dict)
    early: list[EarlyWrite] = field(default_factory=list)

    def memory(self) -> int:
        """What all of it takes in memory, about."""
        size = sum(manifest.memory for manifest in self.manifests)
        size += sum(_memory_of(cached) for line in self.values.values() for cached in line)
        return size + sum(write.encoded.size for write in self.early)


def _memory_of(cached: CachedValue) -> int:
    return cached.size + _VALUE_SIZE


class _Thread(dict[str, _Graph]):
    """The graphs of one thread; the one that was used last is at the end."""

    def __init__(self) -> None:
        self.size = _THREAD_SIZE

    def graph(self, ns: str) -> _Graph:
        """One of them, in its new place; an inner graph that was not used for long makes room."""
        if len(self) == 1 and ns in self:
            return self[ns]
        graph = self.pop(ns, None) or _Graph()
        self[ns] = graph
        if len(self) > _MAX_GRAPHS:
            dropped = self.pop(next(iter(self)))
            self.size -= dropped.memory()
        return graph


_NO_GRAPHS: Mapping[str, _Graph] = {}
"""Of a thread of which nothing is cached."""
_MAX_VERSIONS = 3
"""Versions of a value, and manifests, that are cached: one for each of a few branches."""
_MAX_GRAPHS = 256
"""Graphs of one thread. A node that calls a graph makes a new one each time it runs."""

# About what the objects take besides the bytes of values: seen with tracemalloc.
_THREAD_SIZE = 700
_MANIFEST_SIZE = 650
_CHANNEL_SIZE = 220
_VALUE_SIZE = 900

CACHE_LIMIT = 64 * 1024 * 1024
"""Bytes that a saver caches unless it is told otherwise."""

_SHARE_OF_COPIES = 4
"""The part of the limit that is for copies of lists, as a divisor. With them a thread takes more
than twice as much, so that not all may have them."""

_MAX_EARLY_WRITES = 256
"""Large writes of one graph that are cached."""


class ThreadCache:
    """Threads that were not used for long are forgotten first.

    What is cached takes at most `limit` bytes, besides the thread that is used now.
    """

    def __init__(self, limit: int = CACHE_LIMIT) -> None:
        self.copies = Copies(0)
        """Beside the bytes of the lists that were used last; part of the limit."""
        self.limit = limit
        self._threads: OrderedDict[str, _Thread] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    @property
    def limit(self) -> int:
        """Bytes of memory, about."""
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._limit = limit
        self.copies.limit = limit // _SHARE_OF_COPIES

    def holds(self, thread_id: str, ns: str) -> bool:
        """Whether anything is cached of a graph's checkpoints."""
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
        """One version of a value, if it is stored."""
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
            graph = thread.graph(ns)
            manifests = graph.manifests
            if manifest is not None and not (manifests and manifests[-1] is manifest):
                if manifest.checkpoint_id > graph.newest:  # mostly it is
                    graph.newest = manifest.checkpoint_id
                else:
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
            self._make_room()

    def _make_room(self) -> None:
        while self._size + self.copies.size > self._limit and len(self._threads) > 1:
            _, dropped = self._threads.popitem(last=False)
            self._size -= dropped.size

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

    def take_early_writes(self, thread_id: str, ns: str, id: str, token: str) -> list[EarlyWrite]:
        """The large writes that a run has stored at a checkpoint."""
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
        """Rows of the thread were removed, or could not be stored."""
        with self._lock:
            thread = self._threads.pop(thread_id, None)
            if thread is not None:
                self._size -= thread.size
        self.copies.clear()
