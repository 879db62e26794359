"""Runs operations on a psycopg connection or pool in sync code; async callers use a thread."""

from __future__ import annotations

import select
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from milepost._db.calls import make_calls
from milepost._db.postgres.errors import IN_CHILD
from milepost._db.postgres.source import PostgresSource
from milepost._db.postgres.wire import WAIT_INTERVAL
from milepost._internal.asyncio_tools import in_thread
from milepost.errors import ForkedProcessError

if TYPE_CHECKING:
    from milepost._db.calls import Calls
    from milepost._db.group_commit import Committer, Outcome, Waiting

R = TypeVar("R")
S = TypeVar("S")


class PostgresEngine(PostgresSource):
    """One PostgreSQL database."""

    connection_type = psycopg.Connection
    pool_type = "ConnectionPool"

    def _check(self) -> None:
        if self._forked:
            raise ForkedProcessError(IN_CHILD)

    def _lock(self) -> Any:
        return self._connection_lock.lock

    def _wait(self, socket: int, writing: bool) -> None:
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(socket, select.POLLIN | select.POLLOUT if writing else select.POLLIN)
            poll.poll(WAIT_INTERVAL * 1000)
        else:  # on Windows
            select.select([socket], [socket] if writing else [], [], WAIT_INTERVAL)

    _make = staticmethod(make_calls)

    async def _amake(self, calls: Calls[R]) -> R:
        return await in_thread(make_calls, calls)

    def commit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        """Take part in a group commit."""
        return committer.commit(waiting, partial(self.run, write=True))

    async def acommit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        """`commit`, for use on an event loop."""
        return await in_thread(self.commit, committer, waiting)

    def close(self) -> None:
        """Close a connection that is the engine's own."""
        make_calls(self.closing())
