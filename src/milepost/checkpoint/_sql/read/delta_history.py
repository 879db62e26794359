"""The history that delta channels are rebuilt from: two queries at once, one for all else."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from milepost._db.operations import Operation, Query
from milepost.checkpoint._contract.records import (
    CheckpointTuple,
    DeltaChannelHistory,
    Place,
    empty_checkpoint,
)
from milepost.checkpoint._contract.threads import checkpoint_gone
from milepost.checkpoint._sql.manifest import EMPTIED
from milepost.checkpoint._sql.read.fetched import (
    CheckpointRecord,
    Manifests,
    entry_behind,
    head_gone,
    metadata_of,
)
from milepost.checkpoint._sql.read.listing import LAST
from milepost.checkpoint.base import writes_leading_to, writes_to
from milepost.errors import BrokenChainError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.checkpoint._sql.read.reader import CheckpointReader


_ALL: Final = (1 << 31) - 1
"""As the limit of a page: no thread has so many checkpoints."""


def history(
    reader: CheckpointReader, place: Place, channels: Sequence[str]
) -> Operation[dict[str, DeltaChannelHistory]]:
    """For each channel: its nearest stored value, and the writes since then, oldest first."""
    found: dict[str, DeltaChannelHistory] = {c: DeltaChannelHistory(writes=[]) for c in channels}
    if not channels:
        return found
    at, (thread_id, ns, id) = place[:2], place
    rows, entries = yield from reader.first(
        Query(reader.q.page_of_graph, (*at, LAST, _ALL)),
        Query(reader.q.head_and_newer, (thread_id,)),
    )
    head, newer, epoch = entries[0] if entries else (None, None, None)
    head = head if ns == "" else None
    line = _in_line([CheckpointRecord(*row) for _, *row in rows], id or head)
    if not line:
        if id is not None:
            raise checkpoint_gone(thread_id, id)
        if head is not None:
            raise head_gone(thread_id, head)
        return found
    if id is None and ns == "" and newer is not None:
        raise entry_behind(thread_id, line[0].id, newer)
    ids = {row.id: row for row in line}
    manifests = Manifests(reader.codec, at, ids, ids.keys(), {})
    manifests.check(line[0])
    seeds, line = _seeds(manifests, line, channels)
    unseeded = set(channels) - seeds.keys()
    if unseeded and line[-1].parent_id is not None:
        raise BrokenChainError(
            f"Checkpoint '{line[-1].parent_id}' of thread '{thread_id}' is gone, and the channels "
            f"{sorted(unseeded)} depend on it. Restore it from a backup; a prune must keep the "
            "ancestors that delta channels need."
        )
    wanted = {
        key
        for channel, seed in seeds.items()
        for key in manifests.of(seed.id).manifest.large()
        if key[0] == channel
    }
    assembler = yield from reader.rows_of(
        at, manifests, [row.id for row in line[1:]], wanted, channels, epoch=epoch
    )
    open_ = set(channels)
    for child, ancestor in pairwise(line):
        made = CheckpointTuple(
            place.config(),
            {**empty_checkpoint(), "id": child.id},
            metadata_of(reader.codec, thread_id, ns, child),
        )
        pending = assembler.pending_writes(ancestor.id, lambda write: write.channel in open_)
        applied = writes_leading_to(made, pending)
        for channel in tuple(open_):
            found[channel]["writes"][:0] = writes_to(channel, applied)
            if seeds.get(channel) is ancestor:
                found[channel]["seed"] = assembler.channel(
                    manifests.of(ancestor.id).manifest, channel
                )
                open_.discard(channel)
    return found


def _seeds(
    manifests: Manifests, line: list[CheckpointRecord], channels: Sequence[str]
) -> tuple[dict[str, CheckpointRecord], list[CheckpointRecord]]:
    """Channel → the nearest ancestor with its value; and the line up to the farthest of these."""
    seeds: dict[str, CheckpointRecord] = {}
    for length, ancestor in enumerate(line[1:], 2):
        inline = manifests.of(ancestor.id).manifest.inline
        for channel in channels:
            if channel not in seeds and inline.get(channel, EMPTIED) is not EMPTIED:
                seeds[channel] = ancestor
        if seeds.keys() >= set(channels):
            return seeds, line[:length]
    return seeds, line


def _in_line(rows: Sequence[CheckpointRecord], first: str | None) -> list[CheckpointRecord]:
    """A checkpoint, or else the newest one, and its ancestors, nearest first."""
    ids = {row.id: row for row in rows}
    line = []
    row = ids.get(first) if first is not None else rows[0] if rows else None
    while row is not None:
        line.append(row)
        # Removed, so that the loop ends even if damaged rows form a circle of parents.
        del ids[row.id]
        row = ids.get(row.parent_id) if row.parent_id is not None else None
    return line
