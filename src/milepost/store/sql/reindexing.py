"""Making all vectors anew, in small transactions, while the store is in use.

Items are marked with the generation of their vectors. The work goes on until every item has the
mark of the coming generation, also those that others have put in the meantime; then the store
switches over. Whoever breaks it off and starts again goes on where it was.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from milepost.sql.operations import Many, Operation, Query, Run
from milepost.store import namespaces
from milepost.store.sql import statements as sql
from milepost.store.sql.generations import Generation
from milepost.store.tasks import Embed, Program, Progress, Row, Transact

if TYPE_CHECKING:
    from milepost.store.sql.core import SqlCore


def reindexing(core: SqlCore, progress: Progress | None, size: int) -> Program[int]:
    """Make all vectors anew; how many items it was."""
    if core.embedder is None:
        raise ValueError("The store has no index. Make it with index={'embed': …, 'dims': …}.")
    left: int = yield Transact(lambda: _begin(core), write=True)
    done = 0
    while True:
        rows: list[Any] = yield Transact(lambda: _stale(core, size), write=False)
        if not rows:
            finished: bool = yield Transact(lambda: _finish(core), write=True)
            if finished:
                return done
            continue
        found = [_decoded(core, row) for row in rows]
        texts = list(dict.fromkeys(text for _, some in found for text in some))
        made = (yield Embed(texts, []))[0] if texts else ()
        vectors = dict(zip(texts, made, strict=True))
        yield Transact(
            lambda found=found, vectors=vectors: _store(core, found, vectors),  # type: ignore[misc]
            write=True,
        )
        done += len(rows)
        if progress is not None:
            progress(done, max(left, done))


def _begin(core: SqlCore) -> Operation[int]:
    generations, embedder = core.generations, core.embedder
    assert embedder is not None
    yield from generations.load()
    coming = generations.coming
    if coming is None or not coming.fits(embedder):
        last = max((one.number for one in (generations.current, coming) if one), default=0)
        if coming is not None:
            yield Run(f"DROP TABLE IF EXISTS {coming.table}")
        coming = generations.coming = Generation(last + 1, embedder.dims, embedder.model)
        yield from generations.lay(coming)
        yield from generations.record("reindex", coming)
    rows = yield Query(core.speech.dress(sql.COUNT_STALE), (coming.number,))
    return int(rows[0][0])


def _stale(core: SqlCore, size: int) -> Operation[list[Any]]:
    assert core.generations.coming is not None
    rows: list[Any] = yield Query(
        core.speech.dress(sql.STALE), (core.generations.coming.number, max(size, 1))
    )
    return rows


def _decoded(core: SqlCore, row: Any) -> tuple[Row, tuple[str, ...]]:
    stored = Row(
        namespaces.from_text(row[0]), row[1], (row[2], bytes(row[3])), int(row[4]), int(row[5])
    )
    index = json.loads(row[6]) if row[6] is not None else None
    return stored, core.texts(core.value(stored), index)


def _store(core: SqlCore, found: list[Any], vectors: dict[str, Any]) -> Operation[None]:
    coming = core.generations.coming
    assert coming is not None
    assert core.vectors is not None
    dress, pack = core.speech.dress, core.vectors.pack
    places = [(namespaces.to_text(row.namespace), row.key, row.updated) for row, _ in found]
    known = json.dumps([place[:2] for place in places])
    yield Run(dress(sql.VECTORS_OF.format(table=coming.table)), (known,))
    # An item that was put since is left for another round: its version is another one.
    yield Many(
        dress(sql.ADD_VECTOR_IF.format(table=coming.table)),
        [
            (pack(vectors[text]), *place)
            for place, (_, texts) in zip(places, found, strict=True)
            for text in texts
        ],
    )
    current = core.generations.current
    now = 0 if current is None else current.number
    yield Many(dress(sql.SET_REINDEXED), [(coming.number, now, *place) for place in places])


def _finish(core: SqlCore) -> Operation[bool]:
    generations = core.generations
    coming, old = generations.coming, generations.current
    assert coming is not None
    rows = yield Query(core.speech.dress(sql.COUNT_STALE), (coming.number,))
    if rows[0][0]:
        return False
    yield from generations.record("index", coming)
    yield from generations.record("reindex", None)
    if old is not None:
        yield Run(f"DROP TABLE IF EXISTS {old.table}")
    generations.current, generations.coming = coming, None
    return True
