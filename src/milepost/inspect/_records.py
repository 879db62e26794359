"""The records that functions of `milepost.inspect` return."""

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
    """The items of this part."""
    total: int
    """How many items there are on all pages."""


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A thread in a list of threads.

    Examples:
        >>> row = inspect.thread(db, "trip")
        >>> row.status, row.checkpoints
        ('idle', 4)
    """

    thread_id: str
    """The id of the thread."""
    status: str
    """idle, interrupted, error, running; stale if a run has not been heard of for long."""
    metadata: Mapping[str, Any]
    """The user's metadata of the thread."""
    created_at: float | None
    """When the thread was made, in seconds since 1970."""
    updated_at: float | None
    """When the thread was last used, in seconds since 1970."""
    head: str | None = None
    """The id of the latest checkpoint."""
    checkpoints: int | None = None
    """How many checkpoints the thread has; None in a list of threads."""
    bytes: int | None = None
    """How much the thread takes; None in a list of threads."""


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
    """The question, as data."""
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
    """The name of the node."""
    error: str | None = None
    """Why the task failed."""
    interrupts: Sequence[Question] = ()
    """The questions of the task, answered ones included."""
    finished: bool = False
    """Whether the writes of the task are stored."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One checkpoint in the history of a thread.

    Examples:
        >>> entry = next(inspect.log(db, "trip"))
        >>> entry.step, entry.source, dict(entry.writes)
        (2, 'loop', {'count': ['n']})
    """

    checkpoint_id: str
    """The id of the checkpoint."""
    parent_id: str | None
    """The id of the checkpoint before."""
    namespace: str
    """The graph: "" for the root."""
    step: int | None
    """The number of the step."""
    source: str
    """What made the checkpoint: input, loop, update or fork."""
    created_at: str | None
    """When the checkpoint was made, in ISO 8601."""
    run_id: str | None
    """The run that made the checkpoint."""
    next: Sequence[str]
    """The nodes that follow."""
    tasks: Sequence[TaskRow]
    """The tasks that follow, with what is stored of them."""
    writes: Mapping[str, Sequence[str]]
    """Node → the keys that it wrote in the step of this checkpoint. START is the input."""
    tags: Sequence[str] = ()
    """The tags of the checkpoint."""
    problem: str | None = None
    """Why the checkpoint cannot be read; the other fields are then mostly empty."""


@dataclass(frozen=True, slots=True)
class ThreadView:
    """The state of a thread at one checkpoint.

    Examples:
        >>> view = inspect.show(db, Ref.parse("trip"))
        >>> view.status, view.values
        ('idle', {'city': 'Paris', 'n': 2})
    """

    thread_id: str
    """The id of the thread."""
    namespace: str
    """The graph: "" for the root."""
    checkpoint_id: str | None
    """The id of the checkpoint; None for a thread that has none yet."""
    parent_id: str | None
    """The id of the checkpoint before."""
    status: str
    """The status of the thread, as in `ThreadRow`."""
    values: Any
    """The state, as data."""
    next: Sequence[str]
    """The nodes that follow."""
    tasks: Sequence[TaskRow]
    """The tasks that follow."""
    interrupts: Sequence[Question]
    """The open questions."""
    metadata: Mapping[str, Any]
    """The metadata of the checkpoint, as data."""
    thread_metadata: Mapping[str, Any]
    """The user's metadata of the thread."""
    created_at: str | None
    """When the checkpoint was made, in ISO 8601."""
    tags: Sequence[str] = ()
    """The tags of the checkpoint."""
    bytes: int | None = None
    """How much the whole thread takes; only with the latest checkpoint."""
    checkpoints: int | None = None
    """How many checkpoints the thread has; only with the latest checkpoint."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two states.

    Examples:
        >>> [change] = inspect.compare({"n": 1}, {"n": 2})
        >>> change.path, change.kind, change.before, change.after
        (('n',), 'changed', 1, 2)
    """

    path: Path
    """The path of the difference: keys and numbers."""
    kind: Literal["added", "removed", "changed"]
    """Whether there was nothing before, is nothing after, or another value."""
    before: Any
    """The value before, as data; None where there was nothing."""
    after: Any
    """The value after, as data; None where there is nothing."""
    lines: Sequence[str] | None = None
    """For long texts a unified diff, line by line."""


@dataclass(frozen=True, slots=True)
class Blame:
    """Who wrote a part of a value.

    Examples:
        >>> [part] = inspect.blame(db, Ref.parse("trip"), ("city",))
        >>> part.value, part.nodes
        ('Paris', ('find',))
    """

    path: Path
    """The path of the part: keys and numbers."""
    checkpoint_id: str
    """The first checkpoint that has the part as it is."""
    step: int | None
    """The number of the step that wrote the part."""
    nodes: Sequence[str]
    """The nodes of that step that wrote to the key; START for the input."""
    run_id: str | None
    """The run that wrote the part."""
    created_at: str | None
    """When the part was written, in ISO 8601."""
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
    """The id of the thread."""
    checkpoints: int
    """How many checkpoints the thread has."""
    bytes: int
    """How many bytes the thread takes."""


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
    """How many bytes everything takes."""
    kinds: Mapping[str, int]
    """Bytes by kind of row: checkpoints, values, writes."""
    channels: Mapping[str, int]
    """Bytes of values that have rows of their own, by channel. Small values have none."""
    statuses: Mapping[str, int] = field(default_factory=dict)
    """Status → how many threads have it."""
    largest: Sequence[ThreadSize] = ()
    """Threads that take the most, the largest first."""
