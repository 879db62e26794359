"""Savers that several test modules share."""

from typing import Any

from milepost.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from milepost.checkpoint.commit import Fence, NewCheckpoint, StepCommit
from milepost.checkpoint.memory import InMemorySaver


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
