"""What a server has acknowledged, so that a saver notices if the server loses that.

After a fail-over a replica may have become the primary that had not heard of the last commits.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, NamedTuple, TypeVar

from milepost._internal import fork_guard
from milepost.errors import BrokenChainError

V = TypeVar("V")

_MOST: Final = 10_000
"""Threads, and runs, of which something is known."""


class Expected(NamedTuple):
    """What the server had acknowledged before a transaction began: it must still have that."""

    head: tuple[int, str] | None
    """The thread's epoch, and its latest checkpoint."""
    writes: int
    """How many writes the thread has had, if the run that is about to write still has it."""

    def check(
        self, thread_id: str, epoch: int, head: str | None, writes: int | None
    ) -> BrokenChainError | None:
        """What to raise if the server knows only an older state; `writes` if that run has it."""
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
    """The heads of threads, and the number of writes that runs have seen."""

    def __init__(self) -> None:
        self._lock = fork_guard.fresh_in_child(threading.Lock())
        self._heads: OrderedDict[str, tuple[int, str]] = OrderedDict()
        self._writes: OrderedDict[str, int] = OrderedDict()
        """By the token of a run."""

    def expected(self, thread_id: str, owner: str | None) -> Expected:
        """What a transaction is to find, whatever others do meanwhile."""
        writes = self._writes.get(owner, 0) if owner is not None else 0
        return Expected(self._heads.get(thread_id), writes)

    def head(self, thread_id: str, epoch: int, head: str) -> None:
        """A thread's latest checkpoint is at least this one, as long as its epoch is this one."""
        with self._lock:
            before = self._heads.get(thread_id)
            if before is None or before[0] != epoch or before[1] < head:
                _keep(self._heads, thread_id, (epoch, head))

    def wrote(self, owner: str, writes: int) -> None:
        """A write of a run was acknowledged; its thread has had so many."""
        with self._lock:
            _keep(self._writes, owner, max(writes, self._writes.get(owner, 0)))

    def forget(self, thread_id: str) -> None:
        """The thread is gone, or its loss was reported."""
        with self._lock:
            self._heads.pop(thread_id, None)


def _keep(known: OrderedDict[str, V], key: str, value: V) -> None:
    known[key] = value
    known.move_to_end(key)
    if len(known) > _MOST:
        known.popitem(last=False)
