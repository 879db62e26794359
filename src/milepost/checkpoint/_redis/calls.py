"""What a transaction asks of a server, and what a saver knows about the server's threads.

A transaction is a generator that yields these calls, in sync and async code alike:

    yielded   sent back
    Read      the thread's rev, and one reply for each request (`scripts.py`)
    Write     0, 1 or 2 (`scripts.py`)
    Listed    the reply of a command on the index of all threads
    Entries   of each thread its entry and its latest root checkpoint, as for the request `E`
    Scan      the keys that hold rows of any thread
    Sleep     None, some time later
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from milepost.errors import BrokenChainError

Argument: TypeAlias = bytes | str | int


class Read(NamedTuple):
    """Requests that are answered as of one moment."""

    thread_id: str
    requests: Sequence[Argument]


class Write(NamedTuple):
    """Conditions and changes: all of it, or nothing."""

    thread_id: str
    rev: str
    changes: Sequence[Argument]
    guarded: bool = False
    """Whether it has other conditions than the rev that was read: only a script can do that."""


class Listed(NamedTuple):
    """A command on the index of all threads; its key comes first among the arguments."""

    command: str
    arguments: Sequence[Argument]


class Entries(NamedTuple):
    """The entries of some threads."""

    thread_ids: Sequence[str]


class Scan(NamedTuple):
    """Look through all keys of the server, or of the cluster."""


class Sleep(NamedTuple):
    """Wait before another attempt."""

    seconds: float


Call: TypeAlias = Read | Write | Listed | Entries | Scan | Sleep
R = TypeVar("R")
Calls: TypeAlias = Generator[Call, Any, R]

_MOST: Final = 10_000
"""Threads, and runs, of which something is known."""


class Mark(NamedTuple):
    """The last commit of a run."""

    stored: str | None
    """The rev of the last one that the server has acknowledged."""
    sent: str | None = None
    """That of a later one whose outcome is not known."""


class Known:
    """What the server has acknowledged, so that a saver notices if the server loses it.

    After a fail-over a replica may have become the primary that had not heard of the last commits.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heads: OrderedDict[str, tuple[int, str]] = OrderedDict()
        self._marks: OrderedDict[str, Mark] = OrderedDict()

    def head(self, thread_id: str, epoch: int, head: str) -> None:
        """A thread's latest checkpoint is at least this one, as long as its epoch is this one."""
        with self._lock:
            before = self._heads.get(thread_id)
            if before is None or before[0] != epoch or before[1] < head:
                self._heads[thread_id] = (epoch, head)
                self._heads.move_to_end(thread_id)
            if len(self._heads) > _MOST:
                self._heads.popitem(last=False)

    def check_head(self, thread_id: str, epoch: int, head: str | None) -> None:
        """Raise BrokenChainError, once, if the server knows only an older checkpoint."""
        known = self._heads.get(thread_id)
        if known is not None and known[0] == epoch and (head or "") < known[1]:
            self.forget(thread_id)
            raise lost_tail(thread_id, f"its latest checkpoint was '{known[1]}', and is '{head}'")

    def forget(self, thread_id: str) -> None:
        """The thread is gone, or its loss was reported."""
        with self._lock:
            self._heads.pop(thread_id, None)

    def mark(self, token: str) -> Mark:
        """What is known of a run's last commit."""
        return self._marks.get(token, Mark(None))

    def set_mark(self, token: str, mark: Mark) -> None:
        """A commit of a run was sent, or acknowledged."""
        with self._lock:
            self._marks[token] = mark
            self._marks.move_to_end(token)
            if len(self._marks) > _MOST:
                self._marks.popitem(last=False)


def lost_tail(thread_id: str, what: str) -> BrokenChainError:
    """The server has an older state than the one that it had acknowledged."""
    return BrokenChainError(
        f"The server has lost the last steps of thread '{thread_id}': {what}. A fail-over to a "
        "replica that lagged behind, or a restart from an older file, does that. Nothing of this "
        "call was stored. Load the thread again to go on from what is left, or restore a backup. "
        "WAITAOF and `wait_replicas` make such a loss less likely."
    )
