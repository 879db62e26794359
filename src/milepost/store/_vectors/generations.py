"""Which vectors belong to which model, as far as it does not depend on the database.

Vectors of two models cannot be compared, so a database remembers the model and its dims: a
generation. One is current, at most one is coming, and no search compares vectors of two.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from milepost.errors import DamagedRowError, IndexMismatchError, ReindexConflict
from milepost.store._vectors.embeddings import Embedder

LACKING: Final = -1
"""The mark of an item whose vectors, of the current generation, have yet to be made."""
PROBE: Final = "probe_"
"""Begins the name of a note: what the model of a generation makes of two texts."""
NO_MARKS: Final = (0, 0)
"""Of an item that was put where there are no vectors."""


@dataclass(frozen=True, slots=True)
class Generation:
    """Vectors of one model."""

    number: int
    dims: int
    model: str

    @property
    def table(self) -> str:
        """The name of the table with the vectors."""
        return f"milepost_vectors_{int(self.number)}"

    def fits(self, embedder: Embedder) -> bool:
        """Whether the embedder has the model and the dims of this generation."""
        return self.dims == embedder.dims and self.model == embedder.model

    def dump(self) -> str:
        """The generation as a cell of the meta table."""
        return json.dumps([self.number, self.dims, self.model])


@dataclass(frozen=True, slots=True)
class Generations:
    """What the database knows about its vectors, during one transaction."""

    current: Generation | None
    coming: Generation | None
    """The generation that a reindex is making."""
    is_mine: bool
    """Whether this store has begun the coming generation."""
    lacks: bool
    """Whether there are items that lack vectors of the current generation."""
    embedder: Embedder | None
    was_fitting: bool
    """Whether this store's model has made the current vectors, or coming ones, at some time."""
    probed: frozenset[int]
    """The generations of models without a name that were probed (`reindex.py`)."""
    matches: Mapping[int, bool]
    """Probed generation → whether this store's model makes its vectors."""

    @property
    def tables(self) -> list[str]:
        return [one.table for one in (self.current, self.coming) if one is not None]

    @property
    def target(self) -> Generation | None:
        """Where this store's vectors go: to a generation that its model makes; None if there is
        none."""
        embedder = self.embedder
        if embedder is None:
            return None
        coming = self.coming if self.can_resume() else None
        if coming is not None and not embedder.is_named:
            return coming
        return self.current if self.is_current() else coming

    @property
    def marks(self) -> tuple[int, int]:
        """What an item is marked with that is put now: `indexed` and `reindexed`."""
        target = self.target
        if target is None:
            return (LACKING, 0) if self.was_fitting else NO_MARKS
        if target is self.current:
            return target.number, 0
        return (LACKING if self.current is not None else 0), target.number

    def check_writable(self) -> None:
        """Refuse to put what this store should embed and never could."""
        if self.target is None and not self.was_fitting:
            raise self._mismatch()

    def for_search(self) -> Generation:
        """The generation to search in, if this store's model has made it."""
        if self.current is None or not self.is_current():
            raise self._mismatch()
        return self.current

    def is_current(self) -> bool:
        """Whether this store's model has made the current generation."""
        current, embedder = self.current, self.embedder
        if current is None or embedder is None or not current.fits(embedder):
            return False
        if embedder.is_named or current.number not in self.probed:
            return True
        return self.matches.get(current.number, False)

    def check_verified(self) -> None:
        """Unverified if the current generation may be that of another model with this name."""
        current, embedder = self.current, self.embedder
        if current is None or embedder is None or not current.fits(embedder) or embedder.is_named:
            return
        if current.number in self.probed and current.number not in self.matches:
            raise Unverified(current.number)

    def can_resume(self) -> bool:
        """Whether this store can go on with the coming generation.

        Models that only the name of a function identifies may differ between two stores.
        """
        coming, embedder = self.coming, self.embedder
        if coming is None or embedder is None or not coming.fits(embedder):
            return False
        return embedder.is_named or self.is_mine

    def needs_probe(self, number: int) -> bool:
        """Whether a generation is to be probed: this store's model has no name to know it by."""
        assert self.embedder is not None
        return not self.embedder.is_named and number not in self.probed

    def is_making(self, number: int) -> bool:
        """Whether this generation is the coming one; False if it is the current one by now.

        ReindexConflict if a later reindex has taken its place.
        """
        current, coming, embedder = self.current, self.coming, self.embedder
        assert embedder is not None
        if coming is not None and coming.number == number:
            return True
        if current is not None and (
            current.number == number or (embedder.is_named and self.is_current())
        ):
            return False
        later = coming or current
        assert later is not None
        raise ReindexConflict(
            f"Another reindex(), to the model {later.model!r} of {later.dims} dims, began after "
            f"this one to {embedder.model!r} of {embedder.dims} dims. The later one counts, and "
            "what this one has made is gone. If this store's model is the one to keep, call "
            "reindex() again after the other one has ended; if the two models are the same, give "
            "both the same index={'model': ...}, and they help each other."
        )

    def to_fill(self, number: int | None) -> Generation | None:
        """The coming generation, if it has this number, or without a number the current one, if
        this store's model has made it; None if others have made another one meanwhile."""
        if number is None:
            return self.current if self.is_current() else None
        return self.coming if self.is_making(number) else None

    def _mismatch(self) -> IndexMismatchError:
        current, embedder = self.current, self.embedder
        if current is None or embedder is None:
            return IndexMismatchError("The store has no vectors. Call reindex() to make them.")
        if current.fits(embedder):
            return IndexMismatchError(
                f"The store's vectors were made with another model than this store's, although "
                f"both are called {current.model!r} and have {current.dims} dims: the same texts "
                "have other vectors. Call reindex() to rebuild all vectors, or open the store "
                "with the index that it was made with. Name models with index={'model': ...}. "
                "Until then items can be read, and put with index=False."
            )
        return IndexMismatchError(
            f"The store's vectors were made with the model {current.model!r} of {current.dims} "
            f"dims, but its index now says {embedder.model!r} of {embedder.dims} dims; the two "
            "cannot be compared. Call reindex() to rebuild all vectors, open the store with the "
            "index that it was made with, or, if it is the same model under another name, say so "
            f"with index={{'model': {current.model!r}, ...}}. Until then items can be read, and "
            "put with index=False."
        )


class Unverified(Exception):
    """It has to be found out whether this store's model makes the vectors of a generation."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class RegistryState:
    """What one store knows about itself and the generations, beside what the database knows."""

    def __init__(self, embedder: Embedder | None) -> None:
        self.embedder = embedder
        self.maker = uuid.uuid4().hex
        """Identifies this store among others."""
        self.was_fitting = False
        self.has_vectors = False
        """Whether there were vectors when this store last read the registry."""
        self._matches: dict[int, bool] = {}

    def known(self, notes: Mapping[str, Any]) -> Generations:
        """The generations, from the notes of the database."""
        current, coming = _parsed(notes.get("index")), _parsed(notes.get("reindex"))
        is_mine = coming is not None and notes.get("reindex_maker") == self.maker
        found = Generations(
            current,
            coming,
            is_mine,
            "lacking" in notes,
            self.embedder,
            self.was_fitting,
            frozenset(int(name[len(PROBE) :]) for name in notes if name.startswith(PROBE)),
            self._matches,
        )
        self.has_vectors = bool(found.tables)
        if found.target is not None:
            self.was_fitting = True
        return found

    def first(self) -> Generation:
        """The generation of the first store with an index."""
        assert self.embedder is not None
        return Generation(1, self.embedder.dims, self.embedder.model)

    def after(self, found: Generations) -> Generation:
        """The generation that a reindex begins."""
        assert self.embedder is not None
        # A number is never used twice: others may still know vectors by it.
        last = max((one.number for one in (found.current, found.coming) if one), default=0)
        return Generation(last + 1, self.embedder.dims, self.embedder.model)

    def note_match(self, number: int, matches: bool) -> None:
        """Whether this store's model is the one that makes a generation."""
        self._matches[number] = matches


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
