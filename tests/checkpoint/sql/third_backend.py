"""A saver for one more database, as an outsider writes it from ARCHITECTURE's section on backends.

The database is SQLite behind Python's common interface for databases (DB-API 2), with a connection
for each transaction and none of the care that `SqliteSaver` takes for speed, forks and users'
connections. It has a dialect with a name, types and placeholders of its own, and statements of its
own, on tables without views and triggers: the package knows nothing of it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from milepost._db.dialect import Bounds, Dialect
from milepost._db.group_commit import Committer, Outcome, Waiting
from milepost._db.migrations import table_setup
from milepost._db.operations import (
    Batch,
    ConditionalInsert,
    Execute,
    ExecuteMany,
    GuardedBatch,
    LinkedRows,
    Queries,
    Query,
    Work,
)
from milepost._internal.generators import drive
from milepost.checkpoint._sql.group_saver import GroupCommits
from milepost.checkpoint._sql.saver import SqlSaver
from milepost.checkpoint._sql.schema import SCHEMA
from milepost.checkpoint._sql.statements import Statements
from milepost.checkpoint.serde.base import SerializerProtocol

R = TypeVar("R")
S = TypeVar("S")


THIRD = Dialect(
    name="third",
    placeholder="%s",
    bytes="BLOB",
    real="DOUBLE",
    text="VARCHAR",
    json="VARCHAR",
    compact="",
    packed="",
    int="BIGINT",
    columns="SELECT name FROM pragma_table_info(?)",
    remote=False,
    settled=(),
    chain=Bounds(8, 16, 8),
)

STATEMENTS = Statements(
    lock_thread="""
        SELECT head, token, epoch, status, updated_at FROM threads WHERE thread_id = ?""",
    holds_thread="SELECT 1 FROM threads WHERE thread_id = ? AND token = ? AND epoch = ?",
    add_if_held="""
        INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id,
            complete, run_id, frame, metadata_type, metadata, led)
        SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, CAST(? AS BLOB) FROM threads
            WHERE thread_id = ? AND token = ? AND epoch = ?
        ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE SET
            parent_checkpoint_id = excluded.parent_checkpoint_id, complete = excluded.complete,
            run_id = excluded.run_id, frame = excluded.frame,
            metadata_type = excluded.metadata_type, metadata = excluded.metadata,
            led = excluded.led""",
    found="""
        WITH RECURSIVE entry (head, epoch, newer) AS (
            SELECT COALESCE((SELECT MAX(checkpoint_id) FROM checkpoints c
                WHERE status = 'running' AND c.thread_id = threads.thread_id
                    AND c.checkpoint_ns = '' AND c.checkpoint_id > COALESCE(head, '')), head),
                epoch, (SELECT MAX(checkpoint_id) FROM checkpoints c
                WHERE status <> 'running' AND c.thread_id = threads.thread_id
                    AND c.checkpoint_ns = '' AND c.checkpoint_id > COALESCE(head, ''))
            FROM threads WHERE thread_id = ?),
        line (id, depth) AS (
            SELECT COALESCE(?, (SELECT head FROM entry WHERE ? = ''),
                (SELECT MAX(checkpoint_id) FROM checkpoints
                    WHERE thread_id = ? AND checkpoint_ns = ?)), 0
            UNION ALL
            SELECT c.parent_checkpoint_id, line.depth + 1 FROM line
            CROSS JOIN checkpoints c ON c.thread_id = ? AND c.checkpoint_ns = ?
                AND c.checkpoint_id = id
            WHERE c.parent_checkpoint_id IS NOT NULL AND (c.complete = 0 OR line.depth = 0)
                AND line.depth < ?)
        SELECT -depth, checkpoint_id, parent_checkpoint_id, complete, metadata_type, frame,
            metadata, NULL, NULL, NULL
        FROM line CROSS JOIN checkpoints c ON thread_id = ? AND checkpoint_ns = ?
            AND checkpoint_id = id
        UNION ALL
        SELECT 1, checkpoint_id, task_id, idx, type, blob, NULL, channel, task_path, base
        FROM line CROSS JOIN checkpoint_writes w ON thread_id = ? AND checkpoint_ns = ?
            AND checkpoint_id = id WHERE depth < 2
        UNION ALL
        SELECT 1, id, checkpoint_id, complete, '#', led,
            CASE depth WHEN 0 THEN frame END, parent_checkpoint_id, '', NULL
        FROM line CROSS JOIN checkpoints n ON thread_id = ? AND checkpoint_ns = ?
                AND checkpoint_id = (SELECT MIN(m.checkpoint_id) FROM checkpoints m
                    WHERE m.thread_id = ? AND m.checkpoint_ns = ? AND m.checkpoint_id > id)
                AND (parent_checkpoint_id = id OR led IS NOT NULL) WHERE depth < 2
        UNION ALL
        SELECT 2, head, newer, epoch, NULL, NULL, NULL, NULL, NULL, NULL FROM entry""",
    ancestry="""
        WITH RECURSIVE line (id) AS (
            SELECT value FROM json_each(?)
            UNION
            SELECT c.parent_checkpoint_id FROM line
            CROSS JOIN checkpoints c ON c.thread_id = ? AND c.checkpoint_ns = ?
                AND c.checkpoint_id = id
            WHERE c.complete = 0)
        SELECT checkpoint_id, parent_checkpoint_id, complete, frame, metadata_type, metadata
            FROM line
        CROSS JOIN checkpoints c ON thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = id""",
    blob="""
        SELECT channel, version, base_channel, base, level, type, blob FROM checkpoint_blobs
        WHERE thread_id = ? AND checkpoint_ns = ? AND channel = ? AND version = ?""",
    rows_of="""
        WITH RECURSIVE wanted (a, b) AS (
            SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)),
        done AS (
            SELECT checkpoint_id, task_id, channel, base, idx, task_path, type, blob
            FROM wanted CROSS JOIN checkpoint_writes w ON checkpoint_id = a AND thread_id = ?
                AND checkpoint_ns = ?
            UNION ALL
            SELECT a, checkpoint_id, parent_checkpoint_id, NULL, 0, '', '#', led
            FROM wanted CROSS JOIN checkpoints n ON thread_id = ? AND checkpoint_ns = ?
                AND led IS NOT NULL
                AND checkpoint_id = COALESCE(b, (SELECT MIN(m.checkpoint_id) FROM checkpoints m
                    WHERE m.thread_id = ? AND m.checkpoint_ns = ? AND m.checkpoint_id > a))),
        chain (channel, version) AS (
            SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)
            UNION
            SELECT channel, base FROM done WHERE base IS NOT NULL
                AND (? IS NULL OR channel IN (SELECT value FROM json_each(?)))
            UNION
            SELECT COALESCE(c.base_channel, c.channel), c.base FROM chain
            CROSS JOIN checkpoint_blobs c ON c.thread_id = ? AND c.checkpoint_ns = ?
                AND c.channel = chain.channel AND c.version = chain.version
            WHERE c.base IS NOT NULL)
        SELECT 0, b.channel, b.version, b.base_channel, b.base, b.level, NULL, b.type, b.blob
        FROM chain CROSS JOIN checkpoint_blobs b ON b.thread_id = ? AND b.checkpoint_ns = ?
            AND b.channel = chain.channel AND b.version = chain.version
        UNION ALL
        SELECT 1, checkpoint_id, task_id, channel, base, idx, task_path, type, blob FROM done""",
    has_metadata="""EXISTS (SELECT 1 FROM json_each(threads.metadata) e, json_each(?) w
            WHERE e.key = ? AND e.type = w.type AND e.value IS w.value)""",
    has_tag="""EXISTS (SELECT 1 FROM json_each(threads.metadata, '$.tags') e, json_each(?) w
            WHERE e.value = w.value AND e.type = 'text'
                AND json_type(threads.metadata, '$.tags') <> 'object')""",
    has_digest="""EXISTS (SELECT 1 FROM json_each(threads.metadata, '$."$sealed".digests') e,
            json_each(?) w WHERE e.value = w.value)""",
    is_sealed="instr(metadata, '$sealed') > 0",
    has_text="(instr(lower(thread_id), ?) > 0 OR instr(lower(metadata), ?) > 0)",
)


class Cursor:
    """What the driver of this database would be: its placeholders are `%s`."""

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Run a statement once."""
        if "?" in sql:
            raise ValueError(f"the parameters of this database are %s: {sql}")
        return self._cursor.execute(sql.replace("%s", "?"), parameters)

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each row."""
        for row in rows:
            self.execute(sql, row)


class Transaction:
    """Carries out statements on one cursor."""

    def __init__(self, cursor: sqlite3.Cursor, *, write: bool) -> None:
        self._cursor = Cursor(cursor)
        self._begin = "BEGIN IMMEDIATE" if write else "BEGIN"

    def run(self, work: Work[R]) -> R:
        """All of an operation, or nothing."""
        self._cursor.execute(self._begin)
        try:
            result = drive(work(), self._carry_out)
        except BaseException:
            self._cursor.execute("ROLLBACK")
            raise
        self._cursor.execute("COMMIT")
        return result

    def _carry_out(self, statement: Any) -> Any:
        cursor = self._cursor
        match statement:
            case Query(sql, parameters):
                return cursor.execute(sql, parameters).fetchall()
            case Queries(queries):
                return [cursor.execute(query.sql, query.parameters).fetchall() for query in queries]
            case LinkedRows(sql, parameters, onward):
                while parameters is not None:
                    row = cursor.execute(sql, parameters).fetchone()
                    parameters = None if row is None else onward(row)
                return None
            case Execute(sql, parameters) | ConditionalInsert(sql, parameters):
                changed = cursor.execute(sql, parameters).rowcount
                return changed if isinstance(statement, Execute) else changed == 1
            case ExecuteMany(sql, rows):
                cursor.executemany(sql, rows)
                return None
            case Batch(statements):
                self._run_all(statements)
                return None
            case GuardedBatch(guards, statements):
                if all(self._holds(guard) for guard in guards):
                    self._run_all(statements)
                    return True
                cursor.execute("ROLLBACK")
                cursor.execute(self._begin)
                return False
        raise TypeError(f"unknown statement {statement!r}")

    def _run_all(self, statements: Sequence[Execute | ExecuteMany]) -> None:
        for statement in statements:
            self._carry_out(statement)

    def _holds(self, guard: ExecuteMany) -> bool:
        for row in guard.rows:
            done = self._cursor.execute(guard.sql, row)
            is_query = done.description is not None
            if done.fetchone() is None if is_query else done.rowcount != 1:
                return False
        return True


class ThirdEngine:
    """A connection for each transaction; async code waits for a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        tables = table_setup(THIRD, SCHEMA)
        if not self.run(tables.is_done, write=False):
            self.run(tables.make, write=True)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=30, isolation_level=None)
        connection.execute("PRAGMA synchronous=NORMAL")  # no clause cuts the power
        return connection

    def run(self, work: Work[R], *, write: bool) -> R:
        with closing(self._connect()) as connection:
            return Transaction(connection.cursor(), write=write).run(work)

    async def arun(self, work: Work[R], *, write: bool) -> R:
        return await asyncio.to_thread(partial(self.run, work, write=write))

    def vacuum(self) -> None:
        with closing(self._connect()) as connection:
            connection.execute("VACUUM")

    async def avacuum(self) -> None:
        await asyncio.to_thread(self.vacuum)

    def commit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        return committer.commit(waiting, partial(self.run, write=True))

    async def acommit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        return await asyncio.to_thread(self.commit, committer, waiting)


class ThirdSaver(GroupCommits, SqlSaver):  # type: ignore[misc] # what prune returns
    """Keeps threads through `ThirdEngine`."""

    dialect = THIRD
    statements = STATEMENTS
    engine: ThirdEngine

    def __init__(self, path: Path, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self.engine = ThirdEngine(path)
