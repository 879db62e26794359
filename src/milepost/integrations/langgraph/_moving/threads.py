"""Moves threads between the two libraries' databases.

A thread is read as a whole before anything of it is written, so one that cannot be read leaves no
trace. Checkpoints keep their ids, which is why a move can be run again: what is there is left, what
is missing is added. At the end the copy is read back and compared, part by part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint._contract.records import (
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    Place,
    place_of,
)
from milepost.constants import ERROR, INTERRUPT, RESUME
from milepost.errors import CheckpointError, SerdeError
from milepost.integrations.langgraph._formats.names import Names
from milepost.integrations.langgraph._formats.old_checkpoints import Edges, upgraded
from milepost.integrations.langgraph._moving.fingerprints import (
    Fingerprint,
    differences,
    fingerprint,
)

if TYPE_CHECKING:
    from milepost._internal.progress import Progress
    from milepost.checkpoint.base import BaseCheckpointSaver
    from milepost.integrations.langgraph._moving.redis_threads import RedisThreads
    from milepost.integrations.langgraph._moving.sources import Tables

_OFTEN: Final = 50
"""How many checkpoints of a thread are copied between two reports of progress."""


@dataclass
class Report:
    """What a move has done."""

    threads: int = 0
    checkpoints: int = 0
    writes: int = 0
    items: int = 0
    unreadable: list[str] = field(default_factory=list)
    """Threads and items that were left out, and why."""
    ahead: list[str] = field(default_factory=list)
    """Threads that have gone on in the target since an earlier move; left as they are."""
    again: int = 0
    """Finished tasks of unfinished steps that could not be recognised: they will run again."""


@dataclass(frozen=True)
class Route:
    """The source and the target of a move."""

    source: Tables | RedisThreads
    target: BaseCheckpointSaver[Any]
    reader: BaseCheckpointSaver[Any]
    """Another saver on the target's database: it has not seen what was written, so what it gives
    is what is stored."""
    to_langgraph: bool = False
    called: Sequence[str] = ()
    """Names that the program's `@task` functions may have."""


def move_threads(
    route: Route,
    *,
    only: Sequence[str] = (),
    progress: Progress = lambda _done, _total: None,
) -> Report:
    """Copy threads with all of their checkpoints and writes, and verify each.

    `progress` is called with numbers of checkpoints: those that were dealt with, and all of them,
    if not only some of the threads are wanted.
    """
    report = Report()
    seen, total = 0, None if only else route.source.size()
    for thread_id in only or route.source.threads():
        size = 0
        try:
            move = _Move(route, thread_id, report)
            size = len(move.places)
            for done in move.run():
                progress(seen + done, total)
            report.threads += 1
        except (SerdeError, CheckpointError) as error:
            report.unreadable.append(f"thread '{thread_id}': {error}")
        seen += size
        progress(seen, total)
    if not only:
        report.unreadable += route.source.damaged()
    return report


class _Move:
    """The move of one thread."""

    def __init__(self, route: Route, thread_id: str, report: Report) -> None:
        self.source = route.source
        self.target = route.target
        self.reader = route.reader
        self.thread_id = thread_id
        self.report = report
        self.names = Names(route.to_langgraph, route.called)
        self.fingerprint = partial(fingerprint, in_langgraph=route.to_langgraph)
        self.edges = Edges()
        self.places = [Place(thread_id, ns, id) for ns, id in self.source.places(thread_id)]
        self.versions: dict[Place, dict[str, Any]] = {}
        self.updates: dict[Place, list[str]] = {}
        """Checkpoints from which `update_state` made others, and those."""
        self.stepped: set[Place] = set()
        """Checkpoints from which a step was taken."""
        self.expected: dict[Place, Fingerprint] = {}
        """What the copy of each checkpoint has to be."""
        self.unrecognised: set[tuple[Place, str]] = set()
        """Tasks of unfinished steps that keep a name which the target does not look up."""

    def run(self) -> Iterator[int]:
        """Copy the thread; yield from time to time how many checkpoints were copied since."""
        if not self.places:
            raise CheckpointError("there is no such thread in the source")
        for place in self.places:
            self._examine(place)
        there = self._there()
        if there is None:
            self.report.ahead.append(self.thread_id)
            return
        before = self.report.checkpoints, self.report.writes
        try:
            for at, place in enumerate(self.places):
                self._copy(place, there)
                if at % _OFTEN == _OFTEN - 1:
                    yield at + 1
            self._verify()
        except (SerdeError, CheckpointError):
            self.report.checkpoints, self.report.writes = before
            if not there:
                self.target.delete_thread(self.thread_id)
            raise

    # -- reading

    def _original(self, place: Place) -> CheckpointTuple:
        found = self.source.read(place)
        if found is None:
            raise CheckpointError(f"its checkpoint '{place.checkpoint_id}' has gone meanwhile")
        return found

    def _upgraded(self, found: CheckpointTuple) -> CheckpointTuple:
        """A checkpoint in today's layout."""
        checkpoint = upgraded(found.checkpoint, self.edges, lambda: self._above(found))
        return found._replace(checkpoint=checkpoint)

    def _above(self, found: CheckpointTuple) -> Sequence[PendingWrite]:
        if found.parent_config is None:
            return ()
        parent = self.source.read(place_of(found.parent_config))
        return (parent.pending_writes or ()) if parent is not None else ()

    def _examine(self, place: Place) -> None:
        """Recognise tasks, and note who made what out of which checkpoint."""
        original = self._original(place)
        self.edges.learn(original.checkpoint)
        if place == self.places[-1] and (original.pending_writes or _stopped(original)):
            self._check_successors(original)
        found = self._upgraded(original)
        self.names.learn(found, self.source.paths(place))
        if found.parent_config is None:
            return
        parent = place_of(found.parent_config)
        if found.metadata.get("source") == "update":
            self.updates.setdefault(parent, []).append(found.checkpoint["id"])
        elif found.metadata.get("source") == "loop":
            self.stepped.add(parent)

    def _check_successors(self, head: CheckpointTuple) -> None:
        """Refuse a waiting thread if no checkpoint shows which node comes next."""
        if nodes := self.edges.unknown(head.checkpoint):
            raise CheckpointError(
                f"it is of format {head.checkpoint['v']} and waits in the middle of its first run;"
                f" which node comes after {' and '.join(nodes)} is not stored there. Finish this"
                " run with LangGraph, then import the thread"
            )

    # -- what the copy has to be

    def _translated(self, place: Place) -> tuple[CheckpointTuple, dict[str, str]]:
        """A checkpoint with the names of the other side, and the paths of its tasks."""
        found = self._upgraded(self._original(place))
        parent = None if found.parent_config is None else place_of(found.parent_config)
        metadata: CheckpointMetadata = {
            **found.metadata,
            "parents": {
                self.names.space(ns): id for ns, id in found.metadata.get("parents", {}).items()
            },
        }
        writes = list(self._writes(place, found))
        new = CheckpointTuple(
            self._new(place).config(),
            found.checkpoint,
            metadata,
            None if parent is None else self._new(parent).config(),
            [(task_id, channel, value) for task_id, _, channel, value in writes],
        )
        return new, {task_id: path for task_id, path, _, _ in writes}

    def _new(self, place: Place) -> Place:
        return place._replace(checkpoint_ns=self.names.space(place.checkpoint_ns))

    def _writes(self, place: Place, found: CheckpointTuple) -> Iterator[tuple[str, str, str, Any]]:
        """Task, path, channel and value of each write after a checkpoint."""
        new_ids: dict[str, str] = {}
        for task_id, channel, value in found.pending_writes or ():
            if task_id not in new_ids:
                new_ids[task_id] = self._new_id(place, task_id, len(new_ids))
            content = value
            if channel == INTERRUPT:
                content = self.names.value(value)
            elif channel == ERROR and self.names.to_langgraph and isinstance(value, BaseException):
                content = repr(value)  # as LangGraph's programs expect it
            new_id = new_ids[task_id]
            yield new_id, self.names.paths.get(new_id, ""), channel, content

    def _new_id(self, place: Place, task_id: str, number: int) -> str:
        """The id of a task in the other library."""
        known = self.names.knows(task_id)
        if place in self.updates and not (known and place in self.stepped):
            # The write of an update: here it carries the name of the checkpoint it made, and of
            # the node that it was made as, which LangGraph does not always store.
            if not self.names.to_langgraph and ":" not in task_id:
                node = self.names.nodes.get(task_id, "?")
                return f"{self.updates[place][0]}:{number}:{node}"
        elif not known and place not in self.stepped:
            self.unrecognised.add((place, task_id))
        return self.names.task(task_id)

    def _listed(self, saver: BaseCheckpointSaver[Any]) -> Iterator[CheckpointTuple]:
        """The copies of this thread's graphs, one after the other: so they come in pages."""
        for ns in dict.fromkeys(self._new(place).checkpoint_ns for place in self.places):
            yield from saver.list(Place(self.thread_id, ns, None).config())

    # -- writing

    def _there(self) -> dict[Place, Fingerprint] | None:
        """The checkpoints that the target has; None if the thread has gone on there."""
        originals = {self._new(place): place for place in self.places}
        there: dict[Place, Fingerprint] = {}
        for found in self._listed(self.target):
            place = place_of(found.config)
            if place not in originals:
                return None
            expected, _ = self._translated(originals[place])
            if _has_gone_on(found.pending_writes or (), expected.pending_writes or ()):
                return None
            there[place] = self.fingerprint(found)
        return there

    def _copy(self, place: Place, there: Mapping[Place, Fingerprint]) -> None:
        new, paths = self._translated(place)
        new_place = self._new(place)
        checkpoint = new.checkpoint
        self.expected[new_place] = self.fingerprint(new)
        self.versions[new_place] = checkpoint["channel_versions"]
        if not differences(self.expected[new_place], there.get(new_place, {})):
            return
        if new_place not in there:
            parent = None if new.parent_config is None else place_of(new.parent_config)
            before = {} if parent is None else self.versions.get(parent, {})
            changed = {
                channel: version
                for channel, version in checkpoint["channel_versions"].items()
                if before.get(channel) != version
            }
            above = new_place._replace(checkpoint_id=parent.checkpoint_id if parent else None)
            self.target.put(above.config(), checkpoint, new.metadata, changed)
            self.report.checkpoints += 1
            self.report.writes += len(new.pending_writes or ())
        by_task: dict[str, list[tuple[str, Any]]] = {}
        for task_id, channel, value in new.pending_writes or ():
            by_task.setdefault(task_id, []).append((channel, value))
        for task_id, values in by_task.items():
            self.target.put_writes(new_place.config(), values, task_id, paths[task_id])

    def _verify(self) -> None:
        """Read the copy back, and compare it with what it has to be."""
        missing = dict(self.expected)
        for found in self._listed(self.reader):
            place = place_of(found.config)
            wrong = differences(missing.pop(place, {}), self.fingerprint(found))
            if wrong:
                raise CheckpointError(
                    f"the copy of checkpoint '{place.checkpoint_id}' differs from the original in"
                    f" {', '.join(wrong)}"
                )
        if missing:
            raise CheckpointError(f"{len(missing)} checkpoints are missing in the copy")
        self.report.again += len(self.unrecognised)


def _stopped(found: CheckpointTuple) -> bool:
    """Whether a run was stopped here by `interrupt_before` or `interrupt_after`."""
    return INTERRUPT in found.checkpoint["versions_seen"]


def _has_gone_on(there: Sequence[PendingWrite], expected: Sequence[PendingWrite]) -> bool:
    """Whether the target has writes, or answers to questions, that the source knows nothing of."""
    known = {(task_id, channel): value for task_id, channel, value in expected}
    for task_id, channel, value in there:
        if (task_id, channel) not in known:
            return True
        if channel == RESUME:
            given, before = _answers(value), _answers(known[task_id, channel])
            if given != before[: len(given)]:
                return True
    return False


def _answers(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
