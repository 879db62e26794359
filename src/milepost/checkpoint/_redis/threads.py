"""The threads of a saver on Redis: those of every saver, and how long they live."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from milepost._db.engine import Program, Transaction
from milepost._db.operations import Execute
from milepost.checkpoint._contract.facets import awaitable, blocking
from milepost.checkpoint._contract.thread_admin import thread_id_of
from milepost.checkpoint._contract.threads import no_such_thread
from milepost.checkpoint._sql.threads.retention import SqlThreads

if TYPE_CHECKING:
    from milepost._db.operations import Operation


class RedisThreads(SqlThreads):
    """Whole threads."""

    def _set_ttl(self, thread_id: Any, minutes: float | None) -> Program[None]:
        """Let a thread live so many minutes from its last use on; with None, for ever (pinned).

        The thread keeps that, whatever the saver's default is. All of a thread expires at once.
        """
        ttl = "-1" if minutes is None else str(seconds(minutes))
        yield Transaction(partial(self._ttl_of, thread_id_of(thread_id), ttl))

    def _pin(self, thread_id: Any) -> Program[None]:
        """Keep a thread for ever, whatever the saver's default is."""
        yield from self._set_ttl(thread_id, None)

    def _ttl_of(self, thread_id: str, ttl: str) -> Operation[None]:
        if not (yield Execute("set_ttl", (thread_id, ttl))):
            raise no_such_thread(thread_id)

    set_ttl, aset_ttl = blocking(_set_ttl), awaitable(_set_ttl)
    pin, apin = blocking(_pin), awaitable(_pin)


def seconds(minutes: float) -> float:
    """A time to live, which callers give in minutes."""
    if isinstance(minutes, bool) or not isinstance(minutes, (int, float)) or not minutes > 0:
        raise ValueError(f"A time to live must be a number of minutes above 0, not {minutes!r}.")
    return minutes * 60
