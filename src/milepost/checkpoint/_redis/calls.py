"""What a transaction asks of a server, and what a saver knows about the server's threads.

A transaction is a generator that yields these calls, in sync and async code alike:

    yielded     sent back
    Read        the thread's rev, and one reply for each request (`scripts.py`)
    Write       0, or how many writes the thread has had (`scripts.py`)
    Listed      the reply of a command on the index of all threads
    Entries     of each thread its entry and its latest root checkpoint, as for the request `E`
    Everything  the keys that hold rows of any thread
    Pause       None, some time later
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from milepost._db.calls import Pause
from milepost._db.redis.commands import Argument
from milepost._internal import fork_guard
from milepost.errors import BrokenChainError


class Read(NamedTuple):
    """Requests that are answered as of one moment."""

    thread_id: str
    requests: Sequence[Argument]


class Write(NamedTuple):
    """Conditions and changes: all of it, or nothing."""

    thread_id: str
    rev: str
    changes: Sequence[Argument]


class Listed(NamedTuple):
    """A command on the index of all threads; its key comes first among the arguments."""

    command: str
    arguments: Sequence[Argument]


class Entries(NamedTuple):
    """The entries of some threads."""

    thread_ids: Sequence[str]


class Everything(NamedTuple):
    """Look through all keys of the server, or of the cluster."""


Call: TypeAlias = Read | Write | Listed | Entries | Everything | Pause
R = TypeVar("R")
Calls: TypeAlias = Generator[Call, Any, R]

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
            return lost_tail(thread_id, what)
        if writes is not None and writes < self.writes:
            return lost_tail(thread_id, "what this run has stored last is not there")
        return None


class Known:
    """What the server has acknowledged, so that a saver notices if the server loses it.

    After a fail-over a replica may have become the primary that had not heard of the last commits.
    """

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
                self._heads[thread_id] = (epoch, head)
                self._heads.move_to_end(thread_id)
            if len(self._heads) > _MOST:
                self._heads.popitem(last=False)

    def wrote(self, owner: str, writes: int) -> None:
        """A write of a run was acknowledged; its thread has had so many."""
        with self._lock:
            self._writes[owner] = max(writes, self._writes.get(owner, 0))
            self._writes.move_to_end(owner)
            if len(self._writes) > _MOST:
                self._writes.popitem(last=False)

    def forget(self, thread_id: str) -> None:
        """The thread is gone, or its loss was reported."""
        with self._lock:
            self._heads.pop(thread_id, None)


def lost_tail(thread_id: str, what: str) -> BrokenChainError:
    """The server has an older state than the one that it had acknowledged."""
    return BrokenChainError(
        f"The server has lost the last steps of thread '{thread_id}': {what}. A fail-over to a "
        "replica that lagged behind, or a restart from an older file, does that. Nothing of this "
        "call was stored. Load the thread again to go on from what is left, or restore a backup. "
        "WAITAOF and `wait_replicas` make such a loss less likely."
    )
