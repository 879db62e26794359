"""Where a store on Redis keeps its items: the keys, and the head of an item.

The root of an item is the first label of its namespace. All items of a root share one hash tag, so
that they lie in one slot of a cluster, and one script can read or change any of them. The keys of a
root:

    m   hash      counters and notes: `seq` (changes so far), `deleted` (the highest version of a
                  deleted item), `root` (a token that identifies the root), `current` and `coming`
                  (the generations of its vectors)
    s   sorted    its namespaces that have items, as text, all with the score 0
    x   sorted    items that expire, by the time when they do
    a   sorted    marks of items in the current generation (`marks.py`)
    v   hash      vectors of the current generation
    ca  cv        the same, of the coming generation

The keys of a namespace:

    h   hash      by item key, the head of the item: its times, its version, how it is indexed
    b   hash      by item key, the value
    o   sorted    item keys by the time when they were last put

Two keys belong to no root: `meta` has the notes of the store, `roots` is a hash of all roots.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple, TypeAlias
from urllib.parse import quote

from milepost.errors import DamagedRowError
from milepost.store._core import namespaces
from milepost.store._core.records import Namespace
from milepost.store._core.tasks import Index, Row

Place: TypeAlias = tuple[Namespace, str]
"""A namespace and a key."""


class RootKeys(NamedTuple):
    """The keys of all items below one root."""

    meta: bytes
    spaces: bytes
    expiry: bytes
    marks: bytes
    vectors: bytes
    coming_marks: bytes
    coming_vectors: bytes


class SpaceKeys(NamedTuple):
    """The keys of the items in one namespace."""

    heads: bytes
    bodies: bytes
    order: bytes


class Keys:
    """Makes the keys of a store from its prefix."""

    def __init__(self, prefix: str, *, is_cluster: bool = False) -> None:
        self._prefix = prefix
        self.is_cluster = is_cluster
        # No root has this tag, since an exclamation mark in a label is escaped.
        self.meta = f"{prefix}:{{!}}:meta".encode()
        self.roots = f"{prefix}:{{!}}:roots".encode()
        self.root = lru_cache(1024)(self._root)
        self.space = lru_cache(1024)(self._space)

    def _root(self, root: str) -> RootKeys:
        start = self._start(root)
        names = ("m", "s", "x", "a", "v", "ca", "cv")
        return RootKeys(*[f"{start}:{name}".encode() for name in names])

    def _space(self, namespace: Namespace) -> SpaceKeys:
        start, text = self._start(namespace[0]), namespaces.to_text(namespace)
        return SpaceKeys(*[f"{start}:{name}:{text}".encode() for name in ("h", "b", "o")])

    def units(self, places: Iterable[Place]) -> list[list[Place]]:
        """The places that one script can read or change together: in a cluster, those below one
        root."""
        ordered = sorted(places)
        if self.is_cluster:
            return [list(unit) for _, unit in groupby(ordered, key=root_of)]
        return [ordered] if ordered else []

    def _start(self, root: str) -> str:
        # The label is escaped, so that a brace in it neither ends the hash tag nor begins another.
        return f"{self._prefix}:{{{quote(root, safe='')}}}"


def member(namespace: Namespace, key: str) -> bytes:
    """The name of an item among all items of its root."""
    return f"{namespaces.to_text(namespace)}\0{key}".encode()


def from_member(name: bytes) -> tuple[Namespace, str]:
    """The namespace and the key that `member` was given."""
    text, _, key = name.decode().partition("\0")
    return namespaces.from_text(text), key


def root_of(place: Place) -> str:
    """The first label of a namespace."""
    return place[0][0]


def roots_of(places: Iterable[Place]) -> list[str]:
    """The roots of these places, sorted, each once."""
    return sorted(set(map(root_of, places)))


@dataclass(frozen=True, slots=True)
class Head:
    """What is stored of an item besides its value. Times are in microseconds; `updated` is also the
    version."""

    created: int
    updated: int
    ttl: int | None
    expires: int | None
    nonce: str
    """The nonce of the batch that put the item (`Batch`)."""
    index: Index
    stored: bytes = b""
    """The stored form that this head was read from."""

    def dump(self) -> bytes:
        index = "" if self.index is None else json.dumps(self.index)
        times = f"{self.created} {self.updated} {self.ttl or 0} {self.expires or 0}"
        return f"{times} {self.nonce} {index}".encode()

    def is_expired(self, now: int) -> bool:
        """Whether the item has expired."""
        return self.expires is not None and self.expires <= now


def parsed(place: Place, stored: bytes | None) -> Head | None:
    """The head of an item from its stored form; None if the item does not exist."""
    if stored is None:
        return None
    try:
        created, updated, ttl, expires, nonce, index = stored.decode().split(" ", 5)
        found: Index = json.loads(index) if index else None
        return Head(
            int(created),
            int(updated),
            int(ttl) or None,
            int(expires) or None,
            nonce,
            tuple(found) if isinstance(found, list) else found,
            stored,
        )
    except ValueError as error:
        raise _damaged(place) from error


def sealed(data: tuple[str, bytes]) -> bytes:
    """The stored form of a value: its kind and the serializer's bytes."""
    return data[0].encode() + b":" + data[1]


class RedisItem(NamedTuple):
    """An item as it was read."""

    row: Row
    head: Head


def item_at(
    place: Place, stored: bytes | None, body: bytes | None, now: int | None = None
) -> RedisItem | None:
    """An item from the stored forms of its head and its value; None if there is none, or if it has
    expired by `now`."""
    head = parsed(place, stored)
    if head is None or (now is not None and head.is_expired(now)):
        return None
    if body is None:
        raise _damaged(place)
    kind, _, data = body.partition(b":")
    value = kind.decode("utf-8", "replace"), data
    return RedisItem(Row(*place, value, head.created, head.updated), head)


def _damaged(place: Place) -> DamagedRowError:
    return DamagedRowError(
        f"The item {place[1]!r} in {place[0]} is damaged: its head or its value is missing, or not "
        "what was written. Put or delete the item, or restore the database from a backup."
    )
