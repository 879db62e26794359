"""A run's lease on its thread: the status `running`, and the time of its last sign of life.

A run that wants to be alone takes it before its first commit, renews it while a node is at work,
and gives it back if its last commit did not. A run that was killed does none of that, and is
taken for dead when the lease is over.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from milepost.checkpoint.sql import registry
from milepost.ids import new_epoch
from milepost.sql.operations import Operation, Query, Run

if TYPE_CHECKING:
    from milepost.checkpoint.commit import Fence
    from milepost.checkpoint.sql.queries import Queries


def hold(q: Queries, thread_id: str, fence: Fence) -> Operation[str]:
    """Take or renew the lease; the status that the thread had, empty for a new one."""
    rows = yield Query(q.lock_lease, (thread_id,))
    now = time.time()
    if not rows:
        fence.claim(thread_id, None, busy=False)
        values = (thread_id, None, fence.token, new_epoch(), "running", now, now)
        yield Run(q.add_thread, values)
        return ""
    token, status, updated_at = rows[0]
    fence.claim(thread_id, token, registry.is_alive(status, updated_at))
    if token == fence.token:
        yield Run(q.renew_lease, (now, thread_id))
    else:
        yield Run(q.take_lease, (fence.token, now, thread_id))
    # What a run left behind that was killed is nobody's work now.
    return "interrupted" if status == "running" else str(status)


def release(q: Queries, thread_id: str, fence: Fence, status: str) -> Operation[None]:
    """Say how a run has ended, unless another has taken the thread."""
    if status:
        # What has become of the thread is seen only after the lock was granted: whoever had it
        # may have removed the latest checkpoint.
        yield Query(q.lock_thread, (thread_id,))
        yield Run(q.end_lease, (status, thread_id, fence.token))
    else:
        yield Run(q.drop_claim, (thread_id, fence.token))
