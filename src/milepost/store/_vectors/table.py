"""A table of vectors in memory, on numpy.

Vectors are scaled to length 1 when they are added, so that cosine similarity is one product of a
matrix with a vector. Places of removed vectors are used again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from milepost.errors import MissingDependencyError

if TYPE_CHECKING:
    import numpy as np

    from milepost.store._vectors.embeddings import Packed

    Array = np.ndarray[Any, np.dtype[np.float32]]

Owner = TypeVar("Owner")
_FIRST_CAPACITY: Final = 64
_FRESH: Final = 256


def load_numpy() -> Any:
    """numpy, or an error that says how to get it."""
    try:
        import numpy
    except ImportError as error:
        raise MissingDependencyError(
            "Search by meaning in memory needs numpy: pip install 'milepost[search]'"
        ) from error
    return numpy


def unit_vectors(np: Any, rows: Any) -> Any:
    """The vectors at length 1, so that a product is a cosine."""
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    lengths[lengths == 0] = 1.0
    return rows / lengths


def unit_vector(np: Any, vector: Packed) -> Any:
    """The same of one."""
    return unit_vectors(np, np.frombuffer(vector, "<f4").reshape(1, -1))[0]


def best_of(
    found: Iterable[tuple[float, Owner]], key: Callable[[Owner], Hashable]
) -> list[tuple[float, Owner]]:
    """Each owner once, with the best score of its vectors; `key` tells owners apart."""
    best: dict[Hashable, tuple[float, Owner]] = {}
    for one in found:
        name = key(one[1])
        known = best.get(name)
        if known is None or one[0] > known[0]:
            best[name] = one
    return list(best.values())


class VectorTable(Generic[Owner]):
    """Vectors, each with the entry that it belongs to.

    Without `dims` they have the length of the first.
    """

    def __init__(self, dims: int = 0) -> None:
        self._dims = dims
        self._matrix: Array = self._empty()
        self.owners: list[Owner | None] = []
        self._free: list[int] = []
        self._fresh: dict[int, bytes] = {}
        """Not yet in the matrix: taking many in at once costs much less."""

    def _empty(self) -> Array:
        np = self._np
        matrix: Array = np.zeros((_FIRST_CAPACITY, self._dims), np.float32)
        return matrix

    @property
    def _np(self) -> Any:  # not an attribute: a module cannot be copied
        return load_numpy()

    def add(self, vectors: Sequence[Packed], owner: Owner) -> tuple[int, ...]:
        """Take vectors in; their places."""
        return tuple([self._add(vector, owner) for vector in vectors])

    def _add(self, vector: Packed, owner: Owner) -> int:
        if not self._dims:
            self._dims = len(vector) // 4
            self._matrix = self._empty()
        if self._free:
            at = self._free.pop()
            self.owners[at] = owner
        else:
            at = len(self.owners)
            self.owners.append(owner)
        self._fresh[at] = vector
        if len(self._fresh) >= _FRESH:
            self._take_in()
        return at

    def _take_in(self) -> None:
        np = self._np
        if len(self.owners) > len(self._matrix):
            grown = np.zeros((2 * len(self.owners), self._dims), np.float32)
            grown[: len(self._matrix)] = self._matrix
            self._matrix = grown
        if self._fresh:
            joined = np.frombuffer(b"".join(self._fresh.values()), "<f4")
            rows = joined.reshape(-1, self._dims)
            self._matrix[list(self._fresh)] = unit_vectors(np, rows)
            self._fresh.clear()

    def remove(self, places: Iterable[int]) -> None:
        """Let vectors go."""
        for at in places:
            self.owners[at] = None
            self._fresh.pop(at, None)
            self._free.append(at)

    def scored(self, vector: Packed, places: Sequence[int]) -> list[tuple[float, Owner]]:
        """How near the vectors at these places are to this one; those that are gone are left
        out."""
        if not places:
            return []
        self._take_in()
        scores = self._matrix[places] @ unit_vector(self._np, vector)
        return self._owned(scores.tolist(), places)

    def from_nearest(self, vector: Packed, count: int) -> Iterator[list[tuple[float, Owner]]]:
        """All vectors in portions, unsorted, each nearer to this one than what follows: at least
        the `count` nearest, then five times as many each time."""
        if not self.owners:
            return
        self._take_in()
        np = self._np
        scores = self._matrix[: len(self.owners)] @ unit_vector(np, vector)
        scores[self._free] = -np.inf
        scores[np.isnan(scores)] = -np.inf  # a damaged vector, which is no reason to miss others
        above = np.inf
        while count < len(scores):
            last = len(scores) - count
            lowest = np.partition(scores, last)[last]
            places = np.flatnonzero((scores >= lowest) & (scores < above))
            yield self._owned(scores[places].tolist(), places.tolist())
            above, count = lowest, 5 * count
        places = np.flatnonzero(scores < above)
        yield self._owned(scores[places].tolist(), places.tolist())

    def _owned(self, scores: Iterable[float], places: Iterable[int]) -> list[tuple[float, Owner]]:
        return [
            (score, owner)
            for score, at in zip(scores, places, strict=True)
            if (owner := self.owners[at]) is not None
        ]
