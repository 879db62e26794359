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
from typing import TYPE_CHECKING, Final, TypeVar

from milepost._db.calls import Pause
from milepost._internal.generators import GeneratorDriver
from milepost.checkpoint._redis.server import check_server
from milepost.checkpoint._redis.statements import Tables
from milepost.checkpoint._redis.thread_io import Changed, store, unlist, write
from milepost.errors import DatabaseBusyError

if TYPE_CHECKING:
    from milepost._db.operations import Work
    from milepost._db.redis.commands import RedisEffects
    from milepost.checkpoint._redis.settings import Settings

R = TypeVar("R")

_ATTEMPTS: Final = 200
_PAUSE: Final = 0.002
"""Seconds before another attempt, at first."""
_LONGEST_PAUSE: Final = 0.1


def transaction(
    settings: Settings, work: Work[R], *, write: bool, owner: str | None = None
) -> RedisEffects[R]:
    """Carry out an operation; `owner` is the token of the run that it is for."""
    if not settings.is_ready:
        yield from check_server(settings)
    pause = _PAUSE
    for _ in range(_ATTEMPTS):
        try:
            return (yield from _attempt(Tables(settings, owner), work, write=write))
        except Changed:
            yield Pause(pause * random.random())
            pause = min(2 * pause, _LONGEST_PAUSE)
    raise DatabaseBusyError(
        f"Others have changed the thread {_ATTEMPTS} times while this transaction was under way. "
        "Nothing was stored; repeat the call."
    )


def _attempt(tables: Tables, work: Work[R], *, write: bool) -> RedisEffects[R]:
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
        yield from _commit(tables)
    return steps.result


def _commit(tables: Tables) -> RedisEffects[None]:
    """Store what a transaction has changed, thread by thread: more than one only in a copy, whose
    source must be as it was."""
    settings = tables.settings
    for view in tables.views.values():
        thread_id, entry = view.thread_id, view.entry
        if not view.is_to_be_written():
            if len(tables.views) > 1:
                yield from view.fetch()
        elif entry is None:
            if not (yield from write(settings, thread_id, view.changes())):
                raise Changed
            settings.acknowledged.forget(thread_id)
            yield from unlist(settings, thread_id)
        else:
            changes, is_new = view.changes(), view.is_new()
            if not (
                yield from store(settings, thread_id, changes, is_new=is_new, owner=tables.owner)
            ):
                raise Changed
            if (head := view.stored_head()) is not None:
                settings.acknowledged.head(thread_id, entry.epoch, head)
