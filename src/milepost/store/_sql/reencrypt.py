"""Seals all values again with the newest key, in small transactions, while the store is in use.

A value is replaced only if it is still the one that was read: a put in between has sealed its value
with the newest key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from milepost._db.operations import Execute, Operation, Query
from milepost.checkpoint.serde._rotation import Reencrypted
from milepost.store._core import namespaces
from milepost.store._core.tasks import Program, Progress, RefusedItem, Row, Transact

if TYPE_CHECKING:
    from milepost.store._sql.core import SqlCore

_ITEMS: Final = 100
_PAGE: Final = "SELECT id, ns, key, kind, data FROM milepost_items WHERE id > ? ORDER BY id LIMIT ?"
_COUNT: Final = "SELECT count(*) FROM milepost_items"
_REPLACE: Final = "UPDATE milepost_items SET kind = ?, data = ? WHERE id = ? AND data = ?"


def resealing(core: SqlCore, progress: Progress | None) -> Program[Reencrypted[RefusedItem]]:
    """Seal all values again; what was done."""
    done: Reencrypted[RefusedItem] = Reencrypted()
    after = -1
    seen = 0
    counting = core.store_sql.render(_COUNT), ()
    total: int = (yield Transact(lambda: _read(*counting), write=False))[0][0]
    while True:
        page = core.store_sql.render(_PAGE), (after, _ITEMS)
        rows: list[Any] = yield Transact(lambda page=page: _read(*page), write=False)  # type: ignore[misc]
        if not rows:
            return done
        after = rows[-1][0]
        items = [
            ((id, data), Row(namespaces.from_text(ns), key, (kind, bytes(data)), 0, 0))
            for id, ns, key, kind, data in rows
        ]
        changes = [(*new, *found) for found, new in core.reseal(items, done)]
        if changes:
            done.resealed += yield Transact(
                lambda changes=changes: _replace(core.store_sql.render(_REPLACE), changes),  # type: ignore[misc]
                write=True,
            )
        seen += len(rows)
        if progress is not None:
            progress(seen, max(seen, total))


def _read(statement: str, values: tuple[int, ...]) -> Operation[list[Any]]:
    rows: list[Any] = yield Query(statement, values)
    return rows


def _replace(statement: str, changes: list[tuple[Any, ...]]) -> Operation[int]:
    replaced = 0
    for change in changes:
        replaced += yield Execute(statement, change)
    return replaced
