"""What the stores in databases have in common, beside their engines: setup, and async upkeep."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from milepost._db.migrations import TableSetup
from milepost._internal import fork_guard
from milepost._internal.fork_guard import ProcessBound
from milepost.store._core.api import CoreStore
from milepost.store._core.engine_core import EngineCore
from milepost.store._core.records import Result
from milepost.store._core.tasks import Group, Transact
from milepost.store.base import BaseStore


class EngineStore(CoreStore, ProcessBound, BaseStore):
    """A store in a database, with the sync names of its methods."""

    def __init__(self, engine: Any, core: EngineCore) -> None:
        super().__init__(core)
        self._engine_core = core
        self.index_config = core.index
        self.use(engine)

    def _drive_group(self, group: Group) -> list[Result]:
        put = self._engine_core.single_put(group)
        if put is None:
            return super()._drive_group(group)
        self._engine.run(put, write=True)
        return [None]

    def _transact(self, request: Transact | TableSetup) -> Any:
        return self._engine_core.transact(self._engine, request)

    async def _atransact(self, request: Transact | TableSetup) -> Any:
        return await self._engine_core.atransact(self._engine, request)

    def use(self, engine: Any) -> None:
        """Carry out requests with this engine from now on.

        Args:
            engine: Reads and writes the database.
        """
        self._engine = engine

    def setup(self) -> None:
        """Prepare the database now. Not needed: the first use does it."""
        self._drive(self._core.ready())

    async def asetup(self) -> None:
        """`setup`, for use on an event loop."""
        await self._adrive(self._core.ready())


_BETWEEN_CANCELLATIONS: Final = 0.5
"""Seconds after which a sweeper that has not ended is cancelled again."""


class AsyncUpkeep(EngineStore):
    """The upkeep of an async store: awaited, under the names that the documents give."""

    _sweeping: asyncio.Task[None] | None = None

    def use(self, engine: Any) -> None:
        super().use(engine)
        fork_guard.renewed_in_child(self)

    def renew(self) -> None:
        """A forked child has none of its parent's tasks."""
        fork_guard.keep_for_ever(self._sweeping)
        self._sweeping = None

    async def setup(self) -> None:  # type: ignore[override]
        """Prepare the database now. Not needed: the first use does it."""
        await self.asetup()

    async def sweep_ttl(self) -> int:  # type: ignore[override]
        """Delete items that have expired; how many it was."""
        return await self.asweep_ttl()

    async def start_ttl_sweeper(  # type: ignore[override]
        self, sweep_interval_minutes: float | None = None
    ) -> asyncio.Task[None]:
        """Sweep at intervals, in a task."""
        if self._sweeping is None or self._sweeping.done():
            minutes = sweep_interval_minutes or self._core.lifetimes.interval
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep_on(minutes * 60))
        return self._sweeping

    async def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:  # type: ignore[override]  # noqa: ASYNC109
        """Stop sweeping; whether it has ended within `timeout` seconds."""
        task, self._sweeping = self._sweeping, None
        if task is None:
            return True
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        while not task.done():
            # Again and again: a pool may swallow a cancellation, and wait for a connection.
            task.cancel()
            left = _BETWEEN_CANCELLATIONS if until is None else until - loop.time()
            if left <= 0:
                return False
            await asyncio.wait([task], timeout=min(left, _BETWEEN_CANCELLATIONS))
        return True

    async def reindex(self, *, progress: Any = None, batch_size: int = 100) -> int:  # type: ignore[override]
        """Rebuild all vectors with the store's present `index`; returns the number of items."""
        return await self.areindex(progress=progress, batch_size=batch_size)

    async def reencrypt(self, *, progress: Any = None) -> Any:  # type: ignore[override]
        """Seal every value with the newest key; what was done."""
        return await self.areencrypt(progress=progress)

    async def _sweep_on(self, seconds: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        # A pool may swallow a cancellation while it connects: the sweeper ends all the same.
        while not task.cancelling():
            await asyncio.sleep(seconds)
            await self.asweep_ttl()
