"""The statements of a saver that are specific to PostgreSQL.

`JOIN LATERAL (… OFFSET 0)` looks up rows by key, for one row of the other side at a time. For an
ordinary join, PostgreSQL, which knows little about a new table, would read all rows of a thread.
`LIMIT (SELECT 1000000)` makes the planner expect ten rows instead of a hundred. With a hundred, the
planner overestimates a chain of deltas and compiles the query to machine code, which takes longer
than running it. For arrays, the planner expects one row instead of ten, and looks that row up.

A guard (`GuardedBatch`) has an array for each parameter, and then the number of rows that it must
find or change. With any other number it divides by zero, so that nothing of its transaction is
stored.
"""

from __future__ import annotations

from typing import Final

from milepost.checkpoint._sql.statements import Statements

STATEMENTS: Final = Statements(
    lock_thread="""
        SELECT head, token, epoch, status, updated_at FROM threads WHERE thread_id = ?
            FOR UPDATE""",
    holds_thread="""
        WITH held AS (
            SELECT 1 FROM threads JOIN (SELECT * FROM unnest(?::text[], ?::text[], ?::bigint[])
                LIMIT (SELECT 1000000)) AS claim (thread_id, token, epoch)
                USING (thread_id, token, epoch) FOR UPDATE OF threads)
        SELECT 1 / (count(*) = ?)::integer FROM held""",
    hold_thread="""
        WITH held AS (
            UPDATE threads SET head = CASE WHEN claim.later > COALESCE(threads.head, '')
                    THEN claim.head ELSE threads.head END,
                status = claim.status, updated_at = claim.updated_at
            FROM (SELECT * FROM unnest(?::text[], ?::text[], ?::text[], ?::float8[], ?::text[],
                ?::text[], ?::bigint[]) LIMIT (SELECT 1000000))
                AS claim (later, head, status, updated_at, thread_id, token, epoch)
            WHERE threads.thread_id = claim.thread_id AND threads.token = claim.token
                AND threads.epoch = claim.epoch
            RETURNING 1)
        SELECT 1 / (count(*) = ?)::integer FROM held""",
    take_thread="""
        WITH held AS (
            UPDATE threads SET head = CASE WHEN claim.later > COALESCE(threads.head, '')
                    THEN claim.head ELSE threads.head END,
                token = claim.token, status = claim.status, updated_at = claim.updated_at
            FROM (SELECT * FROM unnest(?::text[], ?::text[], ?::text[], ?::text[], ?::float8[],
                ?::text[], ?::text[], ?::bigint[]) LIMIT (SELECT 1000000))
                AS claim (later, head, token, status, updated_at, thread_id, loaded, epoch)
            WHERE threads.thread_id = claim.thread_id AND threads.head = claim.loaded
                AND threads.epoch = claim.epoch AND threads.status <> 'running'
            RETURNING 1)
        SELECT 1 / (count(*) = ?)::integer FROM held""",
    has_writes="""
        WITH held AS (
            SELECT 1 FROM (SELECT * FROM unnest(?::bigint[], ?::text[], ?::text[], ?::text[])
                LIMIT (SELECT 1000000)) AS claim (number, thread_id, checkpoint_ns, checkpoint_id)
            WHERE claim.number = (
                SELECT count(*) FROM checkpoint_writes w WHERE w.thread_id = claim.thread_id
                    AND w.checkpoint_ns = claim.checkpoint_ns
                    AND w.checkpoint_id = claim.checkpoint_id))
        SELECT 1 / (count(*) = ?)::integer FROM held""",
    new_thread="""
        WITH held AS (
            INSERT INTO threads (thread_id, head, token, epoch, status, created_at, updated_at,
                owner, metadata)
            SELECT * FROM unnest(?::text[], ?::text[], ?::text[], ?::bigint[], ?::text[],
                ?::float8[], ?::float8[], ?::text[], ?::jsonb[])
            ON CONFLICT DO NOTHING RETURNING 1)
        SELECT 1 / (count(*) = ?)::integer FROM held""",
    add_if_held="""
        INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id,
            complete, run_id, frame, metadata_type, metadata, led)
        SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, CAST(? AS BYTEA) FROM threads
            WHERE thread_id = ? AND token = ? AND epoch = ? FOR UPDATE""",
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
            JOIN LATERAL (SELECT * FROM checkpoints c WHERE c.thread_id = ? AND c.checkpoint_ns = ?
                AND c.checkpoint_id = id OFFSET 0) c ON TRUE
            WHERE c.parent_checkpoint_id IS NOT NULL AND (c.complete = 0 OR line.depth = 0)
                AND line.depth < ?)
        SELECT -depth, checkpoint_id, parent_checkpoint_id, complete, metadata_type, frame,
            metadata, NULL, NULL, NULL
        FROM line JOIN LATERAL (SELECT * FROM checkpoints c
            WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = id OFFSET 0) c ON TRUE
        UNION ALL
        SELECT 1, checkpoint_id, task_id, idx, type, blob, NULL, channel, task_path, base
        FROM line JOIN LATERAL (SELECT * FROM checkpoint_writes w
            WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = id OFFSET 0) w ON TRUE
            WHERE depth < 2
        UNION ALL
        SELECT 1, id, checkpoint_id, complete, '#', led,
            CASE depth WHEN 0 THEN frame END, parent_checkpoint_id, '', NULL
        FROM line JOIN LATERAL (SELECT * FROM checkpoints n
            WHERE thread_id = ? AND checkpoint_ns = ?
                AND checkpoint_id = (SELECT MIN(m.checkpoint_id) FROM checkpoints m
                    WHERE m.thread_id = ? AND m.checkpoint_ns = ? AND m.checkpoint_id > id)
                AND (parent_checkpoint_id = id OR led IS NOT NULL) OFFSET 0) n ON TRUE
            WHERE depth < 2
        UNION ALL
        SELECT 2, head, newer, epoch, NULL, NULL, NULL, NULL, NULL, NULL FROM entry""",
    ancestry="""
        WITH RECURSIVE line (id) AS (
            SELECT a FROM (SELECT value COLLATE "C" AS a
                FROM json_array_elements_text(?::json) LIMIT (SELECT 1000000)) AS wanted
            UNION
            SELECT c.parent_checkpoint_id FROM line
            JOIN LATERAL (SELECT * FROM checkpoints c WHERE c.thread_id = ? AND c.checkpoint_ns = ?
                AND c.checkpoint_id = id OFFSET 0) c ON TRUE
            WHERE c.complete = 0)
        SELECT checkpoint_id, parent_checkpoint_id, complete, frame, metadata_type, metadata
            FROM line
        JOIN LATERAL (SELECT * FROM checkpoints c WHERE thread_id = ? AND checkpoint_ns = ?
            AND checkpoint_id = id OFFSET 0) c ON TRUE""",
    newest="""
        WITH RECURSIVE tip (channel, version, base_channel, base) AS (
            (SELECT channel, version, base_channel, base FROM checkpoint_blobs
                WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY channel DESC, version DESC
                    LIMIT 1)
            UNION ALL
            SELECT t.* FROM tip, LATERAL (
                SELECT channel, version, base_channel, base FROM checkpoint_blobs
                    WHERE thread_id = ? AND checkpoint_ns = ? AND channel < tip.channel
                ORDER BY channel DESC, version DESC LIMIT 1) t),
        chain (channel, version, base_channel, base) AS (
            SELECT * FROM (SELECT * FROM tip LIMIT (SELECT 1000000)) AS tips
            UNION
            SELECT c.* FROM chain
            JOIN LATERAL (SELECT channel, version, base_channel, base FROM checkpoint_blobs c
                WHERE c.thread_id = ? AND c.checkpoint_ns = ?
                AND c.channel = COALESCE(chain.base_channel, chain.channel)
                AND c.version = chain.base OFFSET 0) c ON TRUE),
        line (depth, id, parent_id, complete, frame, metadata_type, metadata, led) AS (
            (SELECT 0, checkpoint_id, parent_checkpoint_id, complete, frame, metadata_type,
                metadata, led FROM checkpoints
                WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id DESC LIMIT 1)
            UNION ALL
            SELECT line.depth + 1, c.* FROM line, LATERAL (
                SELECT checkpoint_id, parent_checkpoint_id, complete, frame, metadata_type,
                    metadata, led FROM checkpoints
                    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id < line.id
                ORDER BY checkpoint_id DESC LIMIT 1) c
            WHERE line.depth = 0 OR line.complete <> 1)
        SELECT 0, id, parent_id, complete, frame, metadata_type, metadata, led, NULL, NULL, NULL
        FROM line
        UNION ALL
        SELECT 1, checkpoint_id, task_id, idx, NULL, type, blob, NULL, channel, task_path, base
        FROM line JOIN LATERAL (SELECT * FROM checkpoint_writes w
            WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = id OFFSET 0) w ON TRUE
            WHERE depth < 2
        UNION ALL
        SELECT 2, head, status, epoch, NULL, NULL, NULL, NULL, NULL, NULL, NULL
        FROM threads WHERE thread_id = ?
        UNION ALL
        SELECT 3, b.channel, b.version, b.level, NULL, b.type, b.blob, NULL, b.base_channel,
            b.base, NULL
        FROM chain JOIN LATERAL (SELECT * FROM checkpoint_blobs b
            WHERE b.thread_id = ? AND b.checkpoint_ns = ?
            AND b.channel = chain.channel AND b.version = chain.version OFFSET 0) b ON TRUE""",
    rows_of="""
        WITH RECURSIVE wanted AS (SELECT a, b FROM (SELECT (value->>0) COLLATE "C" AS a,
            (value->>1) COLLATE "C" AS b FROM json_array_elements(?::json) LIMIT
            (SELECT 1000000)) AS given),
        done AS (
            SELECT checkpoint_id, task_id, channel, base, idx, task_path, type, blob
            FROM wanted JOIN LATERAL (SELECT * FROM checkpoint_writes w
                WHERE checkpoint_id = a AND thread_id = ? AND checkpoint_ns = ? OFFSET 0) w ON TRUE
            UNION ALL
            SELECT a, checkpoint_id, parent_checkpoint_id, NULL, 0, '', '#', led
            FROM wanted JOIN LATERAL (SELECT * FROM checkpoints n
                WHERE thread_id = ? AND checkpoint_ns = ? AND led IS NOT NULL
                AND checkpoint_id = COALESCE(b, (SELECT MIN(m.checkpoint_id) FROM checkpoints m
                    WHERE m.thread_id = ? AND m.checkpoint_ns = ? AND m.checkpoint_id > a))
                OFFSET 0) n ON TRUE),
        chain (channel, version) AS (
            SELECT a, b FROM (SELECT (value->>0) COLLATE "C" AS a, (value->>1) COLLATE "C" AS b
                FROM json_array_elements(?::json) LIMIT (SELECT 1000000)) AS pairs
            UNION
            SELECT channel, base FROM done WHERE base IS NOT NULL
                AND (?::json IS NULL OR channel IN (SELECT a FROM (SELECT value COLLATE "C" AS a
                FROM json_array_elements_text(?::json) LIMIT (SELECT 1000000)) AS chosen))
            UNION
            SELECT COALESCE(c.base_channel, c.channel), c.base FROM chain
            JOIN LATERAL (SELECT * FROM checkpoint_blobs c
                WHERE c.thread_id = ? AND c.checkpoint_ns = ?
                AND c.channel = chain.channel AND c.version = chain.version OFFSET 0) c ON TRUE
            WHERE c.base IS NOT NULL)
        SELECT 0, b.channel, b.version, b.base_channel, b.base, b.level, NULL, b.type, b.blob
        FROM chain JOIN LATERAL (SELECT * FROM checkpoint_blobs b
            WHERE b.thread_id = ? AND b.checkpoint_ns = ?
            AND b.channel = chain.channel AND b.version = chain.version OFFSET 0) b ON TRUE
        UNION ALL
        SELECT 1, checkpoint_id, task_id, channel, base, idx, task_path, type, blob FROM done""",
    # Compared as text, since 1 and 1.0 are equal as jsonb.
    has_metadata="(?::jsonb -> 0)::text = (metadata -> ?::text)::text",
    # A list contains its elements, and a text itself.
    has_tag="metadata -> 'tags' @> (?::jsonb -> 0)",
    has_digest="metadata -> '$sealed' -> 'digests' @> ?::jsonb",
    is_sealed="metadata -> '$sealed' IS NOT NULL",
    has_text="(strpos(lower(thread_id), ?) > 0 OR strpos(lower(metadata::text), ?) > 0)",
)
