"""A store in a database: groups of operations become one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any

from milepost.checkpoint.serde import rotation
from milepost.errors import MilepostError, StoreError, VersionConflict
from milepost.sql.migrations import migrate
from milepost.sql.operations import Operation, Work
from milepost.store.core import StoreCore
from milepost.store.sql.generations import Generations
from milepost.store.sql.reading import Reader
from milepost.store.sql.reindexing import reindexing
from milepost.store.sql.resealing import resealing
from milepost.store.sql.schema import schema
from milepost.store.sql.statements import Speech
from milepost.store.sql.vectors import VectorIndex
from milepost.store.sql.writing import Raced, Writer
from milepost.store.tasks import (
    Group,
    Listing,
    Outcome,
    Program,
    Progress,
    RefusedItem,
    Search,
    Task,
    Transact,
    Write,
)

_ATTEMPTS = 5


class SqlCore(StoreCore):
    """What the stores on SQLite and on PostgreSQL have in common: everything but the words."""

    def __init__(self, speech: Speech, vectors: VectorIndex | None, **settings: Any) -> None:
        super().__init__(**settings)
        self.speech = speech
        self.vectors = vectors
        self.generations = Generations(speech, self.embedder, vectors)
        self._reader = Reader(speech, self.generations, vectors)
        self._writer = Writer(speech, self.generations, vectors, self.stamps)
        self._ready = False

    def ready(self) -> Program[None]:
        """Create the tables, once."""
        if not self._ready:
            try:
                yield Transact(self._setup, write=True, first=True)
            except MilepostError as error:
                if self.vectors is None:
                    raise
                raise self.vectors.explain(error) from error
            self._ready = True

    def _setup(self) -> Operation[None]:
        yield from migrate(self.speech.dialect, schema(self.speech.dialect.name))
        yield from self.generations.load(create=True)

    # -- groups

    def perform(self, groups: Sequence[Group]) -> Program[list[Outcome]]:
        if not self._ready:
            yield from self.ready()
        alone = groups[0][0] if len(groups) == 1 and len(groups[0]) == 1 else None
        write = any(isinstance(task, Write) for task in chain.from_iterable(groups))
        for attempt in range(_ATTEMPTS):
            now = self.stamps.now()
            renewed: list[int] = []
            work: Work[list[Outcome]]
            if alone is not None and not isinstance(alone, Write):
                work = partial(self._reader.read_one, alone, now, renewed)
            elif alone is not None and self._takes_one_statement(alone):
                work = partial(self._writer.put_one, alone, now)
            else:
                work = partial(self._work, groups, now, renewed)
            try:
                outcomes: list[Outcome] = yield Transact(work, write)
            except Raced:
                if attempt == _ATTEMPTS - 1:
                    raise VersionConflict(
                        "The item was changed by others at each attempt. Get it and try again."
                    ) from None
                continue
            if renewed:
                yield Transact(partial(self._writer.renew, renewed, now), write=True)
            break
        return outcomes

    def single_put(self, group: Group) -> Work[list[Outcome]] | None:
        """All that a group asks for, if it is one put and that takes one statement.

        A sync caller need not go through a program then. Between two round trips a processor
        forgets its way, and each function on it costs several times what it does in a loop.
        """
        task = group[0] if self._ready and len(group) == 1 else None
        if type(task) is not Write or not self._takes_one_statement(task):
            return None
        return partial(self._writer.put_one, task, self.stamps.now())

    def _takes_one_statement(self, write: Write) -> bool:
        return write.data is not None and write.if_version is None and not self._has_vectors

    @property
    def _has_vectors(self) -> bool:
        return self.embedder is not None or self.generations.exist

    def _work(
        self, groups: Sequence[Group], now: int, renewed: list[int]
    ) -> Operation[list[Outcome]]:
        results: list[list[Any]] = [[None] * len(group) for group in groups]
        if self._has_vectors and any(map(_concerns_vectors, chain.from_iterable(groups))):
            # Another process may have made all vectors anew since we last looked.
            yield from self.generations.load()
        yield from self._reader.gets(groups, results, now, renewed)
        failed: dict[int, Exception] = {}
        for number, group in enumerate(groups):
            for at, task in enumerate(group):
                try:
                    if isinstance(task, Write):
                        if task.texts:
                            self.generations.check_writable()
                    elif isinstance(task, Search):
                        results[number][at] = yield from self._reader.search(task, now, renewed)
                    elif isinstance(task, Listing):
                        results[number][at] = yield from self._reader.list(task, now)
                except StoreError as error:
                    failed[number] = error
        yield from self._writer.write(groups, now, failed)
        return [failed.get(number, found) for number, found in enumerate(results)]

    # -- upkeep

    def sweep(self) -> Program[int]:
        yield from self.ready()
        work = partial(self._writer.sweep, self.stamps.now())
        swept: int = yield Transact(work, write=True)
        return swept

    def reindex(self, progress: Progress | None, size: int) -> Program[int]:
        yield from self.ready()
        return (yield from reindexing(self, progress, size))

    def reencrypt(
        self, progress: rotation.Progress[RefusedItem] | None
    ) -> Program[rotation.Reencrypted[RefusedItem]]:
        self.check_encrypts()
        yield from self.ready()
        return (yield from resealing(self, progress))


def _concerns_vectors(task: Task) -> bool:
    return isinstance(task, Write) or (isinstance(task, Search) and task.vector is not None)
