"""The lock on a thread is its row in the registry.

On PostgreSQL each statement of a transaction sees what other transactions have committed meanwhile.
So an operation that reads a thread in order to change it locks the registry row first, as every
step does. If the thread has no row, the operation adds one. A run that creates the same thread then
waits at the unique index until the transaction ends. A row that was added only as a lock must be
removed again. SQLite has one writer at a time and needs no lock.
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
    """The registry row of a locked thread."""

    head: str | None
    token: str | None
    epoch: int
    status: str
    new: bool = False
    """Whether the row was added as a lock."""


def lock(q: Statements, thread_id: str) -> Operation[LockedThread]:
    """Keep others from changing or creating a thread until the transaction ends."""
    entries = yield from lock_all(q, [thread_id])
    return entries[thread_id]


def lock_all(q: Statements, thread_ids: Collection[str]) -> Operation[dict[str, LockedThread]]:
    """The same for several threads."""
    # Sorted, so that two such transactions seldom deadlock.
    missing = sorted(thread_ids)
    entries: dict[str, LockedThread] = {}
    while missing:
        answers = yield Queries([Query(q.lock_thread, (id,)) for id in missing])
        for id, rows in zip(missing, answers, strict=True):
            if rows:
                entries[id] = LockedThread(*rows[0][:4])
        for id in [id for id in missing if id not in entries]:
            epoch, now = new_epoch(), time.time()
            added = yield Execute(q.add_thread, (id, None, None, epoch, "idle", now, now))
            if added:
                entries[id] = LockedThread(None, None, epoch, "idle", new=True)
        # Rows that could be neither locked nor added were just added by others: try again.
        missing = [id for id in missing if id not in entries]
    return entries
