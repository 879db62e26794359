"""The statements that read checkpoints, values and writes: one of each, pages, all of a thread."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from milepost._db.redis.commands import RedisEffects
from milepost.checkpoint._redis.rows import (
    BLOB,
    CHECKPOINT,
    WRITE,
    Checkpoint,
    Rows,
    columns_of,
    field_of,
    key_of,
    parts,
)
from milepost.checkpoint._redis.thread_io import Range, after_one, writes_at
from milepost.checkpoint._sql.inline_writes import INLINE_WRITES

if TYPE_CHECKING:
    from milepost.checkpoint._redis.transaction import Tables
    from milepost.checkpoint._redis.view import ThreadView

_NO_END: Final = "\U0010ffff"
"""In place of an id: a listing starts with the newest checkpoint."""

# -- the first column in the answers to `found` and `rows_of`; checkpoints have 0, -1, -2, …

_VALUE: Final = 0
_WRITES: Final = 1
_ENTRY: Final = 2


class ReadStatements:
    """Answers the statements that read rows, with the columns of the SQL."""

    def __init__(self, tables: Tables) -> None:
        self.view = tables.view

    # -- reading

    def checkpoint(self, id: str, ns: str, cp: str) -> RedisEffects[Rows]:
        rows = yield from self.view(id).rows([field_of(CHECKPOINT, ns, cp)])
        return [checkpoint_cells(field, row)[1:] for field, row in rows.items()]

    def ancestry(self, ids: str, id: str, ns: str, *_: str) -> RedisEffects[Rows]:
        wanted = [field_of(CHECKPOINT, ns, cp) for cp in json.loads(ids)]
        found = yield from self.view(id).follow(wanted)
        return [checkpoint_cells(field, row)[1:] for field, row in found.items()]

    def _writes_at(self, view: ThreadView, ns: str, ids: Sequence[str]) -> RedisEffects[Rows]:
        """The rows of writes at some checkpoints: id, task and place, then the row."""
        ranges = yield from view.ranges([writes_at(ns, id) for id in ids])
        rows = yield from view.rows(field for some in ranges for field in some)
        return [(*key_of(field)[1:], row) for field, row in rows.items()]

    def _latest(self, view: ThreadView, ns: str) -> RedisEffects[str | None]:
        """The latest checkpoint of a graph. For the root graph that is the head of the thread."""
        head = (yield from view.head()) if ns == "" else None
        return head if head is not None else (yield from view.newest(ns))

    def _next(
        self, view: ThreadView, ns: str, ids: Sequence[str]
    ) -> RedisEffects[dict[str, tuple[str, Checkpoint]]]:
        """By checkpoint: the one after it in its graph, if that is its child or holds writes."""
        fields = yield from view.ranges([after_one(ns, id) for id in ids])
        rows = yield from view.rows(field for some in fields for field in some)
        found = {}
        for id, some in zip(ids, fields, strict=True):
            for field in some:
                row = rows.get(field)
                if row is not None and (row.parent == id or row.led is not None):
                    found[id] = (parts(field)[1], row)
        return found

    def found(
        self, id: str, cp: str | None, ns: str, _id: str, _ns: str, *rest: Any
    ) -> RedisEffects[Rows]:
        _, _, depth, *_ = rest
        view = self.view(id)
        entry = yield from view.load_one(ns, cp)
        answer: Rows = []
        if cp is None:
            cp = yield from self._latest(view, ns)
        if cp is not None:
            line = yield from self._line(view, ns, cp, depth)
            for at, (one, row) in enumerate(line):
                cells = (row.parent, row.complete, row.kind, row.frame, row.metadata)
                answer.append((-at, one, *cells, None, None, None))
            near = [one for one, _ in line[:2]] or [cp]
            answer += yield from self._writes_near(view, ns, near)
        if entry is not None:
            head, newer = (yield from view.head()), (yield from view.newer())
            answer.append((_ENTRY, head, newer, entry.epoch, *(None,) * 6))
        return answer

    def _line(
        self, view: ThreadView, ns: str, cp: str, depth: int
    ) -> RedisEffects[list[tuple[str, Checkpoint]]]:
        """A checkpoint, its parent, and up to `depth` ancestors that the parent is a difference
        from."""
        field = field_of(CHECKPOINT, ns, cp)
        row = (yield from view.follow([field])).get(field)
        line: list[tuple[str, Checkpoint]] = [] if row is None else [(cp, row)]
        while row is not None and row.parent is not None and len(line) <= depth:
            if row.complete and len(line) > 1:
                break
            parent = field_of(CHECKPOINT, ns, row.parent)
            row = (yield from view.follow([parent])).get(parent)
            if row is not None:
                line.append((parts(parent)[1], row))
        return line

    def _writes_near(self, view: ThreadView, ns: str, near: Sequence[str]) -> RedisEffects[Rows]:
        """The writes at a checkpoint and its parent: rows of their own, and inline writes."""
        answer: Rows = []
        for one, task, place, write in (yield from self._writes_at(view, ns, near)):
            cells = (write.kind, write.blob, None, write.channel, write.path, write.base)
            answer.append((_WRITES, one, task, place, *cells))
        following = yield from self._next(view, ns, near)
        for at, one in enumerate(near):
            if one in following:
                child, row = following[one]
                frame = row.frame if at == 0 else None
                inline = (row.complete, INLINE_WRITES, row.led, frame, row.parent, "", None)
                answer.append((_WRITES, one, child, *inline))
        return answer

    def rows_of(self, given: str, id: str, ns: str, *rest: Any) -> RedisEffects[Rows]:
        _, _, _, _, pairs, some, *_ = rest
        channels = None if some is None else json.loads(some)
        view = self.view(id)
        ids = json.loads(given)
        done: Rows = []
        wanted = [field_of(BLOB, ns, *pair) for pair in json.loads(pairs)]
        for one, task, place, row in (yield from self._writes_at(view, ns, [i for i, _ in ids])):
            done.append(
                (_WRITES, one, task, row.channel, row.base, place, row.path, row.kind, row.blob)
            )
            if row.base is not None and (channels is None or row.channel in channels):
                wanted.append(field_of(BLOB, ns, row.channel, row.base))
        children = [field_of(CHECKPOINT, ns, child) for _, child in ids if child]
        rows = yield from view.rows(children)
        after = yield from self._next(view, ns, [one for one, child in ids if child is None])
        for one, child in ids:
            if child is not None:
                row = rows.get(field_of(CHECKPOINT, ns, child))
                if row is not None:
                    after[one] = (child, row)
            if one in after and after[one][1].led is not None:
                child, row = after[one]
                inline = (child, row.parent, None, 0, "", INLINE_WRITES, row.led)
                done.append((_WRITES, one, *inline))
        found = yield from view.follow(wanted)
        for field, row in found.items():
            _, channel, version, base_channel, base, level, kind, blob = columns_of(field, row)
            done.append((_VALUE, channel, version, base_channel, base, level, None, kind, blob))
        return done

    def write_keys(self, id: str, ns: str, cp: str) -> RedisEffects[Rows]:
        found = yield from self.view(id).range(writes_at(ns, cp))
        return [key_of(field)[2:] for field in found]

    def written(self, id: str, ns: str, cp: str) -> RedisEffects[Rows]:
        row = yield from self.view(id).row(field_of(CHECKPOINT, ns, cp))
        if row is None:
            return []
        found = yield from self.view(id).range(writes_at(ns, cp))
        keys: Rows = [key_of(field)[2:] for field in found]
        return [(row.kind, row.metadata, *key) for key in keys or [(None, None)]]

    def inline_writes(self, id: str, ns: str, cp: str) -> RedisEffects[Rows]:
        found = yield from self.view(id).range(Range(CHECKPOINT, (ns,), first=cp, limit=2))
        rows = yield from self.view(id).rows(found)
        return [(*checkpoint_cells(field, row)[1:], row.led) for field, row in rows.items()]

    def children(self, id: str, ns: str, cp: str) -> RedisEffects[Rows]:
        fields = yield from self.view(id).range(Range(CHECKPOINT, (ns,)))
        rows = yield from self.view(id).rows(fields)
        return [
            checkpoint_cells(field, row)[1:]
            for field, row in rows.items()
            if row.parent == cp and not row.complete
        ]

    # -- listing

    def inner_graph(self, id: str) -> RedisEffects[Rows]:
        found = yield from self.view(id).range(Range(CHECKPOINT, first="\1", limit=1))
        return [(parts(field)[0],) for field in found]

    def page_of_graph(
        self, id: str, ns: str, end: str, limit: int, run: str | None = None
    ) -> RedisEffects[Rows]:
        before, most = None if end == _NO_END else end, limit if run is None else None
        wanted = Range(CHECKPOINT, (ns,), before=before, limit=most, backwards=True)
        fields = yield from self.view(id).range(wanted)
        return (yield from self._listed_rows(id, fields, run))[:limit]

    def page_of_graph_and_run(
        self, run: str, id: str, ns: str, end: str, limit: int
    ) -> RedisEffects[Rows]:
        return self.page_of_graph(id, ns, end, limit, run)

    def page_of_thread(
        self, id: str, cp: str, _cp: str, ns: str, limit: int, run: str | None = None
    ) -> RedisEffects[Rows]:
        fields = yield from self.view(id).range(Range(CHECKPOINT))
        keys = sorted(((key[1], key[0]) for key in map(parts, fields)), reverse=True)
        wanted = [
            field_of(CHECKPOINT, graph, one) for one, graph in keys if (one, graph) < (cp, ns)
        ]
        some = wanted[:limit] if run is None else wanted
        return (yield from self._listed_rows(id, some, run))[:limit]

    def page_of_thread_and_run(
        self, run: str, id: str, cp: str, _cp: str, ns: str, limit: int
    ) -> RedisEffects[Rows]:
        return self.page_of_thread(id, cp, _cp, ns, limit, run)

    def with_id(self, id: str, cp: str) -> RedisEffects[Rows]:
        fields = yield from self.view(id).range(Range(CHECKPOINT))
        wanted = [field for field in reversed(fields) if parts(field)[1] == cp]
        return (yield from self._listed_rows(id, wanted))

    def _listed_rows(
        self, id: str, fields: Sequence[bytes], run: str | None = None
    ) -> RedisEffects[Rows]:
        rows = yield from self.view(id).rows(fields)
        return [
            checkpoint_cells(field, row)
            for field, row in rows.items()
            if run is None or row.run_id == run
        ]

    # -- all rows of a thread

    def checkpoint_keys(self, id: str) -> RedisEffects[Rows]:
        fields = yield from self.view(id).range(Range(CHECKPOINT))
        return [key_of(field) for field in fields]

    def checkpoints_of(self, id: str) -> RedisEffects[Rows]:
        rows = yield from self.view(id).all(CHECKPOINT)
        found = [(*checkpoint_cells(field, row), row.run_id) for field, row in rows.items()]
        return sorted(found, key=itemgetter(1))

    def blob_keys(self, id: str) -> RedisEffects[Rows]:
        return [key_of(field) for field in (yield from self.view(id).all(BLOB))]

    def all_writes_of(self, id: str, _id: str) -> RedisEffects[Rows]:
        rows = yield from self.view(id).all(WRITE)
        found: Rows = [columns_of(field, row) for field, row in rows.items()]
        for field, row in (yield from self.view(id).all(CHECKPOINT)).items():
            if row.led is not None:
                ns, cp = parts(field)
                found.append((ns, row.parent, cp, 0, row.parent, "", None, INLINE_WRITES, row.led))
        return found

    def _dumped(self, id: str, kind: bytes) -> RedisEffects[Rows]:
        """The rows of a table with all columns."""
        rows = yield from self.view(id).all(kind)
        return [(id, *columns_of(field, row)) for field, row in rows.items()]

    def dump_checkpoints(self, id: str) -> RedisEffects[Rows]:
        return sorted((yield from self._dumped(id, CHECKPOINT)), key=itemgetter(2))

    def dump_blobs(self, id: str) -> RedisEffects[Rows]:
        return self._dumped(id, BLOB)

    def dump_writes(self, id: str) -> RedisEffects[Rows]:
        return self._dumped(id, WRITE)


def checkpoint_cells(field: bytes, row: Checkpoint) -> tuple[Any, ...]:
    """The columns of a checkpoint. Most queries leave out the first, the namespace."""
    return (*parts(field), row.parent, row.complete, row.frame, row.kind, row.metadata)
