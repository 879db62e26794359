"""The sync and the async API of a store: the drivers that carry out what the logic asks for, and
its upkeep (setup, the sweeper, vectors, keys)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from milepost._db.migrations import TableSetup
from milepost._db.sweeper import Sweeper, log_ended, log_stopped
from milepost._internal import fork_guard
from milepost._internal.generators import adrive, drive, method_pairs
from milepost._internal.progress import Progress
from milepost.checkpoint.serde._rotation import NOT_ENCRYPTED, rotates
from milepost.errors import StoreError
from milepost.store._core.batching import Batcher
from milepost.store._core.core import Resealed, StoreCore
from milepost.store._core.records import IndexConfig, Op, Result, TTLConfig
from milepost.store._core.tasks import Embed, Group, Request, StoreRequests
from milepost.store._vectors.embeddings import Embeddings, ensure_embeddings

R = TypeVar("R")
_BETWEEN_CANCELLATIONS: Final = 0.5
"""Seconds after which a sweeper that has not ended is cancelled again."""


class CoreStore:
    """A store made of a `StoreCore`, an engine and the drivers. A class inherits it beside
    `BaseStore`, and beside `Upkeep` or `AsyncUpkeep`."""

    supports_ttl = True
    supports_versions = True
    supports_order = True
    index_config: IndexConfig | None
    """The `index` that the store was made with."""

    def __init__(self, core: StoreCore, engine: Any = None) -> None:
        self._core = core
        self._batcher = Batcher(self._aexecute)
        self._sweeper = Sweeper(type(self).__name__)
        self.ttl_config: TTLConfig | None = core.ttl_config
        self.index_config = core.index
        self.use(engine)

    def use(self, engine: Any) -> None:
        """Carry out requests with this engine from now on.

        Args:
            engine: Reads and writes the database; None in memory.
        """
        self._engine = engine

    @property
    def embeddings(self) -> Embeddings | None:
        """What makes the vectors, if the store searches by meaning."""
        index = self._core.index
        return None if index is None else ensure_embeddings(index["embed"])

    # -- sync and async methods

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        group = self._core.prepare(ops)
        put = self._core.single_put(group)
        if put is not None:
            self._engine.run(put, write=True)
            return [None]
        results = self._drive(self._core.execute([group]))[0]
        if isinstance(results, Exception):
            raise results
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        results: list[Result] = await self._batcher.submit(self._core.prepare(ops))
        return results

    # -- drivers

    def _drive(self, requests: StoreRequests[R]) -> R:
        return drive(requests, self._carry_out)

    async def _adrive(self, requests: StoreRequests[R]) -> R:
        return await adrive(requests, self._acarry_out)

    def _carry_out(self, request: Request) -> Any:
        if isinstance(request, Embed):
            embedder = self._core.embedder
            assert embedder is not None
            return embedder.embed(request.texts, are_queries=request.are_queries)
        if isinstance(request, TableSetup):
            return self._engine.set_up(request)
        return self._engine.run(request.work, write=request.write)

    def _acarry_out(self, request: Request) -> Any:
        if isinstance(request, Embed):
            embedder = self._core.embedder
            assert embedder is not None
            return embedder.aembed(request.texts, are_queries=request.are_queries)
        if isinstance(request, TableSetup):
            return self._engine.aset_up(request)
        return self._engine.arun(request.work, write=request.write)

    async def _aexecute(self, groups: Sequence[Group]) -> list[list[Result] | Exception]:
        return await self._adrive(self._core.execute(groups))

    # -- upkeep

    def _setup(self) -> StoreRequests[None]:
        """Prepare the database now. Not needed: the first use does it."""
        yield from self._core.ready()

    def _sweep_ttl(self) -> StoreRequests[int]:
        """Delete items that have expired; how many it was."""
        yield from self._core.ready()
        return (yield from self._core.sweep())

    def _reindex(
        self, *, progress: Progress | None = None, batch_size: int = 100
    ) -> StoreRequests[int]:
        """Rebuild all vectors with the store's present `index`; returns the number of items.

        What was done stays done if the work is broken off: call it again to go on.

        Args:
            progress: Called after each batch with how many items are done, and how many there are.
            batch_size: How many items are embedded together.
        """
        yield from self._core.ready()
        if self._core.embedder is None:
            raise ValueError("The store has no index. Make it with index={'embed': …, 'dims': …}.")
        return (yield from self._core.reindex(progress, max(batch_size, 1)))

    def _reencrypt(self, *, progress: Progress | None = None) -> StoreRequests[Resealed]:
        """Seal every value with the newest key, while others use the store; what was done.

        Values that have the newest key are skipped, so after an interruption call it again. When
        it finds nothing to do, every older key can be dropped.

        Args:
            progress: Called after each batch with how many items are done, and how many there are.

        Raises:
            StoreError: The store's serializer does not encrypt.
        """
        if not rotates(self._core.serde):
            raise StoreError(NOT_ENCRYPTED)
        yield from self._core.ready()
        return (yield from self._core.reencrypt(progress))


_sync_and_async: Final = method_pairs(
    lambda store, requests, _: store._drive(requests),
    lambda store, requests, _: store._adrive(requests),
)


class Upkeep(CoreStore):
    """The upkeep of a sync store."""

    setup, asetup = _sync_and_async(CoreStore._setup)
    sweep_ttl, asweep_ttl = _sync_and_async(CoreStore._sweep_ttl)
    reindex, areindex = _sync_and_async(CoreStore._reindex)
    reencrypt, areencrypt = _sync_and_async(CoreStore._reencrypt)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Sweep at intervals, in a thread. The future ends when the sweeper does.

        Args:
            sweep_interval_minutes: How often; by default what the store's `ttl` says.
        """
        minutes = sweep_interval_minutes or self._core.sweep_minutes
        return self._sweeper.start(60 * minutes, self.sweep_ttl)

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop sweeping; whether the thread has ended.

        Args:
            timeout: Seconds to wait for that.
        """
        return self._sweeper.stop(timeout)


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

    setup = asetup = Upkeep.asetup
    sweep_ttl = asweep_ttl = Upkeep.asweep_ttl
    reindex = areindex = Upkeep.areindex
    reencrypt = areencrypt = Upkeep.areencrypt

    async def start_ttl_sweeper(
        self, sweep_interval_minutes: float | None = None
    ) -> asyncio.Task[None]:
        """Sweep at intervals, in a task.

        Args:
            sweep_interval_minutes: How often; by default what the store's `ttl` says.
        """
        if self._sweeping is None or self._sweeping.done():
            minutes = sweep_interval_minutes or self._core.sweep_minutes
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
            try:
                await self.asweep_ttl()
            except Exception as error:
                log_stopped(type(self).__name__, error)
                raise
            log_ended(type(self).__name__)
