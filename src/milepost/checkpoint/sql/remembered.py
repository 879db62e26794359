"""What a saver remembers of the values that it has stored or read, to store only differences.

Losing all of it is harmless: the next version of a value is then stored in full. A version never
changes its value, so nothing here can be out of date; but a version may not have been stored yet,
or never will be if its run loses the thread. Until it is stored only its own run may build on it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.checkpoint.cutting import split_like
from milepost.record import record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from milepost.checkpoint.codec import Codec, Encoded
    from milepost.checkpoint.splice import Buffer, Parts
    from milepost.checkpoint.sql.frame import Frame

LOST = ""
"""The owner of what could not be stored: nobody may build on it."""


class Older(NamedTuple):
    """A version that a later one contains: its head, and as much of the later one's elements."""

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
    roots: tuple[Older, ...] | None = ()
    """The full row and the large ones after it, if each version only added to the one before."""
    tail: tuple[Older, ...] = ()
    """The small rows since then."""
    is_root: bool = True
    """Whether it is the last of the roots itself."""
    folds: int = 0
    """How often older versions were stored anew as parts of the full row."""

    @classmethod
    def of_changes(cls, rows: int, spent: int) -> Chain:
        """Of a version that stands on those before it in some other way, or in one not known."""
        return cls(rows, spent, roots=None, is_root=False)


@record(frozen=False)
class Remembered:
    """What is common to values and frames."""

    owner: str | None
    """The token of the run that is about to store it; None once it is stored."""
    epoch: int | None
    """The thread's epoch when it was stored or read: rows of an earlier one may be gone."""

    def supports(self, token: str | None, epoch: int | None) -> bool:
        """Whether a row may be stored now as a difference from this one."""
        return self.epoch == epoch if self.owner is None else self.owner == token


@record(frozen=False)
class Known(Remembered):
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
        """The value, which nobody else has."""
        return codec.decode_parts(self.encoded, *place)

    def cut_like(self, later: Parts) -> None:
        """Have it in parts, which are best told apart where a later version has the same."""
        encoded = self.encoded
        if later.head and not encoded.parts.head:
            self.encoded = encoded._replace(parts=split_like(encoded.parts.join(), later))


@record(frozen=False)
class KnownFrame(Remembered):
    """One checkpoint's frame."""

    checkpoint_id: str
    frame: Frame
    rows: int
    """Rows that a read must fetch."""
    spent: int
    """Bytes of the differences since the complete one."""
    size: int
    """Bytes of the complete one."""
    partial: bool = False
    """Whether `frame.inline` still has channels of which only the parent's frame knows more."""


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
    """What is known of one graph of one thread; the most recent last."""

    frames: list[KnownFrame] = field(default_factory=list)
    newest: str = ""
    """The checkpoint that no other of the frames is newer than."""
    values: dict[str, list[Known]] = field(default_factory=dict)
    early: list[EarlyWrite] = field(default_factory=list)


class _Thread(dict[str, _Graph]):
    """The graphs of one thread; the one that was used last is at the end."""

    size = 0

    def graph(self, ns: str) -> _Graph:
        """One of them, in its new place; an inner graph that was not used for long makes room."""
        if len(self) == 1 and ns in self:
            return self[ns]
        graph = self.pop(ns, None) or _Graph()
        self[ns] = graph
        if len(self) > _GRAPHS:
            dropped = self.pop(next(iter(self)))
            self.size -= _FRAME * len(dropped.frames)
            self.size -= sum(known.size for line in dropped.values.values() for known in line)
        return graph


_KEPT = 3
"""Versions of a value, and frames, that are remembered: one for each of a few branches."""
_GRAPHS = 256
"""Graphs of one thread. A node that calls a graph makes a new one each time it runs."""
_FRAME = 512
"""About what a frame takes, in bytes."""

_MOST_EARLY = 256
"""Large writes of one graph that are remembered."""


class Memory:
    """Threads that were not used for long are forgotten first."""

    def __init__(self, limit: int = 256 * 1024 * 1024) -> None:
        self._limit = limit
        self._threads: OrderedDict[str, _Thread] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def holds(self, thread_id: str, ns: str) -> bool:
        """Whether anything is remembered of a graph's checkpoints."""
        with self._lock:
            graph = self._graph(thread_id, ns)
            return graph is not None and bool(graph.frames)

    def frame(self, thread_id: str, ns: str, id: str, token: str | None) -> KnownFrame | None:
        """The frame of a checkpoint, if a run with this token may build on it."""
        with self._lock:
            graph = self._graph(thread_id, ns)
            for known in reversed(graph.frames) if graph is not None else ():
                if known.checkpoint_id == id and (known.owner is None or known.owner == token):
                    return known
            return None

    def latest(self, thread_id: str, ns: str, channel: str, token: str | None) -> Known | None:
        """The most recent version of a value that a run with this token may build on."""
        with self._lock:
            graph = self._graph(thread_id, ns)
            for known in reversed(graph.values.get(channel, ())) if graph is not None else ():
                if known.owner in (None, token):
                    return known
            return None

    def value(self, thread_id: str, ns: str, channel: str, version: str) -> Known | None:
        """One version of a value, if it is stored."""
        with self._lock:
            graph = self._graph(thread_id, ns)
            for known in graph.values.get(channel, ()) if graph is not None else ():
                if known.version == version and known.owner is None:
                    return known
            return None

    def learn(
        self, thread_id: str, ns: str, frame: KnownFrame | None, values: Mapping[str, Known]
    ) -> None:
        """Remember a checkpoint, and versions of values."""
        with self._lock:
            thread = self._threads.get(thread_id)
            if thread is None:
                thread = self._threads[thread_id] = _Thread()
            else:
                self._threads.move_to_end(thread_id)
            before = thread.size
            graph = thread.graph(ns)
            frames = graph.frames
            if frame is not None and not (frames and frames[-1] is frame):
                count = len(frames)
                if frame.checkpoint_id > graph.newest:  # mostly it is
                    graph.newest = frame.checkpoint_id
                else:
                    frames[:] = [f for f in frames if f.checkpoint_id != frame.checkpoint_id]
                frames.append(frame)
                if len(frames) > _KEPT:
                    del frames[0]
                thread.size += _FRAME * (len(frames) - count)
            for channel, known in values.items():
                line = graph.values.setdefault(channel, [])
                if line and line[-1] is known:
                    continue
                for old in line:
                    if old.version == known.version:
                        line.remove(old)
                        thread.size -= old.size
                        break
                line.append(known)
                thread.size += known.size
                if len(line) > _KEPT:
                    thread.size -= line.pop(0).size
            self._size += thread.size - before
            while self._size > self._limit and len(self._threads) > 1:
                _, dropped = self._threads.popitem(last=False)
                self._size -= dropped.size

    def note_early(self, thread_id: str, ns: str, write: EarlyWrite) -> None:
        """Remember a large write until its step ends."""
        self.learn(thread_id, ns, None, {})
        with self._lock:
            graph = self._graph(thread_id, ns)
            if graph is not None and len(graph.early) < _MOST_EARLY:
                graph.early.append(write)

    def take_early(self, thread_id: str, ns: str, id: str, token: str) -> list[EarlyWrite]:
        """The large writes that a run has stored at a checkpoint."""
        with self._lock:
            graph = self._graph(thread_id, ns)
            if graph is None or not graph.early:
                return []
            found, graph.early = graph.early, []
            return [w for w in found if w.checkpoint_id == id and w.token == token]

    def forget(self, thread_id: str) -> None:
        """Rows of the thread were removed, or could not be stored."""
        with self._lock:
            thread = self._threads.pop(thread_id, None)
            if thread is not None:
                self._size -= thread.size

    def _graph(self, thread_id: str, ns: str) -> _Graph | None:
        thread = self._threads.get(thread_id)
        return thread.get(ns) if thread is not None else None
