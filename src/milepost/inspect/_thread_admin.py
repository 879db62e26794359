"""Whole threads: chosen, copied, deleted, erased, pruned."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from milepost.checkpoint._contract.thread_admin import Threads
from milepost.checkpoint._contract.threads import Removed, ThreadFilter
from milepost.checkpoint._sql.threads.registry import Search
from milepost.inspect._errors import InspectError, told_plainly
from milepost.inspect._refs import no_such_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from milepost.inspect._database import Database


def method_of(db: Database, saver: Any, name: str) -> Any:
    """A method that only some savers have, and none on a LangGraph database."""
    what = name.removesuffix("_thread")
    db.check_ours(what)
    if not hasattr(saver, name):
        raise InspectError(f"{what} is not possible on {db.url} ({db.kind}).")
    return getattr(saver, name)


def check_threads_exist(db: Database, thread_ids: Iterable[str]) -> None:
    """Make sure that threads are there.

    Args:
        db: The database.
        thread_ids: The threads.

    Raises:
        ThreadNotFoundError: For the first that is not there.

    Examples:
        >>> from milepost.inspect.parts import check_threads_exist
        >>> check_threads_exist(db, ["trip"])
    """
    for thread_id in thread_ids:
        if not db.source.has_thread(thread_id):
            raise no_such_thread(db, thread_id)


def matching(
    db: Database,
    *,
    metadata: Mapping[str, Any] | None = None,
    prefix: str | None = None,
    older_than: float | None = None,
    status: str | None = None,
) -> list[str]:
    """The ids of all threads that fit.

    Args:
        db: The database.
        metadata: Must be equal to what is stored about a thread.
        prefix: What their ids begin with.
        older_than: Seconds since their last use.
        status: idle, interrupted, error, running or stale.

    Raises:
        InspectError: The filter does not say which threads, or metadata that it asks for is sealed
            with another key.

    Examples:
        >>> inspect.matching(db, prefix="tr")
        ['trip']
    """
    before = None if older_than is None else time.time() - older_than
    wanted = ThreadFilter(metadata or {}, status, prefix, updated_before=before, limit=1_000)
    try:
        wanted.check_removal()
    except ValueError as error:
        raise InspectError(str(error)) from error
    with told_plainly(db.url):
        threads = getattr(db.saver, "threads", None)
        if isinstance(threads, Threads):
            return threads.driver.drive(threads.matching(wanted))
        search = Search(sort="thread_id", descending=False)
        found = db.source.threads(wanted._replace(limit=sys.maxsize), search)
        return [row.thread_id for row in found.items]


def copy_thread(db: Database, source: str, target: str) -> None:
    """Copy a thread with its whole history to a new id.

    Args:
        db: The database.
        source: The thread.
        target: The id of the copy.

    Examples:
        >>> inspect.copy_thread(db, "trip", "copy")
        >>> inspect.show(db, Ref.parse("copy")).values
        {'city': 'Paris', 'n': 2}
    """
    db.check_writable("copy")
    with told_plainly(db.url):
        check_threads_exist(db, [source])
        method_of(db, db.saver, "copy_thread")(source, target)


def delete_threads(
    db: Database, thread_ids: Sequence[str], progress: Callable[[str], object] | None = None
) -> None:
    """Remove threads. Their bytes may stay in the files until they are overwritten: `erase`.

    Args:
        db: The database.
        thread_ids: The threads.
        progress: Called with each id when it is done.

    Examples:
        >>> inspect.delete_threads(db, ["trip"])
        >>> inspect.threads(db).total
        0
    """
    db.check_writable("delete")
    with told_plainly(db.url):
        check_threads_exist(db, thread_ids)
        for thread_id in thread_ids:
            db.saver.delete_thread(thread_id)
            if progress is not None:
                progress(thread_id)


def erase_threads(
    db: Database, thread_ids: Sequence[str], progress: Callable[..., object] | None = None
) -> Removed:
    """Remove threads for good, so that the files hold none of their bytes any more.

    Args:
        db: The database.
        thread_ids: The threads.
        progress: Called after each thread.

    Examples:
        >>> inspect.erase_threads(db, ["trip"]).threads
        ['trip']
    """
    db.check_writable("erase")
    with told_plainly(db.url):
        check_threads_exist(db, thread_ids)
        removed: Removed = method_of(db, db.saver, "erase")(thread_ids, progress=progress)
        return removed


def prune_preview(
    db: Database, thread_ids: Sequence[str], *, keep: int = 1, older_than: float | None = None
) -> Removed:
    """What `prune` would remove.

    Args:
        db: The database.
        thread_ids: The threads.
        keep: How many checkpoints of each graph stay.
        older_than: Seconds; younger checkpoints stay too.

    Examples:
        >>> inspect.prune_preview(db, ["trip"], keep=1).checkpoints
        3
    """
    with told_plainly(db.url):
        check_threads_exist(db, thread_ids)
        removed: Removed = method_of(db, db.saver, "prune")(
            thread_ids, keep=keep, older_than=older_than, dry_run=True
        )
        return removed


def prune(
    db: Database,
    thread_ids: Sequence[str],
    *,
    keep: int = 1,
    older_than: float | None = None,
    progress: Callable[[str], object] | None = None,
) -> Removed:
    """Remove all but the last checkpoints of threads, and what those need.

    Args:
        db: The database.
        thread_ids: The threads.
        keep: How many checkpoints of each graph stay.
        older_than: Seconds; younger checkpoints stay too.
        progress: Called with each id when it is done.

    Examples:
        >>> inspect.prune(db, ["trip"], keep=1).checkpoints
        3
    """
    db.check_writable("prune")
    removed = Removed()
    with told_plainly(db.url):
        check_threads_exist(db, thread_ids)
        method = method_of(db, db.saver, "prune")
        for thread_id in thread_ids:
            removed.add(method([thread_id], keep=keep, older_than=older_than))
            if progress is not None:
                progress(thread_id)
    return removed
