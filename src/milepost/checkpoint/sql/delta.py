"""What delta channels are rebuilt from: the ancestors in one query, their writes in another."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

from milepost.checkpoint.base import writes_leading_to
from milepost.checkpoint.records import (
    CheckpointTuple,
    DeltaChannelHistory,
    Place,
    empty_checkpoint,
)
from milepost.checkpoint.sql.reading import CheckpointRecord, Reader, WriteRecord, write_order
from milepost.errors import BrokenChainError
from milepost.sql.operations import Operation, Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.checkpoint.sql.memory import Frame

_FAR = 100_000
"""Ancestors that one query may return."""


def history(
    reader: Reader, place: Place, channels: Sequence[str]
) -> Operation[dict[str, DeltaChannelHistory]]:
    """For each channel the writes since its nearest stored value, oldest first, and that value."""
    found: dict[str, DeltaChannelHistory] = {c: DeltaChannelHistory(writes=[]) for c in channels}
    thread_id, ns, id = place
    if not channels:
        return found
    if id is None:
        rows = yield Query(reader.q.latest, (thread_id, ns))
        if ns == "":
            heads = yield Query(reader.q.head, (thread_id,))
            id = heads[0][0] if heads else None
        id = id or (rows[0][0] if rows else None)
    if id is None:
        return found
    rows = yield Query(reader.q.lineage, (json.dumps([id]), thread_id, ns, _FAR, thread_id, ns))
    line = [CheckpointRecord(*row) for row in rows]
    if not line:
        return found
    framed = yield from reader.frames(thread_id, ns, line)
    searching = set(channels)
    seeds: dict[str, CheckpointRecord] = {}
    reach = 1
    for ancestor in line[1:]:
        if not searching:
            break
        reach += 1
        for channel in tuple(searching):
            if framed[ancestor.id].frame.inline.get(channel) is not None:
                seeds[channel] = ancestor
                searching.discard(channel)
    if searching and line[-1].parent_id is not None:
        raise BrokenChainError(
            f"Checkpoint '{line[-1].parent_id}' of thread '{thread_id}' is gone, and the channels "
            f"{sorted(searching)} depend on it. Restore it from a backup; a prune must keep the "
            "ancestors that delta channels need."
        )
    line = line[:reach]
    ids = json.dumps([record.id for record in line[1:]])
    rows = yield Query(reader.q.writes_of, (ids, thread_id, ns))
    writes: dict[str, list[WriteRecord]] = {}
    for write in sorted(map(WriteRecord._make, rows), key=write_order):
        if write.channel in found:
            writes.setdefault(write.checkpoint_id, []).append(write)
    needed: list[Frame] = [framed[seed.id].frame for seed in seeds.values()]
    resolver = yield from reader.resolver(
        thread_id, ns, needed, [write for group in writes.values() for write in group]
    )
    open_ = set(channels)
    for child, ancestor in pairwise(line):
        made = CheckpointTuple(
            place.config(),
            {**empty_checkpoint(), "id": child.id},
            reader.metadata(thread_id, ns, child),
        )
        pending = [
            reader.write(thread_id, ns, write, resolver)
            for write in writes.get(ancestor.id, ())
            if write.channel in open_
        ]
        applied = writes_leading_to(made, pending)
        for channel in tuple(open_):
            found[channel]["writes"][:0] = [w for w in applied if w[1] == channel]
            if seeds.get(channel) is ancestor:
                frame = framed[ancestor.id].frame
                found[channel]["seed"] = reader.channel(thread_id, ns, frame, channel, resolver)
                open_.discard(channel)
    return found
