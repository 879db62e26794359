"""Moves threads and store items between the two libraries' databases.

A thread is read as a whole before anything of it is written, so one that cannot be read leaves no
trace. Checkpoints keep their ids, which is why a move can be run again: what is there is left, what
is missing is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from milepost.checkpoint.records import CheckpointTuple, Place, place_of
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.constants import INTERRUPT
from milepost.errors import CheckpointError, SerdeError
from milepost.integrations.langgraph.naming import Names
from milepost.integrations.langgraph.upgrading import upgraded

if TYPE_CHECKING:
    from milepost.checkpoint.base import BaseCheckpointSaver
    from milepost.checkpoint.records import Checkpoint
    from milepost.store.base import BaseStore


class Source(Protocol):
    """Where threads come from."""

    def threads(self) -> Iterable[str]: ...

    def places(self, thread_id: str) -> Sequence[tuple[str, str]]:
        """Namespace and id of every checkpoint, oldest first."""
        ...

    def read(self, place: Place) -> CheckpointTuple | None: ...

    def paths(self, place: Place) -> Sequence[str]:
        """The paths of the tasks that wrote after a checkpoint, as far as they are stored."""
        ...


@dataclass
class Report:
    """What a move has done."""

    threads: int = 0
    checkpoints: int = 0
    writes: int = 0
    items: int = 0
    unreadable: list[str] = field(default_factory=list)
    """Threads that were left out, and why."""
    ahead: list[str] = field(default_factory=list)
    """Threads that have gone on in the target since an earlier move; left as they are."""
    again: int = 0
    """Finished tasks of unfinished steps that could not be recognised: they will run again."""


def move_threads(
    source: Source,
    target: BaseCheckpointSaver[Any],
    *,
    to_langgraph: bool = False,
    only: Sequence[str] = (),
    progress: Callable[[str, Report], None] = lambda _thread, _report: None,
) -> Report:
    """Copy threads with all of their checkpoints and writes, and verify each."""
    report = Report()
    for thread_id in only or source.threads():
        try:
            _Move(source, target, thread_id, report, to_langgraph).run()
            report.threads += 1
        except (SerdeError, CheckpointError) as error:
            report.unreadable.append(f"thread '{thread_id}': {error}")
        progress(thread_id, report)
    return report


def move_items(source: BaseStore, target: BaseStore, report: Report) -> None:
    """Copy the items of a store. An item that the target has with the same value is left."""
    at = 0
    while page := source.search((), limit=_PAGE, offset=at, refresh_ttl=False):
        for item in page:
            there = target.get(item.namespace, item.key, refresh_ttl=False)
            if there is None or there.value != item.value:
                target.put(item.namespace, item.key, item.value)
                report.items += 1
        at += len(page)


_PAGE = 200


class _Move:
    """One thread."""

    def __init__(
        self,
        source: Source,
        target: BaseCheckpointSaver[Any],
        thread_id: str,
        report: Report,
        to_langgraph: bool,
    ) -> None:
        self.source = source
        self.target = target
        self.thread_id = thread_id
        self.report = report
        self.names = Names(to_langgraph)
        self.places = [Place(thread_id, ns, id) for ns, id in source.places(thread_id)]
        self.versions: dict[Place, dict[str, Any]] = {}
        self.updates: dict[Place, list[str]] = {}
        """Checkpoints from which `update_state` made others, and those."""
        self.stepped: set[Place] = set()
        """Checkpoints from which a step was taken."""

    def run(self) -> None:
        for place in self.places:
            self._look_at(place)
        known = {(self.names.space(p.checkpoint_ns), p.checkpoint_id) for p in self.places}
        there = {
            (p.checkpoint_ns, p.checkpoint_id)
            for found in self.target.list({"configurable": {"thread_id": self.thread_id}})
            for p in [place_of(found.config)]
        }
        if there - known:
            self.report.ahead.append(self.thread_id)
            return
        for place in self.places:
            self._copy(place, (self.names.space(place.checkpoint_ns), place.checkpoint_id) in there)

    def _read(self, place: Place) -> CheckpointTuple:
        found = self.source.read(place)
        if found is None:
            raise CheckpointError(f"its checkpoint '{place.checkpoint_id}' has gone meanwhile")
        return found._replace(checkpoint=upgraded(found.checkpoint, lambda: self._above(found)))

    def _above(self, found: CheckpointTuple) -> Sequence[Any]:
        if found.parent_config is None:
            return ()
        parent = self.source.read(place_of(found.parent_config))
        return (parent.pending_writes or ()) if parent is not None else ()

    def _look_at(self, place: Place) -> None:
        """Recognise tasks, and note who made what out of which checkpoint."""
        found = self._read(place)
        self.names.learn(found, self.source.paths(place))
        if found.parent_config is None:
            return
        parent = place_of(found.parent_config)
        if found.metadata.get("source") == "update":
            self.updates.setdefault(parent, []).append(found.checkpoint["id"])
        elif found.metadata.get("source") == "loop":
            self.stepped.add(parent)

    def _copy(self, place: Place, is_there: bool) -> None:
        found = self._read(place)
        new_place = place._replace(checkpoint_ns=self.names.space(place.checkpoint_ns))
        parent = None if found.parent_config is None else place_of(found.parent_config)
        checkpoint = self._checkpoint(found.checkpoint)
        self.versions[place] = checkpoint["channel_versions"]
        metadata = {
            **found.metadata,
            "parents": {
                self.names.space(ns): id for ns, id in found.metadata.get("parents", {}).items()
            },
        }
        writes = list(self._writes(place, found))
        if not is_there:
            before = {} if parent is None else self.versions.get(parent, {})
            changed = {
                channel: version
                for channel, version in checkpoint["channel_versions"].items()
                if before.get(channel) != version
            }
            above = new_place._replace(checkpoint_id=parent.checkpoint_id if parent else None)
            self.target.put(above.config(), checkpoint, metadata, changed)  # type: ignore[arg-type]
            self.report.checkpoints += 1
        for task_id, path, values in writes:
            self.target.put_writes(new_place.config(), values, task_id, path)
            if not is_there:
                self.report.writes += len(values)
        self._verify(new_place, checkpoint, writes)

    def _checkpoint(self, checkpoint: Checkpoint) -> Checkpoint:
        return {
            **checkpoint,
            "channel_versions": _texts(checkpoint["channel_versions"]),
            "versions_seen": {
                node: _texts(seen) for node, seen in checkpoint["versions_seen"].items()
            },
        }

    def _writes(
        self, place: Place, found: CheckpointTuple
    ) -> Iterator[tuple[str, str, list[tuple[str, Any]]]]:
        """Task, path and values of each task that wrote after a checkpoint."""
        by_task: dict[str, list[tuple[str, Any]]] = {}
        for task_id, channel, value in found.pending_writes or ():
            content = self.names.value(value) if channel == INTERRUPT else value
            by_task.setdefault(task_id, []).append((channel, content))
        numbered: list[str] = []
        for task_id, values in by_task.items():
            new_id = self.names.task(task_id)
            known = self.names.knows(task_id)
            if place in self.updates and not (known and place in self.stepped):
                # The write of an update: here it carries the name of the checkpoint it made, and
                # of the node that it was made as, which LangGraph does not always store.
                if not self.names.to_langgraph and ":" not in task_id:
                    node = self.names.nodes.get(task_id, "?")
                    new_id = f"{self.updates[place][0]}:{len(numbered)}:{node}"
                    numbered.append(new_id)
            elif not known and place not in self.stepped:
                self.report.again += 1
            yield new_id, self.names.paths.get(new_id, ""), values

    def _verify(
        self, place: Place, checkpoint: Checkpoint, writes: Sequence[tuple[str, str, Any]]
    ) -> None:
        """Read it back, and compare it with what it should be."""
        copied = self.target.get_tuple(place.config())
        stored = {} if copied is None else copied.checkpoint["channel_values"]
        kept = [] if copied is None else copied.pending_writes or []
        wrong = [
            name
            for name, value in checkpoint["channel_values"].items()
            if name not in stored or _bytes(stored[name]) != _bytes(value)
        ]
        if wrong or {task for task, _, _ in writes} - {write[0] for write in kept}:
            raise CheckpointError(
                f"the copy of checkpoint '{place.checkpoint_id}' differs from the original"
                + (f" in {', '.join(sorted(wrong))}" if wrong else " in its writes")
                + ". Delete the thread in the target and try again."
            )


def _texts(versions: dict[str, Any]) -> dict[str, Any]:
    """Versions as text: some of LangGraph's savers count in numbers."""
    return {
        name: version if isinstance(version, str) else f"{int(version):032}.0"
        for name, version in versions.items()
    }


_SERDE = JsonPlusSerializer()


def _bytes(value: Any) -> tuple[str, bytes]:
    return _SERDE.dumps_typed(value)
