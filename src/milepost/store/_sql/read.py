"""Reading items from a database: what becomes of gets, searches and listings in SQL."""

from __future__ import annotations

import json
from typing import Any, Final

from milepost._db.operations import Operation, Query
from milepost.errors import DamagedRowError
from milepost.store._core import namespaces
from milepost.store._core.engine_core import Reads
from milepost.store._core.records import GetOp, ListNamespacesOp, Namespace
from milepost.store._core.tasks import Outcome, Row, Search
from milepost.store._sql import statements as sql
from milepost.store._sql.dialects import StoreSql
from milepost.store._sql.vectors import VectorIndex
from milepost.store._vectors.generations import Generations
from milepost.store._vectors.reindex import Incomplete

WIDE: Final = 1000
"""So many items below a prefix are worth a look at as many that were updated last."""
_NEWEST: Final = "-updated_at"
_USES: Final = 100
"""Searches that use what was looked up once."""
_KEPT: Final = 1000


class ItemReader:
    """Carries out what reads. Among what is `renewed` are the ids of items whose lifetime a read
    renews."""

    def __init__(self, store_sql: StoreSql, vectors: VectorIndex | None) -> None:
        self._store_sql = store_sql
        self._vectors = vectors
        self._prefixes = Prefixes(store_sql)
        self._get = store_sql.render(sql.GET)
        self._get_many = store_sql.render(store_sql.own.get_many)

    def get_one(self, get: GetOp, reads: Reads) -> Operation[list[Outcome]]:
        """The only task of the only group, if it is a get."""
        reads.renewed.clear()
        place = (namespaces.to_text(get.namespace), get.key)
        rows = yield Query(self._get, (*place, reads.now), True)
        if not rows:
            return [[None]]
        if get.refresh_ttl and rows[0][7] is not None:
            reads.renewed.append(rows[0][6])
        return [[to_row(rows[0])]]

    def gets(self, reads: Reads) -> Operation[dict[tuple[Namespace, str], Row]]:
        """What the gets of all groups find, in one query."""
        wanted = reads.gets()
        items: dict[tuple[Namespace, str], Row] = {}
        if not wanted:
            return items
        places = {(namespaces.to_text(get.namespace), get.key) for get in wanted}
        rows = yield Query(self._get_many, (json.dumps(list(places)), reads.now))
        found = {(row[0], row[1]): row for row in rows}
        for get in wanted:
            row = found.get((namespaces.to_text(get.namespace), get.key))
            if row is not None:
                items[get.namespace, get.key] = to_row(row)
                if get.refresh_ttl and row[7] is not None:
                    reads.renewed.append(row[6])
        return items

    def read(
        self, reads: Reads, known: Generations | None, task: Search | ListNamespacesOp
    ) -> Operation[list[Any]]:
        """What a search or a listing finds. `known` is None unless a search ranks by vectors."""
        last = reads.only_task is not None
        if isinstance(task, ListNamespacesOp):
            return (yield from self._list(task, reads.now, last))
        if task.vector is not None:
            assert known is not None
            ranked = yield from self._ranked(task, reads, known, last)
        else:
            rows = yield from self._unranked(task, reads.now, last)
            ranked = [(None, row) for row in rows]
        if task.refresh:
            reads.renewed += [row[6] for _, row in ranked if row[7] is not None]
        return [(score, to_row(row)) for score, row in ranked]

    def _ranked(
        self, search: Search, reads: Reads, known: Generations, last: bool
    ) -> Operation[list[tuple[float | None, Any]]]:
        """The page of a search by meaning.

        Incomplete if items lack their vectors, unless those of this generation were completed as
        far as they could be.
        """
        assert self._vectors is not None
        generation = known.for_search()
        if known.lacks and generation.number != reads.completed:
            raise Incomplete(generation.number)
        wide = yield from self._prefixes.is_wide(search.prefix)
        return (yield from self._vectors.rank(generation, search, reads.now, wide, last))

    def _unranked(self, search: Search, now: int, last: bool) -> Operation[list[Any]]:
        store_sql, prefix, order = self._store_sql, search.prefix, search.order or _NEWEST
        page = (search.limit, search.offset)
        rows: list[Any]
        if order == _NEWEST:
            if store_sql.own.level is not None and not self._prefixes.is_deep(prefix):
                found = yield from self._in_one_namespace(store_sql.own.level, search, now, last)
                if found is not None:
                    return found
            if (yield from self._prefixes.is_wide(prefix)):
                clause, parameters = store_sql.where(prefix, search.conditions, now)
                text = store_sql.searching(store_sql.own.newest, clause, order)
                rows = yield Query(text, (WIDE, *parameters, *page))
                if len(rows) == search.limit:
                    return rows
        clause, parameters = store_sql.where(prefix, search.conditions, now)
        text = store_sql.searching(store_sql.own.search, clause, order)
        rows = yield Query(text, (*parameters, *page), last=last)
        return rows

    def _in_one_namespace(
        self, statement: str, search: Search, now: int, last: bool
    ) -> Operation[list[Any] | None]:
        """What is in the namespace itself; None if there are others below it."""
        clause, parameters = self._store_sql.where((), search.conditions, now)
        bounds = namespaces.text_range(search.prefix)
        assert bounds is not None
        text = self._store_sql.searching(statement, clause, _NEWEST)
        values = (bounds[0], *parameters, search.limit, search.offset, *bounds)
        rows: list[Any] = yield Query(text, values, last=last)
        if not rows or rows[-1][0] is not None:
            return rows
        self._prefixes.found_deep(search.prefix)
        return None

    def _list(self, listing: ListNamespacesOp, now: int, last: bool) -> Operation[list[Namespace]]:
        """The page of namespaces that a listing asks for."""
        prefix = namespaces.fixed_prefix(listing)
        low, high = namespaces.text_range(prefix) or ("", namespaces.LAST)
        text = self._store_sql.render(sql.NAMESPACES)
        rows = yield Query(text, (low, high, high, now), last=last)
        return namespaces.listed((namespaces.from_text(row[0]) for row in rows), listing)


class Prefixes:
    """What is known about what lies below a prefix: planners guess it badly.

    It is looked up, and used some times. It decides how a search is done, never what it finds.
    """

    def __init__(self, store_sql: StoreSql) -> None:
        self._store_sql = store_sql
        self._widths: dict[Namespace, tuple[bool, int]] = {}
        self._deep: dict[Namespace, int] = {}

    def is_wide(self, prefix: Namespace) -> Operation[bool]:
        """Whether many items are below a prefix."""
        wide, uses_left = self._widths.get(prefix, (False, 0))
        if not uses_left:
            clause, parameters = self._store_sql.below_prefix(prefix)
            text = self._store_sql.render(sql.IS_WIDE.format(where=clause))
            wide = bool((yield Query(text, (*parameters, WIDE))))
            if len(self._widths) >= _KEPT:
                self._widths.clear()
            uses_left = _USES
        self._widths[prefix] = wide, uses_left - 1
        return wide

    def is_deep(self, prefix: Namespace) -> bool:
        """Whether there were namespaces below this one, not long ago."""
        uses_left = self._deep.get(prefix)
        if uses_left is None:
            return not prefix
        if uses_left > 1:
            self._deep[prefix] = uses_left - 1
        else:
            del self._deep[prefix]
        return True

    def found_deep(self, prefix: Namespace) -> None:
        """There are namespaces below this one."""
        if len(self._deep) >= _KEPT:
            self._deep.clear()
        self._deep[prefix] = _USES


def to_row(row: Any) -> Row:
    """A row of the table as the core wants it."""
    kind, data = row[2], row[3]
    if type(kind) is not str or not isinstance(data, (bytes, memoryview)):
        raise DamagedRowError(
            f"The item '{row[1]}' in '{row[0]}' is damaged: a cell has another type than was "
            "written. Put or delete the item, or restore the row from a backup."
        )
    return Row(namespaces.from_text(row[0]), row[1], (kind, bytes(data)), row[4], row[5])
