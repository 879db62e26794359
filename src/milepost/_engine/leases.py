"""Renews the claims of runs that keep other runs off their threads.

A claim expires if it is not renewed, so that a killed process does not block a thread for ever. A
node may run for longer than a lease. So one Python thread of the process renews all claims; it ends
when there are none.
"""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from milepost._internal import log, threads
from milepost._internal.dataclass_tools import record
from milepost.errors import ThreadConflict

if TYPE_CHECKING:
    from milepost.checkpoint._contract.step_saver import Fence, StepSaver

RENEWAL_INTERVAL = 15.0
"""Seconds between two renewals: a few of them must fit into a lease."""


@record(frozen=False)
class _Claim:
    saver: StepSaver[Any]
    thread_id: str
    fence: Fence
    waiting: bool = False
    """Whether the last renewal is still under way."""
    lost: bool = False
    """Whether another run has the thread, for good: tokens do not come back."""


_claims: list[_Claim] = []
_lock = threading.Lock()
_renewer: threading.Thread | None = None


def keep(saver: StepSaver[Any], thread_id: str, fence: Fence) -> None:
    """Renew a claim until its run has ended."""
    global _renewer
    with _lock:
        _claims.append(_Claim(saver, thread_id, fence))
        if _renewer is None:
            _renewer = threading.Thread(
                target=_renew_periodically, name="milepost-leases", daemon=True
            )
            _renewer.start()


def renew() -> None:
    """Renew all claims, each on a worker thread, since a loop or a database may be busy.

    A claim whose last renewal is still under way is skipped: workers would pile up while a
    database does not answer.
    """
    with _lock:
        _claims[:] = [claim for claim in _claims if not (claim.lost or claim.fence.ended)]
        due = [claim for claim in _claims if not claim.waiting]
        for claim in due:
            claim.waiting = True
    for claim in due:
        try:
            threads.submit(partial(_renew, claim))
        except RuntimeError:  # no worker can be started: the next round tries again
            claim.waiting = False


def _renew(claim: _Claim) -> None:
    try:
        claim.saver.hold(claim.thread_id, claim.fence)
    except ThreadConflict:
        claim.lost = True
        lost = "Thread '%s': another run has taken the lease; this run's next commit fails."
        log.warning(log.THREADS, lost, claim.thread_id)
    except Exception as error:
        late = "Thread '%s': the lease was not renewed (%s); that is tried again in %.0f s."
        log.warning(log.THREADS, late, claim.thread_id, error, RENEWAL_INTERVAL)
    finally:
        claim.waiting = False


def _renew_periodically() -> None:
    global _renewer
    pause = threading.Event()
    while True:
        pause.wait(RENEWAL_INTERVAL)
        renew()
        with _lock:
            if not _claims:
                _renewer = None
                return


def _forget() -> None:
    """A forked child has neither the claims of its parent nor the thread that renews them."""
    global _lock, _renewer
    _lock, _renewer = threading.Lock(), None
    _claims.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
