"""Where a store on Redis keeps its items: the keys, and the head of an item.

All items whose namespaces begin with the same label, their root, share one hash tag, so they lie
in one slot of a cluster, and one script reads or changes any of them. For each root:

    m   hash      counters and notes: `seq` (changes so far), `deleted` (the highest version of
                  what was deleted), `root` (a token that identifies the root), `current` and
                  `coming` (the generations of its vectors)
    s   sorted    its namespaces that have items, as text, all with the score 0
    x   sorted    items that expire, by when
    a   sorted    marks of items in the current generation (`marks.py`)
    v   hash      vectors of the current generation
    ca  cv        the same of the coming generation

and for each namespace:

    h   hash      by key, the head of an item: what is stored about it beside its value
    b   hash      by key, the value
    o   sorted    keys by when they were last put

Two keys belong to no root: `meta`, notes about the whole store, and `roots`, a hash with all roots.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias
from urllib.parse import quote

from milepost.errors import DamagedRowError
from milepost.store._core import namespaces
from milepost.store._core.records import Namespace
from milepost.store._core.tasks import Index, Row

Place: TypeAlias = tuple[Namespace, str]


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

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        # No root has this tag: in those of roots an exclamation mark is escaped.
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

    def _start(self, root: str) -> str:
        # Escaped, so that a brace in a label neither ends the hash tag nor begins another one.
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


@dataclass(frozen=True, slots=True)
class Head:
    """Times are in microseconds; `updated` is also the version."""

    created: int
    updated: int
    ttl: int | None
    expires: int | None
    nonce: str
    """Made for one batch of writes: tells whether it was stored, if its answer was lost."""
    index: Index
    stored: bytes = b""
    """As it was read."""

    def dump(self) -> bytes:
        index = "" if self.index is None else json.dumps(self.index)
        times = f"{self.created} {self.updated} {self.ttl or 0} {self.expires or 0}"
        return f"{times} {self.nonce} {index}".encode()

    def is_expired(self, now: int) -> bool:
        """Whether the item has expired."""
        return self.expires is not None and self.expires <= now


def parsed(place: Place, stored: bytes | None) -> Head | None:
    """The head of an item, from what is stored; None if there is no item."""
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
    """A value as it is stored: its kind, and what the serializer made of it."""
    return data[0].encode() + b":" + data[1]


def to_row(place: Place, head: Head, body: bytes | None) -> Row:
    """An item as the core wants it."""
    if body is None:
        raise _damaged(place)
    kind, _, data = body.partition(b":")
    return Row(*place, (kind.decode("utf-8", "replace"), data), head.created, head.updated)


def _damaged(place: Place) -> DamagedRowError:
    return DamagedRowError(
        f"The item {place[1]!r} in {place[0]} is damaged: its head or its value is missing, or not "
        "what was written. Put or delete the item, or restore the database from a backup."
    )
