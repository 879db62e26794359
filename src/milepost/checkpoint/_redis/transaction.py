"""An operation of a saver as one transaction: read as of one moment, changed in one step.

Every change of a thread gives it another `rev`. A transaction that reads in several round trips
finds the same rev in each reply, or starts again; what it changes it keeps to itself until its end,
and then sends all of it in one script, which does nothing if the rev has changed since. So there is
no lock that a killed client could leave behind, and of two transactions one always succeeds.

The usual step of a run reads nothing: its conditions are the run's token, the thread's epoch and
the run's last commit.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from milepost._db.calls import Pause
from milepost._db.redis.commands import Argument
from milepost._internal.generators import GeneratorDriver
from milepost.checkpoint._redis.calls import Calls, Entries, Listed, Write
from milepost.checkpoint._redis.view import Changed
from milepost.errors import DatabaseBusyError

if TYPE_CHECKING:
    from milepost._db.operations import Work
    from milepost.checkpoint._redis.statements import Tables
    from milepost.checkpoint._redis.view import ThreadView

R = TypeVar("R")

_ATTEMPTS: Final = 200
_PAUSE: Final = 0.002
"""Seconds before another attempt, at first."""
_LONGEST_PAUSE: Final = 0.1


def transaction(
    tables: Callable[[str | None], Tables], work: Work[R], *, write: bool, owner: str | None = None
) -> Calls[R]:
    """Carry out an operation; `owner` is the token of the run that it is for."""
    pause = _PAUSE
    for _ in range(_ATTEMPTS):
        attempt = tables(owner)
        try:
            return (yield from _attempt(attempt, work, write=write))
        except Changed:
            yield Pause(pause * random.random())
            pause = min(2 * pause, _LONGEST_PAUSE)
    raise DatabaseBusyError(
        f"Others have changed the thread {_ATTEMPTS} times while this transaction was under way. "
        "Nothing was stored; repeat the call."
    )


def _attempt(tables: Tables, work: Work[R], *, write: bool) -> Calls[R]:
    operation = work()
    steps = GeneratorDriver(operation)
    for statement in steps:
        try:
            steps.answer = yield from tables.carry_out(statement)
        except Changed:
            operation.close()
            raise
        except Exception as error:
            steps.error = error
    if write:
        yield from commit(tables)
    return steps.result


def commit(tables: Tables) -> Calls[None]:
    """Store what a transaction has changed, thread by thread: more than one only in a copy, whose
    source must be as it was."""
    for view in tables.views.values():
        if not view.is_to_be_written():
            if len(tables.views) > 1:
                yield from view.fetch()
            continue
        if view.entry is None:
            yield from _remove(tables, view)
            continue
        is_new = view.is_new()
        head = view.stored_head()
        done = yield from store(tables, view.thread_id, view.changes(), is_new=is_new)
        if not done:
            raise Changed
        if head is not None:
            tables.known.head(view.thread_id, *head)


def store(
    tables: Tables, thread_id: str, changes: Sequence[Argument], *, is_new: bool
) -> Calls[bool]:
    """Send changes of a thread. A new thread is listed before and after: before, since a client
    may be killed; after, since one who has just removed such a thread may take it off the list."""
    if is_new or tables.is_to_be_listed(thread_id):
        yield Listed("ZADD", (0, thread_id))
    done: int = yield Write(thread_id, new_rev(), changes)
    if done and tables.owner is not None:
        tables.known.wrote(tables.owner, done)
    if done and is_new:
        yield Listed("ZADD", (0, thread_id))
    return bool(done)


def new_rev() -> str:
    """The name of a state of a thread."""
    return uuid.uuid4().hex[:20]


def _remove(tables: Tables, view: ThreadView) -> Calls[None]:
    done: int = yield Write(view.thread_id, new_rev(), view.changes())
    if not done:
        raise Changed
    tables.known.forget(view.thread_id)
    yield from unlist(view.thread_id)


def unlist(thread_id: str) -> Calls[None]:
    """Take a thread off the list that is gone, unless it is back."""
    yield Listed("ZREM", (thread_id,))
    [(cells, _)] = yield Entries([thread_id])
    if cells:
        yield Listed("ZADD", (0, thread_id))
