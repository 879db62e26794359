"""A connection of a pool that is kept from one transaction to the next.

A pool hands its connections out in turn, and each of them has to learn every statement: the server
took 50 µs of CPU time a step instead of 83 where a writer stayed with one of sixteen.
"""

from __future__ import annotations

from typing import Any, Final

MOST: Final = 64
"""Transactions after which the connection goes back in any case: a pool may want to renew it."""


class Held:
    """A connection for one transaction after the other, as long as nobody else waits for one."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._lent: Any = None
        self._connection: Any = None
        self._transactions = 0

    async def take(self) -> Any:
        """The connection for the next transaction."""
        if self._connection is not None and self._is_due():
            await self.release()
        if self._connection is None:
            lent = self._pool.connection()
            self._connection = await lent.__aenter__()
            self._lent, self._transactions = lent, 0
        self._transactions += 1
        return self._connection

    async def release(self) -> None:
        """Give it back."""
        lent, self._lent, self._connection = self._lent, None, None
        if lent is not None:
            await lent.__aexit__(None, None, None)

    def _is_due(self) -> bool:
        return (
            self._transactions >= MOST or self._connection.closed or _has_others_waiting(self._pool)
        )


def _has_others_waiting(pool: Any) -> bool:
    """Whether somebody waits for a connection of this pool, or it does not tell."""
    stats = getattr(pool, "get_stats", None)
    return stats is None or stats().get("requests_waiting") != 0
