"""Making vectors for items that are stored already, in small portions, while others use the store:
for all items (`reindex_all`), or for those whose putter could not make them (`embed_lacking`).

Items are marked with the generation of their vectors. A reindex goes on until every item has the
mark of the coming generation, but for a few that others have put in the meantime; then the store
switches over. A reindex that is broken off and started again goes on where it was.

Vectors are made between transactions, since a model may take long. They are stored only for items
that are still what was read. How a database does that is its `Reindexer`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from math import hypot
from operator import mul
from struct import unpack
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from milepost._internal import log
from milepost._internal.progress import Progress, report
from milepost.errors import SerdeError
from milepost.store._core.tasks import (
    Embed,
    Index,
    Row,
    StoreRequests,
    Transact,
    vectors_of,
)

if TYPE_CHECKING:
    from milepost.store._core.core import StoreCore
    from milepost.store._vectors.embeddings import Packed
    from milepost.store._vectors.generations import RegistryState

R = TypeVar("R")
Work: TypeAlias = Generator[Any, Any, R]
"""What the engine of the store understands."""
Vectors: TypeAlias = "Mapping[str, Packed]"
"""By the texts that they are of."""

FEW: Final = 100
"""Items that may be left to be embedded after a switch; and so many are embedded at once then."""


class Incomplete(Exception):
    """Some items lack vectors that this store can make; make them, and search again."""

    def __init__(self, generation: int, where: Any = None) -> None:
        super().__init__(generation, where)
        self.generation = generation
        """Of the vectors that are lacking."""
        self.where = where
        """Where to look for them (`Reindexer.lacking`); None for everywhere."""


class Read(NamedTuple):
    """An item as it was read, and its texts that are embedded."""

    row: Row
    texts: Sequence[str]


class Reindexer(ABC):
    """What a database does while vectors are made, in a transaction each. A place is whatever
    `read` understands."""

    core: StoreCore
    state: RegistryState

    @abstractmethod
    def begin(self) -> Work[tuple[int, bool, int | None]]:
        """Begin a generation, or go on with the one that is coming; its number, whether it has to
        be probed, and how many items are to be done, if that is known."""

    @abstractmethod
    def note_probe(self, number: int, probe: str) -> Work[None]:
        """Remember what this store's model makes of the texts of a probe."""

    @abstractmethod
    def probe_of(self, number: int) -> Work[str | None]:
        """What the model of a generation has made of them."""

    @abstractmethod
    def stale(self, number: int, size: int) -> Work[list[Any]]:
        """Places of items without vectors of the coming generation; `size` of them, or all."""

    @abstractmethod
    def lacking(self, after: Any) -> Work[tuple[list[Any], Any]]:
        """At most `FEW` places of items without vectors of the current one, and what to go on
        with; None if there are no more."""

    @abstractmethod
    def read(self, places: list[Any]) -> Work[list[tuple[Row, Index]]]:
        """The items at these places that are there, and which of their paths are embedded."""

    @abstractmethod
    def store(self, number: int | None, found: list[Read], vectors: Vectors) -> Work[int | None]:
        """Store vectors of a generation (`Generations.to_fill`) and return of how many items; None
        if that is not to be filled any more."""

    @abstractmethod
    def finish(self, number: int, found: int, size: int) -> Work[bool]:
        """Make the coming generation the current one, if few items are left; `found` is how many
        `stale` found."""


def reindex_all(reindexer: Reindexer, progress: Progress | None, size: int) -> StoreRequests[int]:
    """Rebuild all vectors; returns the number of items."""
    number, is_new, left = yield Transact(reindexer.begin, write=True)
    if is_new:
        probe = _probe((yield Embed([*TEXTS])))
        yield Transact(partial(reindexer.note_probe, number, probe), write=True)
        reindexer.state.note_match(number, True)
    done = 0
    while True:
        places: list[Any] = yield Transact(partial(reindexer.stale, number, size), write=False)
        left = len(places) if left is None else left
        for at in range(0, len(places), size):
            some = places[at : at + size]
            found = yield from _read(reindexer, some, strict=True)
            vectors = yield from vectors_of(one.texts for one in found)
            stored = partial(reindexer.store, number, found, vectors)
            if (yield Transact(stored, write=True)) is None:
                return done
            done += len(some)
            report(progress, done, max(left, done))
        if (yield Transact(partial(reindexer.finish, number, len(places), size), write=True)):
            return done + (yield from embed_lacking(reindexer, strict=True))


def embed_lacking(
    reindexer: Reindexer, after: Any = None, *, strict: bool = False
) -> StoreRequests[int]:
    """Make the vectors that items lack; how many items it was.

    Unless it is `strict`, a failure leaves them for another time: a search must not fail because
    the text of some other item cannot be embedded.
    """
    done = 0
    while True:
        places, after = yield Transact(partial(reindexer.lacking, after), write=False)
        if places:
            found = yield from _read(reindexer, places, strict=strict)
            try:
                vectors = yield from vectors_of(one.texts for one in found)
            except Exception as error:
                if strict:
                    raise
                log.warning(log.STORE, "Items that lack vectors were not embedded: %s.", error)
                return done
            stored = partial(reindexer.store, None, found, vectors)
            done += (yield Transact(stored, write=True)) or 0
        if after is None:
            return done


def verify_model(reindexer: Reindexer, number: int) -> StoreRequests[None]:
    """Find out whether this store's model, which has no name, makes the vectors of a generation."""
    stored = yield Transact(partial(reindexer.probe_of, number), write=False)
    if stored is not None:
        made = yield Embed([*TEXTS])
        reindexer.state.note_match(number, _are_alike(stored, made))


def _read(reindexer: Reindexer, places: list[Any], *, strict: bool) -> StoreRequests[list[Read]]:
    found = []
    core = reindexer.core
    for row, index in (yield Transact(partial(reindexer.read, places), write=False)):
        try:
            found.append(Read(row, core.texts(core.plain_value(row), index)))
        except SerdeError as error:
            if strict:
                raise
            damaged = "Item '%s' in %s lacks its vectors and does not open: %s."
            log.warning(log.STORE, damaged, row.key, row.namespace, error)
    return found


# -- two models that have no name are distinguished by the vectors that they make of a few texts
#
# The name of a function says little about the model behind it. So the vectors of these texts are
# stored with what such a model has made, and a store whose model has no name either makes them
# again before it trusts that they are the same.

TEXTS: Final = ("milepost", "A cab faced a bad decade, and the abbey had a cafe.")
_ALIKE: Final = 0.99
"""A model behind a network does not give the same bits twice; two models give other angles."""


def _probe(vectors: Sequence[Packed]) -> str:
    """The vectors of the texts, for the database."""
    return " ".join(vector.hex() for vector in vectors)


def _are_alike(stored: str, vectors: Sequence[Packed]) -> bool:
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
