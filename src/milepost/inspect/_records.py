"""What the functions of `milepost.inspect` return: plain records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar

T = TypeVar("T")

Path: TypeAlias = tuple[str | int, ...]
"""Where a value is: the key of the state, then keys of dicts, fields and positions in lists."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a longer list."""

    items: Sequence[T]
    total: int
    """How many there are on all pages."""


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A thread in a list of threads."""

    thread_id: str
    status: str
    """idle, interrupted, error, running; stale if a run has not been heard of for long."""
    metadata: Mapping[str, Any]
    created_at: float | None
    updated_at: float | None
    head: str | None = None
    """The latest checkpoint."""
    checkpoints: int | None = None
    """Counts and bytes are there when one thread was asked for."""
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """An interrupt that waits for an answer, or was answered."""

    id: str
    value: Any
    """As data."""
    answered: bool = False


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task that follows a checkpoint, as far as the stored rows tell without the graph."""

    id: str
    name: str
    error: str | None = None
    interrupts: Sequence[Question] = ()
    finished: bool = False
    """Whether what it wrote is stored."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One checkpoint in the history of a thread."""

    checkpoint_id: str
    parent_id: str | None
    namespace: str
    step: int | None
    source: str
    """input, loop, update or fork."""
    created_at: str | None
    """ISO 8601."""
    run_id: str | None
    next: Sequence[str]
    """The nodes that follow."""
    tasks: Sequence[TaskRow]
    """The tasks that follow, with what is stored of them."""
    writes: Mapping[str, Sequence[str]]
    """What made this checkpoint: node → the keys it wrote. START stands for the input."""
    tags: Sequence[str] = ()
    bytes: int | None = None
    problem: str | None = None
    """Why the checkpoint cannot be read; the other fields are then mostly empty."""


@dataclass(frozen=True, slots=True)
class ThreadView:
    """The state of a thread at one checkpoint."""

    thread_id: str
    namespace: str
    checkpoint_id: str | None
    """None for a thread that has no checkpoint yet."""
    parent_id: str | None
    status: str
    values: Any
    """As data."""
    next: Sequence[str]
    tasks: Sequence[TaskRow]
    interrupts: Sequence[Question]
    """The open ones."""
    metadata: Mapping[str, Any]
    """Of the checkpoint, as data."""
    thread_metadata: Mapping[str, Any]
    created_at: str | None
    tags: Sequence[str] = ()
    bytes: int | None = None
    """Of the whole thread; there for the latest checkpoint."""
    checkpoints: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two states."""

    path: Path
    kind: Literal["added", "removed", "changed"]
    before: Any
    """As data; None where there was nothing."""
    after: Any
    lines: Sequence[str] | None = None
    """Of long texts: a unified diff, line by line."""


@dataclass(frozen=True, slots=True)
class Blame:
    """Who wrote a part of a value."""

    path: Path
    checkpoint_id: str
    """The first checkpoint that has the part as it is."""
    step: int | None
    nodes: Sequence[str]
    """The nodes of that step that wrote to the key; START for the input."""
    run_id: str | None
    created_at: str | None
    value: Any = None
    """The part, as data."""


@dataclass(frozen=True, slots=True)
class ThreadSize:
    """How much of a database one thread takes."""

    thread_id: str
    checkpoints: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Stats:
    """What takes how much room, in bytes as they are stored."""

    threads: int
    checkpoints: int
    writes: int
    bytes: int
    kinds: Mapping[str, int]
    """checkpoints, values, writes."""
    channels: Mapping[str, int]
    """Values that have rows of their own, by channel. Small values are in the checkpoints."""
    statuses: Mapping[str, int] = field(default_factory=dict)
    largest: Sequence[ThreadSize] = ()
    """Threads that take the most, the largest first."""
