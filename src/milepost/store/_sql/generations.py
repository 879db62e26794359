"""Which vectors belong to which model.

Vectors of two models cannot be compared, so the database remembers the model and its dims, and the
table that holds its vectors: a generation. A reindex fills a table for the next generation and then
switches over; until then searches go on with the old one.

A transaction that uses vectors reads the registry first (`load`), and thereby locks the registry
until the transaction ends. A reindex locks the registry exclusively when it begins a generation and
when it switches (`take`), which waits for all of those transactions: so no table is dropped while
it is used, and nothing is written to the old generation after the last look at it. SQLite has one
writer at a time, and a reader sees one state of the file.

A store whose model did not make the current generation cannot embed for it. What it puts is marked
as lacking vectors (`LACKING`), and is embedded by the next search of a store that can
(`reindex.py`).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from milepost._db.operations import Execute, Operation, Queries, Query
from milepost.errors import DamagedRowError, IndexMismatchError, ReindexConflict
from milepost.store._sql import statements as sql
from milepost.store._sql.statements import LACKING, StoreSql
from milepost.store._sql.vectors import VectorIndex
from milepost.store._vectors.embeddings import Embedder

_PROBE: Final = "probe_"
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
        """Where they are."""
        return f"milepost_vectors_{int(self.number)}"

    @property
    def twice(self) -> tuple[int, int]:
        """The parameters of the clause that says whether an item's vectors are up to date."""
        return self.number, self.number

    def fits(self, embedder: Embedder) -> bool:
        """Whether this embedder makes such vectors, as far as names and dims tell."""
        return self.dims == embedder.dims and self.model == embedder.model

    def dump(self) -> str:
        """For the meta table."""
        return json.dumps([self.number, self.dims, self.model])


@dataclass(frozen=True, slots=True)
class Generations:
    """What the database knows about its vectors, during one transaction."""

    current: Generation | None
    coming: Generation | None
    """What a reindex is making."""
    is_mine: bool
    """Whether this store has begun the coming generation."""
    lacks: bool
    """Whether there are items that lack vectors of the current generation."""
    embedder: Embedder | None
    was_fitting: bool
    """Whether this store's model has made the current vectors, or coming ones, at some time."""
    probed: frozenset[int]
    """The generations of models without a name that were probed (`probing.py`)."""
    verdicts: Mapping[int, bool]
    """Of those, whether this store's model is the one that makes them."""

    @property
    def tables(self) -> list[str]:
        """All tables of vectors."""
        return [one.table for one in (self.current, self.coming) if one is not None]

    @property
    def exist(self) -> bool:
        """Whether there are vectors at all."""
        return self.current is not None or self.coming is not None

    @property
    def target(self) -> Generation | None:
        """Where this store's vectors go: to a generation that its model makes; None if there is
        none."""
        embedder = self.embedder
        if embedder is None:
            return None
        coming = self.coming if self._may_make(self.coming) else None
        if coming is not None and not embedder.is_named:
            return coming
        return self.current if self.is_current() else coming

    def _may_make(self, coming: Generation | None) -> bool:
        """Whether this store's vectors may go to the coming generation.

        Models that only the name of a function identifies may differ between two stores.
        """
        embedder = self.embedder
        if coming is None or embedder is None or not coming.fits(embedder):
            return False
        return embedder.is_named or self.is_mine

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
        return self.verdicts.get(current.number, False)

    def check_verified(self) -> None:
        """Unverified if the current generation may be that of another model with this name."""
        current, embedder = self.current, self.embedder
        if current is None or embedder is None or not current.fits(embedder) or embedder.is_named:
            return
        if current.number in self.probed and current.number not in self.verdicts:
            raise Unverified(current.number)

    def can_resume(self) -> bool:
        """Whether this store can go on with the coming generation."""
        return self._may_make(self.coming)

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


class VectorRegistry:
    """Reads and writes what the database knows about its vectors."""

    def __init__(
        self, store_sql: StoreSql, embedder: Embedder | None, vectors: VectorIndex | None
    ) -> None:
        self._store_sql = store_sql
        self._embedder = embedder
        self._vectors = vectors
        self._maker = uuid.uuid4().hex
        """Identifies this store among others."""
        self._was_fitting = False
        self._verdicts: dict[int, bool] = {}
        self.exist = False
        """Whether there were vectors when this store last looked."""

    def load(self, *, reading: bool = False) -> Operation[Generations]:
        """What the database knows, and will know until the transaction ends."""
        meta = Query(self._store_sql.render(sql.META))
        if reading and self._store_sql.share is not None:
            # A reader has one snapshot. It must not be older than the lock.
            rows = (yield Queries([Query(self._store_sql.share), meta]))[1]
        else:
            rows = yield meta
        return self._known(dict(rows))

    def take(self) -> Operation[Generations]:
        """The same; other transactions cannot read the registry until this one ends."""
        if self._store_sql.take is not None:
            yield Execute(self._store_sql.take)
        return (yield from self.load())

    def _known(self, known: dict[str, Any]) -> Generations:
        current, coming = _parsed(known.get("index")), _parsed(known.get("reindex"))
        is_mine = coming is not None and known.get("reindex_maker") == self._maker
        found = Generations(
            current,
            coming,
            is_mine,
            "lacking" in known,
            self._embedder,
            self._was_fitting,
            frozenset(int(name[len(_PROBE) :]) for name in known if name.startswith(_PROBE)),
            self._verdicts,
        )
        self.exist = found.exist
        if found.target is not None:
            self._was_fitting = True
        return found

    def is_set_up(self) -> Operation[bool]:
        """Whether there is a generation, or the store has no index and needs none."""
        found = yield from self.load()
        return found.current is not None or self._embedder is None

    def set_up(self) -> Operation[None]:
        """The first store with an index lays the table of the first generation."""
        is_set_up = yield from self.is_set_up()
        if self._embedder is not None and not is_set_up:
            first = Generation(1, self._embedder.dims, self._embedder.model)
            yield from self._lay(first)
            yield from self._record("index", first.dump())
            self.exist = self._was_fitting = True

    def begin(self) -> Operation[tuple[int, bool]]:
        """Begin a generation, or go on with the one that is coming; its number, and whether it has
        to be probed."""
        found = yield from self.take()
        if found.coming is not None and found.can_resume():
            number = found.coming.number
            return number, not self._embedder_is_named and number not in found.probed
        embedder = self._embedder
        assert embedder is not None
        # A number is never used twice: others may still know a table by it.
        last = max((one.number for one in (found.current, found.coming) if one), default=0)
        coming = Generation(last + 1, embedder.dims, embedder.model)
        if found.coming is not None:
            yield from self._drop(found.coming)
        yield from self._lay(coming)
        yield from self._record("reindex", coming.dump())
        yield from self._record("reindex_maker", self._maker)
        self.exist = self._was_fitting = True
        return coming.number, not self._embedder_is_named

    @property
    def _embedder_is_named(self) -> bool:
        return self._embedder is None or self._embedder.is_named

    def note_probe(self, number: int, probe: str) -> Operation[None]:
        """Remember what this store's model, which has no name, makes of the texts of a probe."""
        found = yield from self.load()
        if found.is_making(number):
            yield from self._record(f"{_PROBE}{number}", probe)
        self._verdicts[number] = True

    def probe_of(self, number: int) -> Operation[str | None]:
        """What the model of a generation has made of them."""
        rows = yield Query(self._store_sql.render(sql.META_OF), (f"{_PROBE}{number}",))
        return None if not rows else str(rows[0][0])

    def judge(self, number: int, verdict: bool) -> None:
        """Whether this store's model is the one that makes a generation."""
        self._verdicts[number] = verdict

    def switch(self, found: Generations) -> Operation[None]:
        """Make the coming generation the current one; what is not in it lacks vectors.

        The registry has been taken.
        """
        coming, old = found.coming, found.current
        assert coming is not None
        yield from self._record("index", coming.dump())
        for name in ("reindex", "reindex_maker"):
            yield Execute(self._store_sql.render(sql.UNSET_META), (name,))
        yield Execute(self._store_sql.render(sql.HAVE_VECTORS), (coming.number, coming.number))
        yield Execute(self._store_sql.render(sql.LACK_VECTORS), (coming.number,))
        if old is not None:
            yield from self._drop(old)

    def _drop(self, generation: Generation) -> Operation[None]:
        yield Execute(f"DROP TABLE IF EXISTS {generation.table}")
        yield Execute(self._store_sql.render(sql.UNSET_META), (f"{_PROBE}{generation.number}",))

    def _lay(self, generation: Generation) -> Operation[None]:
        assert self._vectors is not None
        for statement in self._vectors.create(generation.table, generation.dims):
            yield Execute(statement)

    def _record(self, name: str, value: str) -> Operation[None]:
        yield Execute(self._store_sql.render(sql.SET_META), (name, value))


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
