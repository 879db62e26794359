"""The lock on a thread is its row in the registry.

On PostgreSQL each statement of a transaction sees what other transactions have committed meanwhile.
So an operation that reads a thread in order to change it locks the registry row first, as every
step does. If the thread has no row, the operation adds one. A run that creates the same thread then
waits at the unique index until the transaction ends. A row that was added only as a lock must be
removed again. SQLite has one writer at a time and needs no lock.

A run's lease on its thread is in the same row: the status `running`, and the time of the last
renewal. A run with `on_conflict="reject"` takes the lease before its first commit and renews it
while a node runs. The run's last commit ends the lease, or else `release` does. A killed run does
not renew, and counts as dead when the lease is over.
"""

from __future__ import annotations

import time
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from milepost._db.operations import Execute, Operation, Queries, Query
from milepost._internal.dataclass_tools import record
from milepost._internal.ids import new_epoch

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from milepost.checkpoint._contract.step_saver import Fence
    from milepost.checkpoint._sql.statements import Statements
    from milepost.checkpoint._sql.threads.registry import Registry

LEASE: Final = 60.0
"""Seconds without a commit or renewal after which a run counts as dead."""


@record(frozen=False)
class LockedThread:
    """The registry row of a locked thread, with the changes of this transaction."""

    head: str | None
    token: str | None
    epoch: int
    """Below 0: others have put something beside a run, which has not looked at the thread since."""
    stored: str
    """The status in the database. `running` means that a run goes on, or was killed. Also for a
    new thread: what is stored first begins a run."""
    new: bool = False
    """Whether the row was added as a lock, since the thread did not exist."""
    status: str | None = None
    """The new status; None as long as no step of the thread is stored."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Thread metadata from runs, to be stored by this transaction."""


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
            values = (id, None, None, epoch, "idle", now, now, None, "{}")
            added = yield Execute(q.add_thread, values)
            if added:
                entries[id] = LockedThread(None, None, epoch, "running", new=True)
        # Rows that could be neither locked nor added were just added by others: try again.
        missing = [id for id in missing if id not in entries]
    return entries


def is_alive(status: str, updated_at: float) -> bool:
    """Whether a run works on a thread, according to its registry entry."""
    return status == "running" and time.time() - updated_at <= LEASE


def hold(q: Statements, entries: Registry, thread_id: str, fence: Fence) -> Operation[str]:
    """Take or renew the lease; return the thread's status before, empty for a new thread."""
    now = time.time()
    while not (rows := (yield Query(q.lock_thread, (thread_id,)))):
        fence.claim(thread_id, None, busy=False)
        fence.added_at, fence.overtakes = now, False
        # With the run's metadata: a run that is killed before its first commit leaves this entry.
        described = entries.new_entry(thread_id, fence.thread_metadata)
        values = (thread_id, None, fence.token, new_epoch(), "running", now, now, *described)
        if (yield Execute(q.add_thread, values)):
            return ""
        # Another transaction has just added the row: now it can be locked.
    _, token, _, status, updated_at = rows[0]
    fence.claim(thread_id, token, is_alive(status, updated_at))
    if token == fence.token:
        yield Execute(q.renew_lease, (now, thread_id))
    else:
        fence.overtakes = status == "running"
        yield Execute(q.take_lease, (fence.token, now, thread_id))
    # The status of a thread whose run was killed.
    return "interrupted" if status == "running" else str(status)


def release(q: Statements, thread_id: str, fence: Fence, status: str) -> Operation[None]:
    """Store how a run has ended, unless another run has taken the thread."""
    if status:
        # `end_lease` looks for the latest checkpoint, so the lock comes first: its last owner may
        # have removed that checkpoint.
        yield Query(q.lock_thread, (thread_id,))
        yield Execute(q.end_lease, (status, thread_id, fence.token))
    else:
        dropped = yield Execute(q.drop_claim, (thread_id, fence.token, fence.added_at))
        if not dropped:
            yield Execute(q.end_claim, (thread_id, fence.token))
