"""The lock of a connection, shared by all engines that use the same connection.

A saver and a store may each have an engine on one connection. A connection can run one transaction
at a time.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from milepost._internal import fork_guard

if TYPE_CHECKING:
    import asyncio

C = TypeVar("C")


class ConnectionLock:
    """The lock of one connection, for threads and for an event loop."""

    __slots__ = ("__weakref__", "_loop", "_loop_lock", "connection", "lock")

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        """A strong reference, so that no other connection gets the same address meanwhile."""
        self.lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_lock: asyncio.Lock | None = None

    def connect(self, connection: C) -> C:
        """Guard `connection` from now on, in place of the connection before."""
        with _registering:
            # The former connection's address may become that of another connection.
            _known.pop(id(self.connection), None)
            _known[id(connection)] = self
            self.connection = connection
        return connection

    def on_loop(self, loop: asyncio.AbstractEventLoop) -> asyncio.Lock:
        """The lock for those who wait on this event loop."""
        if self._loop_lock is None or self._loop is not loop:
            import asyncio

            self._loop, self._loop_lock = loop, asyncio.Lock()
        return self._loop_lock


_known: WeakValueDictionary[int, ConnectionLock] = WeakValueDictionary()
"""By the connection's address, since a sqlite3 connection cannot be referenced weakly."""
_registering = fork_guard.fresh_in_child(threading.Lock())


def lock_of(connection: Any) -> ConnectionLock:
    """The lock of a connection. The lock is dropped together with the last engine that uses it."""
    with _registering:
        found = _known.get(id(connection))
        if found is None:
            found = _known[id(connection)] = ConnectionLock(connection)
        return found
