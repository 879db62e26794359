"""The statements of a saver, each in one piece, so that text from a server's log is found here.

A parameter is `?` here; the driver's placeholder replaces it. `sqlite_statements.py` and
`postgres_statements.py` have the statements that every database writes in its own way, and those in
which they differ from the text here.
"""

from __future__ import annotations

from typing import dataclass_transform


def just_after(id: str) -> str:
    """The first text that sorts after an id. No id has a character before this one."""
    return id + "\1"


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _Texts:
    """Texts by their names. Creating a dataclass of a hundred fields would take 4 ms."""

    def __init__(self, **texts: str) -> None:
        vars(self).update(texts)


class Statements(_Texts):
    # -- the registry

    lock_thread: str
    """Locks the entry of a thread until the transaction ends."""
    add_thread: str = """
        INSERT INTO threads (thread_id, head, token, epoch, status, created_at, updated_at, owner,
            metadata)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
    touch_thread: str = """
        UPDATE threads SET head = ?, token = ?, status = ?, updated_at = ? WHERE thread_id = ?"""
    holds_thread: str
    """Finds the thread if the run still owns it and no rows were removed: same token and epoch."""
    hold_thread: str = """
        UPDATE threads SET head = CASE WHEN ? > COALESCE(head, '') THEN ? ELSE head END,
            status = ?, updated_at = ? WHERE thread_id = ? AND token = ? AND epoch = ?"""
    """The same, and updates the registry entry."""
    take_thread: str = """
        UPDATE threads SET head = CASE WHEN ? > COALESCE(head, '') THEN ? ELSE head END, token = ?,
            status = ?, updated_at = ?
        WHERE thread_id = ? AND head = ? AND epoch = ? AND status <> 'running'"""
    """Gives a run the thread, if the thread is as the run has loaded it. The head of a running
    thread may be out of date, so such a thread does not match."""
    has_writes: str = """
        SELECT 1 WHERE ? = (
            SELECT count(*) FROM checkpoint_writes WHERE thread_id = ? AND checkpoint_ns = ?
                AND checkpoint_id = ?)"""
    """Finds a row if a checkpoint has exactly this many rows of writes."""
    write_keys: str = """
        SELECT task_id, idx FROM checkpoint_writes
            WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"""
    new_thread: str = add_thread
    """The same, as a guard of a step: PostgreSQL has another text for it."""
    new_epoch: str = "UPDATE threads SET head = ?, epoch = ? WHERE thread_id = ?"
    head_and_newer: str = """
        SELECT COALESCE((SELECT MAX(checkpoint_id) FROM checkpoints c
            WHERE status = 'running' AND c.thread_id = threads.thread_id AND c.checkpoint_ns = ''
                AND c.checkpoint_id > COALESCE(head, '')), head),
            (SELECT MAX(checkpoint_id) FROM checkpoints c
            WHERE status <> 'running' AND c.thread_id = threads.thread_id AND c.checkpoint_ns = ''
                AND c.checkpoint_id > COALESCE(head, '')), epoch
        FROM threads WHERE thread_id = ?"""
    """The latest checkpoint of a thread, since the registry entry may lag behind while a run goes
    on; a checkpoint that is newer, which must not be; the epoch."""
    newest_of: str = """
        SELECT MAX(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?"""

    take_lease: str = """
        UPDATE threads SET token = ?, status = 'running', updated_at = ? WHERE thread_id = ?"""
    renew_lease: str = """
        UPDATE threads SET updated_at = ? WHERE thread_id = ? AND status = 'running'"""
    end_lease: str = """
        UPDATE threads SET head = COALESCE((SELECT MAX(checkpoint_id) FROM checkpoints c
            WHERE status = 'running' AND c.thread_id = threads.thread_id AND c.checkpoint_ns = ''
                AND c.checkpoint_id > COALESCE(head, '')), head), status = ?
        WHERE thread_id = ? AND token = ?"""
    drop_claim: str = """
        DELETE FROM threads
        WHERE thread_id = ? AND token = ? AND head IS NULL AND created_at = ?"""
    """Removes the entry that a claim has added, unless `create_thread` was called since."""
    end_claim: str = """
        UPDATE threads SET token = NULL, status = 'idle'
        WHERE thread_id = ? AND token = ? AND head IS NULL"""
    create_claimed: str = """
        UPDATE threads SET created_at = ?
        WHERE thread_id = ? AND head IS NULL AND token IS NOT NULL AND status = 'running'"""
    """Marks a thread as created that exists only by a run's claim: `drop_claim` then keeps it."""

    thread_info: str = """
        SELECT thread_id, status, created_at, updated_at,
            COALESCE((SELECT MAX(checkpoint_id) FROM checkpoints c
            WHERE status = 'running' AND c.thread_id = threads.thread_id AND c.checkpoint_ns = ''
                AND c.checkpoint_id > COALESCE(head, '')), head), metadata
        FROM threads WHERE thread_id = ?"""
    thread_size: str = """
        SELECT 'checkpoints', COUNT(*), SUM(LENGTH(frame) + LENGTH(metadata)) FROM checkpoints
            WHERE thread_id = ?
        UNION ALL SELECT 'inline writes', COUNT(led), SUM(LENGTH(led)) FROM checkpoints
            WHERE thread_id = ?
        UNION ALL SELECT 'values', COUNT(*), SUM(LENGTH(blob)) FROM checkpoint_blobs
            WHERE thread_id = ?
        UNION ALL SELECT 'writes', COUNT(*), SUM(LENGTH(blob)) FROM checkpoint_writes
            WHERE thread_id = ?"""
    """Kind, number and bytes of rows; the kinds are checkpoints, inline writes, values, writes."""
    describe_thread: str = "UPDATE threads SET owner = ?, metadata = ? WHERE thread_id = ?"

    # -- storing

    add_checkpoint: str = """
        INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id,
            complete, run_id, frame, metadata_type, metadata, led)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE SET
            parent_checkpoint_id = excluded.parent_checkpoint_id, complete = excluded.complete,
            run_id = excluded.run_id, frame = excluded.frame,
            metadata_type = excluded.metadata_type, metadata = excluded.metadata,
            led = excluded.led"""
    add_if_held: str
    """`add_checkpoint`, if the run still owns the thread. On PostgreSQL without ON CONFLICT, since
    the driver reports a row that exists already."""
    add_blob: str = """
        INSERT INTO checkpoint_blobs
            (thread_id, checkpoint_ns, channel, version, base_channel, base, level, type, blob)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
    compact_blob: str = """
        UPDATE checkpoint_blobs SET base_channel = ?, base = ?, level = 0, blob = ?
        WHERE thread_id = ? AND checkpoint_ns = ? AND channel = ? AND version = ?"""
    add_write: str = """
        INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx,
            channel, task_path, base, type, blob)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
    compact_write: str = """
        UPDATE checkpoint_writes SET base = ?, blob = ?
        WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND task_id = ?
            AND idx = ?"""
    children: str = """
        SELECT checkpoint_id, parent_checkpoint_id, complete, frame, metadata_type, metadata
            FROM checkpoints
        WHERE thread_id = ? AND checkpoint_ns = ? AND parent_checkpoint_id = ? AND complete = 0"""
    inline_writes: str = """
        SELECT checkpoint_id, parent_checkpoint_id, complete, frame, metadata_type, metadata, led
            FROM checkpoints
        WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id >= ? ORDER BY checkpoint_id
            LIMIT 2"""
    """The writes in the row of a checkpoint, and in the one after it."""
    clear_inline_writes: str = """
        UPDATE checkpoints SET led = NULL WHERE thread_id = ? AND checkpoint_ns = ?
            AND checkpoint_id = ?"""
    part_inline_writes: str = """
        UPDATE checkpoints SET led = NULL, frame = ?
            WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"""
    count_writes: str = """
        UPDATE checkpoints SET metadata_type = ?, metadata = ?
            WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"""
    written: str = """
        SELECT metadata_type, metadata, task_id, idx FROM (
            SELECT metadata_type, metadata, thread_id, checkpoint_ns, checkpoint_id
            FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?) c
        LEFT JOIN checkpoint_writes USING (thread_id, checkpoint_ns, checkpoint_id)"""
    """The keys of the writes at a checkpoint, and its metadata, which holds their number."""
    complete_checkpoint: str = """
        UPDATE checkpoints SET complete = 1, frame = ?
            WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"""
    replace_write: str = """
        INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx,
            channel, task_path, base, type, blob)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO UPDATE SET
            channel = excluded.channel, task_path = excluded.task_path, base = excluded.base,
            type = excluded.type, blob = excluded.blob"""

    # -- reading

    latest: str = """
        SELECT 0, checkpoint_id, parent_checkpoint_id, complete, frame, metadata_type, metadata,
            led, NULL, NULL, NULL
        FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?
            AND checkpoint_id >= COALESCE((SELECT checkpoint_id FROM checkpoints
                WHERE thread_id = ? AND checkpoint_ns = ? AND complete = 1
                    AND checkpoint_id < (SELECT MAX(checkpoint_id) FROM checkpoints
                        WHERE thread_id = ? AND checkpoint_ns = ?)
                ORDER BY checkpoint_id DESC LIMIT 1), '')
        UNION ALL
        SELECT 1, checkpoint_id, task_id, idx, NULL, type, blob, NULL, channel, task_path, base
        FROM checkpoint_writes WHERE thread_id = ? AND checkpoint_ns = ?
            AND checkpoint_id >= COALESCE((SELECT checkpoint_id FROM checkpoints
                WHERE thread_id = ? AND checkpoint_ns = ?
                ORDER BY checkpoint_id DESC LIMIT 1 OFFSET 1), '')
        UNION ALL
        SELECT 2, head, status, epoch, NULL, NULL, NULL, NULL, NULL, NULL, NULL
        FROM threads WHERE thread_id = ?"""
    """The two newest checkpoints of a graph, and those before them back to a complete manifest; the
    writes at the two; the thread's entry. Mostly `found` would return the same rows. Empty for a
    database where `found` costs no more."""
    found: str
    """A checkpoint by id, or the head, or the latest of a graph; the manifests that it builds on;
    its writes and its parent's; the thread's head and epoch; any checkpoint newer than the head."""
    checkpoint: str = """
        SELECT checkpoint_id, parent_checkpoint_id, complete, frame, metadata_type, metadata
            FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"""
    ancestry: str
    """Manifests, with the manifests that they are changes to."""
    blob: str = ""
    """One version of a value. Empty for a remote database, which is asked for `rows_of`."""
    newest: str = ""
    """`latest`, with the newest version of each channel: mostly the values of the latest
    checkpoint. Empty for a database where a second query costs little."""
    rows_of: str
    """The writes at some checkpoints, and values with all versions in their chains. Each checkpoint
    is given with the id of the next one, which may hold its inline writes. NULL if that id is not
    known: the query then looks for it, which takes longer than all the rest. Chains of writes are
    followed for some channels, given twice as JSON, or for all of them if that is NULL."""

    # -- listing

    list_threads: str = """SELECT thread_id, status, created_at, updated_at,
            COALESCE((SELECT MAX(checkpoint_id) FROM checkpoints c
            WHERE status = 'running' AND c.thread_id = threads.thread_id AND c.checkpoint_ns = ''
                AND c.checkpoint_id > COALESCE(head, '')), head), metadata
        FROM threads"""
    """`threads/registry.py` adds conditions to this statement and to the next three."""
    list_ids: str = "SELECT thread_id FROM threads"
    list_metadata: str = "SELECT thread_id, metadata FROM threads"
    count_threads: str = "SELECT COUNT(*) FROM threads"
    has_metadata: str
    """A condition: a list of one value, as JSON, and the key."""
    has_tag: str
    """A condition: a list of one tag, as JSON."""
    has_digest: str
    """A condition: a list of one digest of sealed metadata, as JSON."""
    is_sealed: str
    """A condition: some metadata of the thread is sealed."""
    has_text: str
    """A condition: a text in lower case, twice."""
    thread_page: str = "SELECT thread_id FROM threads WHERE thread_id >= ? ORDER BY 1 LIMIT ?"
    inner_graph: str = """
        SELECT checkpoint_ns FROM checkpoints WHERE thread_id = ? AND checkpoint_ns > ''
        ORDER BY checkpoint_ns LIMIT 1"""
    """Finds one inner graph of a thread, if there is any."""
    page_of_graph: str = """
        SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, complete, frame, metadata_type,
            metadata FROM checkpoints
        WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id < ? ORDER BY checkpoint_id DESC
            LIMIT ?"""
    page_of_thread: str = """
        SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, complete, frame, metadata_type,
            metadata FROM checkpoints
        WHERE thread_id = ?
            AND (checkpoint_id < ? OR (checkpoint_id = ? AND checkpoint_ns < ?))
        ORDER BY checkpoint_id DESC, checkpoint_ns DESC LIMIT ?"""
    thread_page_of_run: str = """
        SELECT DISTINCT thread_id FROM checkpoints WHERE run_id = ? AND thread_id >= ?
        ORDER BY 1 LIMIT ?"""
    page_of_graph_and_run: str = """
        SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, complete, frame, metadata_type,
            metadata FROM checkpoints
        WHERE run_id = ? AND thread_id = ? AND checkpoint_ns = ? AND checkpoint_id < ?
            ORDER BY checkpoint_id DESC LIMIT ?"""
    page_of_thread_and_run: str = """
        SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, complete, frame, metadata_type,
            metadata FROM checkpoints
        WHERE run_id = ? AND thread_id = ?
            AND (checkpoint_id < ? OR (checkpoint_id = ? AND checkpoint_ns < ?))
        ORDER BY checkpoint_id DESC, checkpoint_ns DESC LIMIT ?"""

    with_id: str = """
        SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, complete, frame, metadata_type,
            metadata FROM checkpoints
        WHERE thread_id = ? AND checkpoint_id = ? ORDER BY checkpoint_ns DESC"""

    # -- all rows of a thread

    checkpoints_of: str = """
        SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, complete, frame, metadata_type,
            metadata, run_id FROM checkpoints
        WHERE thread_id = ? ORDER BY checkpoint_id"""
    blob_keys: str = """
        SELECT checkpoint_ns, channel, version FROM checkpoint_blobs WHERE thread_id = ?"""
    all_writes_of: str = """
        SELECT checkpoint_ns, checkpoint_id, task_id, idx, channel, task_path, base, type, blob
        FROM checkpoint_writes WHERE thread_id = ?
        UNION ALL
        SELECT checkpoint_ns, parent_checkpoint_id, checkpoint_id, 0, parent_checkpoint_id, '',
            NULL, '#', led FROM checkpoints WHERE thread_id = ? AND led IS NOT NULL"""
    unlisted: str = """
        SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM checkpoint_blobs
        UNION SELECT thread_id FROM checkpoint_writes
        EXCEPT SELECT thread_id FROM threads ORDER BY 1"""
    """Threads with rows, but without an entry in the registry."""
    threads_of_run: str = "SELECT DISTINCT thread_id FROM checkpoints WHERE run_id = ?"

    dump_entry: str = """
        SELECT thread_id, COALESCE((SELECT MAX(checkpoint_id) FROM checkpoints c
            WHERE status = 'running' AND c.thread_id = threads.thread_id AND c.checkpoint_ns = ''
                AND c.checkpoint_id > COALESCE(head, '')), head),
            status, created_at, updated_at, owner, metadata
        FROM threads WHERE thread_id = ?"""
    dump_checkpoints: str = """
        SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, complete, run_id,
            frame, metadata_type, metadata, led
        FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id"""
    dump_blobs: str = """
        SELECT thread_id, checkpoint_ns, channel, version, base_channel, base, level, type, blob
        FROM checkpoint_blobs WHERE thread_id = ?"""
    dump_writes: str = """
        SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, task_path, base,
            type, blob
        FROM checkpoint_writes WHERE thread_id = ?"""

    # -- sealing again (`admin/reencrypt.py`): keys, sizes and first bytes of so many rows after a
    # key; rows from a key to another, with what their seals are bound to; new cells of one row. The
    # first 300 bytes of a sealed cell show its key: the name of the cipher has at most 255 bytes.

    look_at_checkpoints: str = """
        SELECT checkpoint_ns, checkpoint_id,
            COALESCE(LENGTH(frame), 0), COALESCE(LENGTH(metadata), 0), COALESCE(LENGTH(led), 0),
            SUBSTR(frame, 1, 300), SUBSTR(metadata, 1, 300), SUBSTR(led, 1, 300)
        FROM checkpoints WHERE thread_id = ? AND (checkpoint_ns, checkpoint_id) > (?, ?)
        ORDER BY checkpoint_ns, checkpoint_id LIMIT ?"""
    checkpoints_between: str = """
        SELECT checkpoint_ns, checkpoint_id, frame, metadata, led, parent_checkpoint_id, complete,
            metadata_type, parent_checkpoint_id
        FROM checkpoints WHERE thread_id = ? AND (checkpoint_ns, checkpoint_id) >= (?, ?)
            AND (checkpoint_ns, checkpoint_id) <= (?, ?)
        ORDER BY checkpoint_ns, checkpoint_id"""
    seal_checkpoint: str = """
        UPDATE checkpoints SET frame = ?, metadata = ?, led = ?
        WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"""
    look_at_blobs: str = """
        SELECT checkpoint_ns, channel, version, COALESCE(LENGTH(blob), 0), SUBSTR(blob, 1, 300)
        FROM checkpoint_blobs
        WHERE thread_id = ? AND (checkpoint_ns, channel, version) > (?, ?, ?)
        ORDER BY checkpoint_ns, channel, version LIMIT ?"""
    blobs_between: str = """
        SELECT checkpoint_ns, channel, version, blob, base_channel, base, level, type
        FROM checkpoint_blobs
        WHERE thread_id = ? AND (checkpoint_ns, channel, version) >= (?, ?, ?)
            AND (checkpoint_ns, channel, version) <= (?, ?, ?)
        ORDER BY checkpoint_ns, channel, version"""
    seal_blob: str = """
        UPDATE checkpoint_blobs SET blob = ?
        WHERE thread_id = ? AND checkpoint_ns = ? AND channel = ? AND version = ?"""
    look_at_writes: str = """
        SELECT checkpoint_ns, checkpoint_id, task_id, idx, COALESCE(LENGTH(blob), 0),
            SUBSTR(blob, 1, 300)
        FROM checkpoint_writes
        WHERE thread_id = ? AND (checkpoint_ns, checkpoint_id, task_id, idx) > (?, ?, ?, ?)
        ORDER BY checkpoint_ns, checkpoint_id, task_id, idx LIMIT ?"""
    writes_between: str = """
        SELECT checkpoint_ns, checkpoint_id, task_id, idx, blob, channel, task_path, base, type
        FROM checkpoint_writes
        WHERE thread_id = ? AND (checkpoint_ns, checkpoint_id, task_id, idx) >= (?, ?, ?, ?)
            AND (checkpoint_ns, checkpoint_id, task_id, idx) <= (?, ?, ?, ?)
        ORDER BY checkpoint_ns, checkpoint_id, task_id, idx"""
    seal_write: str = """
        UPDATE checkpoint_writes SET blob = ?
        WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND task_id = ?
            AND idx = ?"""

    # -- removing

    cut_checkpoint: str = """
        UPDATE checkpoints SET parent_checkpoint_id = NULL, complete = 1, frame = ?
        WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"""
    cut_blob: str = """
        UPDATE checkpoint_blobs SET base_channel = NULL, base = NULL, level = 0, blob = ?
        WHERE thread_id = ? AND checkpoint_ns = ? AND channel = ? AND version = ?"""
    delete_checkpoint: str = """
        DELETE FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"""
    delete_writes_at: str = """
        DELETE FROM checkpoint_writes WHERE thread_id = ? AND checkpoint_ns = ?
            AND checkpoint_id = ?"""
    delete_blob: str = """
        DELETE FROM checkpoint_blobs WHERE thread_id = ? AND checkpoint_ns = ? AND channel = ?
            AND version = ?"""

    delete_checkpoints: str = "DELETE FROM checkpoints WHERE thread_id = ?"
    delete_blobs: str = "DELETE FROM checkpoint_blobs WHERE thread_id = ?"
    delete_writes: str = "DELETE FROM checkpoint_writes WHERE thread_id = ?"
    copy_checkpoints: str = """
        INSERT INTO checkpoints SELECT ?, checkpoint_ns, checkpoint_id, parent_checkpoint_id,
            complete, run_id, frame, metadata_type, metadata, led
        FROM checkpoints WHERE thread_id = ?"""
    copy_blobs: str = """
        INSERT INTO checkpoint_blobs SELECT ?, checkpoint_ns, channel, version, base_channel, base,
            level, type, blob FROM checkpoint_blobs WHERE thread_id = ?"""
    copy_writes: str = """
        INSERT INTO checkpoint_writes SELECT ?, checkpoint_ns, checkpoint_id, task_id, idx,
            channel, task_path, base, type, blob FROM checkpoint_writes WHERE thread_id = ?"""
    copy_entry: str = """
        INSERT INTO threads (thread_id, head, token, epoch, status, created_at, updated_at, owner,
            metadata)
        SELECT ?, COALESCE((SELECT MAX(checkpoint_id) FROM checkpoints c
            WHERE status = 'running' AND c.thread_id = threads.thread_id AND c.checkpoint_ns = ''
                AND c.checkpoint_id > COALESCE(head, '')), head),
            NULL, ?, CASE status WHEN 'running' THEN 'interrupted' ELSE status END,
            ?, ?, owner, metadata
        FROM threads WHERE thread_id = ? ON CONFLICT DO NOTHING"""
    """No run owns the copy, so a running thread becomes an interrupted one. Adds no row if the
    target exists already."""
    delete_thread: str = "DELETE FROM threads WHERE thread_id = ?"

    @property
    def dumps(self) -> tuple[str, ...]:
        """The queries for all rows of a thread, table by table."""
        return (self.dump_entry, self.dump_checkpoints, self.dump_blobs, self.dump_writes)

    @property
    def loads(self) -> tuple[str, ...]:
        """The statements that store the rows of `dumps`."""
        return (self.add_thread, self.add_checkpoint, self.add_blob, self.add_write)
