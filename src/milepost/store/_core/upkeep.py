"""The upkeep of a store: setup, the sweeper, vectors, keys. Async stores await the same names."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any, Final

from milepost._internal import fork_guard
from milepost.checkpoint.serde._rotation import Reencrypted
from milepost.store._core.api import CoreStore
from milepost.store._core.tasks import Progress, RefusedItem


class Upkeep(CoreStore):
    """The upkeep of a sync store."""

    def setup(self) -> None:
        """Prepare the database now. Not needed: the first use does it."""
        self._drive(self._core.ready())

    def sweep_ttl(self) -> int:
        """Delete items that have expired; how many it was."""
        return self._drive(self._core.sweep())

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Sweep at intervals, in a thread. The future ends when the sweeper does.

        Args:
            sweep_interval_minutes: How often; by default what the store's `ttl` says.
        """
        return self._sweeper.start(60 * (sweep_interval_minutes or self._core.lifetimes.interval))

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop sweeping; whether the thread has ended.

        Args:
            timeout: Seconds to wait for that.
        """
        return self._sweeper.stop(timeout)

    def reindex(self, *, progress: Progress | None = None, batch_size: int = 100) -> int:
        """Rebuild all vectors with the store's present `index`; returns the number of items.

        What was done stays done if the work is broken off: call it again to go on.

        Args:
            progress: Called after each batch with how many items are done, and how many there are.
            batch_size: How many items are embedded together.
        """
        return self._drive(self._core.reindex(progress, batch_size))

    def reencrypt(self, *, progress: Progress | None = None) -> Reencrypted[RefusedItem]:
        """Seal every value with the newest key, while others use the store; what was done.

        Values that have the newest key are skipped, so after an interruption call it again. When
        it finds nothing to do, every older key can be dropped.

        Args:
            progress: Called after each batch with how many items are done, and how many there are.
        """
        return self._drive(self._core.reencrypt(progress))


_BETWEEN_CANCELLATIONS: Final = 0.5
"""Seconds after which a sweeper that has not ended is cancelled again."""


class AsyncUpkeep(CoreStore):
    """The upkeep of an async store: awaited, under the names that the documents give."""

    _sweeping: asyncio.Task[None] | None = None

    def use(self, engine: Any) -> None:
        super().use(engine)
        fork_guard.renewed_in_child(self)

    def renew(self) -> None:
        """A forked child has none of its parent's tasks."""
        fork_guard.keep_for_ever(self._sweeping)
        self._sweeping = None

    setup = CoreStore.asetup
    sweep_ttl = CoreStore.asweep_ttl
    reindex = CoreStore.areindex
    reencrypt = CoreStore.areencrypt

    async def start_ttl_sweeper(
        self, sweep_interval_minutes: float | None = None
    ) -> asyncio.Task[None]:
        """Sweep at intervals, in a task.

        Args:
            sweep_interval_minutes: How often; by default what the store's `ttl` says.
        """
        if self._sweeping is None or self._sweeping.done():
            minutes = sweep_interval_minutes or self._core.lifetimes.interval
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep_on(minutes * 60))
        return self._sweeping

    async def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        """Stop sweeping; whether it has ended.

        Args:
            timeout: Seconds to wait for that.
        """
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

    async def _sweep_on(self, seconds: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        # A pool may swallow a cancellation while it connects: the sweeper ends all the same.
        while not task.cancelling():
            await asyncio.sleep(seconds)
            await self.asweep_ttl()
