"""Making vectors for items that are stored already, in small transactions, while others use the
store: for all items (`reindexing`), or for those whose putter could not make them
(`embed_lacking`).

Items are marked with the generation of their vectors. A reindex goes on until every item has the
mark of the coming generation, also those that others have put in the meantime; then the store
switches over. A reindex that is broken off and started again goes on where it was.

Vectors are made outside of transactions, since a model may take long. They are stored only for
items that are still what was read: their rows are locked, and their versions compared, first.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost._db.operations import Execute, ExecuteMany, Operation, Query
from milepost._internal import log
from milepost.errors import SerdeError
from milepost.store._core import namespaces
from milepost.store._core.tasks import Embed, Program, Progress, Row, Transact
from milepost.store._sql import statements as sql
from milepost.store._vectors import probing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from milepost.store._sql.core import SqlCore
    from milepost.store._vectors.embeddings import Packed
    from milepost.store._vectors.generations import Generation

_FEW = 100
"""Items that may be left to be embedded after a switch; and so many are embedded at once then."""


class _Read(NamedTuple):
    """An item, and its texts that are embedded."""

    row: Row
    texts: Sequence[str]

    @property
    def place(self) -> tuple[str, str]:
        return namespaces.to_text(self.row.namespace), self.row.key


def reindexing(core: SqlCore, progress: Progress | None, size: int) -> Program[int]:
    """Rebuild all vectors; returns the number of items."""
    if core.embedder is None:
        raise ValueError("The store has no index. Make it with index={'embed': …, 'dims': …}.")
    number, is_new, left = yield Transact(lambda: _begin(core), write=True)
    if is_new:
        probe = probing.dump((yield Embed(list(probing.TEXTS), []))[0])
        yield Transact(lambda: core.registry.note_probe(number, probe), write=True)
    done = 0
    while True:
        rows: list[Any] = yield Transact(lambda: _stale(core, number, size), write=False)
        if rows:
            found = [_decoded(core, row) for row in rows]
            vectors = yield from _embedded(found)
            is_made: bool = yield Transact(
                lambda found=found, vectors=vectors: _store(core, number, found, vectors),  # type: ignore[misc]
                write=True,
            )
            if not is_made:
                return done
            done += len(rows)
            if progress is not None:
                progress(done, max(left, done))
        if len(rows) < max(size, 1):
            finished: bool = yield Transact(lambda: _finish(core, number), write=True)
            if finished:
                return done + (yield from embed_lacking(core, strict=True))


def embed_lacking(core: SqlCore, *, strict: bool = False) -> Program[int]:
    """Make the vectors that items lack; how many items it was.

    Unless it is `strict`, a failure leaves them for another time: a search must not fail because
    the text of some other item cannot be embedded.
    """
    after = done = 0
    while True:
        rows: list[Any] = yield Transact(lambda after=after: _lacking(core, after), write=False)  # type: ignore[misc]
        if not rows:
            return done
        after = rows[-1][7]
        found = []
        for row in rows:
            try:
                found.append(_decoded(core, row))
            except SerdeError as error:
                if strict:
                    raise
                damaged = "Item '%s' in %s lacks its vectors and does not open: %s."
                log.warning(log.STORE, damaged, row[1], namespaces.from_text(row[0]), error)
        try:
            vectors = yield from _embedded(found)
        except Exception as error:
            if strict:
                raise
            log.warning(log.STORE, "Items that lack vectors were not embedded: %s.", error)
            return done
        completed: int = yield Transact(
            lambda found=found, vectors=vectors: _complete(core, found, vectors),  # type: ignore[misc]
            write=True,
        )
        done += completed
        if len(rows) < _FEW:
            return done  # what is put while this goes on is for the next one


def _embedded(found: Sequence[_Read]) -> Program[dict[str, Packed]]:
    texts = list(dict.fromkeys(text for one in found for text in one.texts))
    made = (yield Embed(texts, []))[0] if texts else ()
    return dict(zip(texts, made, strict=True))


def verifying(core: SqlCore, number: int) -> Program[None]:
    """Find out whether this store's model, which has no name, makes the vectors of a generation."""
    stored: str | None = yield Transact(lambda: core.registry.probe_of(number), write=False)
    if stored is not None:
        made = (yield Embed(list(probing.TEXTS), []))[0]
        core.registry.judge(number, probing.alike(stored, made))


def _begin(core: SqlCore) -> Operation[tuple[int, bool, int]]:
    number, is_new = yield from core.registry.begin()
    rows = yield Query(core.store_sql.render(sql.COUNT_STALE), (number,))
    return number, is_new, int(rows[0][0])


def _stale(core: SqlCore, number: int, size: int) -> Operation[list[Any]]:
    rows: list[Any] = yield Query(core.store_sql.render(sql.STALE), (number, max(size, 1)))
    return rows


def _lacking(core: SqlCore, after: int) -> Operation[list[Any]]:
    rows: list[Any] = yield Query(core.store_sql.render(sql.LACKING_ITEMS), (after, _FEW))
    return rows


def _decoded(core: SqlCore, row: Any) -> _Read:
    stored = Row(
        namespaces.from_text(row[0]), row[1], (row[2], bytes(row[3])), int(row[4]), int(row[5])
    )
    index = json.loads(row[6]) if row[6] is not None else None
    return _Read(stored, core.texts(core.value(stored), index))


def _store(
    core: SqlCore, number: int, found: Sequence[_Read], vectors: Mapping[str, Packed]
) -> Operation[bool]:
    """Store vectors of the coming generation; False if it is the current one by now."""
    known = yield from core.registry.load()
    if not known.is_making(number):
        return False
    assert known.coming is not None
    same = yield from _unchanged(core, found)
    yield from _replace(core, known.coming, same, vectors)
    now = 0 if known.current is None else known.current.number
    marks = [(number, now, *one.place) for one in same]
    yield ExecuteMany(core.store_sql.render(sql.SET_REINDEXED), marks)
    return True


def _complete(
    core: SqlCore, found: Sequence[_Read], vectors: Mapping[str, Packed]
) -> Operation[int]:
    """Store vectors of the current generation; of how many items."""
    known = yield from core.registry.load()
    # Another reindex may have switched meanwhile; it has seen to these items.
    if not known.is_current():
        return 0
    current = known.for_search()
    same = yield from _unchanged(core, found)
    yield from _replace(core, current, same, vectors)
    marks = [(current.number, *one.place) for one in same]
    yield ExecuteMany(core.store_sql.render(sql.SET_INDEXED), marks)
    return len(marks)


def _unchanged(core: SqlCore, found: Sequence[_Read]) -> Operation[list[_Read]]:
    """Those that are still what was read. They stay so until the transaction ends."""
    places = json.dumps([one.place for one in found])
    rows = yield Query(core.store_sql.render(sql.LOCK_ITEMS), (places,))
    versions = {(row[0], row[1]): row[2] for row in rows}
    return [one for one in found if versions.get(one.place) == one.row.updated]


def _replace(
    core: SqlCore, generation: Generation, found: Sequence[_Read], vectors: Mapping[str, Packed]
) -> Operation[None]:
    assert core.vectors is not None
    render, pack, table = core.store_sql.render, core.vectors.pack, generation.table
    places = json.dumps([one.place for one in found])
    yield Execute(render(sql.VECTORS_OF.format(table=table)), (places,))
    rows = [(pack(vectors[text]), *one.place) for one in found for text in one.texts]
    yield ExecuteMany(render(sql.ADD_VECTOR.format(table=table)), rows)


def _finish(core: SqlCore, number: int) -> Operation[bool]:
    # From here on no other transaction writes vectors.
    known = yield from core.registry.take()
    if not known.is_making(number):
        return True
    rows = yield Query(core.store_sql.render(sql.COUNT_STALE), (number,))
    if rows[0][0] > _FEW:
        return False
    # The few that were put since the last look are embedded after the switch: a store that is
    # written to all the time would have some at each attempt.
    yield from core.registry.switch(known)
    return True
