"""Which vectors belong to which model.

Vectors of two models cannot be compared, so the database remembers the model and its dims, and the
table that holds its vectors. A reindex fills a table for the next generation and then switches
over; until then searches go on with the old one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from milepost.errors import DamagedRowError, IndexMismatchError
from milepost.sql.operations import Operation, Query, Run
from milepost.store.embeddings import Embedder
from milepost.store.sql import statements as sql
from milepost.store.sql.statements import Speech
from milepost.store.sql.vectors import VectorIndex


@dataclass(frozen=True, slots=True)
class Generation:
    """Vectors of one model."""

    number: int
    dims: int
    model: str

    @property
    def table(self) -> str:
        """Where they are."""
        return f"milepost_vectors_{int(self.number)}"

    @property
    def twice(self) -> tuple[int, int]:
        """The parameters of the clause that says whether an item's vectors are up to date."""
        return self.number, self.number

    def fits(self, embedder: Embedder) -> bool:
        """Whether this embedder makes such vectors."""
        return self.dims == embedder.dims and self.model == embedder.model

    def dump(self) -> str:
        """For the meta table."""
        return json.dumps([self.number, self.dims, self.model])


class Generations:
    """What the database knows about its vectors."""

    def __init__(
        self, speech: Speech, embedder: Embedder | None, vectors: VectorIndex | None
    ) -> None:
        self._speech = speech
        self._embedder = embedder
        self._vectors = vectors
        self.current: Generation | None = None
        self.coming: Generation | None = None

    @property
    def tables(self) -> list[str]:
        """All tables of vectors."""
        return [one.table for one in (self.current, self.coming) if one is not None]

    @property
    def exist(self) -> bool:
        """Whether there are vectors at all."""
        return self.current is not None or self.coming is not None

    @property
    def target(self) -> Generation:
        """Where new vectors go: to the generation that this store's model makes."""
        fitting = self._fitting()
        if fitting is None:
            raise self._mismatch()
        return fitting

    def _fitting(self) -> Generation | None:
        if self._embedder is not None:
            for one in (self.current, self.coming):
                if one is not None and one.fits(self._embedder):
                    return one
        return None

    @property
    def marks(self) -> tuple[int, int]:
        """What an item is marked with that is put now: `indexed` and `reindexed`."""
        target = self._fitting()
        if target is None:
            return 0, 0
        return (target.number, 0) if target is self.current else (0, target.number)

    def check_writable(self) -> None:
        """Refuse vectors of a model that the store does not know."""
        _ = self.target

    def load(self, *, create: bool = False) -> Operation[None]:
        """Read what the database knows; the first store with an index lays its table."""
        rows = yield Query(self._speech.dress(sql.META))
        known = dict(rows)
        self.current = _parsed(known.get("index"))
        self.coming = _parsed(known.get("reindex"))
        if create and self.current is None and self._embedder is not None:
            self.current = Generation(1, self._embedder.dims, self._embedder.model)
            yield from self.lay(self.current)
            yield from self.record("index", self.current)

    def for_search(self) -> Generation:
        """The generation to search in, if this store's model has made it."""
        current, embedder = self.current, self._embedder
        if current is None or embedder is None or not current.fits(embedder):
            raise self._mismatch()
        return current

    def lay(self, generation: Generation) -> Operation[None]:
        """Create the table of a generation."""
        assert self._vectors is not None
        for statement in self._vectors.create(generation.table, generation.dims):
            yield Run(statement)

    def record(self, name: str, generation: Generation | None) -> Operation[None]:
        """Remember a generation, or forget it."""
        if generation is None:
            yield Run(self._speech.dress(sql.UNSET_META), (name,))
        else:
            yield Run(self._speech.dress(sql.SET_META), (name, generation.dump()))

    def _mismatch(self) -> IndexMismatchError:
        current, embedder = self.current, self._embedder
        if current is None or embedder is None:
            return IndexMismatchError("The store has no vectors. Call reindex() to make them.")
        return IndexMismatchError(
            f"The store's vectors were made with the model {current.model!r} of {current.dims} "
            f"dims, but its index now says {embedder.model!r} of {embedder.dims} dims; the two "
            "cannot be compared. Call reindex() to make all vectors anew, open the store with the "
            "index that it was made with, or, if it is the same model under another name, say so "
            f"with index={{'model': {current.model!r}, ...}}. Until then items can be read, and "
            "put with index=False."
        )


def _parsed(text: Any) -> Generation | None:
    if text is None:
        return None
    try:
        number, dims, model = json.loads(text)
        return Generation(int(number), int(dims), str(model))
    except (TypeError, ValueError) as error:
        raise DamagedRowError(
            f"The store's note of which model made its vectors is damaged: {text!r} (table "
            "`milepost_store_meta`). Restore the row from a backup; items are not concerned."
        ) from error
