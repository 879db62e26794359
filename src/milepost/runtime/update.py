"""Changing a thread from outside: `update_state` and `bulk_update_state`.

An update is a step that nobody ran: its values are taken as if a node had returned them, through
the reducers, and the node's edges decide what comes next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.checkpoint.commit import NewCheckpoint, TaskWrites
from milepost.checkpoint.records import CheckpointTuple, Place
from milepost.constants import END, INPUT, START
from milepost.errors import InvalidUpdateError
from milepost.runtime.apply import apply_writes
from milepost.runtime.calls import Callee
from milepost.runtime.effects import AWAIT, Ask, RunProgram, Start
from milepost.runtime.plan import Task, in_path_order, is_waiting
from milepost.runtime.program import Node, Outside, Write
from milepost.runtime.session import Session
from milepost.runtime.task import perform
from milepost.types import MISSING, RunnableConfig, StateUpdate, _DeltaSnapshot

COPY = "__copy__"
"""As `as_node`: make a checkpoint like this one beside it, without any change."""

_UPDATED = "__update__"
"""Beside what a node has seen: when an update was made in its name."""


class UpdateSession(Session):
    """A thread that is being updated."""

    def update(self, supersteps: Sequence[Sequence[StateUpdate]]) -> RunProgram[RunnableConfig]:
        """Make one checkpoint for each superstep; return the config of the last."""
        if not supersteps:
            raise ValueError("No supersteps provided: bulk_update_state needs at least one.")
        if not all(supersteps):
            raise ValueError("No updates provided: every superstep needs at least one.")
        try:
            config = yield from self._update(supersteps)
        except GeneratorExit:
            raise  # it was dropped: nobody carries out what it would ask for
        except BaseException as error:
            yield from self.close(error)
            raise
        yield from self.close(None)
        return config

    def _outcome(self, error: BaseException | None) -> str:  # noqa: ARG002
        """An update is no run: what waits after it waits for somebody to resume the thread."""
        return "interrupted"

    def _update(self, supersteps: Sequence[Sequence[StateUpdate]]) -> RunProgram[RunnableConfig]:
        saver = self.options.checkpointer
        assert isinstance(saver, BaseCheckpointSaver)
        saved, explicit = yield from self._load(saver)
        self.board = self.program.board(saved.checkpoint if saved else None)
        if saved is not None:
            yield from self._restore(saved)
            self._around = saved.metadata.get("parents", {})
        for updates in supersteps:
            yield from self._superstep(updates, saved, explicit)
            explicit = False
            saved = None
        assert self.place is not None
        return self.place.config_inside(self.parents)

    _around: Mapping[str, str] = MappingProxyType({})

    @property
    def parents(self) -> dict[str, str]:
        """The checkpoints around an inner graph that is updated: those of its last step."""
        return dict(self._around)

    def _destination(self, saver: Any, place: Place) -> RunProgram[Place]:  # noqa: ARG002
        """An update is made where the config points, in an inner graph too."""
        yield from ()
        self.ns = place.checkpoint_ns
        return place

    def _superstep(
        self, updates: Sequence[StateUpdate], saved: CheckpointTuple | None, explicit: bool
    ) -> RunProgram[None]:
        self._rest(self._outcome(None))
        first = updates[0]
        if len(updates) > 1:
            if any(update.as_node is None for update in updates):
                raise InvalidUpdateError(
                    "Several updates in one superstep must each say which node they come from: "
                    "StateUpdate(values, as_node=...)."
                )
            if any(update.as_node in (INPUT, END, COPY) for update in updates):
                raise InvalidUpdateError(
                    f"'{first.as_node}' cannot be combined with other updates in one superstep."
                )
        if not self.ns:
            # What is inside a call goes on with that call.
            self.start_lineage()
        if first.as_node == END:
            yield from self._end(first)
        elif first.as_node == COPY:
            yield from self._copy(saved, first.values)
        elif first.as_node == INPUT:
            if first.values is None:
                raise InvalidUpdateError("An update as the input needs values.")
            yield from self._take_input(first.values)
        else:
            yield from self._write(updates, explicit)

    def _write(self, updates: Sequence[StateUpdate], explicit: bool) -> RunProgram[None]:
        if self.stored_id is None:
            self.step = -1
        tasks = []
        for at, update in enumerate(updates):
            name = update.as_node or self._last_node()
            node = self.program.nodes.get(name)
            if node is None:
                raise InvalidUpdateError(
                    f"Node {name} does not exist in graph '{self.program.name}'. "
                    f"Its nodes are: {', '.join(sorted(set(self.program.nodes) - {START}))}."
                )
            tasks.append(self._as_if_run(node, update.values, at))
        ended = len((yield Start([(task, perform(self, task)) for task in tasks], None)))
        while ended < len(tasks):
            ended += len((yield AWAIT))
        for task in tasks:
            if isinstance(task.error, BaseException):
                raise task.error

        siblings = [] if explicit else self._finished_siblings({task.name for task in tasks})
        writers = [*in_path_order(siblings), *tasks]
        self.changed = apply_writes(self.program, self.board, writers, self.next_version)
        for task in tasks:
            seen = self.board.seen.get(task.name, {})
            self.board.saw(task.name, {**seen, _UPDATED: self.board.top})
        self.step += 1
        # Of what others wrote, nothing says at the parent that it led here, if there is a parent;
        # and where a saver takes the checkpoint and the writes one after the other, it might get
        # no further.
        assert self.ledger is not None
        parent = self.stored_id
        self.keeps_deltas_whole = bool(siblings) or parent is None or self.ledger.native is None
        yield from self.save_checkpoint("update", (), writers, held=parent is not None)
        if parent is not None:
            yield from self._record(parent, tasks)

    def _as_if_run(self, node: Node, values: Any, at: int) -> Task:
        """A task that returns the given values."""
        stand_in = replace(
            node,
            callee=Callee(node.name, lambda _: values, None, quick=True),
            retry=(),
            error_handler=None,
            timeout=None,
        )
        return Task(stand_in, (INPUT, at), node.triggers, None, self.task_base)

    def _finished_siblings(self, updated: set[str]) -> list[Task]:
        """Tasks of the present step that are done: their writes are part of what is updated.

        Only where the update stands in for one that is not: it then ends the step. Any other
        update starts over from its node's edges, and may run those tasks again.
        """
        tasks = self._waiting()
        if all(task.finished or task.name not in updated for task in tasks):
            return []
        return [task for task in tasks if task.finished and task.name not in updated]

    def _record(self, parent: str, tasks: Sequence[Task]) -> RunProgram[None]:
        """Store what was written at the parent, where a step's writes are, under our own id."""
        writes = [
            TaskWrites(f"{self.checkpoint_id}:{at}:{task.name}", "", task.name, list(task.writes))
            for at, task in enumerate(tasks)
            if task.writes
        ]
        assert self.ledger is not None
        waits = self.ns or is_waiting(self.program, self.board, self.changed)
        self._rest(self._outcome(None) if waits else "idle")
        here, self.stored_id = self.stored_id, parent
        yield from self.save_writes(writes)
        self.stored_id = here
        if (save := self.store_prepared(self.ledger)) is not None:
            yield save  # there were no writes, only the checkpoint

    def _end(self, update: StateUpdate) -> RunProgram[None]:
        if update.values is not None:
            raise InvalidUpdateError(
                "as_node=END drops the tasks that are waiting; it takes no values."
            )
        writers = [
            Outside(task.name, task.triggers, self._state_writes(task)) for task in self._waiting()
        ]
        self.changed = apply_writes(self.program, self.board, writers, self.next_version)
        self.step += 1
        self.keeps_deltas_whole = True
        yield from self.save_checkpoint("update", (), writers)

    def _state_writes(self, task: Task) -> list[Write]:
        return [write for write in task.writes if write[0] in self.program.keys]

    # -- copies

    _copied: CheckpointTuple | None = None
    """The checkpoint that is being copied."""

    def _copy(self, saved: CheckpointTuple | None, values: Any) -> RunProgram[None]:
        """Make a checkpoint like the one at hand beside it; then write `values` to the copy."""
        updates = _updates_of_copy(values)
        if saved is None:
            saved = yield from self._last_made()
        self._copied = saved
        self.stored_id = (saved.parent_config or {}).get("configurable", {}).get("checkpoint_id")
        self.step += 1
        self.changed = None
        yield from self.save_checkpoint("fork")
        self._copied = None
        if updates:
            yield from self._superstep(updates, None, False)

    def _last_made(self) -> RunProgram[CheckpointTuple]:
        """The checkpoint that the superstep before has made."""
        ledger, place = self.ledger, self.place
        assert ledger is not None
        assert place is not None
        found = None
        if self.checkpoint_id:
            if (save := self.store_prepared(ledger)) is not None:
                yield save
            found = yield Ask(ledger.saver, "get_tuple", (place.config(),))
        if found is None:
            raise InvalidUpdateError("There is no checkpoint to copy in this thread.")
        made: CheckpointTuple = found
        return made

    def _new_checkpoint(self, new_id: str) -> NewCheckpoint:
        """A copy shares its parent with the original, but nothing that the parent has.

        So everything is told as changed. Delta channels are kept whole: the writes that made the
        original's value are not taken to have made that of a fork.
        """
        copied = self._copied
        if copied is None:
            return super()._new_checkpoint(new_id)
        changed: dict[str, Any] = dict.fromkeys(copied.checkpoint["channel_versions"], MISSING)
        changed |= copied.checkpoint["channel_values"]
        for name in self.program.delta:
            if name in self.board.versions:
                whole = _DeltaSnapshot(self.board.live[name].get())
                changed[name] = self._snapshots[name] = whole
        if (counters := self.metadata.get("counters_since_delta_snapshot")) is not None:
            self.metadata["counters_since_delta_snapshot"] = dict.fromkeys(counters, (0, 0))
        new = super()._new_checkpoint(new_id)
        return replace(new, changed={**changed, **new.changed}, seen=None, again=True)

    def _last_node(self) -> str:
        """The node that an update without `as_node` counts as: the last that wrote, or the only."""
        if len(self.program.nodes) == 1:
            return next(iter(self.program.nodes))
        # A node that ran because of an update has seen the very version that the update made:
        # it counts as the later of the two.
        seen = sorted(
            ((version, trigger != _UPDATED), name)
            for name, versions in self.board.seen.items()
            if name in self.program.nodes and versions
            for version, trigger in [max((v, t) for t, v in versions.items())]
        )
        if not seen:
            return START
        if len(seen) > 1 and seen[-1][0] == seen[-2][0]:
            raise InvalidUpdateError(
                "Ambiguous update, specify as_node: the last step ran several nodes ("
                + ", ".join(sorted(name for when, name in seen if when == seen[-1][0]))
                + "), and which of them the update stands for decides what runs next."
            )
        return seen[-1][1]


def _updates_of_copy(values: Any) -> list[StateUpdate]:
    """What is to be written to a copy once it is made."""
    if not values:
        return []
    if not isinstance(values, list) or not all(_is_update(item) for item in values):
        raise InvalidUpdateError(
            "A copy of a checkpoint has the values of the original. What is to be written to the "
            "copy is a list of (values, as_node); leave the values out if that is nothing."
        )
    return [StateUpdate(*item[:2]) for item in values]


def _is_update(item: object) -> bool:
    return isinstance(item, (list, tuple)) and len(item) >= 2
