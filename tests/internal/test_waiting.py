"""Ways to wait on an event loop."""

import asyncio
import gc
from typing import Any

import pytest

from milepost._internal.asyncio_tools import see_through


def test_what_fails_while_its_caller_is_cancelled_is_not_reported_as_unseen():
    reports: list[dict[str, Any]] = []

    async def cancel_while_it_fails() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))
        may_fail = asyncio.Event()

        async def fails() -> None:
            await may_fail.wait()
            raise ValueError("the background writer has lost its thread")

        waiting = asyncio.create_task(see_through(fails()))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        may_fail.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        del waiting
        gc.collect()

    asyncio.run(cancel_while_it_fails())
    gc.collect()
    assert reports == []
