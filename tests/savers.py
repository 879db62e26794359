"""Savers that several test modules share."""

import pickle
from itertools import count
from typing import Any

from milepost.checkpoint._contract.pruning import Lineage, latest, with_ancestors
from milepost.checkpoint._contract.records import (
    WRITES_IDX_MAP,
    CheckpointTuple,
    Place,
    place_of,
)
from milepost.checkpoint._contract.step_saver import Fence, NewCheckpoint, StepCommit
from milepost.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from milepost.checkpoint.memory import InMemorySaver
from milepost.constants import CHILDREN


def first_step(
    saver: Any, thread_id: str, head: str | None = None, fence: Fence | None = None
) -> StepCommit:
    """A step as the runtime would hand it over."""
    version = saver.get_next_version(None, None)
    checkpoint = {**empty_checkpoint(), "channel_versions": {"key": version}}
    new = NewCheckpoint.of(checkpoint, {"source": "loop", "step": 0}, {"key": "value"}, dict)
    return StepCommit(thread_id, "", None, [], new, fence or Fence(head))


class Lossy(BaseCheckpointSaver):
    """A saver with the five required methods, that loses everything once it was told to.

    So a process looks from outside that died before its last writes had reached the disk.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kept = InMemorySaver()
        self.loses_after: int | None = None

    def lost(self, step: int) -> bool:
        return self.loses_after is not None and step > self.loses_after

    def get_tuple(self, config: Any) -> Any:
        return self.kept.get_tuple(config)

    def list(self, config: Any, **options: Any) -> Any:
        return self.kept.list(config, **options)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        if self.lost(metadata["step"]):
            place = {**config["configurable"], "checkpoint_id": checkpoint["id"]}
            return {"configurable": place}
        return self.kept.put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        if self.kept.get_tuple(config) is not None:
            self.kept.put_writes(config, writes, task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        self.kept.delete_thread(thread_id)

    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)

    async def alist(self, config: Any, **options: Any) -> Any:
        for found in self.list(config, **options):
            yield found

    async def aput(self, *arguments: Any) -> Any:
        return self.put(*arguments)

    async def aput_writes(self, *arguments: Any) -> None:
        self.put_writes(*arguments)

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self.kept.get_next_version(current, channel)


class WholeSaver(BaseCheckpointSaver):
    """The simplest saver there can be: every checkpoint whole, by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.checkpoints: dict[tuple[str, str], dict[str, bytes]] = {}
        self.writes: dict[tuple[str, str, str], dict[tuple[str, int], Any]] = {}

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        place = place_of(config)
        kept = pickle.dumps(
            (self._with_inherited(checkpoint, config), metadata, place.checkpoint_id)
        )
        self.checkpoints.setdefault(place[:2], {})[checkpoint["id"]] = kept
        return place._replace(checkpoint_id=checkpoint["id"]).config()

    def _with_inherited(self, checkpoint: Any, config: Any) -> Any:
        """A delta channel is stored whole now and then, and that is its value until it changes."""
        parent = self.get_tuple(config) if place_of(config).checkpoint_id else None
        if parent is None:
            return checkpoint
        versions = (
            parent.checkpoint["channel_versions"].items() & checkpoint["channel_versions"].items()
        )
        before = parent.checkpoint["channel_values"]
        held = {channel: before[channel] for channel, _ in versions if channel in before}
        return {**checkpoint, "channel_values": {**held, **checkpoint["channel_values"]}}

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        rows = self.writes.setdefault(place_of(config), {})
        for at, (channel, value) in enumerate(writes):
            at = WRITES_IDX_MAP.get(channel, at)
            if at < 0 or (task_id, at) not in rows:
                rows[task_id, at] = pickle.dumps((task_path, (task_id, channel, value)))

    def get_tuple(self, config: Any) -> Any:
        place = place_of(config)
        id = place.checkpoint_id or max(self.checkpoints.get(place[:2], {}), default=None)
        if id not in self.checkpoints.get(place[:2], {}):
            return None
        return self._read(place._replace(checkpoint_id=id))

    def list(
        self, config: Any, *, filter: Any = None, before: Any = None, limit: Any = None
    ) -> Any:
        """Of one graph, or of all of a thread if the config does not say which."""
        thread_id, ns, _ = place_of(config)
        graphs = [ns] if "checkpoint_ns" in config["configurable"] else self.graphs(thread_id)
        end = place_of(before).checkpoint_id if before else None
        found = [(id, ns) for ns in graphs for id in self.checkpoints.get((thread_id, ns), {})]
        wanted = [(id, ns) for id, ns in sorted(found, reverse=True) if end is None or id < end]
        for id, ns in wanted[:limit]:
            yield self._read(Place(thread_id, ns, id))

    def graphs(self, thread_id: str) -> Any:
        return [ns for other, ns in self.checkpoints if other == thread_id]

    def _read(self, place: Place) -> CheckpointTuple:
        checkpoint, metadata, parent = pickle.loads(
            self.checkpoints[place[:2]][place.checkpoint_id]
        )
        rows = self.writes.get(place, {})
        writes = [(at, *pickle.loads(rows[at])) for at in rows]
        return CheckpointTuple(
            place.config(),
            checkpoint,
            metadata,
            place._replace(checkpoint_id=parent).config() if parent else None,
            [write for _, _, write in sorted(writes, key=lambda row: (row[1], row[0]))],
        )

    def get_next_version(self, current: Any, channel: None) -> Any:
        return (current or 0) + 1

    # -- whole threads

    def delete_thread(self, thread_id: str) -> None:
        self.checkpoints = {at: kept for at, kept in self.checkpoints.items() if at[0] != thread_id}
        self.writes = {at: rows for at, rows in self.writes.items() if at[0] != thread_id}

    def copy_thread(self, source: str, target: str) -> None:
        for (thread_id, ns), kept in list(self.checkpoints.items()):
            if thread_id == source:
                self.checkpoints[target, ns] = dict(kept)
        for (thread_id, *place), rows in list(self.writes.items()):
            if thread_id == source:
                self.writes[target, *place] = dict(rows)

    def prune(self, thread_ids: Any, *, keep: int = 1) -> None:
        for thread_id in thread_ids:
            self._keep(thread_id, lambda history: latest(history, keep, None))

    def delete_for_runs(self, run_ids: Any) -> None:
        def of_others(history: Any) -> Any:
            return [node for node, line in history.items() if line.run_id not in run_ids]

        for thread_id in {thread_id for thread_id, _ in self.checkpoints}:
            self._keep(thread_id, of_others)

    def _keep(self, thread_id: str, choose: Any) -> None:
        history = {}
        for found in self.list({"configurable": {"thread_id": thread_id}}):
            _, ns, id = place_of(found.config)
            parent = found.parent_config and place_of(found.parent_config).checkpoint_id
            counters = found.metadata.get("counters_since_delta_snapshot") or ()
            values, seen = found.checkpoint["channel_values"], found.checkpoint["versions_seen"]
            needs_parent = any(channel not in values for channel in counters)
            run_id = found.metadata.get("run_id")
            history[ns, id] = Lineage(
                parent,
                run_id,
                needs_parent,
                seen.get(CHILDREN, {}),
                found.metadata.get("parents") or {},
            )
        kept = with_ancestors(history, choose(history))
        for ns, id in history.keys() - kept:
            del self.checkpoints[thread_id, ns][id]
            self.writes.pop((thread_id, ns, id), None)
        for ns, id in kept:
            parent = history[ns, id].parent_id
            if parent is not None and (ns, parent) not in kept:
                checkpoint, metadata, _ = pickle.loads(self.checkpoints[thread_id, ns][id])
                self.checkpoints[thread_id, ns][id] = pickle.dumps((checkpoint, metadata, None))


class SharingSaver(WholeSaver):
    """Keeps values by version, so that what one checkpoint has whole, all with that version have.

    A copy of a checkpoint has its delta channels whole, under the versions of the original.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shared: dict[tuple[str, str, str, int], bytes] = {}
        self.versions = count(1)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        thread_id, ns, _ = place_of(config)
        for channel, value in checkpoint["channel_values"].items():
            version = checkpoint["channel_versions"][channel]
            self.shared[thread_id, ns, channel, version] = pickle.dumps(value)
        return super().put(config, checkpoint, metadata, new_versions)

    def _read(self, place: Place) -> CheckpointTuple:
        found = super()._read(place)
        values = found.checkpoint["channel_values"]
        for channel, version in found.checkpoint["channel_versions"].items():
            if (value := self.shared.get((*place[:2], channel, version))) is not None:
                values.setdefault(channel, pickle.loads(value))
        return found

    def get_next_version(self, current: Any, channel: None) -> Any:
        return next(self.versions)

    def copy_thread(self, source: str, target: str) -> None:
        super().copy_thread(source, target)
        for (thread_id, *at), value in list(self.shared.items()):
            if thread_id == source:
                self.shared[target, *at] = value
