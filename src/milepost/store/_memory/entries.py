"""The items of a store in memory: where they are kept, and how they are searched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, Final, TypeAlias

from milepost.store._core import namespaces
from milepost.store._core.filters import predicate
from milepost.store._core.records import Namespace
from milepost.store._core.tasks import Index, Search
from milepost.store._vectors.embeddings import Packed
from milepost.store._vectors.table import VectorTable, best_of


class Entry:
    """One item. An update replaces it; only `expires`, `view`, `places` and the key that `data` is
    sealed with may change."""

    __slots__ = (
        "created",
        "data",
        "expires",
        "index",
        "key",
        "namespace",
        "places",
        "ttl",
        "updated",
        "view",
    )

    def __init__(
        self, namespace: Namespace, key: str, data: tuple[str, bytes], created: int, updated: int
    ) -> None:
        self.namespace = namespace
        self.key = key
        self.data = data
        self.created = created
        self.updated = updated
        self.ttl: int | None = None
        self.expires: int | None = None
        self.index: Index = None
        self.view: Any = None
        """What filters see; made when the first filter looks."""
        self.places: tuple[int, ...] = ()
        """Where its vectors are."""

    def is_expired(self, now: int) -> bool:
        """Whether the entry has expired."""
        return self.expires is not None and self.expires <= now


Found: TypeAlias = tuple[float | None, Entry]
"""A score, and what has it."""
View: TypeAlias = Callable[[Entry], Any]
"""Makes what filters see of an entry."""


class Entries:
    """Entries by namespace and key, and their vectors. Changes are made under a lock."""

    __slots__ = ("expiring", "spaces", "vectors")

    def __init__(self, *, has_vectors: bool) -> None:
        self.spaces: dict[Namespace, dict[str, Entry]] = {}
        """An update keeps its place in a dict, so each is in the order of creation."""
        self.expiring = 0
        """How many entries can expire: mostly none, and then no method looks at the clock."""
        self.vectors: VectorTable[Entry] | None = VectorTable() if has_vectors else None

    def __iter__(self) -> Iterator[Entry]:
        return iter([entry for space in self.spaces.values() for entry in space.values()])

    def find(self, namespace: Namespace, key: str) -> Entry | None:
        """The entry, expired or not."""
        space = self.spaces.get(namespace)
        return None if space is None else space.get(key)

    def below(self, prefix: Namespace) -> list[dict[str, Entry]]:
        """The entries of each namespace that begins with these labels."""
        depth = len(prefix)
        return [space for namespace, space in self.spaces.items() if namespace[:depth] == prefix]

    def put(
        self,
        namespace: Namespace,
        key: str,
        data: tuple[str, bytes],
        vectors: Sequence[Packed],
        stamp: int,
    ) -> Entry:
        """A new entry, in place of the one that is there."""
        space = self.spaces.get(namespace)
        if space is None:
            space = self.spaces[namespace] = {}
        old = space.get(key)
        if old is None:
            entry = Entry(namespace, key, data, stamp, stamp)
        else:
            entry = Entry(namespace, key, data, old.created, stamp)
            if old.ttl is not None or old.places:
                self._release(old)
        if vectors and self.vectors is not None:
            entry.places = self.vectors.add(vectors, entry)
        space[key] = entry
        return entry

    def remove(self, entry: Entry) -> None:
        """Remove an entry, and its namespace if that is empty then."""
        self._release(entry)
        space = self.spaces[entry.namespace]
        del space[entry.key]
        if not space:
            del self.spaces[entry.namespace]

    def _release(self, entry: Entry) -> None:
        if entry.ttl is not None:
            self.expiring -= 1
        if entry.places and self.vectors is not None:
            self.vectors.remove(entry.places)

    # -- searching

    def search(self, task: Search, now: int, view: View) -> list[Found]:
        """The page that a search asks for."""
        find = self._sorted if task.vector is None else self._ranked
        return find(task, now, view)

    def _matching(
        self, entries: Iterable[Entry], task: Search, now: int, view: View
    ) -> Iterator[Entry]:
        if self.expiring:
            entries = (entry for entry in entries if not entry.is_expired(now))
        if not task.conditions:
            return iter(entries)
        fulfils = predicate(task.conditions)
        return (
            entry
            for entry in entries
            if fulfils(entry.view if entry.view is not None else view(entry))
        )

    def _sorted(self, task: Search, now: int, view: View) -> list[Found]:
        spaces = self.below(task.prefix)
        entries: Iterable[Entry]
        order = task.order or "created_at"
        if len(spaces) == 1 and order == "created_at":
            entries = spaces[0].values()
        else:
            entries = [entry for space in spaces for entry in space.values()]
            entries.sort(key=_ORDER[order.removeprefix("-")], reverse=order.startswith("-"))
        wanted = islice(
            self._matching(entries, task, now, view), task.offset, task.offset + task.limit
        )
        return [(None, entry) for entry in wanted]

    def _ranked(self, task: Search, now: int, view: View) -> list[Found]:
        vectors, wanted = self.vectors, task.offset + task.limit
        assert vectors is not None
        assert task.vector is not None
        spaces = self.below(task.prefix)
        near: Iterable[list[tuple[float, Entry]]]
        if 4 * sum(map(len, spaces)) > len(vectors.owners):
            near = vectors.from_nearest(task.vector, 2 * wanted) if wanted else ()
        else:
            places = [at for space in spaces for entry in space.values() for at in entry.places]
            near = [vectors.scored(task.vector, places)]
        depth, prefix = len(task.prefix), task.prefix
        best: list[tuple[float, Entry]] = []
        for some in near:
            below = (entry for _, entry in some if entry.namespace[:depth] == prefix)
            allowed = {id(entry) for entry in self._matching(below, task, now, view)}
            # An entry may have several vectors, so the nearest ten need not be ten entries.
            best = best_of([*best, *(one for one in some if id(one[1]) in allowed)], id)
            if len(best) >= wanted:
                break
        ranked = sorted(best, key=lambda found: (-found[0], found[1].created))
        return [*ranked[task.offset : wanted]]


_ORDER: Final[dict[str, Any]] = {
    # No two entries of one process have the same stamp.
    "created_at": attrgetter("created"),
    "updated_at": attrgetter("updated"),
    "key": lambda entry: (entry.key, namespaces.to_text(entry.namespace)),
}
