"""Ends the streams that are open when the interpreter exits.

A stream that was not consumed to its end has a run with steps that threads are still to store. The
interpreter would close such a stream when those threads do not run any more, and the stream would
wait for them for ever. Callbacks of `atexit` run early enough: threads still run then, though from
Python 3.12 on none can be started.
"""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from milepost._internal import log, threads

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from types import AsyncGeneratorType

    from milepost._engine.drivers.aio import AsyncDriver

EXIT_TIMEOUT = 10.0
"""Seconds that a node on an event loop has to end when it is cancelled at exit."""

S = TypeVar("S", bound="Generator[Any, None, Any] | AsyncGenerator[Any, None]")

_streams: WeakKeyDictionary[Any, AsyncDriver | None] = WeakKeyDictionary()
"""Stream → the driver of a stream on an event loop, None for a stream in sync code."""

_registered = False


def end_at_exit(stream: S, driver: AsyncDriver | None = None) -> S:
    """Close this stream if it is open when the interpreter exits.

    `driver`: that of a stream on an event loop.
    """
    # Registered at the first stream, not at import: callbacks run in reverse order, so a callback
    # that the program registered before, such as closing its saver, runs after the stream has
    # ended.
    global _registered
    if not _registered:
        _registered = True
        atexit.register(_end_all)
    _streams[stream] = driver
    return stream


def _end_all() -> None:
    threads.start_no_more()
    # Sync streams first: they wait for no event loop, whose nodes may take long to end.
    for stream, driver in sorted(_streams.items(), key=lambda entry: entry[1] is not None):
        try:
            if driver is not None:
                _end_async(stream, driver)
            elif not stream.gi_running:  # otherwise a daemon thread is inside it, and stops soon
                stream.close()
        except Exception as error:
            log.warning(
                log.RUN,
                "A stream that was open when the interpreter exited could not be ended, and the "
                "last steps of its run may not be stored: %s. Close streams that are left: "
                "stream.close().",
                error,
            )


def _end_async(stream: AsyncGeneratorType[Any, None], driver: AsyncDriver) -> None:
    loop = driver.loop
    if loop is None or loop.is_closed() or stream.ag_running:
        return
    import asyncio

    async def end() -> None:
        closing = asyncio.ensure_future(stream.aclose())
        await asyncio.wait([closing], timeout=EXIT_TIMEOUT)
        if closing.done():
            closing.result()
        await driver.leave()

    if loop.is_running():
        asyncio.run_coroutine_threadsafe(end(), loop).result(EXIT_TIMEOUT)
    else:
        loop.run_until_complete(end())


def _forget() -> None:
    """The streams are the parent's; a forked child must not go on with them."""
    _streams.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
