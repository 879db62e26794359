"""The keys of a store on Redis.

All items whose namespaces begin with the same label, their root, share one hash tag, so they lie
in one slot of a cluster, and one script reads or changes any of them. For each root:

    m   hash      counters and notes: `seq` (changes so far), `deleted` (the highest version of
                  what was deleted), `root` (identifies the root's life), `current` and `coming`
                  (the generations of its vectors)
    s   sorted    its namespaces that have items, as text, all with the score 0
    x   sorted    items that expire, by when
    a   sorted    marks of items in the current generation (`vectors.py`)
    v   hash      vectors of the current generation
    ca  cv        the same of the coming generation

and for each namespace:

    h   hash      by key, the head of an item (`heads.py`)
    b   hash      by key, the value
    o   sorted    keys by when they were last put

Two keys belong to no root: `meta`, notes about the whole store, and `roots`, a hash with all roots.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

from milepost.store._core import namespaces
from milepost.store._core.records import Namespace


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
