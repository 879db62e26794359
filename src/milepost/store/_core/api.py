"""The sync and the async API of a store: the drivers that carry out what the logic asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from milepost._db.migrations import TableSetup
from milepost._db.sweeper import Sweeper
from milepost._internal.generators import GeneratorDriver
from milepost.checkpoint.serde import _rotation
from milepost.store._core.batching import Batcher
from milepost.store._core.core import StoreCore
from milepost.store._core.records import Op, Result, TTLConfig
from milepost.store._core.tasks import Embed, Group, Program, Progress, RefusedItem, Transact
from milepost.store._vectors.embeddings import Embeddings, ensure_embeddings

R = TypeVar("R")


class CoreStore:
    """A store made of a `StoreCore` and the drivers. A class inherits it beside `BaseStore`."""

    supports_ttl = True
    supports_versions = True
    supports_order = True

    def __init__(self, core: StoreCore) -> None:
        self._core = core
        self._batcher = Batcher(self._aexecute)
        self._sweeper = Sweeper(lambda: self._drive(core.sweep()))
        self.ttl_config: TTLConfig | None = core.lifetimes.config

    @property
    def embeddings(self) -> Embeddings | None:
        """What makes the vectors, if the store searches by meaning."""
        index = self._core.index
        return None if index is None else ensure_embeddings(index["embed"])

    # -- sync and async methods

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self._drive_group(self._core.prepare(ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        results: list[Result] = await self._batcher.submit(self._core.prepare(ops))
        return results

    def _drive_group(self, group: Group) -> list[Result]:
        results = self._drive(self._core.execute([group]))[0]
        if isinstance(results, Exception):
            raise results
        return results

    def _transact(self, request: Transact | TableSetup) -> Any:
        raise NotImplementedError

    async def _atransact(self, request: Transact | TableSetup) -> Any:
        raise NotImplementedError

    # -- drivers

    def _drive(self, program: Program[R]) -> R:
        steps = GeneratorDriver(program)
        for request in steps:
            try:
                if isinstance(request, Embed):
                    steps.answer = self._embed(request)
                else:
                    steps.answer = self._transact(request)
            except Exception as error:
                steps.error = error
        return steps.result

    async def _adrive(self, program: Program[R]) -> R:
        steps = GeneratorDriver(program)
        for request in steps:
            try:
                if isinstance(request, Embed):
                    steps.answer = await self._aembed(request)
                else:
                    steps.answer = await self._atransact(request)
            except Exception as error:
                steps.error = error
        return steps.result

    def _embed(self, request: Embed) -> tuple[Sequence[Any], Sequence[Any]]:
        embedder = self._core.embedder
        assert embedder is not None
        documents = embedder.documents(request.documents) if request.documents else ()
        queries = embedder.queries(request.queries) if request.queries else ()
        return documents, queries

    async def _aembed(self, request: Embed) -> tuple[Sequence[Any], Sequence[Any]]:
        embedder = self._core.embedder
        assert embedder is not None
        documents = await embedder.adocuments(request.documents) if request.documents else ()
        queries = await embedder.aqueries(request.queries) if request.queries else ()
        return documents, queries

    async def _aexecute(self, groups: Sequence[Group]) -> list[list[Result] | Exception]:
        return await self._adrive(self._core.execute(groups))

    # -- expiry

    def sweep_ttl(self) -> int:
        """Delete items that have expired; how many it was."""
        return self._drive(self._core.sweep())

    async def asweep_ttl(self) -> int:
        """`sweep_ttl`, for use on an event loop."""
        return await self._adrive(self._core.sweep())

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

    # -- vectors

    def reindex(self, *, progress: Progress | None = None, batch_size: int = 100) -> int:
        """Rebuild all vectors with the store's present `index`; returns the number of items.

        What was done stays done if the work is broken off: call it again to go on.

        Args:
            progress: Called after each batch with how many items are done, and how many there are.
            batch_size: How many items are embedded together.
        """
        return self._drive(self._core.reindex(progress, batch_size))

    async def areindex(self, *, progress: Progress | None = None, batch_size: int = 100) -> int:
        """`reindex`, for use on an event loop."""
        return await self._adrive(self._core.reindex(progress, batch_size))

    # -- keys

    def reencrypt(self, *, progress: Progress | None = None) -> _rotation.Reencrypted[RefusedItem]:
        """Seal every value with the newest key, while others use the store; what was done.

        Values that have the newest key are skipped, so after an interruption call it again. When
        it finds nothing to do, every older key can be dropped.

        Args:
            progress: Called after each batch with how many items are done, and how many there are.
        """
        return self._drive(self._core.reencrypt(progress))

    async def areencrypt(
        self, *, progress: Progress | None = None
    ) -> _rotation.Reencrypted[RefusedItem]:
        """`reencrypt`, for use on an event loop."""
        return await self._adrive(self._core.reencrypt(progress))
