"""Threads: listed, and one of them shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from milepost.checkpoint._contract.records import place_of
from milepost.checkpoint._contract.threads import ThreadFilter
from milepost.checkpoint._sql.threads.registry import Search
from milepost.inspect._data import as_data, part_of
from milepost.inspect._errors import InspectError, told_plainly
from milepost.inspect._reading import (
    UNREADABLE,
    damaged,
    parent_of,
    state_of,
)
from milepost.inspect._records import Page, Path, ThreadRow, ThreadView
from milepost.inspect._refs import (
    no_such_thread,
    resolve_or_none,
    tags_by_id,
    thread_row,
    without_tags,
)
from milepost.inspect._tasks import next_nodes, step_at

if TYPE_CHECKING:
    from milepost.inspect._database import Database
    from milepost.inspect._records import Stats
    from milepost.inspect._refs import Ref

Sort = Literal["updated_at", "created_at", "thread_id"]


def threads(
    db: Database,
    *,
    metadata: Mapping[str, Any] | None = None,
    status: str | None = None,
    unfinished: bool = False,
    search: str | None = None,
    since: float | None = None,
    before: float | None = None,
    sort: Sort = "updated_at",
    descending: bool | None = None,
    limit: int = 50,
    offset: int = 0,
) -> Page[ThreadRow]:
    """A page of threads, those that were used last at first.

    Args:
        db: The database.
        metadata: Must be equal to what is stored about a thread.
        status: idle, interrupted, error, running or stale.
        unfinished: Leave out threads that are idle.
        search: A part of its id or of its metadata.
        since: The earliest time of its last activity, in seconds since 1970.
        before: The latest time of its last activity.
        sort: What they are sorted by.
        descending: Which way; by default the last used first, and ids from A on.
        limit: How many at most.
        offset: How many to skip.

    Examples:
        >>> [row.thread_id for row in inspect.threads(db, status="idle").items]
        ['trip']
    """
    if sort not in ("updated_at", "created_at", "thread_id"):
        raise InspectError(
            f"Threads are not sorted by '{sort}': updated_at, created_at, thread_id."
        )
    if offset < 0:
        raise InspectError("offset is a number of threads.")
    wanted = ThreadFilter(
        metadata or {}, status, updated_after=since, updated_before=before, limit=limit
    )
    down = sort != "thread_id" if descending is None else descending
    with told_plainly(db.url):
        try:
            page = db.source.threads(wanted, Search(search, unfinished, sort, down, offset))
        except ValueError as error:
            raise InspectError(str(error)) from error
    return Page([_shown(row) for row in page.items], page.total)


def thread(db: Database, thread_id: str) -> ThreadRow:
    """One thread, with counts.

    Args:
        db: The database.
        thread_id: The thread.

    Raises:
        ThreadNotFoundError: There is no such thread.

    Examples:
        >>> inspect.thread(db, "trip").checkpoints
        4
    """
    with told_plainly(db.url):
        row = db.source.thread(thread_id)
    if row is None:
        raise no_such_thread(db, thread_id)
    return _shown(row)


def namespaces(db: Database, thread_id: str) -> list[str]:
    """The graphs of a thread that have checkpoints: `""` is the outermost.

    Args:
        db: The database.
        thread_id: The thread.

    Examples:
        >>> inspect.namespaces(db, "trip")
        ['']
    """
    with told_plainly(db.url):
        found = db.source.namespaces(thread_id)
        if not found:
            thread_row(db, thread_id)
    return found


def _shown(row: ThreadRow) -> ThreadRow:
    return replace(row, metadata=without_tags(row.metadata))


def show(db: Database, ref: Ref, *, path: Path = (), limit: int | None = None) -> ThreadView:
    """The state at a checkpoint: values as data, what follows, what waits for an answer.

    Args:
        db: The database.
        ref: The checkpoint.
        path: Leads to a part of the values.
        limit: Bounds the values, see `as_data`.

    Raises:
        ThreadNotFoundError: There is no such thread.
        StateNotFoundError: There is no such checkpoint, or nothing at the path.

    Examples:
        >>> inspect.show(db, Ref.parse("trip@~1")).values
        {'city': 'Paris', 'n': 0}
    """
    saved = resolve_or_none(db, ref)
    with told_plainly(f"thread '{ref.thread_id}'"):
        is_latest = ref.at is None and not ref.back
        row = db.source.thread(ref.thread_id) if is_latest else None
        row = row or thread_row(db, ref.thread_id)
        if saved is None:
            return ThreadView(
                *(row.thread_id, "", None, None, row.status, {}, (), (), (), {}),
                thread_metadata=without_tags(row.metadata),
                created_at=None,
                bytes=row.bytes,
                checkpoints=row.checkpoints,
            )
        place = place_of(saved.config)
        is_latest = is_latest or place.checkpoint_id == row.head
        try:
            step = step_at(db, saved)
            tasks = step.tasks()
            parent = parent_of(saved)
            metadata = as_data(dict(saved.metadata))
        except UNREADABLE as error:
            raise damaged(saved, error) from error
        values = part_of(state_of(db, saved), path)
        open_ones = [
            one for task in tasks for one in task.interrupts if not one.answered and is_latest
        ]
        return ThreadView(
            thread_id=row.thread_id,
            namespace=place.checkpoint_ns,
            checkpoint_id=place.checkpoint_id,
            parent_id=parent,
            status=row.status,
            values=as_data(values, limit=limit, path=path),
            next=next_nodes(tasks, is_latest=is_latest),
            tasks=tuple(tasks),
            interrupts=tuple(open_ones),
            metadata=metadata,
            thread_metadata=without_tags(row.metadata),
            created_at=step.checkpoint["ts"] or None,
            tags=tags_by_id(row.metadata).get((place.checkpoint_ns, place.checkpoint_id or ""), ()),
            bytes=row.bytes,
            checkpoints=row.checkpoints,
        )


def stats(db: Database, thread_id: str | None = None) -> Stats:
    """What takes how much room, in the database or in one thread.

    Args:
        db: The database.
        thread_id: The thread; all by default.

    Examples:
        >>> inspect.stats(db).threads
        1
    """
    with told_plainly(db.url):
        if thread_id is not None:
            thread_row(db, thread_id)
        return db.source.stats(thread_id)
