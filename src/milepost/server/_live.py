"""A thread that is followed: new checkpoints, and changes of its status, as they come.

Another process may run the thread, so the database is polled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

from starlette.concurrency import run_in_threadpool

from milepost import inspect
from milepost.server._errors import HttpError
from milepost.server._sse import Event

if TYPE_CHECKING:
    from milepost.inspect import LogEntry, ThreadRow
    from milepost.server._server import Server

_FEW: Final = 4
_MOST: Final = 1000
"""Checkpoints that one read may find; a client that has missed more reads the log."""


async def follow(
    server: Server, thread_id: str, namespace: str, after: str | None
) -> AsyncGenerator[Event]:
    """Events of a thread.

    `thread` when its row is another, `checkpoint` for each entry of its log after `after` (without
    it: after the present one), and again for the newest when more is known of its tasks; `deleted`
    at the end if the thread is removed.
    """
    row: ThreadRow | None = None
    newest: LogEntry | None = None
    while True:
        try:
            found, entries = await run_in_threadpool(_read, server, thread_id, namespace, after)
        except (inspect.ThreadNotFoundError, HttpError):
            yield Event("deleted", {"thread_id": thread_id})
            return
        if found != row:
            row = found
            yield Event("thread", row)
        if after is None:
            newest = entries[-1] if entries else None
            after = ""
        for entry in entries:
            if entry != newest:
                yield Event("checkpoint", entry, entry.checkpoint_id)
        if entries:
            newest = entries[-1]
            after = newest.checkpoint_id
        await asyncio.sleep(server.limits.poll)


def _read(
    server: Server, thread_id: str, namespace: str, after: str | None
) -> tuple[ThreadRow, list[LogEntry]]:
    """The thread as it is now, and its entries from `after` on, oldest first."""
    row = server.thread(thread_id)
    if after is None:
        return row, _entries(server, thread_id, namespace, 1)
    # Most reads find nothing new: a few entries are enough.
    for limit in (_FEW, _MOST):
        found = _entries(server, thread_id, namespace, limit)
        fresh = [entry for entry in found if entry.checkpoint_id >= after]
        if len(fresh) < limit:
            break
    return row, fresh


def _entries(server: Server, thread_id: str, namespace: str, limit: int) -> list[LogEntry]:
    """The newest entries, oldest first."""
    try:
        found = inspect.log(server.database, thread_id, namespace=namespace, limit=limit)
        return list(found)[::-1]
    except inspect.StateNotFoundError:
        return []  # an inner graph that has not begun
