"""An operation of a saver as one transaction: it reads as of one moment, and writes in one step.

Every write of a thread replaces the thread's `rev`. A transaction that reads in several round trips
must find the same rev in each reply; otherwise it starts again. It collects its changes, and sends
all of them at its end in one script, which does nothing if the rev has changed. So no killed client
leaves a lock behind, and of two transactions one always succeeds.

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

_MAX_ATTEMPTS: Final = 200
_FIRST_PAUSE_SECONDS: Final = 0.002
"""The longest pause after the first attempt; doubled with each attempt."""
_MAX_PAUSE_SECONDS: Final = 0.1


def transaction(
    settings: Settings, work: Work[R], *, write: bool, owner: str | None = None
) -> RedisEffects[R]:
    """Carry out an operation. `owner` is the token of the run that the operation is for."""
    if not settings.is_ready:
        yield from check_server(settings)
    pause = _FIRST_PAUSE_SECONDS
    for _ in range(_MAX_ATTEMPTS):
        try:
            return (yield from _attempt(Tables(settings, owner), work, write=write))
        except Changed:
            yield Pause(pause * random.random())
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)
    raise DatabaseBusyError(
        f"Others have changed the thread {_MAX_ATTEMPTS} times while this transaction was under "
        "way. Nothing was stored; repeat the call."
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
    """Store what a transaction has changed. Only a copy has two threads: it makes sure that its
    source has not changed."""
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
