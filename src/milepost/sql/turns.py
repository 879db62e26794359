"""Turns on a connection: everybody who was given the same one waits for the same lock.

A saver and a store may each have an engine on one connection, which can do one thing at a time.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from milepost import forking

C = TypeVar("C")


class Turns:
    """The lock of one connection, in both colours."""

    __slots__ = ("__weakref__", "_loop", "_loop_lock", "connection", "lock")

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        """Held, so that no other connection gets its address as long as this is known."""
        self.lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_lock: asyncio.Lock | None = None

    def connect(self, connection: C) -> C:
        """Take turns on this connection from now on: it takes the place of the one before."""
        with _registering:
            _known[id(connection)] = self
            self.connection = connection
        return connection

    def on_loop(self, loop: asyncio.AbstractEventLoop) -> asyncio.Lock:
        """The lock for those who wait on this event loop."""
        if self._loop_lock is None or self._loop is not loop:
            self._loop, self._loop_lock = loop, asyncio.Lock()
        return self._loop_lock


_known: WeakValueDictionary[int, Turns] = WeakValueDictionary()
"""By the connection's address: sqlite3's connections cannot be referred to weakly."""
_registering = forking.fresh_in_child(threading.Lock())


def turns_on(connection: Any) -> Turns:
    """The turns of a connection. They are forgotten when nobody holds them any more."""
    with _registering:
        turns = _known.get(id(connection))
        if turns is None:
            turns = _known[id(connection)] = Turns(connection)
        return turns
