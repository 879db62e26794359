"""The statements that `reencrypt.py` reads and seals rows with, table by table, each in one piece.

A parameter is `?` here; the driver's placeholder replaces it. The first 300 bytes of a sealed cell
show its key: the name of the cipher has at most 255 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from milepost._db.dialect import Dialect

if TYPE_CHECKING:
    from milepost._db.dialect import Traits


class ResealStatements(NamedTuple):
    """The statements for one table."""

    look: str
    """Query: keys, sizes and first bytes of so many rows after a key."""
    between: str
    """Query: the rows from a key to another, locked: key, sealed cells, what they are bound to."""
    store: str
    """Statement: new sealed cells of one row."""


def reseal_statements(dialect: Traits, table: str) -> ResealStatements:
    """The statements of a database; for one without SQL, the names of the statement and table."""
    if not isinstance(dialect, Dialect):
        kinds = ("reseal_look", "reseal_between", "reseal_store")
        return ResealStatements(*(f"{kind} {table}" for kind in kinds))
    tables = {"sqlite": _SQLITE, "postgres": _POSTGRES}.get(dialect.name, _OTHERS)
    return ResealStatements(*map(dialect.placed, tables[table]))


_LOOK_AT_CHECKPOINTS: Final = """
    SELECT checkpoint_ns, checkpoint_id,
        COALESCE(LENGTH(frame), 0), COALESCE(LENGTH(metadata), 0), COALESCE(LENGTH(led), 0),
        SUBSTR(frame, 1, 300), SUBSTR(metadata, 1, 300), SUBSTR(led, 1, 300)
    FROM checkpoints WHERE thread_id = ? AND (checkpoint_ns, checkpoint_id) > (?, ?)
    ORDER BY checkpoint_ns, checkpoint_id LIMIT ?"""
_LOOK_AT_WRITES: Final = """
    SELECT checkpoint_ns, checkpoint_id, task_id, idx, COALESCE(LENGTH(blob), 0),
        SUBSTR(blob, 1, 300)
    FROM checkpoint_writes
    WHERE thread_id = ? AND (checkpoint_ns, checkpoint_id, task_id, idx) > (?, ?, ?, ?)
    ORDER BY checkpoint_ns, checkpoint_id, task_id, idx LIMIT ?"""
_STORE_CHECKPOINT: Final = """
    UPDATE checkpoints SET frame = ?, metadata = ?, led = ?
    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"""
_STORE_WRITE: Final = """
    UPDATE checkpoint_writes SET blob = ?
    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND task_id = ? AND idx = ?"""

_SQLITE: Final = {
    "checkpoints": ResealStatements(
        _LOOK_AT_CHECKPOINTS,
        """
        SELECT checkpoint_ns, checkpoint_id, frame, metadata, led, parent_checkpoint_id, complete,
            metadata_type, parent_checkpoint_id
        FROM checkpoints WHERE thread_id = ? AND (checkpoint_ns, checkpoint_id) >= (?, ?)
            AND (checkpoint_ns, checkpoint_id) <= (?, ?)
        ORDER BY checkpoint_ns, checkpoint_id""",
        _STORE_CHECKPOINT,
    ),
    "checkpoint_blobs": ResealStatements(
        """
        SELECT checkpoint_ns, channel, version, COALESCE(LENGTH(blob), 0), SUBSTR(blob, 1, 300)
        FROM checkpoint_values
        WHERE thread_id = ? AND (checkpoint_ns, channel, version) > (?, ?, ?)
        ORDER BY checkpoint_ns, channel, version LIMIT ?""",
        """
        SELECT checkpoint_ns, channel, version, blob, base_channel, base, level, type
        FROM checkpoint_values
        WHERE thread_id = ? AND (checkpoint_ns, channel, version) >= (?, ?, ?)
            AND (checkpoint_ns, channel, version) <= (?, ?, ?)
        ORDER BY checkpoint_ns, channel, version""",
        """
        UPDATE checkpoint_values SET blob = ?
        WHERE thread_id = ? AND checkpoint_ns = ? AND channel = ? AND version = ?""",
    ),
    "checkpoint_writes": ResealStatements(
        _LOOK_AT_WRITES,
        """
        SELECT checkpoint_ns, checkpoint_id, task_id, idx, blob, channel, task_path, base, type
        FROM checkpoint_writes
        WHERE thread_id = ? AND (checkpoint_ns, checkpoint_id, task_id, idx) >= (?, ?, ?, ?)
            AND (checkpoint_ns, checkpoint_id, task_id, idx) <= (?, ?, ?, ?)
        ORDER BY checkpoint_ns, checkpoint_id, task_id, idx""",
        _STORE_WRITE,
    ),
}
_POSTGRES: Final = {
    "checkpoints": ResealStatements(
        _LOOK_AT_CHECKPOINTS,
        """
        SELECT checkpoint_ns, checkpoint_id, frame, metadata, led, parent_checkpoint_id, complete,
            metadata_type, parent_checkpoint_id
        FROM checkpoints WHERE thread_id = ? AND (checkpoint_ns, checkpoint_id) >= (?, ?)
            AND (checkpoint_ns, checkpoint_id) <= (?, ?)
        ORDER BY checkpoint_ns, checkpoint_id FOR UPDATE""",
        _STORE_CHECKPOINT,
    ),
    "checkpoint_blobs": ResealStatements(
        """
        SELECT checkpoint_ns, channel, version, COALESCE(LENGTH(blob), 0), SUBSTR(blob, 1, 300)
        FROM checkpoint_blobs
        WHERE thread_id = ? AND (checkpoint_ns, channel, version) > (?, ?, ?)
        ORDER BY checkpoint_ns, channel, version LIMIT ?""",
        """
        SELECT checkpoint_ns, channel, version, blob, base_channel, base, level, type
        FROM checkpoint_blobs
        WHERE thread_id = ? AND (checkpoint_ns, channel, version) >= (?, ?, ?)
            AND (checkpoint_ns, channel, version) <= (?, ?, ?)
        ORDER BY checkpoint_ns, channel, version FOR UPDATE""",
        """
        UPDATE checkpoint_blobs SET blob = ?
        WHERE thread_id = ? AND checkpoint_ns = ? AND channel = ? AND version = ?""",
    ),
    "checkpoint_writes": ResealStatements(
        _LOOK_AT_WRITES,
        """
        SELECT checkpoint_ns, checkpoint_id, task_id, idx, blob, channel, task_path, base, type
        FROM checkpoint_writes
        WHERE thread_id = ? AND (checkpoint_ns, checkpoint_id, task_id, idx) >= (?, ?, ?, ?)
            AND (checkpoint_ns, checkpoint_id, task_id, idx) <= (?, ?, ?, ?)
        ORDER BY checkpoint_ns, checkpoint_id, task_id, idx FOR UPDATE""",
        _STORE_WRITE,
    ),
}
_OTHERS: Final = {
    "checkpoints": _SQLITE["checkpoints"],
    "checkpoint_blobs": _POSTGRES["checkpoint_blobs"]._replace(
        between="""
        SELECT checkpoint_ns, channel, version, blob, base_channel, base, level, type
        FROM checkpoint_blobs
        WHERE thread_id = ? AND (checkpoint_ns, channel, version) >= (?, ?, ?)
            AND (checkpoint_ns, channel, version) <= (?, ?, ?)
        ORDER BY checkpoint_ns, channel, version"""
    ),
    "checkpoint_writes": _SQLITE["checkpoint_writes"],
}
"""For a backend that the package does not know: tables without views, and no lock but that of the
thread, which `lock_thread` takes before."""
