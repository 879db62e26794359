"""How long an async node may take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Literal

from milepost.errors import NodeTimeoutError
from milepost.types import TimeoutPolicy, seconds

if TYPE_CHECKING:
    from milepost._engine.drivers.effects import Call


async def within(work: Awaitable[Any], policy: TimeoutPolicy, effect: Call) -> Any:
    """Await a node for as long as its timeout allows."""
    loop = asyncio.get_running_loop()
    running = seconds(policy.run_timeout)
    idle = seconds(policy.idle_timeout)
    started = last_sign = loop.time()

    def sign_of_life() -> None:
        nonlocal last_sign
        last_sign = loop.time()

    effect.context.heartbeat = sign_of_life
    node = asyncio.ensure_future(work)
    try:
        while not node.done():
            limits: list[tuple[float, Literal["idle", "run"]]] = []
            if running is not None:
                limits.append((started + running, "run"))
            if idle is not None:
                limits.append((last_sign + idle, "idle"))
            when, kind = min(limits)
            if loop.time() >= when:
                raise NodeTimeoutError(
                    effect.context.task.name,
                    loop.time() - started,
                    kind=kind,
                    idle_timeout=idle,
                    run_timeout=running,
                    in_error_handler=effect.context.failure is not None,
                )
            await asyncio.wait([node], timeout=when - loop.time())
        return node.result()
    finally:
        if not node.done():
            node.cancel()
            await asyncio.wait([node])
