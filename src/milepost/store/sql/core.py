"""A store in a database: groups of operations become one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

from milepost.checkpoint.serde import rotation
from milepost.errors import MilepostError, StoreError, VersionConflict
from milepost.sql.migrations import migrate
from milepost.sql.operations import Batch, Many, Operation, Query, Run
from milepost.store import namespaces
from milepost.store.conflicts import conflict_error
from milepost.store.core import StoreCore
from milepost.store.sql import statements as sql
from milepost.store.sql.generations import Generations
from milepost.store.sql.reindexing import reindexing
from milepost.store.sql.resealing import resealing
from milepost.store.sql.schema import schema
from milepost.store.sql.statements import Speech
from milepost.store.sql.vector_writes import many, with_new_vectors, without_vectors
from milepost.store.sql.vectors import VectorIndex
from milepost.store.tasks import (
    Get,
    Group,
    Listing,
    Outcome,
    Program,
    Progress,
    RefusedItem,
    Row,
    Search,
    Task,
    Transact,
    Write,
)

_ATTEMPTS = 5
_WIDE = 1000
"""So many items below a prefix are worth a look at as many that were updated last."""
_BELIEVED = 100


class Raced(Exception):
    """Another transaction came between our look at an item and our write; look again."""


class SqlCore(StoreCore):
    """What the stores on SQLite and on PostgreSQL have in common: everything but the words."""

    def __init__(self, speech: Speech, vectors: VectorIndex | None, **settings: Any) -> None:
        super().__init__(**settings)
        self.speech = speech
        self.vectors = vectors
        self.generations = Generations(speech, self.embedder, vectors)
        self._ready = False
        self._widths: dict[tuple[str, ...], tuple[bool, int]] = {}
        dress = speech.dress
        self._get = dress(sql.GET)
        self._get_many = dress(sql.GET_MANY)
        self._put = dress(sql.PUT)
        self._put_block = dress(sql.put(speech.rows))
        self._put_plain_block = dress(sql.put(speech.rows, plain=True))
        self._put_new = dress(sql.PUT_NEW)
        self._delete = dress(sql.DELETE)

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
        write = any(isinstance(task, Write) for task in chain.from_iterable(groups))
        alone = len(groups) == 1 and len(groups[0]) == 1 and not write
        for attempt in range(_ATTEMPTS):
            now = self.stamps.now()
            renewed: list[int] = []
            try:
                outcomes: list[Outcome] = yield Transact(
                    partial(self._read_one, groups[0][0], now, renewed)
                    if alone
                    else partial(self._work, groups, now, renewed),
                    write,
                )
            except Raced:
                if attempt == _ATTEMPTS - 1:
                    raise VersionConflict(
                        "The item was changed by others at each attempt. Get it and try again."
                    ) from None
                continue
            if renewed:
                yield Transact(partial(self._renew, renewed, now), write=True)
            break
        return outcomes

    @property
    def _has_vectors(self) -> bool:
        return self.embedder is not None or bool(self.generations.tables)

    def _work(
        self, groups: Sequence[Group], now: int, renewed: list[int]
    ) -> Operation[list[Outcome]]:
        results: list[list[Any]] = [[None] * len(group) for group in groups]
        if self._has_vectors and any(map(_concerns_vectors, chain.from_iterable(groups))):
            # Another process may have made all vectors anew since we last looked.
            yield from self.generations.load()
        yield from self._gets(groups, results, now, renewed)
        failed: dict[int, Exception] = {}
        for number, group in enumerate(groups):
            for at, task in enumerate(group):
                try:
                    if isinstance(task, Write):
                        if task.texts:
                            self.generations.check_writable()
                    elif isinstance(task, Search):
                        results[number][at] = yield from self._search_rows(task, now, renewed)
                    elif isinstance(task, Listing):
                        results[number][at] = yield from self._list(task, now)
                except StoreError as error:
                    failed[number] = error
        yield from self._writes(groups, now, failed)
        return [failed.get(number, found) for number, found in enumerate(results)]

    # -- reading

    def _read_one(self, task: Task, now: int, renewed: list[int]) -> Operation[list[Outcome]]:
        """The only group, of one task, which reads."""
        if isinstance(task, Search):
            if task.vector is not None:
                yield from self.generations.load()
            return [[(yield from self._search_rows(task, now, renewed, alone=True))]]
        if isinstance(task, Listing):
            return [[(yield from self._list(task, now, alone=True))]]
        assert isinstance(task, Get)
        rows = yield Query(self._get, (namespaces.to_text(task.namespace), task.key, now), True)
        if not rows:
            return [[None]]
        if task.refresh and rows[0][7] is not None:
            renewed.append(rows[0][6])
        return [[to_row(rows[0])]]

    def _gets(
        self,
        groups: Sequence[Group],
        results: list[list[Any]],
        now: int,
        renewed: list[int],
    ) -> Operation[None]:
        wanted = [
            (number, at, task)
            for number, group in enumerate(groups)
            for at, task in enumerate(group)
            if isinstance(task, Get)
        ]
        if not wanted:
            return
        places = {(namespaces.to_text(get.namespace), get.key) for _, _, get in wanted}
        if len(places) == 1:
            rows = yield Query(self._get, (*next(iter(places)), now))
        else:
            rows = yield Query(self._get_many, (json.dumps(list(places)), now))
        found = {(row[0], row[1]): row for row in rows}
        for number, at, get in wanted:
            row = found.get((namespaces.to_text(get.namespace), get.key))
            if row is not None:
                results[number][at] = to_row(row)
                if get.refresh and row[7] is not None:
                    renewed.append(row[6])

    def _search_rows(
        self, search: Search, now: int, renewed: list[int], *, alone: bool = False
    ) -> Operation[list[Row]]:
        if search.vector is not None:
            assert self.vectors is not None
            generation = self.generations.for_search()
            wide = yield from self._is_wide(search.prefix)
            ranked = yield from self.vectors.rank(generation, search, now, wide, alone)
            found = [to_row(row, score) for score, row in ranked]
            rows = [row for _, row in ranked]
        else:
            rows = yield from self._unranked(search, now, alone)
            found = list(map(to_row, rows))
        if search.refresh:
            renewed += [row[6] for row in rows if row[7] is not None]
        return found

    def _unranked(self, search: Search, now: int, alone: bool) -> Operation[list[Any]]:
        speech = self.speech
        clause, parameters = speech.where(search.prefix, search.conditions, now)
        page = (search.limit, search.offset)
        rows: list[Any]
        if search.order in (None, "-updated_at") and (yield from self._is_wide(search.prefix)):
            text = speech.searching(speech.newest, clause, search.order)
            rows = yield Query(text, (_WIDE, *parameters, *page))
            if len(rows) == search.limit:
                return rows
        statement = speech.filtered if search.conditions else speech.search
        text = speech.searching(statement, clause, search.order)
        rows = yield Query(text, (*parameters, *page), last=alone)
        return rows

    def _is_wide(self, prefix: tuple[str, ...]) -> Operation[bool]:
        """Whether many items are below a prefix. Once looked up, it is believed for a while."""
        wide, believed = self._widths.get(prefix, (False, 0))
        if not believed:
            clause, parameters = self.speech.below_prefix(prefix)
            text = self.speech.dress(sql.IS_WIDE.replace("@below@", clause))
            wide = bool((yield Query(text, (*parameters, _WIDE))))
            if len(self._widths) >= _WIDE:
                self._widths.clear()
            believed = _BELIEVED
        self._widths[prefix] = wide, believed - 1
        return wide

    def _list(
        self, listing: Listing, now: int, *, alone: bool = False
    ) -> Operation[list[tuple[str, ...]]]:
        prefix = namespaces.fixed_prefix(listing.op)
        low, high = namespaces.text_range(prefix) or ("", namespaces.LAST)
        text = self.speech.dress(sql.NAMESPACES)
        rows = yield Query(text, (low, high, high, now), last=alone)
        return namespaces.listed((namespaces.from_text(row[0]) for row in rows), listing.op)

    def _renew(self, ids: Sequence[int], now: int) -> Operation[None]:
        # In one order everywhere, so that two readers cannot wait for each other.
        rows = [(now, id) for id in sorted(set(ids))]
        yield many(self.speech.dress(sql.RENEW), rows)

    # -- writing

    def _writes(
        self, groups: Sequence[Group], now: int, failed: dict[int, Exception]
    ) -> Operation[None]:
        final: dict[tuple[str, str], Write] = {}
        """Of several writes to one key the last one counts."""
        guarded: set[tuple[str, str]] = set()
        for number, group in enumerate(groups):
            if number in failed:
                continue
            mine = {}
            created: set[tuple[str, str]] = set()
            for write in group:
                if not isinstance(write, Write):
                    continue
                place = (namespaces.to_text(write.namespace), write.key)
                if write.if_version is not None:
                    there = yield from self._version(place, now)
                    if there != write.if_version or place in mine or place in final:
                        failed[number] = conflict_error(write, there)
                        break
                    if write.if_version == 0:
                        created.add(place)
                mine[place] = write
            else:
                guarded |= created
                final.update(mine)
        if final:
            yield from self._store(final, guarded, now)

    def _version(self, place: tuple[str, str], now: int) -> Operation[int]:
        rows = yield Query(self.speech.dress(sql.VERSIONS), (*place, now))
        return int(rows[0][2]) if rows else 0

    def _store(
        self, final: dict[tuple[str, str], Write], guarded: set[tuple[str, str]], now: int
    ) -> Operation[None]:
        stamp, marks = self.stamps.next(len(final)), self.generations.marks
        rows = {
            place: _parameters(place, write, now, stamp + at, marks)
            for at, (place, write) in enumerate(final.items())
        }
        # Sorted, so that two transactions cannot lock the same rows in opposite orders.
        places = sorted(final)
        gone = [place for place in places if final[place].data is None]
        puts = {place: final[place] for place in places if final[place].data is not None}
        statements = without_vectors(self.speech, self.generations.tables, gone)
        if gone:
            statements.append(many(self._delete, gone))
        created = [place for place in puts if place in guarded]
        if created:
            yield Batch(statements)
            statements = []
        for place in created:
            changed = yield Run(self._put_new, (*rows[place], now, now))
            if not changed:
                raise Raced
        statements += self._put_all([rows[place] for place in puts if place not in guarded], now)
        statements += with_new_vectors(self.speech, self.generations, self.vectors, puts)
        yield Batch(statements, last=True)

    def _put_all(self, rows: list[tuple[Any, ...]], now: int) -> Iterator[Run | Many]:
        size = self.speech.rows
        while size > 1 and len(rows) >= size:
            some, rows = rows[:size], rows[size:]
            if all(map(_is_plain, some)):
                short = [(*row[:2], *row[3:5], *row[6:8]) for row in some]
                yield Run(self._put_plain_block, (*chain.from_iterable(short), now))
            else:
                yield Run(self._put_block, (*chain.from_iterable(some), now))
        if rows:
            yield many(self._put, [(*row, now) for row in rows])

    # -- upkeep

    def sweep(self) -> Program[int]:
        yield from self.ready()
        now = self.stamps.now()
        swept: int = yield Transact(lambda: self._sweep(now), write=True)
        return swept

    def _sweep(self, now: int) -> Operation[int]:
        dress = self.speech.dress
        for table in self.generations.tables:
            yield Run(dress(sql.VECTORS_OF_EXPIRED.format(table=table)), (now,))
        swept: int = yield Run(dress(sql.SWEEP), (now,))
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


def _parameters(
    place: tuple[str, str], write: Write, now: int, stamp: int, marks: tuple[int, int]
) -> tuple[Any, ...]:
    if write.data is None:
        return ()
    return (
        *place,
        *write.data,
        write.view,
        None if write.index is None else json.dumps(write.index),
        stamp,
        stamp,
        write.ttl,
        None if write.ttl is None else now + write.ttl,
        *marks,
    )


def _concerns_vectors(task: Task) -> bool:
    return isinstance(task, Write) or (isinstance(task, Search) and task.vector is not None)


def _is_plain(row: tuple[Any, ...]) -> bool:
    return row[2] == "msgpack" and row[5] is None and row[8] is None and row[10:] == (0, 0)


def to_row(row: Any, score: float | None = None) -> Row:
    """A row of the table as the core wants it."""
    return Row(namespaces.from_text(row[0]), row[1], (row[2], bytes(row[3])), row[4], row[5], score)
