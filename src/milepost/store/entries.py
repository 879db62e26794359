"""The items of a store in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, Final, TypeAlias

from milepost.checkpoint.serde import rotation
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.errors import SerdeError
from milepost.store import namespaces
from milepost.store.conflicts import conflict_error
from milepost.store.core import StoreCore
from milepost.store.embeddings import Packed
from milepost.store.filters import predicate
from milepost.store.records import Item, Namespace, Result, make_item
from milepost.store.tasks import (
    Embed,
    Get,
    Group,
    Index,
    Listing,
    Outcome,
    Program,
    Progress,
    RefusedItem,
    Request,
    Row,
    Search,
    Write,
)
from milepost.store.vectors import VectorTable

Embedding: TypeAlias = Callable[[Sequence[str]], Sequence[Packed]]
_NOTHING: Final[tuple[Request, ...]] = ()


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

    def row(self, score: float | None = None) -> Row:
        """The item as the core wants it."""
        return Row(self.namespace, self.key, self.data, self.created, self.updated, score)


class MemoryCore(StoreCore):
    """Keeps entries by namespace and key. Nothing has to be waited for: its programs ask for
    nothing but vectors."""

    makes_views = False

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._lock = threading.RLock()
        self._spaces: dict[Namespace, dict[str, Entry]] = {}
        self._mortal = 0
        """How many entries can expire: mostly none, and then nobody needs to look at the clock."""
        embedder = self.embedder
        self._vectors: VectorTable[Entry] | None = (
            None if embedder is None else VectorTable(embedder.dims)
        )
        self._is_plain = self.lifetimes.default is None and not self._binds
        self._unpack: Callable[[bytes], Any] = _no_short_cut
        if type(self.serde) is JsonPlusSerializer and not self.serde.pickle_fallback:
            # A dict is always msgpack then, and bytes that never left this process need no second
            # look at their end.
            self._unpack = self.serde.level.unpack

    def perform(self, groups: Sequence[Group]) -> Program[list[Outcome]]:
        yield from _NOTHING
        with self._lock:
            now = self.stamps.now()
            found = [[self._read(task, now) for task in group] for group in groups]
            return [
                self._written(group, results, now)
                for group, results in zip(groups, found, strict=True)
            ]

    def do(self, group: Group) -> list[Result]:
        """Carry out one group that needs no vectors."""
        with self._lock:
            now = self.stamps.now()
            found = [None if type(task) is Write else self._read(task, now) for task in group]
            results = self._written(group, found, now)
            if any(found):
                results = self.decoded(group, results)
        if isinstance(results, Exception):
            raise results
        return results

    # -- short cuts

    def glance(self, namespace: Namespace, key: str) -> Item | None:
        """The item, if it is there and cannot expire."""
        try:
            # No lock: an entry is replaced, never changed, in all that is used here.
            entry = self._spaces[namespace][key]
            if entry.ttl is not None:
                return None
            value = self._unpack(entry.data[1])
        except Exception:
            return None
        return make_item(value, entry.key, entry.namespace, entry.created, entry.updated)

    def drop_in(self, namespace: Namespace, key: str, value: Any, embed: Embedding | None) -> bool:
        """Put a value where nothing has to be checked but the value; whether that was so.

        `embed` makes vectors; without it, values that need some are refused.
        """
        if not self._is_plain or type(value) is not dict or type(key) is not str:
            return False
        texts: Sequence[str] = ()
        if self.embedder is not None:
            texts = self.texts(value, None)
            if texts and embed is None:
                return False
        try:
            data = self.serde.dumps_typed(value)
            entries = self._spaces[namespace]
            if key not in entries and not namespaces.is_plain(key):
                return False
        except Exception:
            return False  # whatever it is, the long way explains it
        vectors = embed(texts) if texts and embed is not None else ()
        with self._lock:
            old = self._find(namespace, key)
            if self._mortal and old is not None and _is_dead(old, self.stamps.now()):
                self._remove(old)
                old = None
            self._replace(old, namespace, key, data, vectors, self.stamps.next())
        return True

    # -- reading

    def _read(self, task: Any, now: int) -> Any:
        if isinstance(task, Get):
            entry = self._find(task.namespace, task.key)
            if entry is None or _is_dead(entry, now):
                return None
            if task.refresh and entry.ttl is not None:
                entry.expires = now + entry.ttl
            return entry.row()
        if isinstance(task, Search):
            found = self._ranked(task, now) if task.vector is not None else self._sorted(task, now)
            if task.refresh and self._mortal:
                for _, entry in found:
                    if entry.ttl is not None:
                        entry.expires = now + entry.ttl
            return [entry.row(score) for score, entry in found]
        if isinstance(task, Listing):
            alive = (
                namespace
                for namespace, entries in self._spaces.items()
                if not self._mortal or not all(_is_dead(entry, now) for entry in entries.values())
            )
            return namespaces.listed(alive, task.op)
        return None

    def _find(self, namespace: Namespace, key: str) -> Entry | None:
        entries = self._spaces.get(namespace)
        return None if entries is None else entries.get(key)

    def _below(self, prefix: Namespace) -> list[dict[str, Entry]]:
        depth = len(prefix)
        return [
            entries for namespace, entries in self._spaces.items() if namespace[:depth] == prefix
        ]

    def _matching(self, entries: Iterable[Entry], task: Search, now: int) -> Iterator[Entry]:
        fulfils = predicate(task.conditions) if task.conditions else None
        for entry in entries:
            if self._mortal and _is_dead(entry, now):
                continue
            if fulfils is None or fulfils(
                entry.view if entry.view is not None else self._view(entry)
            ):
                yield entry

    def _view(self, entry: Entry) -> Any:
        entry.view = json.loads(self.viewer.text(self.value(entry)))
        return entry.view

    def _sorted(self, task: Search, now: int) -> list[tuple[None, Entry]]:
        spaces = self._below(task.prefix)
        entries: Iterable[Entry]
        order = task.order or "created_at"
        if len(spaces) == 1 and order == "created_at":
            entries = spaces[0].values()  # an update keeps its place in a dict
        else:
            entries = [entry for space in spaces for entry in space.values()]
            entries.sort(key=_ORDER[order.removeprefix("-")], reverse=order.startswith("-"))
        wanted = islice(self._matching(entries, task, now), task.offset, task.offset + task.limit)
        return [(None, entry) for entry in wanted]

    def _ranked(self, task: Search, now: int) -> list[tuple[float, Entry]]:
        assert self._vectors is not None
        assert task.vector is not None
        spaces = self._below(task.prefix)
        if 4 * sum(map(len, spaces)) > len(self._vectors.owners):
            best = self._best_of_many(task, now)
        else:
            below = (entry for space in spaces for entry in space.values())
            entries = [entry for entry in self._matching(below, task, now) if entry.places]
            places = [at for entry in entries for at in entry.places]
            owners = [entry for entry in entries for _ in entry.places]
            scores = self._vectors.scores(task.vector, places) if places else []
            best = _best(zip(scores, owners, strict=True))
        ranked = sorted(best, key=lambda found: (-found[0], found[1].created))
        return ranked[task.offset : task.offset + task.limit]

    def _best_of_many(self, task: Search, now: int) -> list[tuple[float, Entry]]:
        """Go through all vectors from the nearest on, until there are enough."""
        assert self._vectors is not None
        assert task.vector is not None
        wanted = task.offset + task.limit
        depth, prefix = len(task.prefix), task.prefix
        count = 2 * wanted
        while wanted:
            near = self._vectors.nearest(task.vector, count)
            below = (entry for _, entry in near if entry.namespace[:depth] == prefix)
            allowed = {id(entry) for entry in self._matching(below, task, now)}
            best = _best((score, entry) for score, entry in near if id(entry) in allowed)
            # An entry may have several vectors, so the nearest ten need not be ten entries.
            if len(best) >= wanted or count >= len(self._vectors.owners):
                return best
            count *= 4
        return []

    # -- writing

    def _written(self, group: Group, results: list[Any], now: int) -> Outcome:
        """Do the writes of a group, unless one of them is refused."""
        writes = [task for task in group if type(task) is Write]
        if any(write.if_version is not None for write in writes):
            touched: set[tuple[Namespace, str]] = set()
            for write in writes:
                place = (write.namespace, write.key)
                if write.if_version is not None:
                    entry = self._find(*place)
                    there = 0 if entry is None or _is_dead(entry, now) else entry.updated
                    if there != write.if_version or place in touched:
                        return conflict_error(write, there)
                touched.add(place)
        stamp = self.stamps.next(len(writes)) if writes else 0
        for at, write in enumerate(writes):
            self._store(write, now, stamp + at)
        return results

    def _store(self, write: Write, now: int, stamp: int) -> None:
        old = self._find(write.namespace, write.key)
        if old is not None and (write.data is None or _is_dead(old, now)):
            self._remove(old)
            old = None
        if write.data is None:
            return
        entry = self._replace(old, write.namespace, write.key, write.data, write.vectors, stamp)
        if write.index is not None:
            entry.index = write.index
        if write.ttl is not None:
            entry.ttl = write.ttl
            entry.expires = now + write.ttl
            self._mortal += 1

    def _replace(
        self,
        old: Entry | None,
        namespace: Namespace,
        key: str,
        data: tuple[str, bytes],
        vectors: Sequence[Packed],
        stamp: int,
    ) -> Entry:
        if old is None:
            entry = Entry(namespace, key, data, stamp, stamp)
        else:
            self._forget(old)
            entry = Entry(namespace, key, data, old.created, stamp)
        if vectors and self._vectors is not None:
            entry.places = self._vectors.add(vectors, entry)
        try:
            self._spaces[namespace][key] = entry
        except KeyError:
            self._spaces[namespace] = {key: entry}
        return entry

    def _remove(self, entry: Entry) -> None:
        self._forget(entry)
        entries = self._spaces[entry.namespace]
        del entries[entry.key]
        if not entries:
            del self._spaces[entry.namespace]

    def _forget(self, entry: Entry) -> None:
        if entry.ttl is not None:
            self._mortal -= 1
        if entry.places and self._vectors is not None:
            self._vectors.remove(entry.places)

    # -- upkeep

    def sweep(self) -> Program[int]:
        yield from _NOTHING
        with self._lock:
            now = self.stamps.now()
            entries = [entry for space in self._spaces.values() for entry in space.values()]
            dead = [entry for entry in entries if _is_dead(entry, now)]
            for entry in dead:
                self._remove(entry)
        return len(dead)

    def reindex(self, progress: Progress | None, size: int) -> Program[int]:
        if self._vectors is None:
            raise ValueError("The store has no index. Make it with index={'embed': …, 'dims': …}.")
        with self._lock:
            entries = [entry for space in self._spaces.values() for entry in space.values()]
        for at in range(0, len(entries), size):
            chunk = [
                (entry, self.texts(self.value(entry), entry.index))
                for entry in entries[at : at + size]
            ]
            texts = list(dict.fromkeys(text for _, found in chunk for text in found))
            made = (yield Embed(texts, []))[0] if texts else ()
            vectors = dict(zip(texts, made, strict=True))
            with self._lock:
                for entry, found in chunk:
                    if self._find(entry.namespace, entry.key) is entry:
                        self._vectors.remove(entry.places)
                        entry.places = self._vectors.add([vectors[text] for text in found], entry)
            if progress is not None:
                progress(min(at + size, len(entries)), len(entries))
        return len(entries)

    def reencrypt(
        self, progress: rotation.Progress[RefusedItem] | None
    ) -> Program[rotation.Reencrypted[RefusedItem]]:
        self.check_encrypts()
        yield from _NOTHING
        done: rotation.Reencrypted[RefusedItem] = rotation.Reencrypted()
        with self._lock:
            for entry in [entry for space in self._spaces.values() for entry in space.values()]:
                try:
                    again = self.resealed(entry)
                except SerdeError as error:
                    done.refused.append(RefusedItem(entry.namespace, entry.key, str(error)))
                    continue
                if again is None:
                    done.current += 1
                else:
                    entry.data = again
                    done.resealed += 1
        if progress is not None:
            progress(done)
        return done


def _no_short_cut(_data: bytes) -> Any:
    raise LookupError


def _is_dead(entry: Entry, now: int) -> bool:
    return entry.expires is not None and entry.expires <= now


def _best(found: Iterable[tuple[float, Entry]]) -> list[tuple[float, Entry]]:
    """Each entry once, with the best score of its vectors."""
    best: dict[int, tuple[float, Entry]] = {}
    for score, entry in found:
        known = best.get(id(entry))
        if known is None or score > known[0]:
            best[id(entry)] = (score, entry)
    return list(best.values())


_ORDER: Final[dict[str, Any]] = {
    # No two entries of one process have the same stamp.
    "created_at": attrgetter("created"),
    "updated_at": attrgetter("updated"),
    "key": lambda entry: (entry.key, namespaces.to_text(entry.namespace)),
}
