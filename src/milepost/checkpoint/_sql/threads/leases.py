"""A run's lease on its thread: the status `running`, and the time of the last renewal.

A run with `on_conflict="reject"` takes the lease before its first commit and renews it while a node
runs. The run's last commit ends the lease, or else `release` does. A killed run does not renew, and
counts as dead when the lease is over.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from milepost._db.operations import Execute, Operation, Query
from milepost._internal.ids import new_epoch
from milepost.checkpoint._sql.threads import registry

if TYPE_CHECKING:
    from milepost.checkpoint._contract.step_saver import Fence
    from milepost.checkpoint._sql.statements import Statements
    from milepost.checkpoint._sql.threads.registry import Registry


def hold(q: Statements, entries: Registry, thread_id: str, fence: Fence) -> Operation[str]:
    """Take or renew the lease; return the thread's status before, empty for a new thread."""
    now = time.time()
    while not (rows := (yield Query(q.lock_thread, (thread_id,)))):
        fence.claim(thread_id, None, busy=False)
        fence.added_at, fence.overtakes = now, False
        # With the run's metadata: a run that is killed before its first commit leaves this entry.
        described = entries.new_entry(thread_id, fence.thread_metadata)
        values = (thread_id, None, fence.token, new_epoch(), "running", now, now, *described)
        if (yield Execute(q.add_described_thread, values)):
            return ""
        # Another transaction has just added the row: now it can be locked.
    _, token, _, status, updated_at = rows[0]
    fence.claim(thread_id, token, registry.is_alive(status, updated_at))
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
