"""Delta channels: a checkpoint holds only their writes, and now and then the whole value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from milepost._engine.drivers.effects import EffectGenerator, LoadDeltaHistory
from milepost._engine.superstep.renames import as_renamed
from milepost.channels.binop import BinaryOperatorAggregate
from milepost.checkpoint.base import SOURCES_WITHOUT_WRITES
from milepost.types import MISSING, _DeltaSnapshot

if TYPE_CHECKING:
    from milepost._engine.superstep.channel_state import ChannelState
    from milepost._engine.superstep.program import ExecutableGraph, Writer
    from milepost.checkpoint._contract.records import CheckpointTuple
    from milepost.checkpoint.base import BaseCheckpointSaver

Counters = Mapping[str, tuple[int, int]]
"""Delta channel → writes and steps since its value was last stored whole."""


class DeltaSnapshots:
    """The delta channels whose present version is stored as a whole value."""

    __slots__ = ("names", "not_in_writes", "values")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.values: dict[str, _DeltaSnapshot] = {}
        self.not_in_writes: set[str] = set()
        """Channels that stored writes cannot rebuild, until their value is stored whole."""

    def count(
        self, channels: ChannelState, counters: Counters, source: str, writers: Sequence[Writer]
    ) -> dict[str, tuple[int, int]]:
        """Count writes and steps since the last whole values; take whole values that are due.

        `source` is that of the new checkpoint, and `writers` have made it.
        """
        if source in SOURCES_WITHOUT_WRITES:
            self.not_in_writes.update(channels.dirty)
        written = Counter(name for writer in writers for name, _ in writer.writes)
        # Of former delta channels the writes are needed until a whole value is stored.
        counted = {
            name: counters[name]
            for name in counters
            if name not in self.names and name not in channels.dirty
        }
        for name in self.names:
            if name not in channels.versions:
                continue
            updates, steps = counters.get(name, (0, 0))
            updates, steps = updates + written[name], steps + 1
            if name in channels.dirty:
                self.values.pop(name, None)
                channel: Any = channels.live[name]
                if name in self.not_in_writes or updates >= channel.snapshot_frequency:
                    self.values[name] = _DeltaSnapshot(channel.get())
                    updates = steps = 0
            counted[name] = (updates, steps)
        self.not_in_writes.clear()
        return counted

    def take_all(self, channels: ChannelState) -> dict[str, _DeltaSnapshot]:
        """Take the whole values of all delta channels, changed or not."""
        for name in self.names:
            if name in channels.versions:
                self.values[name] = _DeltaSnapshot(channels.live[name].get())
        return self.values

    def substitute(self, changed: dict[str, Any]) -> None:
        """Replace values of changed delta channels by whole values to store, or by MISSING."""
        for name in self.names:
            if name in changed:
                changed[name] = self.values.get(name, MISSING)


def rebuild_deltas(
    saver: BaseCheckpointSaver[Any],
    program: ExecutableGraph,
    channels: ChannelState,
    saved: CheckpointTuple,
) -> EffectGenerator[None]:
    """Replay the stored writes of delta channels that the checkpoint holds no value of.

    Also of keys that have a reducer of two arguments now.
    """
    counters = saved.metadata.get("counters_since_delta_snapshot") or ()
    if not (program.delta or counters):
        return
    renamed = as_renamed(saved)
    former = {} if renamed is None else renamed.former_names
    reduced = [
        name
        for name, spec in channels.specs.items()
        if former.get(name, name) in counters and isinstance(spec, BinaryOperatorAggregate)
    ]
    wanted = {
        name: former.get(name, name)
        for name in (*program.delta, *reduced)
        if name in channels.versions and name not in saved.checkpoint["channel_values"]
    }
    if not wanted:
        return
    history = yield from LoadDeltaHistory(saver, saved.config, list(wanted.values()))
    for name, stored_name in wanted.items():
        found = history.get(stored_name) or {"writes": []}
        channel: Any = channels.live[name]
        if "seed" in found:
            channel = program.channels[name].from_checkpoint(found["seed"])
        channel.replay_writes(found["writes"])
        channels.replace(name, channel)
