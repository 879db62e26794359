"""The words of one database for what the statements of a store leave open."""

from __future__ import annotations

import re
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

_WORD: Final = re.compile(r"%(\w+)%")


@dataclass(frozen=True, slots=True, eq=False)
class StoreSql:
    """The SQL of one database. There is one for each, so that what it renders is remembered."""

    dialect: Dialect
    clause: Callable[[Condition], Clause]
    words: dict[str, str]
    """What replaces `%word%` in a statement."""
    locks_rows: bool
    """SQLite has one writer at a time, and needs no locks."""
    delete_one: str | None
    """Deletes an item that has no vectors, if one statement can."""
    share: str | None
    """Keeps the registry of vectors as it is until the transaction ends; None where a transaction
    does that by itself."""
    take: str | None
    """Waits for all transactions that use the registry, and blocks new ones until this one ends."""
    search: str
    filtered: str
    """A search with a filter, which has to look into the rows anyway."""
    newest: str
    """Searches what has changed last."""
    level: str | None
    """Searches one namespace, where there is an index for it."""
    rows: int
    """How many items one statement stores."""
    largest: int
    """Bytes of a value. The server says it only after it was sent all of them."""
    largest_view: int
    """Bytes of its JSON."""
    below: str
    """A namespace's text begins with this, or lies between this and that."""

    @lru_cache(maxsize=256)  # noqa: B019 - both instances live as long as the process
    def render(self, statement: str) -> str:
        """A statement in this database's words."""
        text = _WORD.sub(lambda found: self.words[found[1]], statement)
        if self.dialect.name == "sqlite":
            # Since 3.48, SQLite compiles a statement with a bare parameter here again each time, to
            # see the number. An empty search took 46 µs instead of 7.
            return text.replace("LIMIT ?", "LIMIT ? + 0")
        return self.dialect.placed(text)

    @lru_cache(maxsize=64)  # noqa: B019
    def putting(self, rows: int, plain: tuple[int, int] | None = None) -> str:
        """A `put`, in this database's words."""
        return self.render(sql.put(rows, plain))

    @lru_cache(maxsize=256)  # noqa: B019
    def searching(self, statement: str, clause: str, order: Order | None) -> str:
        """A search, in this database's words."""
        words = sql.ORDER[order]
        text = statement.replace("@where@", clause).replace("@order@", words)
        return self.render(text.replace("@sum@", words.replace("i.updated", "(i.updated + 0)")))

    def below_prefix(self, prefix: Namespace) -> Clause:
        bounds = namespaces.text_range(prefix)
        return ("1 = 1", []) if bounds is None else (self.below, [*bounds[: self.below.count("?")]])

    def where(self, prefix: Namespace, conditions: tuple[Condition, ...], now: int) -> Clause:
        """The items below a namespace that are alive and fulfil all conditions."""
        clauses: list[Clause] = [(sql.ALIVE, [now])]
        if prefix:
            clauses.append(self.below_prefix(prefix))
        clauses += map(self.clause, conditions)
        parameters: list[Any] = []
        for _, more in clauses:
            parameters += more
        return " AND ".join(sql for sql, _ in clauses), parameters


LITE: Final = StoreSql(
    SQLITE,
    sqlite_clause,
    words={
        "pairs": SQLITE.pairs,
        "items": SQLITE.items,
        "json": "?",
        "max": "max",
        "vector": "?",
        "integer": "p.a",
        **dict.fromkeys(("lock", "lock_items", "lock_free", "share"), ""),
    },
    locks_rows=False,
    delete_one=None,
    share=None,
    take=None,
    search=sql.SEARCH_IDS_FIRST,
    filtered=sql.SEARCH,
    newest=sql.SEARCH_NEWEST_LITE,
    level=sql.SEARCH_LEVEL,
    rows=1,
    largest=1_000_000_000,
    largest_view=1_000_000_000,
    below="i.ns >= ? AND i.ns < ?",
)
PG: Final = StoreSql(
    POSTGRES,
    postgres_clause,
    words={
        "pairs": POSTGRES.pairs,
        "items": POSTGRES.items,
        "json": "?::jsonb",
        "max": "GREATEST",
        "vector": "?::vector",
        "integer": "p.a::bigint",
        "lock": "FOR UPDATE",
        "lock_items": "FOR UPDATE OF i",  # where items are not the only relation
        "lock_free": "FOR UPDATE SKIP LOCKED",  # the rows that no other transaction has locked
        "share": "FOR KEY SHARE",  # blocks transactions that lock a row, not those that share it
    },
    locks_rows=True,
    delete_one=sql.DELETE_ONE,
    share="LOCK TABLE milepost_store_meta IN ACCESS SHARE MODE",
    take="LOCK TABLE milepost_store_meta IN ACCESS EXCLUSIVE MODE",
    search=sql.SEARCH_BELOW,
    filtered=sql.SEARCH_BELOW,
    newest=sql.SEARCH_NEWEST,
    level=None,
    rows=100,
    # A field has less than 1 GB, and so has the message that brings it. What is in a JSONB has a
    # quarter of that.
    largest=2**30 - 2**20 - 2**28,
    largest_view=2**28 - 1,
    # "Starts with". For a range, PostgreSQL makes one plan for all prefixes, good for short ones
    # only; for this it looks at the prefix, and uses the index where that pays.
    below="i.ns ^@ ?::text",
)
