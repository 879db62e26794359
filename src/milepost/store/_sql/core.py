"""A store in a database: groups of operations become one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from milepost._db.migrations import TableSetup, is_migrated, migrate
from milepost._db.operations import Execute, Operation, Work, rows_of
from milepost._internal.progress import Progress, report
from milepost.errors import MilepostError
from milepost.store._core import namespaces
from milepost.store._core.core import Resealed
from milepost.store._core.engine_core import EngineCore, Reads
from milepost.store._core.records import GetOp, ListNamespacesOp
from milepost.store._core.tasks import (
    Group,
    Outcome,
    Row,
    Search,
    StoreRequests,
    Task,
    Transact,
    Write,
)
from milepost.store._sql.dialects import StoreSql
from milepost.store._sql.generations import SqlReindexer, VectorRegistry
from milepost.store._sql.read import ItemReader
from milepost.store._sql.schema import schema
from milepost.store._sql.vectors import VectorIndex
from milepost.store._sql.write import SWEPT_AT_ONCE, ItemWriter
from milepost.store._vectors.generations import Generations

_RESEALED: Final = 100
"""Items whose values are sealed again in one go."""
_PAGE: Final = (
    "SELECT id, ns, key, kind, data FROM milepost_items WHERE id > ? ORDER BY id LIMIT ? + 0"
)
_COUNT: Final = "SELECT count(*) FROM milepost_items"
_REPLACE: Final = "UPDATE milepost_items SET kind = ?, data = ? WHERE id = ? AND data = ?"


class SqlCore(EngineCore):
    """The logic of the stores on SQLite and on PostgreSQL: everything but the SQL."""

    def __init__(self, store_sql: StoreSql, vectors: VectorIndex | None, **settings: Any) -> None:
        super().__init__(**settings)
        self.store_sql = store_sql
        self.largest, self.largest_view = store_sql.largest, store_sql.largest_view
        self.vectors = vectors
        self.registry = VectorRegistry(store_sql, self.embedder, vectors)
        self._reader = ItemReader(store_sql, vectors)
        self._writer = ItemWriter(self)

    def prepare_database(self) -> StoreRequests[None]:
        try:
            yield TableSetup(self._is_set_up, self._set_up)
        except MilepostError as error:
            if self.vectors is None:
                raise
            raise self.vectors.explain(error) from error

    def _is_set_up(self) -> Operation[bool]:
        dialect = self.store_sql.dialect
        if not (yield from is_migrated(dialect, schema(dialect.name))):
            return False
        return (yield from self.registry.is_set_up())

    def _set_up(self) -> Operation[None]:
        yield from migrate(self.store_sql.dialect, schema(self.store_sql.dialect.name))
        yield from self.registry.set_up()

    # -- groups

    def attempt(
        self, groups: Sequence[Group], completed: int | None
    ) -> StoreRequests[list[Outcome]]:
        reads = Reads(groups, self.stamps.now(), completed)
        write = any(isinstance(task, Write) for task in reads.tasks)
        task = reads.only_task
        work: Work[list[Outcome]]
        if isinstance(task, GetOp):
            work = partial(self._reader.get_one, task, reads)
        elif isinstance(task, Write) and self._takes_one_statement(task):
            work = partial(self._writer.put_one, task, reads.now)
        elif write and self.store_sql.dialect.remote and _takes_several_reads(reads.tasks):
            # Reads have one snapshot only in a transaction that does not write.
            yield Transact(partial(self._do_reads, reads), write=False)
            work = partial(self._do_writes, reads)
        else:
            work = partial(self._do, reads)
        outcomes: list[Outcome] = yield Transact(work, write)
        if reads.renewed:
            yield Transact(
                partial(self._writer.renew, reads.renewed, self.stamps.now()), write=True
            )
        return outcomes

    def single_put(self, group: Group) -> Work[list[Outcome]] | None:
        """All that a group asks for, if it is one put and that takes one statement.

        A sync caller needs no driver then. After a round trip the processor's caches are cold, so
        that each call costs several times what it costs in a loop.
        """
        task = group[0] if self._ready and len(group) == 1 else None
        if type(task) is not Write or not self._takes_one_statement(task):
            return None
        return partial(self._writer.put_one, task, self.stamps.now())

    def _takes_one_statement(self, write: Write) -> bool:
        return write.data is not None and write.if_version is None and not self._has_vectors

    @property
    def _has_vectors(self) -> bool:
        return self.embedder is not None or self.registry.state.has_vectors

    def _do(self, reads: Reads) -> Operation[list[Outcome]]:
        yield from self._do_reads(reads)
        return (yield from self._do_writes(reads))

    def _do_reads(self, reads: Reads) -> Operation[None]:
        reads.begin()
        generations: Generations | None = None
        if reads.by_meaning():
            # Another process may have rebuilt all vectors since the last read.
            generations = yield from self.registry.load(reading=True)
            generations.check_verified()
        items = yield from self._reader.gets(reads)
        yield from reads.fill(items, partial(self._reader.read, reads, generations))

    def _do_writes(self, reads: Reads) -> Operation[list[Outcome]]:
        failed = dict(reads.failed)
        writes = [task for task in reads.tasks if isinstance(task, Write)]
        if writes:
            generations: Generations | None = None
            if self._has_vectors or any(write.data is None for write in writes):
                generations = yield from self.registry.load()
                if any(write.texts for write in writes):
                    generations.check_verified()
            yield from self._writer.write(reads.groups, reads.now, failed, generations)
        return reads.outcomes(failed)

    # -- upkeep

    def sweep(self) -> StoreRequests[int]:
        now = self.stamps.now()
        total = 0
        while True:
            swept: int = yield Transact(partial(self._writer.sweep, now), write=True)
            total += swept
            if swept < SWEPT_AT_ONCE:
                return total

    def reindexer(self) -> SqlReindexer:
        return SqlReindexer(self)

    def reencrypt(self, progress: Progress | None) -> StoreRequests[Resealed]:
        # In small transactions, while the store is in use. A value is replaced only if it is still
        # the one that was read: a put in between has sealed its value with the newest key.
        done = Resealed()
        after = -1
        seen = 0
        render = self.store_sql.render
        total: int = (yield Transact(partial(rows_of, render(_COUNT)), write=False))[0][0]
        while True:
            page = partial(rows_of, render(_PAGE), (after, _RESEALED))
            rows: list[Any] = yield Transact(page, write=False)
            if not rows:
                return done
            after = rows[-1][0]
            items = [
                ((id, data), Row(namespaces.from_text(ns), key, (kind, bytes(data)), 0, 0))
                for id, ns, key, kind, data in rows
            ]
            changes = [(*new, *found) for found, new in self.reseal(items, done)]
            if changes:
                replacing = partial(_replace, render(_REPLACE), changes)
                done.resealed += yield Transact(replacing, write=True)
            seen += len(rows)
            report(progress, seen, max(seen, total))


def _takes_several_reads(tasks: Sequence[Task]) -> bool:
    """Whether the reads among these tasks are more than one statement."""
    gets = any(isinstance(task, GetOp) for task in tasks)  # all of them are one
    listings = sum(isinstance(task, ListNamespacesOp) for task in tasks)
    return gets + listings > 1 or any(isinstance(task, Search) for task in tasks)


def _replace(statement: str, changes: list[tuple[Any, ...]]) -> Operation[int]:
    replaced = 0
    for change in changes:
        replaced += yield Execute(statement, change)
    return replaced
