"""The sync and the async API of a store: the drivers that carry out what the logic asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from milepost._db.sweeper import Sweeper
from milepost._internal.generators import adrive, drive
from milepost.checkpoint.serde import _rotation
from milepost.store._core.batching import Batcher
from milepost.store._core.core import StoreCore
from milepost.store._core.records import IndexConfig, Op, Result, TTLConfig
from milepost.store._core.tasks import Embed, Group, Program, Progress, RefusedItem, Request
from milepost.store._vectors.embeddings import Embeddings, ensure_embeddings

if TYPE_CHECKING:
    from milepost.store._core.engine_core import EngineCore

R = TypeVar("R")


class CoreStore:
    """A store made of a `StoreCore`, an engine and the drivers. A class inherits it beside
    `BaseStore`, and beside `Upkeep` or `AsyncUpkeep`."""

    supports_ttl = True
    supports_versions = True
    supports_order = True
    index_config: IndexConfig | None
    """How texts are embedded, as it was given."""

    def __init__(self, core: StoreCore, engine: Any = None) -> None:
        self._core = core
        self._batcher = Batcher(self._aexecute)
        self._sweeper = Sweeper(lambda: self._drive(core.sweep()))
        self.ttl_config: TTLConfig | None = core.lifetimes.config
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

    def _drive(self, program: Program[R]) -> R:
        return drive(program, self._carry_out)

    async def _adrive(self, program: Program[R]) -> R:
        return await adrive(program, self._acarry_out)

    def _carry_out(self, request: Request) -> Any:
        if isinstance(request, Embed):
            return self._embed(request)
        core: EngineCore = self._core  # type: ignore[assignment] # no other asks for transactions
        return core.transact(self._engine, request)

    def _acarry_out(self, request: Request) -> Awaitable[Any]:
        if isinstance(request, Embed):
            return self._aembed(request)
        core: EngineCore = self._core  # type: ignore[assignment]
        return core.atransact(self._engine, request)

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

    # -- upkeep

    async def asetup(self) -> None:
        """Prepare the database now. Not needed: the first use does it."""
        await self._adrive(self._core.ready())

    async def asweep_ttl(self) -> int:
        """Delete items that have expired; how many it was."""
        return await self._adrive(self._core.sweep())

    async def areindex(self, *, progress: Progress | None = None, batch_size: int = 100) -> int:
        """`reindex` of a sync store, for use on an event loop: rebuild all vectors."""
        return await self._adrive(self._core.reindex(progress, batch_size))

    async def areencrypt(
        self, *, progress: Progress | None = None
    ) -> _rotation.Reencrypted[RefusedItem]:
        """`reencrypt` of a sync store, for use on an event loop: seal with the newest key."""
        return await self._adrive(self._core.reencrypt(progress))
