"""The statements, conditions and limits that a store has for one database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from milepost._db.dialect import POSTGRES, SQLITE, Dialect
from milepost.store._core import namespaces
from milepost.store._core.filters import Condition
from milepost.store._core.records import Namespace, Order
from milepost.store._sql import statements as sql
from milepost.store._sql.conditions import Clause, postgres_clause, sqlite_clause


@dataclass(frozen=True, slots=True, eq=False)
class StoreSql:
    """The SQL of one database. There is one for each, so that what it renders is remembered."""

    dialect: Dialect
    clause: Callable[[Condition], Clause]
    own: sql.OwnStatements
    largest: int
    """Bytes of a value. The server says it only after it was sent all of them."""
    largest_view: int
    """Bytes of its JSON."""

    @lru_cache(maxsize=256)  # noqa: B019 - both instances live as long as the process
    def render(self, statement: str) -> str:
        """A statement with this database's placeholders."""
        return self.dialect.placed(statement)

    @lru_cache(maxsize=256)  # noqa: B019
    def searching(self, statement: str, where: str, order: Order) -> str:
        """A search with its filter and its order."""
        words = sql.ORDER[order]
        # An index on the column is of no use for the sum.
        of_sum = words.replace("i.updated", "(i.updated + 0)")
        return self.render(statement.format(where=where, order=words, order_of_sum=of_sum))

    def below_prefix(self, prefix: Namespace) -> Clause:
        bounds = namespaces.text_range(prefix)
        if bounds is None:
            return "1 = 1", []
        below = self.own.below
        return below, [*bounds[: below.count("?")]]

    def where(self, prefix: Namespace, conditions: tuple[Condition, ...], now: int) -> Clause:
        """The items below a namespace that are alive and fulfil all conditions."""
        clauses = [(sql.ALIVE, [now]), self.below_prefix(prefix), *map(self.clause, conditions)]
        parameters: list[Any] = []
        for _, more in clauses:
            parameters += more
        return " AND ".join(sql for sql, _ in clauses), parameters


LITE: Final = StoreSql(
    SQLITE,
    sqlite_clause,
    sql.SQLITE,
    largest=1_000_000_000,
    largest_view=1_000_000_000,
)
PG: Final = StoreSql(
    POSTGRES,
    postgres_clause,
    sql.POSTGRES,
    # A field has less than 1 GB, and so has the message that brings it. What is in a JSONB has a
    # quarter of that.
    largest=2**30 - 2**20 - 2**28,
    largest_view=2**28 - 1,
)
