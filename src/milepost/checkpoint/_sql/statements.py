"""The statements of a saver, in the common dialect."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING

from milepost.checkpoint._sql.inline_writes import INLINE_WRITES
from milepost.checkpoint._sql.large import through_values

if TYPE_CHECKING:
    from milepost._db.dialect import Dialect

_CHECKPOINT = "checkpoint_id, parent_checkpoint_id, complete, frame, metadata_type, metadata"

_KEY = "thread_id = ? AND checkpoint_ns = ?"

HEAD = """CASE WHEN status = 'running' THEN COALESCE((SELECT MAX(checkpoint_id) FROM checkpoints c
                WHERE c.thread_id = threads.thread_id AND c.checkpoint_ns = ''
                    AND c.checkpoint_id > COALESCE(head, '')), head) ELSE head END"""
"""The latest checkpoint of a thread: while a run goes on, its entry may lag behind."""

_NEWER = """CASE WHEN status <> 'running' THEN (SELECT MAX(checkpoint_id) FROM checkpoints c
                WHERE c.thread_id = threads.thread_id AND c.checkpoint_ns = ''
                    AND c.checkpoint_id > COALESCE(head, '')) END"""
"""A checkpoint after the head of a thread at rest: there is none, unless the thread's entry was put
back to an older copy."""

_HELD = " WHERE thread_id = ? AND token = ? AND epoch = ?"
"""The run has the thread, and nothing that it builds on was removed."""
_ADVANCED = "head = CASE WHEN ? > COALESCE(head, '') THEN ? ELSE head END"
_ADD_THREAD = """
        INSERT INTO threads (thread_id, head, token, epoch, status, created_at, updated_at)
        VALUES (?, ?, ?, ?, ?, ?, ?)"""

_ADD_CHECKPOINT = """
        INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id,
            complete, run_id, frame, metadata_type, metadata, led)
        """
_OR_REPLACE = """
        ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE SET
            parent_checkpoint_id = excluded.parent_checkpoint_id, complete = excluded.complete,
            run_id = excluded.run_id, frame = excluded.frame,
            metadata_type = excluded.metadata_type, metadata = excluded.metadata,
            led = excluded.led"""

_WANTED = f"""COALESCE(?, (SELECT {HEAD} FROM threads WHERE thread_id = ? AND ? = ''),
                (SELECT MAX(checkpoint_id) FROM checkpoints WHERE {_KEY}))"""
"""The checkpoint that is asked for, or the head, or of an inner graph the latest."""


_CHILD_ROW = f"""LOOKUP checkpoints n ON {_KEY}{{2}}
                AND checkpoint_id = COALESCE({{1}}, (SELECT MIN(m.checkpoint_id) FROM checkpoints m
                    WHERE m.thread_id = ? AND m.checkpoint_ns = ? AND m.checkpoint_id > {{0}}))
                AND parent_checkpoint_id = {{0}} END"""
"""The checkpoint after one, if that is its parent: it may hold writes that belong there. Perhaps
its id is known: to look for the smallest after another takes longer than all the rest."""


def _rows_of(which: str) -> str:
    """The writes at some checkpoints, and values with the versions that they are made of.

    `which` of the writes are to be put together; the others are only looked at.
    """
    return f"""
        WITH RECURSIVE wanted AS (SELECT a, b FROM {{pairs}} AS given),
        done AS (
            SELECT checkpoint_id, task_id, channel, base, idx, task_path, type, blob
            FROM wanted LOOKUP checkpoint_writes w ON checkpoint_id = a AND {_KEY} END
            UNION ALL
            SELECT a, checkpoint_id, '', NULL, 0, '', '{INLINE_WRITES}', led
            FROM wanted {_CHILD_ROW.format("a", "b", " AND led IS NOT NULL")}),
        chain (channel, version) AS (
            SELECT a, b FROM {{pairs}} AS pairs
            UNION
            SELECT channel, base FROM done WHERE base IS NOT NULL{which}
            UNION
            SELECT COALESCE(c.base_channel, c.channel), c.base FROM chain
            LOOKUP checkpoint_blobs c ON c.thread_id = ? AND c.checkpoint_ns = ?
                AND c.channel = chain.channel AND c.version = chain.version END
            WHERE c.base IS NOT NULL)
        SELECT 0, b.channel, b.version, b.base_channel, b.base, b.level, NULL, b.type, b.blob
        FROM chain LOOKUP checkpoint_held b ON b.thread_id = ? AND b.checkpoint_ns = ?
            AND b.channel = chain.channel AND b.version = chain.version END
        UNION ALL
        SELECT 1, checkpoint_id, task_id, channel, base, idx, task_path, type, blob FROM done"""


_TIPS = f"""tip (channel, version) AS (
            (SELECT channel, version FROM checkpoint_blobs
                WHERE {_KEY} ORDER BY channel DESC, version DESC LIMIT 1)
            UNION ALL
            SELECT t.channel, t.version FROM tip, LATERAL (
                SELECT channel, version FROM checkpoint_blobs WHERE {_KEY} AND channel < tip.channel
                ORDER BY channel DESC, version DESC LIMIT 1) t),
        """


def _chains(before: str, tips: str) -> str:
    return f"""
        WITH RECURSIVE {before}chain (channel, version) AS (
            {tips}
            UNION
            SELECT COALESCE(c.base_channel, c.channel), c.base FROM chain
            LOOKUP checkpoint_blobs c ON c.thread_id = ? AND c.checkpoint_ns = ?
                AND c.channel = chain.channel AND c.version = chain.version END
            WHERE c.base IS NOT NULL)
        SELECT b.channel, b.version, b.base_channel, b.base, b.level, b.type, b.blob FROM chain
        LOOKUP checkpoint_held b ON b.thread_id = ? AND b.checkpoint_ns = ?
            AND b.channel = chain.channel AND b.version = chain.version END"""


def _page_of_graph(which: str) -> str:
    return f"""
        SELECT checkpoint_ns, {_CHECKPOINT} FROM checkpoints
        WHERE {which}{_KEY} AND checkpoint_id < ? ORDER BY checkpoint_id DESC LIMIT ?"""


def _page_of_thread(which: str) -> str:
    return f"""
        SELECT checkpoint_ns, {_CHECKPOINT} FROM checkpoints
        WHERE {which}thread_id = ?
            AND (checkpoint_id < ? OR (checkpoint_id = ? AND checkpoint_ns < ?))
        ORDER BY checkpoint_id DESC, checkpoint_ns DESC LIMIT ?"""


@dataclass(frozen=True, slots=True)
class Statements:
    """Every statement by its name."""

    # -- the registry

    thread: str = "SELECT token FROM threads WHERE thread_id = ?"
    lock_thread: str = "SELECT head, token, epoch, status FROM threads WHERE thread_id = ?{lock}"
    lock_unused_thread: str = "SELECT 1 FROM threads WHERE thread_id = ? AND updated_at < ?{lock}"
    add_thread: str = _ADD_THREAD
    touch_thread: str = (
        "UPDATE threads SET head = ?, token = ?, status = ?, updated_at = ? WHERE thread_id = ?"
    )
    holds_thread: str = f"SELECT 1 FROM threads{_HELD}{{lock_threads}}"
    """Finds a thread if the run still has it and nothing that it builds on was removed."""
    hold_thread: str = f"""
        UPDATE threads SET {_ADVANCED}, status = ?, updated_at = ?{_HELD}"""
    """The same, and brings its entry up to date."""
    take_thread: str = f"""
        UPDATE threads SET {_ADVANCED}, token = ?, status = ?, updated_at = ?
        WHERE thread_id = ? AND head = ? AND epoch = ? AND status <> 'running'"""
    """Gives a run a thread that is as the run has found it. Where a run goes on, or did before
    it was killed, the entry does not say how far it has come."""
    has_writes: str = f"""
        SELECT 1 WHERE ? = (
            SELECT count(*) FROM checkpoint_writes WHERE {_KEY} AND checkpoint_id = ?)"""
    """Whether there are so many writes at a checkpoint."""
    writers: str = (
        f"SELECT DISTINCT task_id FROM checkpoint_writes WHERE {_KEY} AND checkpoint_id = ?"
    )
    new_thread: str = f"{_ADD_THREAD} ON CONFLICT DO NOTHING"
    new_described_thread: str = """
        INSERT INTO threads (thread_id, head, token, epoch, status, created_at, updated_at, owner,
            metadata)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
    new_epoch: str = "UPDATE threads SET head = ?, epoch = ? WHERE thread_id = ?"
    head: str = f"SELECT {HEAD} FROM threads WHERE thread_id = ?"
    head_and_newer: str = f"SELECT {HEAD}, {_NEWER} FROM threads WHERE thread_id = ?"

    newest_of: str = (
        "SELECT MAX(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?"
    )

    lock_lease: str = "SELECT token, status, updated_at FROM threads WHERE thread_id = ?{lock}"
    take_lease: str = (
        "UPDATE threads SET token = ?, status = 'running', updated_at = ? WHERE thread_id = ?"
    )
    renew_lease: str = (
        "UPDATE threads SET updated_at = ? WHERE thread_id = ? AND status = 'running'"
    )
    end_lease: str = (
        f"UPDATE threads SET head = {HEAD}, status = ? WHERE thread_id = ? AND token = ?"
    )
    drop_claim: str = """
        DELETE FROM threads
        WHERE thread_id = ? AND token = ? AND head IS NULL AND created_at = ?"""
    """Removes an entry that the claim has added, unless the thread was created since."""
    end_claim: str = """
        UPDATE threads SET token = NULL, status = 'idle'
        WHERE thread_id = ? AND token = ? AND head IS NULL"""
    create_claimed: str = """
        UPDATE threads SET created_at = ?
        WHERE thread_id = ? AND head IS NULL AND token IS NOT NULL AND status = 'running'"""
    """The thread of a run that has not stored anything is there to stay, whatever the run does."""

    thread_info: str = f"""
        SELECT thread_id, status, created_at, updated_at, {HEAD}, metadata
        FROM threads WHERE thread_id = ?"""
    thread_size: str = """
        SELECT 1, COUNT(*), SUM(LENGTH(frame) + LENGTH(metadata)) FROM checkpoints
            WHERE thread_id = ?
        UNION ALL SELECT 3, COUNT(led), SUM(LENGTH(led)) FROM checkpoints WHERE thread_id = ?
        UNION ALL SELECT 2, COUNT(*), SUM(LENGTH(blob)) FROM checkpoint_values WHERE thread_id = ?
        UNION ALL SELECT 3, COUNT(*), SUM(LENGTH(blob)) FROM checkpoint_writes
            WHERE thread_id = ?"""
    thread_metadata: str = "SELECT metadata FROM threads WHERE thread_id = ?"
    describe_thread: str = "UPDATE threads SET owner = ?, metadata = ? WHERE thread_id = ?"

    # -- storing

    add_checkpoint: str = f"{_ADD_CHECKPOINT}VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?){_OR_REPLACE}"
    add_if_held: str = (
        f"{_ADD_CHECKPOINT}SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, CAST(? AS {{bytes}})"
        f" FROM threads{_HELD}{{lock}}{_OR_REPLACE}"
    )
    """The same, if the run still has the thread. Where a driver tells that a row is there already,
    without the last part."""
    add_blob: str = """
        INSERT INTO checkpoint_values
            (thread_id, checkpoint_ns, channel, version, base_channel, base, level, type, blob)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) UNLESS THERE"""
    compact_blob: str = f"""
        UPDATE checkpoint_blobs SET base_channel = ?, base = ?, level = 0, blob = ?
        WHERE {_KEY} AND channel = ? AND version = ?"""
    add_write: str = """
        INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx,
            channel, task_path, base, type, blob)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
    compact_write: str = f"""
        UPDATE checkpoint_writes SET base = ?, blob = ?
        WHERE {_KEY} AND checkpoint_id = ? AND task_id = ? AND idx = ?"""
    children: str = f"""
        SELECT {_CHECKPOINT} FROM checkpoints
        WHERE {_KEY} AND parent_checkpoint_id = ? AND complete = 0"""
    inline_writes: str = f"""
        SELECT {_CHECKPOINT}, led FROM checkpoints
        WHERE {_KEY} AND checkpoint_id >= ? ORDER BY checkpoint_id LIMIT 2"""
    """The writes in the row of a checkpoint, and in the one after it."""
    clear_inline_writes: str = (
        f"UPDATE checkpoints SET led = NULL WHERE {_KEY} AND checkpoint_id = ?"
    )
    part_inline_writes: str = f"""
        UPDATE checkpoints SET led = NULL, frame = ? WHERE {_KEY} AND checkpoint_id = ?"""
    count_writes: str = f"""
        UPDATE checkpoints SET metadata_type = ?, metadata = ? WHERE {_KEY} AND checkpoint_id = ?"""
    written: str = f"""
        SELECT metadata_type, metadata, task_id, idx FROM (
            SELECT metadata_type, metadata, thread_id, checkpoint_ns, checkpoint_id
            FROM checkpoints WHERE {_KEY} AND checkpoint_id = ?) c
        LEFT JOIN checkpoint_writes USING (thread_id, checkpoint_ns, checkpoint_id)"""
    """The keys of the writes at a checkpoint, and its metadata, with which they are counted."""
    complete_checkpoint: str = f"""
        UPDATE checkpoints SET complete = 1, frame = ? WHERE {_KEY} AND checkpoint_id = ?"""
    replace_write: str = """
        INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx,
            channel, task_path, base, type, blob)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO UPDATE SET
            channel = excluded.channel, task_path = excluded.task_path, base = excluded.base,
            type = excluded.type, blob = excluded.blob"""

    # -- reading

    found: str = f"""
        WITH RECURSIVE entry (head, epoch, newer) AS (
            SELECT {HEAD}, epoch, {_NEWER} FROM threads WHERE thread_id = ?),
        line (id, depth) AS (
            SELECT COALESCE(?, (SELECT head FROM entry WHERE ? = ''),
                (SELECT MAX(checkpoint_id) FROM checkpoints WHERE {_KEY})), 0
            UNION ALL
            SELECT c.parent_checkpoint_id, line.depth + 1 FROM line
            LOOKUP checkpoints c ON c.thread_id = ? AND c.checkpoint_ns = ?
                AND c.checkpoint_id = id END
            WHERE c.parent_checkpoint_id IS NOT NULL AND (c.complete = 0 OR line.depth = 0)
                AND line.depth < ?)
        SELECT -depth, checkpoint_id, parent_checkpoint_id, complete, metadata_type, frame,
            metadata, NULL, NULL, NULL
        FROM line LOOKUP checkpoints c ON {_KEY} AND checkpoint_id = id END
        UNION ALL
        SELECT 1, checkpoint_id, task_id, idx, type, blob, NULL, channel, task_path, base
        FROM line LOOKUP checkpoint_writes w ON {_KEY} AND checkpoint_id = id END WHERE depth < 2
        UNION ALL
        SELECT 1, id, checkpoint_id, complete, '{INLINE_WRITES}', led,
            CASE depth WHEN 0 THEN frame END, '', '', NULL
        FROM line {_CHILD_ROW.format("id", "NULL", "")} WHERE depth < 2
        UNION ALL
        SELECT 2, head, newer, epoch, NULL, NULL, NULL, NULL, NULL, NULL FROM entry"""
    """A checkpoint, or the head, or the latest; the manifests that it builds on; its writes and its
    parent's; the thread's head and epoch, and what should not be after the head."""
    checkpoint: str = f"""
        SELECT {_CHECKPOINT} FROM checkpoints WHERE {_KEY} AND checkpoint_id = ?"""
    ancestry: str = f"""
        WITH RECURSIVE line (id) AS (
            SELECT a FROM {{items}} AS wanted
            UNION
            SELECT c.parent_checkpoint_id FROM line
            LOOKUP checkpoints c ON c.thread_id = ? AND c.checkpoint_ns = ?
                AND c.checkpoint_id = id END
            WHERE c.complete = 0)
        SELECT {_CHECKPOINT} FROM line
        LOOKUP checkpoints c ON {_KEY} AND checkpoint_id = id END"""
    """Manifests, with those that they are changes to."""
    blob: str = f"""
        SELECT channel, version, base_channel, base, level, type, blob FROM checkpoint_held
        WHERE {_KEY} AND channel = ? AND version = ?"""
    """One version of a value."""
    blobs: str = _chains("", "SELECT a, b FROM {pairs} AS wanted")
    """Values, with the versions that they are differences from."""
    newest: str = _chains(_TIPS, "SELECT channel, version FROM tip")
    """The newest values: mostly those that the latest checkpoint has."""
    rows_of: str = _rows_of("")
    rows_of_channels: str = _rows_of(" AND channel IN (SELECT a FROM {items} AS chosen)")

    # -- listing

    thread_page: str = "SELECT thread_id FROM threads WHERE thread_id > ? ORDER BY 1 LIMIT ?"
    inner_graph: str = """
        SELECT checkpoint_ns FROM checkpoints WHERE thread_id = ? AND checkpoint_ns > ''
        ORDER BY checkpoint_ns LIMIT 1"""
    """Finds one of a thread, if it has any."""
    page_of_graph: str = _page_of_graph("")
    page_of_thread: str = _page_of_thread("")
    thread_page_of_run: str = """
        SELECT DISTINCT thread_id FROM checkpoints WHERE run_id = ? AND thread_id > ?
        ORDER BY 1 LIMIT ?"""
    page_of_graph_and_run: str = _page_of_graph("run_id = ? AND ")
    page_of_thread_and_run: str = _page_of_thread("run_id = ? AND ")

    with_id: str = f"""
        SELECT checkpoint_ns, {_CHECKPOINT} FROM checkpoints
        WHERE thread_id = ? AND checkpoint_id = ? ORDER BY checkpoint_ns DESC"""

    # -- delta channels

    lineage: str = f"""
        WITH RECURSIVE line (id, first) AS (
            SELECT {_WANTED}, 1
            UNION
            SELECT c.parent_checkpoint_id, 0 FROM line
            LOOKUP checkpoints c ON c.thread_id = ? AND c.checkpoint_ns = ?
                AND c.checkpoint_id = id END
            WHERE c.parent_checkpoint_id IS NOT NULL)
        SELECT (SELECT epoch FROM threads WHERE thread_id = ?),
            (SELECT {_NEWER} FROM threads WHERE thread_id = ?), {_CHECKPOINT}
        FROM line LOOKUP checkpoints c ON {_KEY} AND checkpoint_id = id END
        ORDER BY first DESC"""
    """A checkpoint, and after it all of its ancestors, each with the thread's epoch, and with what
    should not be after the thread's head."""

    # -- all rows of a thread

    checkpoints_of: str = f"""
        SELECT checkpoint_ns, {_CHECKPOINT}, run_id FROM checkpoints
        WHERE thread_id = ? ORDER BY checkpoint_id"""
    blob_keys: str = (
        "SELECT checkpoint_ns, channel, version FROM checkpoint_blobs WHERE thread_id = ?"
    )
    blobs_of: str = """
        SELECT checkpoint_ns, channel, version, base_channel, base, level, type, blob
        FROM checkpoint_values WHERE thread_id = ?"""
    all_writes_of: str = f"""
        SELECT checkpoint_ns, checkpoint_id, task_id, idx, channel, task_path, base, type, blob
        FROM checkpoint_writes WHERE thread_id = ?
        UNION ALL
        SELECT checkpoint_ns, parent_checkpoint_id, checkpoint_id, 0, '', '', NULL,
            '{INLINE_WRITES}', led
        FROM checkpoints WHERE thread_id = ? AND led IS NOT NULL"""
    unlisted: str = """
        SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM checkpoint_blobs
        UNION SELECT thread_id FROM checkpoint_writes
        EXCEPT SELECT thread_id FROM threads ORDER BY 1"""
    """Threads that have rows, but no entry in the registry."""
    threads_of_run: str = "SELECT DISTINCT thread_id FROM checkpoints WHERE run_id = ?"

    dump_entry: str = f"""
        SELECT thread_id, {HEAD}, status, created_at, updated_at, owner, metadata
        FROM threads WHERE thread_id = ?"""
    dump_checkpoints: str = """
        SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, complete, run_id,
            frame, metadata_type, metadata, led
        FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id"""
    dump_blobs: str = """
        SELECT thread_id, checkpoint_ns, channel, version, base_channel, base, level, type, blob
        FROM checkpoint_values WHERE thread_id = ?"""
    dump_writes: str = """
        SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, task_path, base,
            type, blob
        FROM checkpoint_writes WHERE thread_id = ?"""
    load_entry: str = """
        INSERT INTO threads (thread_id, head, epoch, status, created_at, updated_at, owner,
            metadata)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""

    # -- removing

    cut_checkpoint: str = f"""
        UPDATE checkpoints SET parent_checkpoint_id = NULL, complete = 1, frame = ?
        WHERE {_KEY} AND checkpoint_id = ?"""
    cut_blob: str = f"""
        UPDATE checkpoint_values SET base_channel = NULL, base = NULL, level = 0, blob = ?
        WHERE {_KEY} AND channel = ? AND version = ?"""
    delete_checkpoint: str = f"DELETE FROM checkpoints WHERE {_KEY} AND checkpoint_id = ?"
    delete_writes_at: str = f"DELETE FROM checkpoint_writes WHERE {_KEY} AND checkpoint_id = ?"
    delete_blob: str = f"DELETE FROM checkpoint_blobs WHERE {_KEY} AND channel = ? AND version = ?"

    delete_checkpoints: str = "DELETE FROM checkpoints WHERE thread_id = ?"
    delete_blobs: str = "DELETE FROM checkpoint_blobs WHERE thread_id = ?"
    delete_writes: str = "DELETE FROM checkpoint_writes WHERE thread_id = ?"
    copy_checkpoints: str = """
        INSERT INTO checkpoints SELECT ?, checkpoint_ns, checkpoint_id, parent_checkpoint_id,
            complete, run_id, frame, metadata_type, metadata, led
        FROM checkpoints WHERE thread_id = ?"""
    copy_blobs: str = """
        INSERT INTO checkpoint_values SELECT ?, checkpoint_ns, channel, version, base_channel, base,
            level, type, blob FROM checkpoint_values WHERE thread_id = ?"""
    copy_writes: str = """
        INSERT INTO checkpoint_writes SELECT ?, checkpoint_ns, checkpoint_id, task_id, idx,
            channel, task_path, base, type, blob FROM checkpoint_writes WHERE thread_id = ?"""
    copy_entry: str = f"""
        INSERT INTO threads (thread_id, head, token, epoch, status, created_at, updated_at, owner,
            metadata)
        SELECT ?, {HEAD}, NULL, ?, CASE status WHEN 'running' THEN 'interrupted' ELSE status END,
            ?, ?, owner, metadata
        FROM threads WHERE thread_id = ? ON CONFLICT DO NOTHING"""
    """No run works on the copy: what it found half done waits to be resumed. Nothing is
    added if the other thread exists already."""
    delete_thread: str = "DELETE FROM threads WHERE thread_id = ?"

    @property
    def dumps(self) -> tuple[str, ...]:
        """All rows of a thread, table by table."""
        return (self.dump_entry, self.dump_checkpoints, self.dump_blobs, self.dump_writes)

    @property
    def loads(self) -> tuple[str, ...]:
        """The statements that store what `dumps` returned."""
        return (self.load_entry, self.add_checkpoint, self.add_blob, self.add_write)


@cache
def queries_for(dialect: Dialect) -> Statements:
    """The statements in one dialect."""
    common = Statements()
    if dialect.refuses:
        common = replace(common, add_if_held=common.add_if_held.removesuffix(_OR_REPLACE))
    texts = {f.name: through_values(dialect, getattr(common, f.name)) for f in fields(Statements)}
    return Statements(**{name: dialect.sql(text) for name, text in texts.items()})
