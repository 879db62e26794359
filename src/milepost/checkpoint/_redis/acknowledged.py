"""What a server has acknowledged, so that a saver notices if the server loses it.

After a fail-over the new primary may be a replica that had not yet received the last commits.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, NamedTuple, TypeVar

from milepost._internal import fork_guard
from milepost.errors import BrokenChainError

V = TypeVar("V")

_MAX_REMEMBERED: Final = 10_000
"""Threads, and as many runs; the oldest are forgotten."""


class Expected(NamedTuple):
    """What the server had acknowledged before a transaction began, and must still have."""

    head: tuple[int, str] | None
    """The thread's epoch, and its latest checkpoint."""
    writes: int
    """How many writes the thread had had when the run last wrote; 0 if that is not known. It counts
    only as long as the run owns the thread."""

    def check(
        self, thread_id: str, epoch: int, head: str | None, writes: int | None
    ) -> BrokenChainError | None:
        """The error to raise if the server has an older state; `writes` is None if the run does not
        own the thread."""
        if self.head is not None and self.head[0] == epoch and (head or "") < self.head[1]:
            what = f"its latest checkpoint was '{self.head[1]}', and is '{head}'"
        elif writes is not None and writes < self.writes:
            what = "what this run has stored last is not there"
        else:
            return None
        return BrokenChainError(
            f"The server has lost the last steps of thread '{thread_id}': {what}. A fail-over to a "
            "replica that lagged behind, or a restart from an older file, does that. Nothing of "
            "this call was stored. Load the thread again to go on from what is left, or restore a "
            "backup. WAITAOF and `wait_replicas` make such a loss less likely."
        )


class Acknowledged:
    """The heads of threads, and for each run the number of writes of its thread."""

    def __init__(self) -> None:
        self._lock = fork_guard.fresh_in_child(threading.Lock())
        self._heads: OrderedDict[str, tuple[int, str]] = OrderedDict()
        self._writes: OrderedDict[str, int] = OrderedDict()
        """By the token of a run."""

    def expected(self, thread_id: str, owner: str | None) -> Expected:
        """What a transaction must find, whatever others do meanwhile."""
        writes = self._writes.get(owner, 0) if owner is not None else 0
        return Expected(self._heads.get(thread_id), writes)

    def head(self, thread_id: str, epoch: int, head: str) -> None:
        """Remember a thread's latest checkpoint, which only a new epoch may set back."""
        with self._lock:
            before = self._heads.get(thread_id)
            if before is None or before[0] != epoch or before[1] < head:
                _keep(self._heads, thread_id, (epoch, head))

    def wrote(self, owner: str, writes: int) -> None:
        """Remember the number of writes of a thread, after a write of a run was acknowledged."""
        with self._lock:
            _keep(self._writes, owner, max(writes, self._writes.get(owner, 0)))

    def forget(self, thread_id: str) -> None:
        """Forget a thread that does not exist any more, or whose loss was reported."""
        with self._lock:
            self._heads.pop(thread_id, None)


def _keep(known: OrderedDict[str, V], key: str, value: V) -> None:
    known[key] = value
    known.move_to_end(key)
    if len(known) > _MAX_REMEMBERED:
        known.popitem(last=False)
