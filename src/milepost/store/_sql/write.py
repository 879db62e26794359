"""Writing items to a database: versions are checked, and the writes of all groups stored."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from milepost._db.operations import Batch, ConditionalInsert, Execute, ExecuteMany, Operation, Query
from milepost.store._core import namespaces
from milepost.store._core.engine_core import Raced
from milepost.store._core.tasks import Group, Outcome, Write, last_writes, writes_of
from milepost.store._sql import statements as sql
from milepost.store._sql.schema import SHARDS
from milepost.store._sql.vectors import Place, many, with_new_vectors, without_vectors
from milepost.store._vectors.generations import NO_MARKS, Generations

if TYPE_CHECKING:
    from milepost.store._sql.core import SqlCore

_SENT_AT_ONCE: Final = 2**26
"""Bytes of values that may go in one statement: a message to PostgreSQL has less than 1 GB."""
SWEPT_AT_ONCE: Final = 1000
"""Items that one transaction deletes because they have expired."""


class ItemWriter:
    """Carries out what writes."""

    def __init__(self, core: SqlCore) -> None:
        self._store_sql = store_sql = core.store_sql
        self._registry = core.registry
        self._vectors = core.vectors
        self._stamps = core.stamps
        self._put = store_sql.render(store_sql.own.put)
        self._put_new = store_sql.render(store_sql.own.put + sql.IF_EXPIRED)
        self._delete = store_sql.render(sql.DELETE)

    def write(
        self,
        groups: Sequence[Group],
        now: int,
        failed: dict[int, Exception],
        generations: Generations | None,
    ) -> Operation[None]:
        """The writes of every group that has not failed; one that is refused joins `failed`.

        `generations` is what this transaction has read; None if there are no vectors.
        """
        lock = self._shard_lock(groups, failed)
        versioned = sorted(
            {_place(one) for one in writes_of(groups, failed) if one.if_version is not None}
        )
        if lock and versioned:
            # Before a version is read, which locks its item: shards are locked first everywhere.
            yield Batch(lock)
            lock = []
        versions: dict[Place, int] = {}
        for place in versioned:
            rows = yield Query(self._store_sql.render(self._store_sql.own.versions), (*place, now))
            versions[place] = int(rows[0][2]) if rows else 0
        last = last_writes(groups, failed, generations, lambda one: versions[_place(one)])
        final = {_place(write): write for write in last.values()}
        if final:
            conditional = [w for w in writes_of(groups, failed) if w.if_version is not None]
            new = {_place(w) for w in conditional if w.if_version == 0 and w.data is not None}
            once = bool(conditional)
            yield from self._store(lock, final, new, now, generations, once=once)

    def _shard_lock(
        self, groups: Sequence[Group], failed: Mapping[int, Exception]
    ) -> list[Execute | ExecuteMany]:
        """What keeps versions of deleted items as they are while these groups are stored."""
        writes = list(writes_of(groups, failed))
        deletes = any(write.data is None for write in writes)
        # A single put shares its row by itself.
        locks = self._store_sql.own.locks
        if locks is None or not (deletes or len(writes) > 1):
            return []
        shards = {_shard(_place(write)) for write in writes}
        return [self._lock_of(locks.take_shards if deletes else locks.share_shards, shards)]

    def _lock_of(self, statement: str, shards: Collection[int]) -> Execute:
        return Execute(self._store_sql.render(statement), (json.dumps(sorted(shards)),))

    def put_one(self, write: Write, now: int) -> Operation[list[Outcome]]:
        """The only group, of one put on no conditions, to a store without vectors."""
        place = (namespaces.to_text(write.namespace), write.key)
        stamp = self._stamps.next()
        yield ConditionalInsert(self._put, (*_row(place, write, now, stamp, NO_MARKS), now))
        return [[None]]

    def renew(self, ids: Sequence[int], now: int) -> Operation[None]:
        """Renew the lifetimes of these items, except of those that have expired meanwhile."""
        # In one order everywhere, so that two readers cannot wait for each other.
        rows = [(now, id, now) for id in sorted(set(ids))]
        yield many(self._store_sql.render(self._store_sql.own.renew), rows)

    def sweep(self, now: int) -> Operation[int]:
        """Delete some of what has expired; how many items it was."""
        render, own, locks = self._store_sql.render, self._store_sql.own, self._store_sql.own.locks
        generations = yield from self._registry.load()
        page = (now, SWEPT_AT_ONCE)
        taken: set[int] = set()
        if locks is not None:
            seen = yield Query(render(locks.see_expired), page)
            if not seen:
                return 0
            taken = {_shard((ns, key)) for _, ns, key, _ in seen}
            yield self._lock_of(locks.take_shards, taken)
        # Locked, so that no put or read renews one of them before it is deleted. Those that others
        # have locked are left: they are put or read at this moment.
        rows = yield Query(render(own.expired), page)
        if locks is not None:
            rows = [row for row in rows if _shard((row[1], row[2])) in taken]
        if not rows:
            return 0
        ids = json.dumps([row[0] for row in rows])
        places = [(row[1], row[2]) for row in rows]
        used: dict[int, int] = {}
        for _, ns, key, version in rows:
            shard = _shard((ns, key))
            used[shard] = max(version, used.get(shard, 0))
        statements = without_vectors(self._store_sql, generations.tables, places)
        statements.append(many(render(sql.NOTE_VERSION), sorted(used.items())))
        statements.append(Execute(render(own.delete_ids), (ids,)))
        yield Batch(statements, last=True)
        return len(rows)

    def _store(
        self,
        lock: Sequence[Execute | ExecuteMany],
        final: dict[Place, Write],
        new: set[Place],
        now: int,
        generations: Generations | None,
        *,
        once: bool,
    ) -> Operation[None]:
        """`new` are the places that must have no item. `once`: repeated after it was stored, it
        would be refused because of its own versions."""
        stamp = self._stamps.next(len(final))
        marks = NO_MARKS if generations is None else generations.marks
        statements = [*lock, *self._deletes(final, generations)]
        stamped = dict(zip(final, count(stamp), strict=False))
        created = sorted([place for place in new if final[place].data is not None])
        if created:
            yield Batch(statements)
            statements = []
        for place in created:
            row = _row(place, final[place], now, stamped[place], marks)
            changed = yield Execute(self._put_new, (*row, now, now))
            if not changed:
                raise Raced
        puts = [
            (place, write, stamped[place])
            for place, write in final.items()
            if write.data is not None and place not in new
        ]
        statements += self._puts(puts, now, marks)
        if generations is not None:
            kept = {place: final[place] for place in sorted(final) if final[place].data is not None}
            statements += with_new_vectors(self._store_sql, generations, self._vectors, kept)
        yield Batch(statements, last=True, once=once)

    def _deletes(
        self, final: dict[Place, Write], generations: Generations | None
    ) -> list[Execute | ExecuteMany]:
        gone = sorted([place for place, write in final.items() if write.data is None])
        if not gone:
            return []
        tables = [] if generations is None else generations.tables
        notes = sorted([(_shard(place), *place) for place in gone])
        statements: list[Execute | ExecuteMany] = []
        if self._store_sql.own.locks is not None:
            # All that this transaction will touch, in one order. Vectors go before their items,
            # and a transaction that adds vectors holds the item's row: so none comes in between.
            lock = self._store_sql.render(self._store_sql.own.lock_items)
            statements.append(Execute(lock, (json.dumps(sorted(final)),)))
        statements += without_vectors(self._store_sql, tables, gone)
        statements.append(many(self._store_sql.render(sql.NOTE_DELETED), notes))
        statements.append(many(self._delete, gone))
        return statements

    def _puts(
        self, puts: Sequence[tuple[Place, Write, int]], now: int, marks: tuple[int, int]
    ) -> Iterator[Execute | ExecuteMany]:
        rows = [_row(place, write, now, stamp, marks) for place, write, stamp in puts]
        # Sorted, so that two transactions cannot lock the same rows in opposite orders.
        rows.sort(key=_PLACE)
        several = self._store_sql.own.put_several
        if several is not None and _bytes(write for _, write, _ in puts) <= _SENT_AT_ONCE:
            while len(rows) >= sql.ROWS:
                some, rows = rows[: sql.ROWS], rows[sql.ROWS :]
                yield Execute(self._store_sql.render(several), (*chain.from_iterable(some), now))
        if rows:
            yield many(self._put, [(*row, now) for row in rows])


_PLACE: Final = itemgetter(0, 1)


def _place(write: Write) -> Place:
    return namespaces.to_text(write.namespace), write.key


def _row(
    place: Place, write: Write, now: int, stamp: int, marks: tuple[int, int]
) -> tuple[Any, ...]:
    assert write.data is not None
    return (
        *place,
        *write.data,
        write.view,
        None if write.index is None else json.dumps(write.index),
        stamp,
        stamp,
        _shard(place),
        write.ttl,
        None if write.ttl is None else now + write.ttl,
        *marks,
    )


def _bytes(writes: Iterable[Write]) -> int:
    return sum(len(write.data[1]) + len(write.view) for write in writes if write.data is not None)


def _shard(place: Place) -> int:
    """Which row remembers the versions of a deleted item."""
    return crc32("\0".join(place).encode()) % SHARDS
