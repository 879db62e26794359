"""Tells apart two models that have no name, by the vectors that they make of a few texts.

The name of a function says little about the model behind it. So the vectors of these texts are
stored with what such a model has made, and a store whose model has no name either makes them again
before it trusts that they are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot
from operator import mul
from struct import unpack
from typing import Final

from milepost.store._vectors.embeddings import Packed

TEXTS: Final = ("milepost", "A cab faced a bad decade, and the abbey had a cafe.")
_ALIKE: Final = 0.99
"""A model behind a network does not give the same bits twice; two models give other angles."""


def dump(vectors: Sequence[Packed]) -> str:
    """The vectors of the texts, for the database."""
    return " ".join(vector.hex() for vector in vectors)


def alike(stored: str, vectors: Sequence[Packed]) -> bool:
    """Whether one model has made the stored vectors and these."""
    before = [bytes.fromhex(one) for one in stored.split(" ")]
    return len(before) == len(vectors) and all(map(_are_near, before, vectors))


def _are_near(one: Packed, other: Packed) -> bool:
    if len(one) != len(other):
        return False
    if one == other:
        return True
    first, second = (unpack(f"<{len(packed) // 4}f", packed) for packed in (one, other))
    lengths = hypot(*first) * hypot(*second)
    return lengths > 0 and sum(map(mul, first, second)) / lengths >= _ALIKE
