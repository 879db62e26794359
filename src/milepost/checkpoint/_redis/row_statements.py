"""The statements that store, change, copy and remove rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from milepost._db.redis.commands import Program
from milepost.checkpoint._redis.rows import (
    BLOB,
    CHECKPOINT,
    WRITE,
    Rows,
    blob_row,
    checkpoint_row,
    field_of,
    parts,
    write_row,
)

if TYPE_CHECKING:
    from milepost.checkpoint._redis.statements import Tables

_SEALED: Final = {
    "checkpoints": (
        CHECKPOINT,
        ("frame", "metadata", "led"),
        ("parent", "complete", "kind", "parent"),
    ),
    "checkpoint_blobs": (BLOB, ("blob",), ("base_channel", "base", "level", "kind")),
    "checkpoint_writes": (WRITE, ("blob",), ("channel", "path", "base", "kind")),
}
"""By table: the kind of its rows, its sealed cells, and what these are bound to."""


class RowStatements:
    """Each method answers the statement of its name."""

    def __init__(self, tables: Tables) -> None:
        self.view = tables.view

    # -- storing

    def add_checkpoint(self, id: str, *cells: Any) -> Program[int]:
        return (yield from self._put(id, *checkpoint_row(*cells)))

    def add_blob(self, id: str, *cells: Any) -> Program[int]:
        return (yield from self._add(id, *blob_row(*cells)))

    def add_write(self, id: str, *cells: Any) -> Program[int]:
        return (yield from self._add(id, *write_row(*cells)))

    def replace_write(self, id: str, *cells: Any) -> Program[int]:
        return (yield from self._put(id, *write_row(*cells)))

    def _put(self, id: str, field: bytes, row: Any) -> Program[int]:
        yield from self.view(id).load()
        self.view(id).changed[field] = row
        return 1

    def _add(self, id: str, field: bytes, row: Any) -> Program[int]:
        if (yield from self.view(id).row(field)) is not None:
            return 0
        return (yield from self._put(id, field, row))

    def _update(self, id: str, field: bytes, **cells: Any) -> Program[int]:
        row = yield from self.view(id).row(field)
        if row is None:
            return 0
        return (yield from self._put(id, field, row._replace(**cells)))

    def compact_blob(
        self, channel: Any, base: str, blob: bytes, id: str, *key: str
    ) -> Program[int]:
        cells = {"base": base, "base_channel": channel, "level": 0, "blob": blob}
        return (yield from self._update(id, field_of(BLOB, *key), **cells))

    def cut_blob(self, blob: bytes, id: str, *key: str) -> Program[int]:
        cells = {"base": None, "base_channel": None, "level": 0, "blob": blob}
        return (yield from self._update(id, field_of(BLOB, *key), **cells))

    def compact_write(self, base: str, blob: bytes, id: str, *key: Any) -> Program[int]:
        return (yield from self._update(id, field_of(WRITE, *map(str, key)), base=base, blob=blob))

    def count_writes(self, kind: Any, metadata: bytes, id: str, *key: str) -> Program[int]:
        field = field_of(CHECKPOINT, *key)
        return (yield from self._update(id, field, kind=kind, metadata=metadata))

    def clear_inline_writes(self, id: str, *key: str) -> Program[int]:
        return (yield from self._update(id, field_of(CHECKPOINT, *key), led=None))

    def part_inline_writes(self, frame: bytes, id: str, *key: str) -> Program[int]:
        return (yield from self._update(id, field_of(CHECKPOINT, *key), led=None, frame=frame))

    def complete_checkpoint(self, frame: bytes, id: str, *key: str) -> Program[int]:
        return (yield from self._update(id, field_of(CHECKPOINT, *key), complete=1, frame=frame))

    def cut_checkpoint(self, frame: bytes, id: str, *key: str) -> Program[int]:
        cells = {"parent": None, "complete": 1, "frame": frame}
        return (yield from self._update(id, field_of(CHECKPOINT, *key), **cells))

    # -- removing

    def _delete(self, id: str, field: bytes) -> Program[int]:
        if (yield from self.view(id).row(field)) is None:
            return 0
        self.view(id).changed[field] = None
        return 1

    def delete_checkpoint(self, id: str, *key: str) -> Program[int]:
        return (yield from self._delete(id, field_of(CHECKPOINT, *key)))

    def delete_blob(self, id: str, *key: str) -> Program[int]:
        return (yield from self._delete(id, field_of(BLOB, *key)))

    def delete_writes_at(self, id: str, *key: str) -> Program[int]:
        found = yield from self.view(id).range(WRITE, *key)
        for field in found:
            self.view(id).changed[field] = None
        return len(found)

    def delete_writes(self, id: str) -> Program[int]:
        [(_, _, writes)] = yield from self.view(id).fetch("C")
        return int(writes)

    def delete_blobs(self, id: str) -> Program[int]:
        [(rows, checkpoints, writes)] = yield from self.view(id).fetch("C")
        return int(rows) - int(checkpoints) - int(writes)

    def delete_checkpoints(self, id: str) -> Program[int]:
        [(rows, checkpoints, _)] = yield from self.view(id).fetch("C")
        if rows:
            self.view(id).wipe()
        return int(checkpoints)

    # -- copies

    def _copy(self, kind: bytes, target: str, source: str) -> Program[int]:
        rows = yield from self.view(source).all(kind)
        self.view(target).changed.update(rows)
        return len(rows)

    def copy_checkpoints(self, target: str, source: str) -> Program[int]:
        return (yield from self._copy(CHECKPOINT, target, source))

    def copy_blobs(self, target: str, source: str) -> Program[int]:
        return (yield from self._copy(BLOB, target, source))

    def copy_writes(self, target: str, source: str) -> Program[int]:
        return (yield from self._copy(WRITE, target, source))

    # -- sealing rows again, a table at a time: see `_sql/admin/reencrypt.py`

    def reseal_look(self, table: str, id: str, *after: Any) -> Program[Rows]:
        """Keys, sizes and cells, from a key on; all of a thread's rows at once."""
        rows = yield from self._of_table(table, id)
        return [
            (*key, *(len(cell or b"") for cell in cells), *cells)
            for key, cells, _ in rows
            if key > after
        ]

    def reseal_between(self, table: str, id: str, *keys: Any) -> Program[Rows]:
        """Keys, cells and what cells are bound to, from a key to another."""
        rows = yield from self._of_table(table, id)
        first, last = keys[: len(keys) // 2], keys[len(keys) // 2 :]
        return [(*key, *cells, *bound) for key, cells, bound in rows if first <= key <= last]

    def reseal_store(self, table: str, *given: Any) -> Program[int]:
        """One row with other cells."""
        kind, names, _ = _SEALED[table]
        cells = dict(zip(names, given, strict=False))
        id, *key = given[len(names) :]
        return (yield from self._update(id, field_of(kind, *map(str, key)), **cells))

    def _of_table(self, table: str, id: str) -> Program[list[tuple[tuple[Any, ...], Any, Any]]]:
        kind, names, beside = _SEALED[table]
        rows = yield from self.view(id).all(kind)
        found = []
        for field, row in rows.items():
            key: tuple[Any, ...] = tuple(parts(field))
            if kind == WRITE:
                key = (*key[:-1], int(key[-1]))
            cells = tuple(getattr(row, name) for name in names)
            found.append((key, cells, tuple(getattr(row, name) for name in beside)))
        return sorted(found, key=lambda one: one[0])
