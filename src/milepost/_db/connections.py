"""How many database connections are open in this process: our own, the user's, and pools."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from milepost._internal.weak_registry import WeakRegistry


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
