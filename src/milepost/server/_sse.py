"""Server-sent events: one line of JSON each, and a comment now and then while nothing happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from starlette.responses import Response

from milepost.server._errors import HttpError, as_http_error
from milepost.server._json import encode

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

HEARTBEAT: Final = b": heartbeat\n\n"
_SECONDS_BETWEEN_HEARTBEATS: Final = 15.0


class Event(NamedTuple):
    """A server-sent event."""

    name: str
    data: object
    id: str | None = None
    """Where a client that was cut off goes on."""

    def encoded(self) -> bytes:
        """The event as it is sent."""
        id = b"" if self.id is None else b"id: %s\n" % _line(self.id)
        return b"%sevent: %s\ndata: %s\n\n" % (id, _line(self.name), encode(self.data))


def _line(text: str) -> bytes:
    """A name in one line: a line break would end the field, and names are users'."""
    return " ".join(text.splitlines()).encode(errors="replace")


class Streams:
    """The streams that are open."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: set[EventStream] = set()

    def check(self) -> None:
        """Raise a 429 if there are too many for another one."""
        if len(self._open) >= self._most:
            raise HttpError(429, f"{len(self._open)} streams are open: close one.")

    def response(self, events: AsyncGenerator[Event]) -> EventStream:
        """A stream; raises a 429 if there are too many."""
        self.check()
        stream = EventStream(events, self._open.discard)
        self._open.add(stream)
        return stream

    def close(self) -> None:
        """End all of them: the server stops."""
        for stream in list(self._open):
            stream.ended.set()


class EventStream(Response):
    """A response that goes on until its events end or the client goes away.

    The events are closed in both cases: what produces them stops waiting.
    """

    media_type = "text/event-stream"

    def __init__(
        self, events: AsyncGenerator[Event], closed: Callable[[EventStream], None]
    ) -> None:
        super().__init__(status_code=200, headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._closed = closed
        self.ended = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until one side ends."""
        del scope
        sending = asyncio.ensure_future(self._send_all(send))
        leaving = asyncio.ensure_future(_disconnected(receive))
        stopping = asyncio.ensure_future(self.ended.wait())
        tasks = (sending, leaving, stopping)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            is_there = not leaving.done()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._closed(self)
            await self._events.aclose()
        if is_there:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        # The headers go out with this, before anything happens.
        await _send(send, HEARTBEAT)
        following = asyncio.ensure_future(anext(self._events))
        try:
            while True:
                ended, _ = await asyncio.wait((following,), timeout=_SECONDS_BETWEEN_HEARTBEATS)
                if not ended:
                    await _send(send, HEARTBEAT)
                    continue
                await _send(send, following.result().encoded())
                following = asyncio.ensure_future(anext(self._events))
        except StopAsyncIteration:
            pass
        except Exception as error:
            known = as_http_error(error)
            detail = type(error).__name__ if known is None else known.detail
            await _send(send, Event("error", {"detail": detail}).encoded())
        finally:
            await end_task(following)


async def end_task(task: asyncio.Future[Any]) -> None:
    """Cancel a task, and wait until it has ended."""
    task.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await task


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
