"""The statements of a saver that are specific to SQLite.

Values are read and added through the view `checkpoint_values` (`large.py`). An INSERT into the view
does nothing if the row exists already.
"""

from __future__ import annotations

from typing import Final

from milepost.checkpoint._sql.statements import Statements

STATEMENTS: Final = Statements(
    lock_thread="""
        SELECT head, token, epoch, status, updated_at FROM threads WHERE thread_id = ?""",
    holds_thread="SELECT 1 FROM threads WHERE thread_id = ? AND token = ? AND epoch = ?",
    thread_size="""
        SELECT 'checkpoints', COUNT(*), SUM(LENGTH(frame) + LENGTH(metadata)) FROM checkpoints
            WHERE thread_id = ?
        UNION ALL SELECT 'inline writes', COUNT(led), SUM(LENGTH(led)) FROM checkpoints
            WHERE thread_id = ?
        UNION ALL SELECT 'values', COUNT(*), SUM(LENGTH(blob)) FROM checkpoint_values
            WHERE thread_id = ?
        UNION ALL SELECT 'writes', COUNT(*), SUM(LENGTH(blob)) FROM checkpoint_writes
            WHERE thread_id = ?""",
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
    add_blob="""
        INSERT INTO checkpoint_values
            (thread_id, checkpoint_ns, channel, version, base_channel, base, level, type, blob)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
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
        SELECT channel, version, base_channel, base, level, type, blob FROM checkpoint_held
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
        FROM chain CROSS JOIN checkpoint_held b ON b.thread_id = ? AND b.checkpoint_ns = ?
            AND b.channel = chain.channel AND b.version = chain.version
        UNION ALL
        SELECT 1, checkpoint_id, task_id, channel, base, idx, task_path, type, blob FROM done""",
    # json_each compares the key as text; other JSON functions would read it as a path.
    has_metadata="""EXISTS (SELECT 1 FROM json_each(threads.metadata) e, json_each(?) w
            WHERE e.key = ? AND e.type = w.type AND e.value IS w.value)""",
    has_tag="""EXISTS (SELECT 1 FROM json_each(threads.metadata, '$.tags') e, json_each(?) w
            WHERE e.value = w.value AND e.type = 'text'
                AND json_type(threads.metadata, '$.tags') <> 'object')""",
    has_digest="""EXISTS (SELECT 1 FROM json_each(threads.metadata, '$."$sealed".digests') e,
            json_each(?) w WHERE e.value = w.value)""",
    is_sealed="instr(metadata, '$sealed') > 0",
    has_text="(instr(lower(thread_id), ?) > 0 OR instr(lower(metadata), ?) > 0)",
    dump_blobs="""
        SELECT thread_id, checkpoint_ns, channel, version, base_channel, base, level, type, blob
        FROM checkpoint_values WHERE thread_id = ?""",
    cut_blob="""
        UPDATE checkpoint_values SET base_channel = NULL, base = NULL, level = 0, blob = ?
        WHERE thread_id = ? AND checkpoint_ns = ? AND channel = ? AND version = ?""",
    copy_blobs="""
        INSERT INTO checkpoint_values SELECT ?, checkpoint_ns, channel, version, base_channel,
            base, level, type, blob FROM checkpoint_values WHERE thread_id = ?""",
    look_at_blobs="""
        SELECT checkpoint_ns, channel, version, COALESCE(LENGTH(blob), 0), SUBSTR(blob, 1, 300)
        FROM checkpoint_values
        WHERE thread_id = ? AND (checkpoint_ns, channel, version) > (?, ?, ?)
        ORDER BY checkpoint_ns, channel, version LIMIT ?""",
    blobs_between="""
        SELECT checkpoint_ns, channel, version, blob, base_channel, base, level, type
        FROM checkpoint_values
        WHERE thread_id = ? AND (checkpoint_ns, channel, version) >= (?, ?, ?)
            AND (checkpoint_ns, channel, version) <= (?, ?, ?)
        ORDER BY checkpoint_ns, channel, version""",
    seal_blob="""
        UPDATE checkpoint_values SET blob = ?
        WHERE thread_id = ? AND checkpoint_ns = ? AND channel = ? AND version = ?""",
)
