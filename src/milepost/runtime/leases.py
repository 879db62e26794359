"""Renews the claims of runs that wanted to be alone on their threads.

A claim that is not renewed lapses, so that a process that was killed does not block a thread for
ever; and a node may well be at work for longer than that. One thread for the whole process looks
at all claims now and then; it goes away when there are none.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.runtime import workers

if TYPE_CHECKING:
    from milepost.checkpoint.commit import Fence, StepSaver

BEAT = 15.0
"""Seconds between two looks: a few of them must fit into a lease."""


class _Claim(NamedTuple):
    saver: StepSaver[Any]
    thread_id: str
    fence: Fence


_claims: list[_Claim] = []
_lock = threading.Lock()
_watch: threading.Thread | None = None


def keep(saver: StepSaver[Any], thread_id: str, fence: Fence) -> None:
    """Renew a claim until its run has ended."""
    global _watch
    with _lock:
        _claims.append(_Claim(saver, thread_id, fence))
        if _watch is None:
            _watch = threading.Thread(target=_look, name="milepost-leases", daemon=True)
            _watch.start()


def renew() -> None:
    """Renew all claims; each on a thread of its own, since a loop or a database may be busy."""
    with _lock:
        _claims[:] = [claim for claim in _claims if not claim.fence.ended]
        alive = list(_claims)
    for claim in alive:
        workers.submit(lambda claim=claim: _renew(claim))  # type: ignore[misc]


def _renew(claim: _Claim) -> None:
    # If it was lost, or the database cannot be reached, the run's next commit will say so.
    with suppress(Exception):
        claim.saver.hold(claim.thread_id, claim.fence)


def _look() -> None:
    global _watch
    pause = threading.Event()
    while True:
        pause.wait(BEAT)
        renew()
        with _lock:
            if not _claims:
                _watch = None
                return


def _forget() -> None:
    """The claims are the parent's; a forked child has neither them nor the thread."""
    global _lock, _watch
    _lock, _watch = threading.Lock(), None
    _claims.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
