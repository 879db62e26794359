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
    """A part of a longer list.

    Examples:
        >>> page = inspect.threads(db)
        >>> [row.thread_id for row in page.items], page.total
        (['trip'], 1)
    """

    items: Sequence[T]
    """The part."""
    total: int
    """How many there are on all pages."""


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A thread in a list of threads.

    Examples:
        >>> row = inspect.thread(db, "trip")
        >>> row.status, row.checkpoints
        ('idle', 4)
    """

    thread_id: str
    """The thread."""
    status: str
    """idle, interrupted, error, running; stale if a run has not been heard of for long."""
    metadata: Mapping[str, Any]
    """What is said about it."""
    created_at: float | None
    """Seconds since 1970."""
    updated_at: float | None
    """When something was last saved to it, in seconds since 1970."""
    head: str | None = None
    """The latest checkpoint."""
    checkpoints: int | None = None
    """Counts and bytes are there when one thread was asked for."""
    bytes: int | None = None
    """How much it takes."""


@dataclass(frozen=True, slots=True)
class Question:
    """An interrupt that waits for an answer, or was answered.

    Examples:
        >>> inspect.show(db, Ref.parse("trip")).interrupts  # none is open
        ()
    """

    id: str
    """The id of the interrupt."""
    value: Any
    """As data."""
    answered: bool = False
    """Whether it was answered."""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task that follows a checkpoint, as far as the stored rows tell without the graph.

    Examples:
        >>> [task.name for task in inspect.show(db, Ref.parse("trip@~1")).tasks]
        ['count']
    """

    id: str
    """The id of the task."""
    name: str
    """The name of its node."""
    error: str | None = None
    """Why it failed."""
    interrupts: Sequence[Question] = ()
    """What it asks, or has asked."""
    finished: bool = False
    """Whether what it wrote is stored."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One checkpoint in the history of a thread.

    Examples:
        >>> entry = next(inspect.log(db, "trip"))
        >>> entry.step, entry.source, dict(entry.writes)
        (2, 'loop', {'count': ['n']})
    """

    checkpoint_id: str
    """The checkpoint."""
    parent_id: str | None
    """The checkpoint before."""
    namespace: str
    """The graph: "" for the outermost."""
    step: int | None
    """The number of the step."""
    source: str
    """input, loop, update or fork."""
    created_at: str | None
    """ISO 8601."""
    run_id: str | None
    """The run that made it."""
    next: Sequence[str]
    """The nodes that follow."""
    tasks: Sequence[TaskRow]
    """The tasks that follow, with what is stored of them."""
    writes: Mapping[str, Sequence[str]]
    """What made this checkpoint: node → the keys it wrote. START stands for the input."""
    tags: Sequence[str] = ()
    """Its tags."""
    bytes: int | None = None
    """How much it takes."""
    problem: str | None = None
    """Why the checkpoint cannot be read; the other fields are then mostly empty."""


@dataclass(frozen=True, slots=True)
class ThreadView:
    """The state of a thread at one checkpoint.

    Examples:
        >>> view = inspect.show(db, Ref.parse("trip"))
        >>> view.status, view.values
        ('idle', {'n': 2, 'city': 'Paris'})
    """

    thread_id: str
    """The thread."""
    namespace: str
    """The graph: "" for the outermost."""
    checkpoint_id: str | None
    """None for a thread that has no checkpoint yet."""
    parent_id: str | None
    """The checkpoint before."""
    status: str
    """That of the thread, as in `ThreadRow`."""
    values: Any
    """As data."""
    next: Sequence[str]
    """The nodes that follow."""
    tasks: Sequence[TaskRow]
    """The tasks that follow."""
    interrupts: Sequence[Question]
    """The open ones."""
    metadata: Mapping[str, Any]
    """Of the checkpoint, as data."""
    thread_metadata: Mapping[str, Any]
    """What is said about the thread."""
    created_at: str | None
    """ISO 8601."""
    tags: Sequence[str] = ()
    """The tags of the checkpoint."""
    bytes: int | None = None
    """Of the whole thread; there for the latest checkpoint."""
    checkpoints: int | None = None
    """How many the thread has; there for the latest checkpoint."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two states.

    Examples:
        >>> [change] = inspect.compare({"n": 1}, {"n": 2})
        >>> change.path, change.kind, change.before, change.after
        (('n',), 'changed', 1, 2)
    """

    path: Path
    """Where it is: keys and numbers."""
    kind: Literal["added", "removed", "changed"]
    """What has happened there."""
    before: Any
    """As data; None where there was nothing."""
    after: Any
    """As data; None where there is nothing."""
    lines: Sequence[str] | None = None
    """Of long texts: a unified diff, line by line."""


@dataclass(frozen=True, slots=True)
class Blame:
    """Who wrote a part of a value.

    Examples:
        >>> [part] = inspect.blame(db, Ref.parse("trip"), ("city",))
        >>> part.value, part.nodes
        ('Paris', ('find',))
    """

    path: Path
    """Where the part is: keys and numbers."""
    checkpoint_id: str
    """The first checkpoint that has the part as it is."""
    step: int | None
    """The number of the step that wrote it."""
    nodes: Sequence[str]
    """The nodes of that step that wrote to the key; START for the input."""
    run_id: str | None
    """The run that wrote it."""
    created_at: str | None
    """When, in ISO 8601."""
    value: Any = None
    """The part, as data."""


@dataclass(frozen=True, slots=True)
class ThreadSize:
    """How much of a database one thread takes.

    Examples:
        >>> [size] = inspect.stats(db).largest
        >>> size.thread_id, size.checkpoints
        ('trip', 4)
    """

    thread_id: str
    """The thread."""
    checkpoints: int
    """How many it has."""
    bytes: int
    """How much it takes."""


@dataclass(frozen=True, slots=True)
class Stats:
    """What takes how much room, in bytes as they are stored.

    Examples:
        >>> stats = inspect.stats(db)
        >>> stats.threads, stats.checkpoints
        (1, 4)
    """

    threads: int
    """How many threads."""
    checkpoints: int
    """How many checkpoints."""
    writes: int
    """How many pending writes."""
    bytes: int
    """All of it."""
    kinds: Mapping[str, int]
    """checkpoints, values, writes."""
    channels: Mapping[str, int]
    """Values that have rows of their own, by channel. Small values are in the checkpoints."""
    statuses: Mapping[str, int] = field(default_factory=dict)
    """Status → how many threads have it."""
    largest: Sequence[ThreadSize] = ()
    """Threads that take the most, the largest first."""
