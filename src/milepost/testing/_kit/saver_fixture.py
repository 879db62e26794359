"""The fixture of clauses: a saver, and threads that a clause writes by hand."""

from __future__ import annotations

from typing import Any

from milepost._internal.ids import checkpoint_id, random_token
from milepost.checkpoint._contract.records import (
    Checkpoint,
    CheckpointTuple,
    Place,
    empty_checkpoint,
)
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.testing._kit.clauses import CallMethod, KitEffects, call, fail
from milepost.types import RunnableConfig

Saver = BaseCheckpointSaver[Any]


class SaverFixture:
    """A saver, and thread ids of this clause's own: the storage need not be empty."""

    def __init__(self, saver: Saver) -> None:
        self.saver = saver
        self._own = random_token()[:12]

    def call(self, method: str, *arguments: Any, **keywords: Any) -> CallMethod:
        """A method of the saver, in the form of the run."""
        return call(self.saver, method, *arguments, **keywords)

    def thread_id(self, name: str = "t") -> str:
        """An id for a thread of this clause."""
        return f"{self._own}-{name}"

    def config(self, name: str = "t") -> RunnableConfig:
        """A config for a thread of this clause."""
        return {"configurable": {"thread_id": self.thread_id(name)}}

    def thread(self, name: str = "t", ns: str = "") -> ThreadBuilder:
        """A thread, to be written checkpoint by checkpoint."""
        return ThreadBuilder(self.saver, self.thread_id(name), ns)

    def started(self, step: int = 0, **content: Any) -> KitEffects[ThreadBuilder]:
        """A thread with one checkpoint."""
        thread = self.thread()
        yield from thread.put(step, **content)
        return thread

    def is_own(self, found: CheckpointTuple) -> bool:
        """Whether a checkpoint belongs to this clause."""
        return str(found.config["configurable"]["thread_id"]).startswith(self._own)


class ThreadBuilder:
    """One namespace of a thread. Every checkpoint that is made descends from the one before."""

    def __init__(self, saver: Saver, thread_id: str, ns: str = "") -> None:
        self.saver = saver
        self.thread_id = thread_id
        self.ns = ns
        self.root = Place(thread_id, ns, None).config()
        self.head = self.root
        """The config of the checkpoint that was made last."""
        self.versions: dict[str, Any] = {}
        self.values: dict[str, Any] = {}
        self.ids: list[str] = []

    def branch(self) -> ThreadBuilder:
        """A second branch from the same checkpoint."""
        other = ThreadBuilder(self.saver, self.thread_id, self.ns)
        other.head, other.ids = self.head, list(self.ids)
        other.versions, other.values = dict(self.versions), dict(self.values)
        return other

    def next(self, emptied: tuple[str, ...] = (), **new: Any) -> tuple[Checkpoint, dict[str, Any]]:
        """Make the checkpoint in which the channels `new` have changed, and their versions."""
        changed = {
            name: self.saver.get_next_version(self.versions.get(name), None)
            for name in (*new, *emptied)
        }
        self.versions = {**self.versions, **changed}
        self.values = {k: v for k, v in {**self.values, **new}.items() if k not in emptied}
        checkpoint = empty_checkpoint()
        checkpoint["id"] = checkpoint_id(*self.ids[-1:])
        checkpoint["channel_values"] = dict(self.values)
        checkpoint["channel_versions"] = dict(self.versions)
        checkpoint["versions_seen"] = {"node": dict(changed)}
        checkpoint["updated_channels"] = sorted(changed)
        self.ids.append(checkpoint["id"])
        self.head = self.at(checkpoint["id"])
        return checkpoint, changed

    def put(
        self,
        step: int = 0,
        *,
        emptied: tuple[str, ...] = (),
        meta: dict[str, Any] | None = None,
        **new: Any,
    ) -> KitEffects[RunnableConfig]:
        """Store the next checkpoint; its config."""
        above = self.head
        checkpoint, changed = self.next(emptied, **new)
        metadata = {"source": "loop", "step": step, "parents": {}, **(meta or {})}
        stored: RunnableConfig = yield call(self.saver, "put", above, checkpoint, metadata, changed)
        return stored

    def at(self, id: str) -> RunnableConfig:
        """The config of a checkpoint."""
        return Place(self.thread_id, self.ns, id).config()

    def write(self, writes: list[tuple[str, Any]], task: str, path: str = "") -> KitEffects[None]:
        """Store what a task wrote after the last checkpoint."""
        yield call(self.saver, "put_writes", self.head, writes, task, path)

    def get(self, config: RunnableConfig | None = None) -> KitEffects[CheckpointTuple]:
        """The checkpoint that `config` names, or the latest; it must be there."""
        found = yield from self.find(config)
        if found is None:
            fail(f"get_tuple({config or self.root}) found nothing")
        return found

    def find(self, config: RunnableConfig | None = None) -> KitEffects[CheckpointTuple | None]:
        """The checkpoint that `config` names, or the latest, if it is there."""
        found: CheckpointTuple | None = yield call(self.saver, "get_tuple", config or self.root)
        return found

    def checkpoints(self, **options: Any) -> KitEffects[list[CheckpointTuple]]:
        """The checkpoints of this namespace."""
        found: list[CheckpointTuple] = yield call(self.saver, "list", self.root, **options)
        return found

    def steps(self, **options: Any) -> KitEffects[list[int]]:
        """The steps of the checkpoints that a listing gives."""
        found = yield from self.checkpoints(**options)
        return [one.metadata["step"] for one in found]

    def pending(
        self, config: RunnableConfig | None = None
    ) -> KitEffects[list[tuple[str, str, Any]]]:
        """The pending writes of a checkpoint, as plain tuples."""
        found = yield from self.get(config)
        return [tuple(write) for write in found.pending_writes or ()]

    def history(self, *channels: str) -> KitEffects[dict[str, tuple[Any, list[Any]]]]:
        """Delta channel → its seed, None if there is none, and the values of its writes."""
        found = yield call(
            self.saver, "get_delta_channel_history", config=self.head, channels=list(channels)
        )
        return {
            channel: (history.get("seed"), [write[2] for write in history["writes"]])
            for channel, history in found.items()
        }


def values_of(found: CheckpointTuple) -> dict[str, Any]:
    """The channel values of a checkpoint."""
    return found.checkpoint["channel_values"]


def id_in(config: RunnableConfig | None) -> Any:
    """The checkpoint that a config names."""
    return None if config is None else config["configurable"].get("checkpoint_id")
