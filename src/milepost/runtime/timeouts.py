"""How long an async node may take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from milepost.errors import NodeTimeoutError
from milepost.types import TimeoutPolicy, seconds

if TYPE_CHECKING:
    from milepost.runtime.effects import Call


async def within(work: Awaitable[Any], policy: TimeoutPolicy, effect: Call) -> Any:
    """Await a node for as long as its timeout allows."""
    loop = asyncio.get_running_loop()
    running = seconds(policy.run_timeout)
    idle = seconds(policy.idle_timeout)
    started = last_sign = loop.time()

    def sign_of_life() -> None:
        nonlocal last_sign
        last_sign = loop.time()

    effect.scope.heartbeat = sign_of_life
    node = asyncio.ensure_future(work)
    try:
        while not node.done():
            limits = []
            if running is not None:
                limits.append((started + running, f"its run timeout of {running} s"))
            if idle is not None:
                limits.append((last_sign + idle, f"its idle timeout of {idle} s"))
            when, which = min(limits)
            if loop.time() >= when:
                raise NodeTimeoutError(
                    f"Node '{effect.scope.task.name}' went over {which} and was cancelled."
                )
            await asyncio.wait([node], timeout=when - loop.time())
        return node.result()
    finally:
        if not node.done():
            node.cancel()
            await asyncio.wait([node])
