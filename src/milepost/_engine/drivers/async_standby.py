"""The standby of a driver on an event loop; `standby.py` says what it is for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from milepost._engine.drivers.standby import PATIENCE
from milepost._internal.asyncio_tools import see_through
from milepost._internal.generators import adrive

if TYPE_CHECKING:
    from milepost._engine.drivers.effects import Effect, Keep
    from milepost._engine.drivers.run_driver import Ended
    from milepost._engine.superstep.plan import Task


class AsyncStandby:
    """Acts for the run between `leave` and `come_back`."""

    def __init__(
        self, ended: Collection[Ended], carry_out: Callable[[Effect[Any]], Coroutine[Any, Any, Any]]
    ) -> None:
        self.keep: Keep | None = None
        self.is_away = False
        self._ended = ended
        self._carry_out = carry_out
        self._timer: asyncio.TimerHandle | None = None
        self._storing: asyncio.Task[None] | None = None

    def leave(self) -> None:
        """The consumer gets an event."""
        self.is_away = True
        if self._ended:
            self.look()

    async def come_back(self) -> None:
        """The consumer wants the next event: the driver goes on when nothing is being stored."""
        self.is_away = False
        if self._storing is not None and not self._storing.done():
            await see_through(asyncio.wait([self._storing]))

    def look(self) -> None:
        """A task has ended."""
        if self.is_away and self.keep is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._store_soon)

    def stop(self) -> None:
        """The run has ended."""
        if self._timer is not None:
            self._timer.cancel()

    def _store_soon(self) -> None:
        self._timer = None
        if self.is_away and (self._storing is None or self._storing.done()):
            self._storing = asyncio.get_running_loop().create_task(self._store())

    async def _store(self) -> None:
        tried: set[Task] = set()
        while self.is_away:
            waiting = [t for t, crash in self._ended if crash is None and t not in tried]
            if not waiting:
                return
            assert self.keep is not None
            with suppress(Exception):
                await adrive(self.keep(waiting[0]), self._carry_out)
            tried.add(waiting[0])
