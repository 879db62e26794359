"""The lock on a thread: its entry in the registry, whether there is one or not.

On PostgreSQL each statement of a transaction sees what others have committed meanwhile. So an
operation that reads a thread to change it locks its entry first, as every step does. Where there is
no entry, a lock on it is none: one is added, and a run that begins the thread waits at the unique
index until the transaction has ended. An entry that was added as a lock alone must be removed
again. SQLite has one writer at a time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from milepost._db.operations import Execute, Operation, Queries, Query
from milepost._internal.ids import new_epoch

if TYPE_CHECKING:
    from collections.abc import Collection

    from milepost.checkpoint._sql.statements import Statements


class LockedThread(NamedTuple):
    """What the registry says of a thread that is locked."""

    head: str | None
    token: str | None
    epoch: int
    status: str
    new: bool = False
    """Whether there was none: it was added as a lock."""


def lock(q: Statements, thread_id: str) -> Operation[LockedThread]:
    """Keep all others from changing a thread, or beginning it, until the transaction ends."""
    entries = yield from lock_all(q, [thread_id])
    return entries[thread_id]


def lock_all(q: Statements, thread_ids: Collection[str]) -> Operation[dict[str, LockedThread]]:
    """The same for several threads."""
    # In order, so that two such transactions seldom wait for each other.
    missing = sorted(thread_ids)
    entries: dict[str, LockedThread] = {}
    while missing:
        answers = yield Queries([Query(q.lock_thread, (id,)) for id in missing])
        for id, rows in zip(missing, answers, strict=True):
            if rows:
                entries[id] = LockedThread(*rows[0])
        for id in [id for id in missing if id not in entries]:
            epoch, now = new_epoch(), time.time()
            added = yield Execute(q.new_thread, (id, None, None, epoch, "idle", now, now))
            if added:
                entries[id] = LockedThread(None, None, epoch, "idle", new=True)
        # Others have added what could be neither locked nor added.
        missing = [id for id in missing if id not in entries]
    return entries
