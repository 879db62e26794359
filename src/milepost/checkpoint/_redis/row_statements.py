"""The statements that store, change, copy and remove rows."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from milepost._db.redis.commands import RedisEffects
from milepost.checkpoint._redis.names import REDIS
from milepost.checkpoint._redis.rows import (
    BLOB,
    CHECKPOINT,
    WRITE,
    Row,
    Rows,
    field_of,
    key_of,
    row_given,
)
from milepost.checkpoint._redis.scripts import Change
from milepost.checkpoint._redis.thread_io import Range

if TYPE_CHECKING:
    from milepost.checkpoint._redis.transaction import Tables

_FIRST: Final = itemgetter(0)

SEALED: Final = {
    REDIS.look_at_checkpoints: (CHECKPOINT, ("frame", "metadata", "led"), None),
    REDIS.checkpoints_between: (
        CHECKPOINT,
        ("frame", "metadata", "led"),
        ("parent", "complete", "kind", "parent"),
    ),
    REDIS.look_at_blobs: (BLOB, ("blob",), None),
    REDIS.blobs_between: (BLOB, ("blob",), ("base_channel", "base", "level", "kind")),
    REDIS.look_at_writes: (WRITE, ("blob",), None),
    REDIS.writes_between: (WRITE, ("blob",), ("channel", "path", "base", "kind")),
}
"""By statement: the kind of the rows that it reads, their sealed cells, and the cells that the
seals are bound to; None for a look at sizes and first bytes."""

INSERTS: Final = {
    REDIS.add_checkpoint: (CHECKPOINT, Change.PUT_ROW),
    REDIS.add_blob: (BLOB, Change.ADD_ROW),
    REDIS.add_write: (WRITE, Change.ADD_ROW),
    REDIS.replace_write: (WRITE, Change.PUT_ROW),
}
"""By statement: the kind of the row that it adds, and whether it replaces a row that exists."""

UPDATES: Final[dict[str, tuple[bytes, tuple[str, ...], dict[str, Any]]]] = {
    REDIS.compact_blob: (BLOB, ("base_channel", "base", "blob"), {"level": 0}),
    REDIS.cut_blob: (BLOB, ("blob",), {"base": None, "base_channel": None, "level": 0}),
    REDIS.compact_write: (WRITE, ("base", "blob"), {}),
    REDIS.count_writes: (CHECKPOINT, ("kind", "metadata"), {}),
    REDIS.clear_inline_writes: (CHECKPOINT, (), {"led": None}),
    REDIS.part_inline_writes: (CHECKPOINT, ("frame",), {"led": None}),
    REDIS.complete_checkpoint: (CHECKPOINT, ("frame",), {"complete": 1}),
    REDIS.cut_checkpoint: (CHECKPOINT, ("frame",), {"parent": None, "complete": 1}),
    REDIS.seal_checkpoint: (CHECKPOINT, ("frame", "metadata", "led"), {}),
    REDIS.seal_blob: (BLOB, ("blob",), {}),
    REDIS.seal_write: (WRITE, ("blob",), {}),
}
"""By statement: the kind of the row that it changes, the cells that its first parameters are for,
and cells that get a fixed value. The other parameters are the thread and the key of the row."""


def updated(name: str, given: Sequence[Any]) -> tuple[str, bytes, dict[str, Any]]:
    """The thread, the field and the new cells of a row that a statement changes."""
    kind, names, fixed = UPDATES[name]
    thread_id, *key = given[len(names) :]
    cells = dict(zip(names, given, strict=False)) | fixed
    return thread_id, field_of(kind, *map(str, key)), cells


class RowStatements:
    """Answers the statements that change rows: `insert` and `update` those of the tables above."""

    def __init__(self, tables: Tables) -> None:
        self.view = tables.view

    # -- storing

    def insert(self, name: str, id: str, *given: Any) -> RedisEffects[int]:
        kind, how = INSERTS[name]
        field, row = row_given(kind, *given)
        if how is Change.ADD_ROW and (yield from self.view(id).row(field)) is not None:
            return 0
        return (yield from self._put(id, field, row))

    def update(self, name: str, *given: Any) -> RedisEffects[int]:
        id, field, cells = updated(name, given)
        row = yield from self.view(id).row(field)
        if row is None:
            return 0
        return (yield from self._put(id, field, row._replace(**cells)))

    def _put(self, id: str, field: bytes, row: Row) -> RedisEffects[int]:
        yield from self.view(id).load()
        self.view(id).changed[field] = row
        return 1

    # -- removing

    def _delete(self, id: str, field: bytes) -> RedisEffects[int]:
        if (yield from self.view(id).row(field)) is None:
            return 0
        self.view(id).changed[field] = None
        return 1

    def delete_checkpoint(self, id: str, *key: str) -> RedisEffects[int]:
        return self._delete(id, field_of(CHECKPOINT, *key))

    def delete_blob(self, id: str, *key: str) -> RedisEffects[int]:
        return self._delete(id, field_of(BLOB, *key))

    def delete_writes_at(self, id: str, *key: str) -> RedisEffects[int]:
        found = yield from self.view(id).range(Range(WRITE, key))
        for field in found:
            self.view(id).changed[field] = None
        return len(found)

    # These three only count: all rows are removed together with the entry, by `delete_thread`.

    def delete_writes(self, id: str) -> RedisEffects[int]:
        _, _, writes = yield from self.view(id).counts()
        return writes

    def delete_blobs(self, id: str) -> RedisEffects[int]:
        rows, checkpoints, writes = yield from self.view(id).counts()
        return rows - checkpoints - writes

    def delete_checkpoints(self, id: str) -> RedisEffects[int]:
        rows, checkpoints, _ = yield from self.view(id).counts()
        self.view(id).is_wiped = bool(rows)
        return checkpoints

    # -- copies

    def _copy(self, kind: bytes, target: str, source: str) -> RedisEffects[int]:
        rows = yield from self.view(source).all(kind)
        self.view(target).changed.update(rows)
        return len(rows)

    def copy_checkpoints(self, target: str, source: str) -> RedisEffects[int]:
        return self._copy(CHECKPOINT, target, source)

    def copy_blobs(self, target: str, source: str) -> RedisEffects[int]:
        return self._copy(BLOB, target, source)

    def copy_writes(self, target: str, source: str) -> RedisEffects[int]:
        return self._copy(WRITE, target, source)

    # -- sealing rows again: see `_sql/admin/reencrypt.py`

    def sealed(self, name: str, id: str, *keys: Any) -> RedisEffects[Rows]:
        """Keys and sealed cells of rows: the sizes of the cells of all rows after a key, or what
        the seals of the rows from one key to another are bound to."""
        kind, names, bound = SEALED[name]
        rows = yield from self.view(id).all(kind)
        found: Rows = []
        for key, row in sorted(((key_of(field), row) for field, row in rows.items()), key=_FIRST):
            cells = [getattr(row, cell) for cell in names]
            if bound is None:
                if key > keys[:-1]:  # all of them: the last parameter is the greatest number
                    found.append((*key, *(len(cell or b"") for cell in cells), *cells))
            elif keys[: len(key)] <= key <= keys[len(key) :]:
                found.append((*key, *cells, *(getattr(row, cell) for cell in bound)))
        return found
