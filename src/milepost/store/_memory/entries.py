"""The items of a store in memory: where they are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from milepost.store._core.records import Namespace
from milepost.store._core.tasks import Index
from milepost.store._vectors.embeddings import Packed
from milepost.store._vectors.table import VectorTable


class Entry:
    """One item. An update replaces it; only `expires`, `view`, `places` and the key that `body` is
    sealed with may change."""

    __slots__ = (
        "body",
        "created",
        "expires",
        "index",
        "key",
        "kind",
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
        self.kind, self.body = data
        self.created = created
        self.updated = updated
        self.ttl: int | None = None
        self.expires: int | None = None
        self.index: Index = None
        self.view: Any = None
        """What filters see; made when the first filter looks."""
        self.places: tuple[int, ...] = ()
        """Where its vectors are."""

    @property
    def data(self) -> tuple[str, bytes]:
        """The value, as the serializer has written it."""
        return self.kind, self.body

    def is_dead(self, now: int) -> bool:
        """Whether it has expired."""
        return self.expires is not None and self.expires <= now


class Entries:
    """Entries by namespace and key, and their vectors. Changes are made under a lock."""

    __slots__ = ("mortal", "spaces", "vectors")

    def __init__(self, dims: int | None) -> None:
        self.spaces: dict[Namespace, dict[str, Entry]] = {}
        """An update keeps its place in a dict, so each is in the order of creation."""
        self.mortal = 0
        """How many entries can expire: mostly none, and then no method looks at the clock."""
        self.vectors: VectorTable[Entry] | None = None if dims is None else VectorTable(dims)

    def __iter__(self) -> Iterator[Entry]:
        return iter([entry for space in self.spaces.values() for entry in space.values()])

    def find(self, namespace: Namespace, key: str) -> Entry | None:
        """The entry, dead or alive."""
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
                self._let_go(old)
        if vectors and self.vectors is not None:
            entry.places = self.vectors.add(vectors, entry)
        space[key] = entry
        return entry

    def remove(self, entry: Entry) -> None:
        """Let an entry go, and its namespace if that is empty then."""
        self._let_go(entry)
        space = self.spaces[entry.namespace]
        del space[entry.key]
        if not space:
            del self.spaces[entry.namespace]

    def _let_go(self, entry: Entry) -> None:
        if entry.ttl is not None:
            self.mortal -= 1
        if entry.places and self.vectors is not None:
            self.vectors.remove(entry.places)
