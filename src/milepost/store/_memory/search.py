"""Searching the entries of a store in memory: filtered, sorted, ranked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import attrgetter
from typing import Any, Final, TypeAlias

from milepost.store._core import namespaces
from milepost.store._core.filters import predicate
from milepost.store._core.tasks import Search
from milepost.store._memory.entries import Entries, Entry
from milepost.store._vectors.table import best_of

Found: TypeAlias = tuple[float | None, Entry]
"""A score, and what has it."""


class Searcher:
    """Finds entries. `view` is what filters see of one."""

    def __init__(self, entries: Entries, view: Callable[[Entry], Any]) -> None:
        self._entries = entries
        self._view = view

    def search(self, task: Search, now: int) -> list[Found]:
        """The page that a search asks for."""
        return self._sorted(task, now) if task.vector is None else self._ranked(task, now)

    def _matching(self, entries: Iterable[Entry], task: Search, now: int) -> Iterator[Entry]:
        if self._entries.mortal:
            entries = (entry for entry in entries if not entry.is_dead(now))
        if not task.conditions:
            return iter(entries)
        fulfils, view = predicate(task.conditions), self._view
        return (
            entry
            for entry in entries
            if fulfils(entry.view if entry.view is not None else view(entry))
        )

    def _sorted(self, task: Search, now: int) -> list[Found]:
        spaces = self._entries.below(task.prefix)
        entries: Iterable[Entry]
        order = task.order or "created_at"
        if len(spaces) == 1 and order == "created_at":
            entries = spaces[0].values()
        else:
            entries = [entry for space in spaces for entry in space.values()]
            entries.sort(key=_ORDER[order.removeprefix("-")], reverse=order.startswith("-"))
        wanted = islice(self._matching(entries, task, now), task.offset, task.offset + task.limit)
        return [(None, entry) for entry in wanted]

    def _ranked(self, task: Search, now: int) -> list[Found]:
        vectors = self._entries.vectors
        assert vectors is not None
        assert task.vector is not None
        spaces = self._entries.below(task.prefix)
        if 4 * sum(map(len, spaces)) > len(vectors.owners):
            best = self._best_of_many(task, now)
        else:
            below = (entry for space in spaces for entry in space.values())
            entries = [entry for entry in self._matching(below, task, now) if entry.places]
            places = [at for entry in entries for at in entry.places]
            owners = [entry for entry in entries for _ in entry.places]
            scores = vectors.scores(task.vector, places) if places else []
            best = best_of(zip(scores, owners, strict=True), id)
        ranked = sorted(best, key=lambda found: (-found[0], found[1].created))
        return [*ranked[task.offset : task.offset + task.limit]]

    def _best_of_many(self, task: Search, now: int) -> list[tuple[float, Entry]]:
        """Go through all vectors from the nearest on, until there are enough."""
        vectors = self._entries.vectors
        assert vectors is not None
        assert task.vector is not None
        wanted = task.offset + task.limit
        depth, prefix = len(task.prefix), task.prefix
        count = 2 * wanted
        while wanted:
            near = vectors.nearest(task.vector, count)
            below = (entry for _, entry in near if entry.namespace[:depth] == prefix)
            allowed = {id(entry) for entry in self._matching(below, task, now)}
            best = best_of((one for one in near if id(one[1]) in allowed), id)
            # An entry may have several vectors, so the nearest ten need not be ten entries.
            if len(best) >= wanted or count >= len(vectors.owners):
                return best
            count *= 4
        return []


_ORDER: Final[dict[str, Any]] = {
    # No two entries of one process have the same stamp.
    "created_at": attrgetter("created"),
    "updated_at": attrgetter("updated"),
    "key": lambda entry: (entry.key, namespaces.to_text(entry.namespace)),
}
