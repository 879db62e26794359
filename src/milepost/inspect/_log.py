"""The history of a thread: newest first, followed as it grows, drawn with its forks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, takewhile
from typing import TYPE_CHECKING, NamedTuple

from milepost.checkpoint._contract.records import CheckpointTuple, Place, place_of
from milepost.inspect._errors import StateNotFoundError, told_plainly
from milepost.inspect._reading import UNREADABLE, parent_of
from milepost.inspect._records import LogEntry
from milepost.inspect._refs import TagsById, tags_by_id, thread_row
from milepost.inspect._tasks import next_nodes, step_at, writes_behind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from milepost.inspect._database import Database
    from milepost.inspect._records import ThreadRow


def log(
    db: Database,
    thread_id: str,
    *,
    namespace: str = "",
    limit: int | None = None,
    before: str | None = None,
) -> Iterator[LogEntry]:
    """The checkpoints of a thread, newest first, read as they are asked for.

    Args:
        db: The database.
        thread_id: The thread.
        namespace: The graph: "" for the outermost.
        limit: How many at most.
        before: The id of a checkpoint: only older ones are given.

    Raises:
        ThreadNotFoundError: There is no such thread.

    Examples:
        >>> [(entry.step, dict(entry.writes)) for entry in inspect.log(db, "trip", limit=2)]
        [(2, {'count': ['n']}), (1, {'find': ['city']})]
    """
    return _log(db, thread_row(db, thread_id), namespace, limit, before)


def _log(
    db: Database, row: ThreadRow, namespace: str, limit: int | None, before: str | None
) -> Iterator[LogEntry]:
    within = Place(row.thread_id, namespace, None).config()
    end = None if before is None else Place(row.thread_id, namespace, before).config()
    tags = tags_by_id(row.metadata)
    # One more: the next in the list is mostly the parent, whose tasks show what made this one.
    more = None if limit is None else limit + 1
    given = 0
    with told_plainly(f"thread '{row.thread_id}'"):
        listed = iter(db.reader.list(within, before=end, limit=more))
        saved = next(listed, None)
        if saved is None and namespace and namespace not in db.source.namespaces(row.thread_id):
            raise StateNotFoundError(f"Thread '{row.thread_id}' has no inner graph '{namespace}'.")
        nodes: set[str] = set()
        while saved is not None and given != limit:
            following = next(listed, None)
            is_latest = given == 0 and before is None
            yield entry_of(db, saved, following, tags, is_latest=is_latest, nodes=nodes)
            given += 1
            saved = following


def entry_of(
    db: Database,
    saved: CheckpointTuple,
    following: CheckpointTuple | None,
    tags: TagsById,
    *,
    is_latest: bool,
    nodes: set[str],
) -> LogEntry:
    """The entry of a checkpoint; a damaged checkpoint has an entry that says so.

    Args:
        db: The database.
        saved: The checkpoint.
        following: The next older checkpoint, which may be its parent.
        tags: The tags of its thread.
        is_latest: Whether it is the latest.
        nodes: The nodes that younger checkpoints have seen; those of this one are added.
    """
    place = place_of(saved.config)
    id = place.checkpoint_id or ""
    named = tuple(tags.get((place.checkpoint_ns, id), ()))
    try:
        metadata = saved.metadata
        step = step_at(db, saved, nodes)
        nodes.update(step.checkpoint["versions_seen"])
        tasks = step.tasks()
        run_id = metadata.get("run_id")
        return LogEntry(
            checkpoint_id=id,
            parent_id=parent_of(saved),
            namespace=place.checkpoint_ns,
            step=metadata.get("step"),
            source=str(metadata.get("source", "")),
            created_at=step.checkpoint["ts"] or None,
            run_id=None if run_id is None else str(run_id),
            next=next_nodes(tasks, is_latest=is_latest),
            tasks=tuple(tasks),
            writes=writes_behind(db, saved, following),
            tags=named,
        )
    except UNREADABLE as error:
        parent = None
        with suppress(*UNREADABLE):
            parent = parent_of(saved)
        return LogEntry(
            checkpoint_id=id,
            parent_id=parent,
            namespace=place.checkpoint_ns,
            step=None,
            source="damaged",
            created_at=None,
            run_id=None,
            next=(),
            tasks=(),
            writes={},
            tags=named,
            problem=str(error),
        )


def tail(
    db: Database,
    thread_id: str,
    *,
    namespace: str = "",
    poll: float = 0.5,
    last: int = 10,
    follow: bool = True,
) -> Iterator[LogEntry]:
    """The last entries of a thread, oldest first, then those that are added, as they come: one
    again when its tasks ask something or have failed.

    Args:
        db: The database.
        thread_id: The thread.
        namespace: The graph: "" for the outermost.
        poll: Seconds between two looks.
        last: How many entries to begin with.
        follow: Whether to wait for more.

    Raises:
        ThreadNotFoundError: There is no such thread.

    Examples:
        >>> [entry.step for entry in inspect.tail(db, "trip", last=2, follow=False)]
        [1, 2]
    """
    recent = list(log(db, thread_id, namespace=namespace, limit=max(last, 1)))
    newest = recent[0] if recent else None
    shown = reversed(recent[:last])
    after = newest.checkpoint_id if newest else ""
    follower = Follower(db, thread_id, namespace=namespace, after=after)
    return chain(shown, _added(follower, poll, newest) if follow else ())


def _added(follower: Follower, poll: float, newest: LogEntry | None) -> Iterator[LogEntry]:
    """What is added, as it comes; an entry again when its tasks ask something or have failed."""
    while True:
        for entry in follower.look():
            if newest is None or _said(entry) != _said(newest):
                yield entry
            newest = entry
        time.sleep(poll)


def _said(entry: LogEntry) -> list[object]:
    return [entry.checkpoint_id, *((task.error, task.interrupts) for task in entry.tasks)]


class Follower:
    """Says what is new in a thread, from one look to the next.

    Args:
        db: The database.
        thread_id: The thread.
        namespace: The graph: "" for the outermost.
        after: The id of a checkpoint that is known, of which the first look tells again; without
            it, all that is there is known.
        most: How many entries one look may find: of more, the last ones.

    Examples:
        >>> from milepost.inspect.parts import Follower
        >>> follower = Follower(db, "trip")
        >>> _ = follower.look(), inspect.fork(db, Ref.parse("trip"), {"n": 3})
        >>> [entry.source for entry in follower.look()]
        ['fork']
    """

    def __init__(
        self,
        db: Database,
        thread_id: str,
        *,
        namespace: str = "",
        after: str | None = None,
        most: int | None = None,
    ) -> None:
        self._db = db
        self._thread_id = thread_id
        self._namespace = namespace
        self._most = most
        self._after = after
        self._newest: LogEntry | None = None

    def look(self) -> list[LogEntry]:
        """The entries that were added, oldest first; before them the newest that was known, if more
        is known of its tasks.

        Raises:
            ThreadNotFoundError: The thread was removed.
        """
        is_first = self._after is None
        found = log(
            self._db,
            self._thread_id,
            namespace=self._namespace,
            limit=1 if is_first else self._most,
        )
        try:
            # Entries are read as they are asked for, and most looks find nothing new.
            fresh = list(takewhile(lambda one: one.checkpoint_id >= (self._after or ""), found))
        except StateNotFoundError:
            fresh = []  # an inner graph that has not begun
        known = self._newest
        if fresh:
            self._newest, self._after = fresh[0], fresh[0].checkpoint_id
        elif is_first:
            self._after = ""
        return [] if is_first else [entry for entry in reversed(fresh) if entry != known]


class GraphRow(NamedTuple):
    """A line of a drawing: an entry with its lanes, or a line between two entries.

    Examples:
        >>> row = next(inspect.graph_rows(inspect.log(db, "trip")))
        >>> row.lanes.strip(), row.entry.step
        ('*', 2)
    """

    lanes: str
    """The lanes as text."""
    entry: LogEntry | None
    """The entry; None for a line between two."""


def graph_rows(entries: Iterable[LogEntry]) -> Iterator[GraphRow]:
    """Entries, newest first, with the lanes that lead from each to its parent.

    Args:
        entries: What `log` gives.

    Examples:
        >>> [row.entry.step for row in inspect.graph_rows(inspect.log(db, "trip")) if row.entry]
        [2, 1, 0, -1]
    """
    waiting: list[str] = []
    """For each lane, the checkpoint that it leads to."""
    for entry in entries:
        id = entry.checkpoint_id
        if id not in waiting:
            waiting.append(id)
        at = waiting.index(id)
        yield GraphRow(" ".join("*" if n == at else "|" for n in range(len(waiting))), entry)
        if entry.parent_id is None:
            del waiting[at]
            continue
        waiting[at] = entry.parent_id
        left, *rest = (n for n, wanted in enumerate(waiting) if wanted == entry.parent_id)
        if rest:
            yield GraphRow(_joined(len(waiting), left, rest[0]), None)
            del waiting[rest[0]]


def _joined(lanes: int, left: int, right: int) -> str:
    """The line on which the lane `right` goes over to `left`, and those after it move up."""
    signs = [" "] * (2 * lanes)
    for n in range(lanes):
        signs[2 * n if n < right else 2 * n - 1] = "|" if n < right else "/"
    for n in range(2 * left + 1, 2 * right - 1):
        if signs[n] == " ":
            signs[n] = "_"
    return "".join(signs).rstrip()
