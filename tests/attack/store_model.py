"""What the attack puts into a store: few keys, values that say who wrote them, exact meanings.

Everything about an item follows from its token, which is written once. So a check that has only
the history knows what an item must look like, and how near it is to a query.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

ROOT = "attack"
NAMESPACES = ((ROOT, "a"), (ROOT, "a", "deep"), (ROOT, "b"))
KEYS = ("k0", "k1", "k2")
TWINS = ("left", "right")
"""Keys of one namespace that are only ever written together."""
TWIN_SPACE = (ROOT, "twins")
KINDS = 3


class ItemKey(NamedTuple):
    """Where an item is."""

    namespace: tuple[str, ...]
    key: str

    def __str__(self) -> str:
        return "/".join(self.namespace) + ":" + self.key


SINGLES = tuple(ItemKey(namespace, key) for namespace in NAMESPACES for key in KEYS)
PAIR = tuple(ItemKey(TWIN_SPACE, key) for key in TWINS)
ITEMS = {str(item): item for item in (*SINGLES, *PAIR)}


def value_of(token: str) -> dict[str, Any]:
    """The value that is put with this token."""
    return {"token": token, "text": text_of(token), "kind": kind_of(token)}


def text_of(token: str) -> str:
    """What is embedded. `new~old` says the same as `old`, whose vector can stay."""
    return f"what {token.rpartition('~')[2]} has to say"


def kind_of(token: str) -> int:
    """A field to filter by."""
    return hashlib.sha256(token.encode()).digest()[0] % KINDS


class Model(NamedTuple):
    """An embedding model: texts are points on a sphere, at random but always the same."""

    name: str
    dims: int

    def vector(self, text: str) -> tuple[float, ...]:
        return _vector(self.name, self.dims, text)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [list(self.vector(text)) for text in texts]

    def score(self, query: str, text: str) -> float:
        """The cosine similarity that a search must report."""
        return sum(map(float.__mul__, self.vector(query), self.vector(text)))

    def index(self) -> dict[str, Any]:
        """The store's setting."""
        return {"embed": self.embed, "dims": self.dims, "model": self.name, "fields": ["text"]}


@lru_cache(maxsize=50_000)
def _vector(name: str, dims: int, text: str) -> tuple[float, ...]:
    drawn = hashlib.shake_256(f"{name}\0{text}".encode()).digest(4 * dims)
    numbers = [one / 2**31 - 1 for one in struct.unpack(f"<{dims}I", drawn)]
    length = math.sqrt(sum(one * one for one in numbers))
    return tuple(one / length for one in numbers)


MODELS = {model.name: model for model in (Model("old", 8), Model("new", 8), Model("wide", 12))}
FIRST_MODEL = "old"
