"""Connections of engines: the lock of each, and how many are open in this process.

A saver and a store may each have an engine on one connection. A connection can run one transaction
at a time, so all engines that use it share its lock.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from weakref import WeakValueDictionary

from milepost._internal import fork_guard
from milepost._internal.weak_registry import WeakRegistry

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


# -- open connections: our own, the user's, and pools


class OpenConnections(NamedTuple):
    """The connections of one engine."""

    system: str
    """`sqlite` or `postgresql`."""
    used: int
    """Connections with an open transaction."""
    idle: int


class ConnectionHolder(Protocol):
    """An engine that has a connection or a pool."""

    def source(self) -> object:
        """The connection or pool; engines that share one return the same."""
        ...

    def open_connections(self) -> OpenConnections:
        """How many connections are open now."""
        ...


HOLDERS: WeakRegistry[ConnectionHolder] = WeakRegistry()
"""All engines of the process."""


def open_connections() -> list[OpenConnections]:
    """One entry for each connection or pool. One that several engines share counts once."""
    by_source = {id(holder.source()): holder for holder in HOLDERS.alive()}
    return [holder.open_connections() for holder in by_source.values()]
