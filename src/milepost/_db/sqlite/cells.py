"""Reads large cells of SQLite tables, with as little fresh memory as can be.

Memory that a process has not used before is provided page by page, and that costs more than all
that is done with the bytes. A query makes a copy of a cell for itself, and another one for us;
and each page of the cell stays in SQLite's cache, where it takes the place of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import sqlite3

    from milepost._db.operations import ReadCells

_PAGES: Final = 32
"""Pages that SQLite may keep in its cache while it reads a cell."""


def read_cells(cursor: sqlite3.Cursor, read: ReadCells, *, own: bool) -> list[bytes]:
    """The bytes of each cell. The cache of a connection that is not our own is left as it is."""
    if not own:
        return [_cell(cursor, read, number) for number in read.numbers]
    (usual,) = cursor.execute("PRAGMA cache_size").fetchone()
    cursor.execute(f"PRAGMA cache_size={_PAGES}")
    try:
        return [_cell(cursor, read, number) for number in read.numbers]
    finally:
        cursor.execute(f"PRAGMA cache_size={usual}")


def _cell(cursor: sqlite3.Cursor, read: ReadCells, number: int) -> bytes:
    open_cell: Any = getattr(cursor.connection, "blobopen", None)
    if open_cell is None:  # a module that was put in the place of `sqlite3` may lack it
        query = f"SELECT {read.column} FROM {read.table} WHERE rowid = ?"
        return bytes(cursor.execute(query, (number,)).fetchone()[0])
    with open_cell(read.table, read.column, number, readonly=True) as cell:
        data: bytes = cell.read()
        return data
