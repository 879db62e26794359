"""The tables of a saver.

`checkpoints`        one row a checkpoint: its manifest (`frame`), mostly as changes to the parent's
`checkpoint_blobs`   one row for each version of a value that is too large for the manifest
`checkpoint_large`   only in SQLite: the larger values of `checkpoint_blobs` (see large.py)
`checkpoint_writes`  one row for each write of a task that is not stored in a checkpoint's row
`threads`            the registry: head, fencing token, status, times, the user's metadata
"""

from __future__ import annotations

from typing import Final

from milepost._db.migrations import Schema
from milepost.checkpoint._sql.large import LARGE

# `frame`: the manifest. It also says whether the row has inline writes, and how many rows of writes
# the parent has.
# `led`: the inline writes: writes at the parent checkpoint, whose tasks led to this one (see
# inline_writes.py).
# `metadata` also says how many rows of writes this checkpoint had before it got a child (see
# metadata.py).
_CHECKPOINTS = """
CREATE TABLE IF NOT EXISTS checkpoints (
    thread_id {text} NOT NULL,
    checkpoint_ns {text} NOT NULL,
    checkpoint_id {text} NOT NULL,
    parent_checkpoint_id {text},
    complete INTEGER NOT NULL,
    run_id {text},
    frame {bytes} NOT NULL,
    metadata_type TEXT,
    metadata {bytes} NOT NULL,
    led {bytes},
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id){packed}
) {compact}
"""

# A type of NULL means msgpack, the type of nearly all values.
# `level`: for a full row, how many full rows before it have been compacted into a later one; for a
# delta, 1 if it is one of the large rows (see chains.py).
_BLOBS = """
CREATE TABLE IF NOT EXISTS checkpoint_blobs (
    thread_id {text} NOT NULL,
    checkpoint_ns {text} NOT NULL,
    channel {text} NOT NULL,
    version {text} NOT NULL,
    base_channel {text},
    base {text},
    level INTEGER NOT NULL,
    type TEXT,
    blob {bytes} NOT NULL,
    PRIMARY KEY (thread_id, checkpoint_ns, channel, version){packed}
) {compact}
"""

_WRITES = """
CREATE TABLE IF NOT EXISTS checkpoint_writes (
    thread_id {text} NOT NULL,
    checkpoint_ns {text} NOT NULL,
    checkpoint_id {text} NOT NULL,
    task_id {text} NOT NULL,
    idx INTEGER NOT NULL,
    channel {text} NOT NULL,
    task_path {text} NOT NULL,
    base {text},
    type TEXT,
    blob {bytes} NOT NULL,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx){packed}
) {compact}
"""

_THREADS = """
CREATE TABLE IF NOT EXISTS threads (
    thread_id {text} PRIMARY KEY,
    head {text},
    token {text},
    epoch {int} NOT NULL DEFAULT 0,
    status TEXT NOT NULL DEFAULT 'idle',
    created_at {real} NOT NULL,
    updated_at {real} NOT NULL,
    owner {text},
    metadata {json} NOT NULL DEFAULT '{{}}'
) {compact}
"""


def _unsampled(table: str, *columns: str) -> tuple[str, str]:
    """Stop PostgreSQL from sampling columns: the planner's samples would outlive erased rows."""
    changes = ", ".join(f"ALTER COLUMN {column} SET STATISTICS 0" for column in columns)
    return "postgres", f"ALTER TABLE {table} {changes}"


TABLES: Final = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "threads")

SCHEMA: Final = Schema(
    table="checkpoint_migrations",
    migrations=(
        (
            _CHECKPOINTS,
            _BLOBS,
            _WRITES,
            _THREADS,
            *LARGE,
            _unsampled("checkpoints", "frame", "metadata", "led"),
            _unsampled("checkpoint_blobs", "blob"),
            _unsampled("checkpoint_writes", "blob"),
            _unsampled("threads", "owner", "metadata"),
            "CREATE INDEX IF NOT EXISTS checkpoints_by_run ON checkpoints (run_id)"
            " WHERE run_id IS NOT NULL",
            "CREATE INDEX IF NOT EXISTS threads_by_owner ON threads (owner, thread_id)"
            " WHERE owner IS NOT NULL",
        ),
    ),
    landmark=("checkpoints", "frame"),
    foreign=(
        "This database holds checkpoints of LangGraph, which are stored in another form. Nothing "
        "in it was touched. Copy its threads into a new database with "
        "`milepost import --from-langgraph OLD --to NEW` and use that one."
    ),
)
