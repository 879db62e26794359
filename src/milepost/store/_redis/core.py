"""A store on Redis: a batch reads as of one moment, and writes with one script."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

from milepost._db.redis.client import check_eviction
from milepost._db.redis.commands import RedisEffects
from milepost.errors import DatabaseBusyError
from milepost.store._core.engine_core import EngineCore, Reads
from milepost.store._core.records import ListNamespacesOp
from milepost.store._core.tasks import (
    Group,
    Outcome,
    Search,
    StoreRequests,
    Transact,
    Write,
)
from milepost.store._redis.change import Batch
from milepost.store._redis.layout import Keys
from milepost.store._redis.marks import StaleGenerations
from milepost.store._redis.notes import Notebook, Notes
from milepost.store._redis.read import ItemReader
from milepost.store._redis.reindex import RedisReindexer
from milepost.store._redis.snapshot import Moved, Snapshot
from milepost.store._redis.upkeep import delete_expired, reseal_all
from milepost.store._redis.vectors import Ranker
from milepost.store._redis.write import ItemWriter
from milepost.store._vectors.generations import Generations, RegistryState

_STRICT_ATTEMPTS: Final = 8
"""Attempts of reads that begin again if others write below the same root meanwhile."""
_LENIENT_ATTEMPTS: Final = 8
"""Attempts that follow, whose reads may be of several moments."""
_MAX_SWITCHES: Final = 20
"""Reindexes that may end during one write."""


class RedisCore(EngineCore):
    """The logic of a store on Redis, neither sync nor async."""

    makes_views = False
    largest = largest_view = 500_000_000

    def __init__(
        self,
        keys: Keys,
        *,
        fsync: bool,
        allow_eviction: bool,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.keys = keys
        self.state = RegistryState(self.embedder)
        self.notebook = Notebook(self.keys)
        self.reader = ItemReader(self)
        self.writer = ItemWriter(self, fsync=fsync)
        self._ranker = (
            None if self.embedder is None else Ranker(self.keys, self.reader, self.embedder.dims)
        )
        self._allow_eviction = allow_eviction

    def prepare_database(self) -> StoreRequests[None]:
        """Check the server, and note the model of the first store with an index."""
        yield Transact(self._set_up, write=True)

    def _set_up(self) -> RedisEffects[None]:
        if not self._allow_eviction:
            yield from check_eviction("A store")
        yield from self.notebook.change(self._with_index)

    def _with_index(self, notes: Notes) -> Notes | None:
        if self.embedder is None or "index" in notes:
            return None
        self.state.was_fitting = True
        return {**notes, "index": self.state.first().dump()}

    def generations(self) -> RedisEffects[Generations]:
        """The current generations of vectors."""
        return self.state.known((yield from self.notebook.load()))

    # -- groups

    def attempt(
        self, groups: Sequence[Group], completed: int | None
    ) -> StoreRequests[list[Outcome]]:
        write = any(isinstance(task, Write) for task in chain.from_iterable(groups))
        outcomes: list[Outcome] = yield Transact(partial(self._do, groups, completed), write)
        return outcomes

    def _do(self, groups: Sequence[Group], completed: int | None) -> RedisEffects[list[Outcome]]:
        reads = Reads(groups, self.stamps.now(), completed)
        if any(not isinstance(task, Write) for task in reads.tasks):
            yield from self._reads(reads)
        batch = Batch(groups, reads.failed, reads.now)
        if batch.writes():
            yield from self._writes(batch)
        if reads.renewed:
            yield from self.writer.renew(reads.renewed)
        return reads.outcomes(reads.failed)

    def _writes(self, batch: Batch) -> RedisEffects[None]:
        for _ in range(_MAX_SWITCHES):
            generations: Generations | None = None
            if self.embedder is not None:
                generations = yield from self.generations()
                if any(write.texts for write in batch.writes()):
                    generations.check_verified()
            try:
                return (yield from self.writer.write(batch, generations))
            except StaleGenerations:
                continue
        raise _busy()

    def _reads(self, reads: Reads) -> RedisEffects[None]:
        for attempt in range(_STRICT_ATTEMPTS + _LENIENT_ATTEMPTS):
            reads.begin()
            strict = attempt < _STRICT_ATTEMPTS
            snapshot = Snapshot(self.keys, reads, strict=strict)
            try:
                yield from self._attempt(reads, snapshot)
                return (yield from snapshot.settle())
            except (Moved, StaleGenerations):
                continue
        raise _busy()

    def _attempt(self, reads: Reads, snapshot: Snapshot) -> RedisEffects[None]:
        known: Generations | None = None
        if reads.by_meaning():
            # Another process may have rebuilt all vectors since this store last read the notes.
            known = yield from self.generations()
            known.check_verified()
        items = yield from self.reader.gets(reads.gets(), snapshot)
        yield from reads.fill(items, partial(self._read, snapshot, known))

    def _read(
        self, snapshot: Snapshot, known: Generations | None, task: Search | ListNamespacesOp
    ) -> RedisEffects[list[Any]]:
        if isinstance(task, ListNamespacesOp):
            return (yield from self.reader.list(task, snapshot))
        if task.vector is None:
            return (yield from self.reader.search(task, snapshot))
        assert known is not None
        assert self._ranker is not None
        return (yield from self._ranker.search(task, snapshot, known))

    # -- upkeep

    sweep = delete_expired
    reencrypt = reseal_all

    def reindexer(self) -> RedisReindexer:
        return RedisReindexer(self)


def _busy() -> DatabaseBusyError:
    return DatabaseBusyError(
        "Others have changed what this call needs at each attempt. Repeat the call later."
    )
