"""Savers that several test modules share."""

import pickle
from typing import Any

from milepost.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from milepost.checkpoint.commit import Fence, NewCheckpoint, StepCommit
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.records import WRITES_IDX_MAP, CheckpointTuple, Place, place_of


def first_step(saver: Any, thread_id: str, head: str | None = None) -> StepCommit:
    """A step as the runtime would hand it over."""
    version = saver.get_next_version(None, None)
    checkpoint = {**empty_checkpoint(), "channel_versions": {"key": version}}
    new = NewCheckpoint(checkpoint, {"source": "loop", "step": 0}, {"key": "value"}, dict)
    return StepCommit(thread_id, "", None, [], new, Fence(head))


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
        kept = pickle.dumps((checkpoint, metadata, place.checkpoint_id))
        self.checkpoints.setdefault(place[:2], {})[checkpoint["id"]] = kept
        return place._replace(checkpoint_id=checkpoint["id"]).config()

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        rows = self.writes.setdefault(place_of(config), {})
        for at, (channel, value) in enumerate(writes):
            at = WRITES_IDX_MAP.get(channel, at)
            if at < 0 or (task_id, at) not in rows:
                rows[task_id, at] = pickle.dumps((task_id, channel, value))

    def get_tuple(self, config: Any) -> Any:
        place = place_of(config)
        id = place.checkpoint_id or max(self.checkpoints.get(place[:2], {}), default=None)
        return None if id is None else self._read(place._replace(checkpoint_id=id))

    def list(
        self, config: Any, *, filter: Any = None, before: Any = None, limit: Any = None
    ) -> Any:
        place = place_of(config)
        end = place_of(before).checkpoint_id if before else None
        ids = sorted(self.checkpoints.get(place[:2], {}), reverse=True)
        for id in [id for id in ids if end is None or id < end][:limit]:
            yield self._read(place._replace(checkpoint_id=id))

    def _read(self, place: Place) -> CheckpointTuple:
        checkpoint, metadata, parent = pickle.loads(
            self.checkpoints[place[:2]][place.checkpoint_id]
        )
        rows = self.writes.get(place, {})
        return CheckpointTuple(
            place.config(),
            checkpoint,
            metadata,
            place._replace(checkpoint_id=parent).config() if parent else None,
            [pickle.loads(rows[at]) for at in sorted(rows)],
        )

    def get_next_version(self, current: Any, channel: None) -> Any:
        return (current or 0) + 1
