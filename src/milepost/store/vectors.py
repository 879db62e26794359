"""A table of vectors in memory, on numpy.

Vectors are scaled to length 1 when they are added, so that cosine similarity is one product of a
matrix with a vector. Places of removed vectors are used again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from milepost.errors import MissingDependencyError

if TYPE_CHECKING:
    import numpy as np

    from milepost.store.embeddings import Vector

    Array = np.ndarray[Any, np.dtype[np.float32]]

Owner = TypeVar("Owner")
_FIRST_CAPACITY: Final = 64


def load_numpy() -> Any:
    """numpy, or an error that says how to get it."""
    try:
        import numpy
    except ImportError as error:
        raise MissingDependencyError(
            "Search by meaning in memory needs numpy: pip install 'milepost[search]'"
        ) from error
    return numpy


class VectorTable(Generic[Owner]):
    """Vectors, each with the entry that it belongs to."""

    def __init__(self, dims: int) -> None:
        self._np = load_numpy()
        self._dims = dims
        self._matrix: Array = self._np.zeros((_FIRST_CAPACITY, dims), self._np.float32)
        self.owners: list[Owner | None] = []
        self._free: list[int] = []

    def add(self, vectors: Sequence[Vector], owner: Owner) -> tuple[int, ...]:
        """Take vectors in; their places."""
        return tuple(self._add(vector, owner) for vector in vectors)

    def _add(self, vector: Vector, owner: Owner) -> int:
        if self._free:
            at = self._free.pop()
            self.owners[at] = owner
        else:
            at = len(self.owners)
            self.owners.append(owner)
            if at == len(self._matrix):
                grown = self._np.zeros((2 * at, self._dims), self._np.float32)
                grown[:at] = self._matrix
                self._matrix = grown
        self._matrix[at] = self._unit(vector)
        return at

    def remove(self, places: Iterable[int]) -> None:
        """Let vectors go."""
        for at in places:
            self.owners[at] = None
            self._free.append(at)

    def clear(self) -> None:
        """Let all go."""
        self.owners.clear()
        self._free.clear()

    def scores(self, vector: Vector, places: Sequence[int] | None) -> list[float]:
        """How near each vector is to this one: those at `places`, or all with an owner of None
        for those that are gone."""
        used = self._matrix[: len(self.owners)] if places is None else self._matrix[places]
        found: list[float] = (used @ self._unit(vector)).tolist()
        return found

    def nearest(self, vector: Vector, count: int) -> list[tuple[float, Owner]]:
        """At least the `count` nearest of all, unsorted, with ties; gone ones are left out."""
        scores = self._matrix[: len(self.owners)] @ self._unit(vector)
        for at in self._free:
            scores[at] = -self._np.inf
        if count < len(scores):
            bound = self._np.partition(scores, len(scores) - count)[len(scores) - count]
            places = self._np.flatnonzero(scores >= bound)
        else:
            places = self._np.arange(len(scores))
        found = zip(scores[places].tolist(), places.tolist(), strict=True)
        return [(score, owner) for score, at in found if (owner := self.owners[at]) is not None]

    def _unit(self, vector: Vector) -> Array:
        array: Array = self._np.asarray(vector, self._np.float64)
        length = float(self._np.sqrt(array @ array))
        unit: Array = (array / length if length else array).astype(self._np.float32)
        return unit
