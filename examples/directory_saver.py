"""A saver that keeps threads in a directory: a file for each checkpoint and for each write."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from milepost.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    get_checkpoint_id,
)
from milepost.types import RunnableConfig


def digest(name: str) -> str:
    return sha256(name.encode()).hexdigest()[:40]


def place(record: dict[str, Any], id: str) -> RunnableConfig:
    where = {"thread_id": record["thread_id"], "checkpoint_ns": record["checkpoint_ns"]}
    return {"configurable": {**where, "checkpoint_id": id}}


def sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class DirectorySaver(BaseCheckpointSaver[int]):
    def __init__(self, root: str | Path) -> None:
        super().__init__()
        self.root = Path(root)
        self.root.mkdir(parents=True, exist_ok=True)

    def _folder(self, config: RunnableConfig) -> Path:
        return self.root / digest(str(config["configurable"]["thread_id"]))

    def _path(self, config: RunnableConfig, id: str, kind: str) -> Path:
        ns = config["configurable"].get("checkpoint_ns", "")
        return self._folder(config) / f"{digest(ns)}.{id.encode().hex()}.{kind}"

    def _store(self, path: Path, value: Any, *, replace: bool) -> None:
        kind, data = self.serde.dumps_typed(value)
        if not path.parent.exists():
            path.parent.mkdir(exist_ok=True)
            sync(self.root)
        with tempfile.NamedTemporaryFile(dir=self.root, delete=False) as file:
            file.write(kind.encode() + b"\n" + data)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(file.name, path)
        else:
            try:
                os.link(file.name, path)
            except FileExistsError:
                pass
            finally:
                os.unlink(file.name)
        sync(path.parent)

    def _load(self, path: Path) -> Any:
        try:
            kind, _, data = path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        return self.serde.loads_typed((kind.decode(), data))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        record = {
            "thread_id": str(config["configurable"]["thread_id"]),
            "checkpoint_ns": config["configurable"].get("checkpoint_ns", ""),
            "parent_id": get_checkpoint_id(config),
            "checkpoint": checkpoint,
            "metadata": metadata,
        }
        self._store(self._path(config, checkpoint["id"], "checkpoint"), record, replace=True)
        return place(record, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        id = config["configurable"]["checkpoint_id"]
        for position, (channel, value) in enumerate(writes):
            at = WRITES_IDX_MAP.get(channel, position)
            path = self._path(config, id, f"{digest(task_id)}.{at}.write")
            self._store(path, (task_path, task_id, at, channel, value), replace=at < 0)

    def _writes(self, config: RunnableConfig, id: str) -> list[PendingWrite]:
        pattern = self._path(config, id, "*.write")
        found = [self._load(path) for path in pattern.parent.glob(pattern.name)]
        found.sort(key=lambda write: write[:3])
        return [(task_id, channel, value) for _, task_id, _, channel, value in found]

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return next(self.list(config, limit=1), None)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        end = get_checkpoint_id(before) if before else None
        left = limit
        for path in self._checkpoints(config):
            if left is not None and left <= 0:
                return
            record = self._load(path)
            if record is None or (end is not None and record["checkpoint"]["id"] >= end):
                continue
            metadata = record["metadata"]
            if any(k not in metadata or metadata[k] != v for k, v in (filter or {}).items()):
                continue
            id, parent_id = record["checkpoint"]["id"], record["parent_id"]
            here = place(record, id)
            yield CheckpointTuple(
                here,
                record["checkpoint"],
                metadata,
                place(record, parent_id) if parent_id else None,
                self._writes(here, id),
            )
            if left is not None:
                left -= 1

    def _checkpoints(self, config: RunnableConfig | None) -> Sequence[Path]:
        if config is None:
            found = self.root.glob("*/*.checkpoint")
        elif (id := get_checkpoint_id(config)) is not None:
            return [self._path(config, id, "checkpoint")]
        else:
            pattern = self._path(config, "", "").name.split(".")[0] + ".*.checkpoint"
            found = self._folder(config).glob(pattern)
        return sorted(found, key=lambda path: path.name.split(".")[1], reverse=True)

    def delete_thread(self, thread_id: str) -> None:
        doomed = tempfile.mkdtemp(dir=self.root)
        try:
            os.rename(self._folder({"configurable": {"thread_id": thread_id}}), f"{doomed}/it")
            sync(self.root)
        except FileNotFoundError:
            pass
        shutil.rmtree(doomed)
