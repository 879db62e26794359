"""What a store asks of a database's vector search."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias

from milepost._db.operations import Operation, Query
from milepost.store._core.tasks import Search
from milepost.store._sql import statements as sql
from milepost.store._sql.dialects import StoreSql
from milepost.store._vectors.embeddings import Packed

if TYPE_CHECKING:
    from milepost.store._vectors.generations import Generation


Near: TypeAlias = tuple[float, int]
"""A score, and the item that has a vector with it."""


class VectorIndex(ABC):
    """Keeps vectors in a table, and ranks items by them."""

    def __init__(self, store_sql: StoreSql) -> None:
        self.store_sql = store_sql

    @abstractmethod
    def create(self, table: str, dims: int) -> list[str]:
        """Statements that create the table."""

    def explain(self, error: Exception) -> Exception:
        """What to raise if the table could not be created."""
        return error

    @abstractmethod
    def pack(self, vector: Packed) -> Any:
        """A vector as a parameter of a statement."""

    @abstractmethod
    def nearest(
        self, generation: Generation, search: Search, now: int, count: int, wide: bool
    ) -> Operation[tuple[list[Near], bool]]:
        """At least `count` vectors, nearest first, if there are so many; whether that is all.

        Only vectors of items that the search could return are counted. `wide` says that many
        items are below its prefix.
        """

    def rank(
        self, generation: Generation, search: Search, now: int, wide: bool, alone: bool
    ) -> Operation[list[tuple[float | None, Any]]]:
        """The page of items that a search asks for, nearest first, with their scores.

        `alone` says that nothing else happens in the transaction.
        """
        wanted = count = search.offset + search.limit
        scores: dict[int, float] = {}
        while wanted:
            found, is_all = yield from self.nearest(generation, search, now, count, wide)
            scores = {}
            for score, item in found:
                scores.setdefault(item, score)
            # An item may have several vectors, so the nearest ten need not be ten items.
            if is_all or len(scores) >= wanted:
                break
            count *= 2
        page = list(scores)[search.offset : wanted]
        if not page:
            return []
        text = self.store_sql.render(sql.BY_IDS)
        rows = yield Query(text, (json.dumps(page), now), last=alone)
        by_id = {row[6]: row for row in rows}
        return [(scores[item], by_id[item]) for item in page if item in by_id]
