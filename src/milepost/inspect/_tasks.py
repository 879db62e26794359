"""What follows a checkpoint and what made it, read off the stored rows without the graph.

The id of a task is a digest of its checkpoint, step, node and path. Nodes are known by the channels
that lead to them and by what they have seen, so each id that is met is recognised by making the
ids of all nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from milepost._engine.superstep.plan import path_text
from milepost._internal.ids import digest_id
from milepost.checkpoint._contract.records import CheckpointTuple, outline, place_of
from milepost.checkpoint.base import writes_leading_to
from milepost.checkpoint.serde._types.exceptions import RemoteError
from milepost.constants import (
    ANSWERS,
    BRANCH_TO,
    CHILDREN,
    ERROR,
    INTERRUPT,
    JOIN,
    NO_WRITES,
    NULL_TASK_ID,
    PULL,
    PUSH,
    RESUME,
    RETURN,
    SCHEDULED,
    START,
    TASKS,
)
from milepost.inspect._data import as_data
from milepost.inspect._reading import (
    INTERNAL,
    NO_VALUES,
    id_of,
    is_internal,
    load,
    parent_of,
)
from milepost.inspect._records import Question, TaskRow
from milepost.types import Interrupt, Send, _Answered

if TYPE_CHECKING:
    from milepost.checkpoint._contract.records import Checkpoint, PendingWrite
    from milepost.inspect._database import Database

_SPECIAL: Final = frozenset(
    {ERROR, INTERRUPT, RESUME, SCHEDULED, NO_WRITES, CHILDREN, ANSWERS, RETURN}
)
_PULLED: Final = f"~{PULL}, "
_PUSHED: Final = f"~{PUSH}, "
_FROM_OUTSIDE: Final = NULL_TASK_ID[:24]
COMMAND: Final = "__command__"
"""The writer of a Command from outside, which no node made."""
SET: Final = "__set__"
"""The writer of a `fork` without a graph, which sets keys as no node does."""


class Step:
    """One checkpoint, and what is stored of the tasks that follow it."""

    def __init__(
        self, saved: CheckpointTuple, paths: Mapping[str, str], nodes: Iterable[str]
    ) -> None:
        self._saved = saved
        self._paths = paths
        self._nodes = nodes
        """Nodes that are known from elsewhere: no channel names a node that the input starts."""
        self.checkpoint: Checkpoint = outline(saved, INTERNAL)
        step = saved.metadata.get("step")
        number = -1 if step is None else step
        self._base = (id_of(saved), place_of(saved.config).checkpoint_ns, str(number + 1))

    def _pulled(self, name: str) -> str:
        return digest_id(*self._base, name, f"{_PULLED}{name}")

    def _send_tasks(self) -> list[tuple[str, str]]:
        """Ids and nodes of the tasks of `Send`s."""
        return [
            (digest_id(*self._base, send.node, path_text((PUSH, at, False))), send.node)
            for at, send in enumerate(self.sends())
        ]

    @property
    def pending(self) -> Sequence[PendingWrite]:
        """The writes of tasks after the checkpoint."""
        return self._saved.pending_writes or ()

    def sends(self) -> list[Send]:
        found = self.checkpoint["channel_values"].get(TASKS) or ()
        return [one for one in found if isinstance(one, Send)]

    def planned(self) -> list[str]:
        """The nodes that channels start."""
        values, versions = self.checkpoint["channel_values"], self.checkpoint["channel_versions"]
        found: set[str] = set()
        for channel, value in values.items():
            if channel.startswith(BRANCH_TO):
                name = channel.removeprefix(BRANCH_TO)
            elif channel.startswith(JOIN):
                needed, _, name = channel.removeprefix(JOIN).rpartition(":")
                if not _is_complete(value, needed.split("+")):
                    continue
            elif channel == START:
                name = START
            else:
                continue
            seen = self.checkpoint["versions_seen"].get(name, {}).get(channel)
            if seen is None or seen != versions.get(channel):
                found.add(name)
        return sorted(found)

    @cached_property
    def names(self) -> dict[str, str]:
        """Task id → node, of all tasks that may follow."""
        nodes = {START, *self._nodes, *self.checkpoint["versions_seen"]}
        for channel in self.checkpoint["channel_versions"]:
            if channel.startswith((BRANCH_TO, JOIN)):
                nodes.add(channel.rpartition(":")[2])
        found = {self._pulled(name): name for name in nodes}
        found |= dict(self._send_tasks())
        for task_id, path in self._paths.items():
            found.setdefault(task_id, self._by_path(path))
        return {id: name for id, name in found.items() if name}

    def _by_path(self, path: str) -> str:
        if path.startswith(_PULLED):
            return path.removeprefix(_PULLED)
        at = path.removeprefix(_PUSHED).partition(",")[0]
        sends = self.sends()
        if path.startswith(_PUSHED) and at.isdigit() and int(at) < len(sends):
            return sends[int(at)].node
        return ""

    def name(self, task_id: str) -> str:
        """The node of a task; what is known of it if that is not recognised."""
        if task_id.startswith(_FROM_OUTSIDE):
            return COMMAND
        owner, *rest = task_id.split(":", 2)
        if len(rest) == 2 and len(owner) == 36:
            return rest[1]  # an update: the checkpoint that it made, its number, its node
        return self.names.get(task_id, "?")

    def tasks(self) -> list[TaskRow]:
        by_task: dict[str, list[tuple[str, Any]]] = {}
        for task_id, channel, value in self.pending:
            if not task_id.startswith(_FROM_OUTSIDE) and ":" not in task_id:
                by_task.setdefault(task_id, []).append((channel, value))
        rows = [(self._pulled(name), name) for name in self.planned()]
        rows += self._send_tasks()
        known = {id for id, _ in rows}
        for task_id, writes in by_task.items():
            if task_id in known:
                continue
            name = self.name(task_id)
            if all(channel in (RETURN, SCHEDULED) for channel, _ in writes):
                continue  # a call inside a node
            # Under another library's id, a task that is planned here already.
            twin = next((r for r in rows if r[1] == name and r[0] not in by_task), None)
            if twin is not None:
                rows[rows.index(twin)] = (task_id, name)
            else:
                rows.append((task_id, name))
                # The input started this node, and not one that takes the input.
                rows = [row for row in rows if row[1] != START or row[0] in by_task]
        return [_row(id, name, by_task.get(id, [])) for id, name in rows]

    def writes_to(self, child: CheckpointTuple) -> dict[str, list[str]]:
        """What made `child` out of this checkpoint: node → the keys that it wrote."""
        found: dict[str, list[str]] = {}
        names = dict(self.names)
        # A node that has just run for the first time is among what the child has seen.
        for name in outline(child, INTERNAL)["versions_seen"]:
            names.setdefault(self._pulled(name), name)
        for task_id, channel, _ in writes_leading_to(child, self.pending):
            if channel in _SPECIAL and channel not in (NO_WRITES, RETURN):
                continue
            name = names.get(task_id) or self.name(task_id)
            if channel == RETURN and name == "?":
                continue  # a call inside a node
            keys = found.setdefault(name, [])
            if not is_internal(channel) and channel not in keys:
                keys.append(channel)
        return found


def step_at(db: Database, saved: CheckpointTuple, nodes: Iterable[str] = ()) -> Step:
    """What follows a checkpoint.

    Args:
        db: The database.
        saved: The checkpoint.
        nodes: Names of nodes that the graph has, where they are known.

    Examples:
        >>> from milepost.inspect.parts import resolve, step_at
        >>> [task.name for task in step_at(db, resolve(db, Ref.parse("trip@~1"))).tasks()]
        ['count']
    """
    return Step(saved, db.source.paths(place_of(saved.config)), nodes)


def writes_behind(
    db: Database, saved: CheckpointTuple, following: CheckpointTuple | None = None
) -> dict[str, list[str]]:
    """What made a checkpoint: node → the keys that it wrote."""
    source = saved.metadata.get("source")
    if source == "input":
        given = outline(saved, (START,))["channel_values"].get(START)
        return {START: [str(key) for key in given] if isinstance(given, dict) else []}
    parent_id = parent_of(saved)
    if source == "fork" and (changed := outline(saved, NO_VALUES)["updated_channels"]):
        return {SET: [name for name in changed if not is_internal(name)]}
    if parent_id is None or source not in ("loop", "update"):
        return {}
    place = place_of(saved.config)
    # Our own savers fetch it along.
    for parent in (following, getattr(saved, "parent", None)):
        if parent is not None and id_of(parent) == parent_id:
            break
    else:
        parent = load(db, place._replace(checkpoint_id=parent_id))
    return {} if parent is None else step_at(db, parent).writes_to(saved)


def next_nodes(tasks: Iterable[TaskRow], *, is_latest: bool) -> tuple[str, ...]:
    """The nodes that run next.

    Args:
        tasks: The tasks that follow a checkpoint.
        is_latest: Whether it is the latest: then those that have finished are left out.

    Examples:
        >>> from milepost.inspect.parts import next_nodes, resolve, step_at
        >>> next_nodes(step_at(db, resolve(db, Ref.parse("trip@~1"))).tasks(), is_latest=False)
        ('count',)
    """
    return tuple(task.name for task in tasks if not (is_latest and task.finished))


def _row(id: str, name: str, writes: list[tuple[str, Any]]) -> TaskRow:
    finished = any(channel not in _SPECIAL or channel == NO_WRITES for channel, _ in writes)
    error: str | None = None
    questions: list[Question] = []
    for channel, value in writes:
        if channel == ERROR:
            error = _error_text(value)
        elif channel == INTERRUPT:
            raised = value if isinstance(value, (list, tuple)) else [value]
            for one in raised:
                asked = one.interrupt if isinstance(one, _Answered) else one
                if isinstance(asked, Interrupt):
                    answered = finished or asked is not one
                    questions.append(Question(asked.id, as_data(asked.value), answered))
    return TaskRow(id, name, error, questions, finished)


def _error_text(error: Any) -> str:
    if isinstance(error, BaseException):
        if isinstance(error, RemoteError):
            return str(error)
        return f"{type(error).__name__}: {error}"
    return error if isinstance(error, str) else str(as_data(error))


def _is_complete(value: Any, needed: Sequence[str]) -> bool:
    try:
        arrived = value[0] if isinstance(value, tuple) and value else value
        # A name may have a "+" itself, at which `needed` was split.
        return set(needed) <= {part for name in arrived for part in (name, *name.split("+"))}
    except (TypeError, AttributeError):
        return False
