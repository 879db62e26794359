"""What a forked child process does with what it has inherited.

A child has a copy of its parent's memory and shares its open files, but has none of its threads.
So a lock that another thread held is held for ever, and a connection to a database is used by two
processes that know nothing of each other. These are prepared for a fork:

    held_at_fork      a lock that is taken before the fork: what it guards is whole in the child
    fresh_in_child    a lock that is free in the child, even if the parent held it
    renewed_in_child  an object whose `renew` is called in the child
    last_in_child     a function that is called in the child when all are renewed

A process that does not fork pays nothing for this.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol, Self, TypeVar
from weakref import WeakSet

from milepost._internal import log
from milepost.errors import ProcessBoundError

L = TypeVar("L")
R = TypeVar("R", bound="Renewed")

PATIENCE: Final = 10.0
"""Seconds for which a fork waits for locks in all; a lock may be held by a thread that waits for
the disk."""


class Renewed(Protocol):
    """Something that has to be reset in a child."""

    def renew(self) -> None:
        """Called in the child, by its only thread, before anything else is done there."""
        ...


class ProcessBound:
    """Something that holds connections, locks or threads: it cannot be sent to another process."""

    def __reduce__(self) -> str | tuple[Any, ...]:
        name = type(self).__name__
        raise ProcessBoundError(
            f"{name} cannot be pickled or deep-copied: it holds connections, locks or memory of "
            f"this process. Make a {name} in the other process, and send it what that takes: a "
            "connection string or a file name. For a graph, compile it there."
        )

    def __copy__(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin


_held_at_fork: WeakSet[Any] = WeakSet()
_fresh_in_child: WeakSet[Any] = WeakSet()
_renewed: WeakSet[Any] = WeakSet()
_last: list[Callable[[], None]] = []
_forking = threading.RLock()
"""One fork at a time."""
_under_way = threading.Event()
_held: list[Any] = []
"""Locks that are held for the fork that is under way."""
_kept: list[Any] = []


def held_at_fork(lock: L) -> L:
    """Take this lock before a fork, in the parent.

    A thread that waits for such a lock must hold no other lock of this kind.
    """
    _held_at_fork.add(lock)
    return lock


def fresh_in_child(lock: L) -> L:
    """Make this lock free in a child."""
    _fresh_in_child.add(lock)
    return lock


def renewed_in_child(thing: R) -> R:
    """Call `renew` of this object in a child."""
    _renewed.add(thing)
    return thing


def last_in_child(function: Callable[[], None]) -> None:
    """Call this function in a child, after every `renew`."""
    _last.append(function)


def was_held(lock: object) -> bool:
    """Whether the lock was taken for the fork; to be asked in `renew`."""
    return any(lock is held for held in _held)


def keep_for_ever(*things: object) -> None:
    """Never finalize these, not even when the interpreter ends.

    The finalizer of a parent's connection or pool would end the parent's session on the server, or
    wait for threads that the child does not have.
    """
    _kept.extend(things)
    try:
        from ctypes import py_object, pythonapi
    except ImportError:  # not CPython: then nothing is finalized at the end
        return
    for thing in things:
        pythonapi.Py_IncRef(py_object(thing))


def _before() -> None:
    _forking.acquire()
    _under_way.set()
    until = time.monotonic() + PATIENCE
    for lock in list(_held_at_fork):
        if lock.acquire(timeout=max(0.0, until - time.monotonic())):
            _held.append(lock)


def _in_parent() -> None:
    while _held:
        _held.pop().release()
    _under_way.clear()
    _forking.release()


def _in_child() -> None:
    global _forking, _under_way
    _forking = threading.RLock()
    _under_way = threading.Event()
    for lock in (*_held_at_fork, *_fresh_in_child):
        lock._at_fork_reinit()
    for thing in list(_renewed):
        try:
            thing.renew()
        except Exception as error:  # no caller is here, and the others need their turn
            failed = "A %s could not be renewed in a forked process: %s."
            log.warning(log.STORAGE, failed, type(thing).__name__, error)
    for function in _last:
        function()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
