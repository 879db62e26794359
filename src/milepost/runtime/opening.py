"""The beginning of a run: load the thread, find the place to start from, take the input."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from milepost.checkpoint.commit import Fence, StepSaver, TaskWrites
from milepost.checkpoint.records import CheckpointTuple, Place, place_of
from milepost.constants import INPUT, NS_END, NS_SEP, PREVIOUS
from milepost.errors import (
    CheckpointNotFoundError,
    EmptyInputError,
    OutsideRunError,
    UnknownInterruptError,
)
from milepost.runtime.apply import apply_writes
from milepost.runtime.board import Board
from milepost.runtime.checkpoints import Bookkeeping, strip_ids
from milepost.runtime.config import recursion_limit
from milepost.runtime.effects import Ask, Flush, RunProgram
from milepost.runtime.pending import (
    command_writes,
    null_task_id,
    null_writes,
    open_interrupts,
    recall,
)
from milepost.runtime.plan import Task, plan
from milepost.runtime.program import Outside, Program
from milepost.runtime.saving import Ledger
from milepost.types import Command

if TYPE_CHECKING:
    from milepost.checkpoint.base import BaseCheckpointSaver


class Opening(Bookkeeping):
    """The part of a run that decides what it starts from."""

    answers: Mapping[str, Any]
    previous: Any
    stop: int

    def open(self, input: Any) -> RunProgram[None]:
        """Load what is saved, and get ready for the first step."""
        saver = self._saver()
        saved: CheckpointTuple | None = None
        explicit = False
        if saver is not None:
            saved, explicit = yield from self._load(saver)
        self.board = Board(
            self.program.channels, self.program.keys, saved.checkpoint if saved else None
        )
        if saved is not None:
            yield from self._restore(saved)
        self.stop = self.step + recursion_limit(self.config) + 2

        if isinstance(input, Command):
            yield from self._open_with_command(input, saved, explicit)
        elif input is None or (self.parent is not None and self._is_repeated(saved)):
            yield from self._go_on(saved, explicit and self.parent is None)
        else:
            yield from self._take_input(input)

    # -- finding the saver and the place

    def _saver(self) -> BaseCheckpointSaver[Any] | None:
        """The saver of this run, and the namespace that it writes to."""
        chosen = self.options.checkpointer
        if chosen is False:
            self._place_without_saver()
            return None
        if chosen is True and self.parent is None:
            raise OutsideRunError(
                "checkpointer=True means the parent's checkpointer, but this graph was called on "
                "its own. Compile it with a saver to run it by itself."
            )
        if chosen is None or chosen is True:
            if self.parent is None or self.parent.session.ledger is None:
                self._place_without_saver()
                return None
            self.ledger = self.parent.session.ledger
        elif self.parent is not None:
            above = self.parent.session.ledger
            thread_id = (self.config.get("configurable") or {}).get("thread_id")
            if above is not None and thread_id in (None, above.thread_id):
                if above.saver is chosen:
                    self.ledger = above
            else:
                # A graph with its own saver and thread is a run of its own.
                self.parent = None
                return chosen
        if self.parent is not None:
            self.ns = self.parent.child_ns()
            if chosen is True:
                self.ns = strip_ids(self.ns)
        return self.ledger.saver if self.ledger is not None else chosen  # type: ignore[return-value]

    def _place_without_saver(self) -> None:
        if self.parent is not None:
            self.ns = self.parent.child_ns()
            self.thread_id = self.parent.session.thread_id

    # -- loading

    def _load(
        self, saver: BaseCheckpointSaver[Any]
    ) -> RunProgram[tuple[CheckpointTuple | None, bool]]:
        """The checkpoint to start from, and whether the caller named it."""
        if self.ledger is not None:
            self.thread_id = self.ledger.thread_id
            return (yield from self._load_inner(saver)), False
        place = place_of(self.config)
        self.thread_id = place.thread_id
        if self.parent is not None:
            place = place._replace(checkpoint_ns=self.ns, checkpoint_id=None)
        else:
            place = yield from self._destination(saver, place)
        saved = yield Ask(saver, "get_tuple", (place.config(),))
        explicit = place.checkpoint_id is not None
        if explicit and saved is None:
            raise CheckpointNotFoundError(
                f"Thread '{place.thread_id}' has no checkpoint '{place.checkpoint_id}'. "
                "get_state_history(config) lists those that it has."
            )
        head: str | None = saved.checkpoint["id"] if saved else None
        if explicit or place.checkpoint_ns:
            head = yield from head_of(saver, place.thread_id)
        durability = self.options.durability or "async"
        if self.shared is not None:
            fence = self.shared.fence
        else:
            fence = Fence(head, forced=explicit and saved.checkpoint["id"] != head)
        self.ledger = Ledger(saver, place.thread_id, durability, fence)
        self.owns_ledger = True
        return saved, explicit

    def _destination(self, saver: BaseCheckpointSaver[Any], place: Place) -> RunProgram[Place]:
        """Where a run from an inner graph's checkpoint starts: at the root's around it."""
        ns, checkpoint_id = place.checkpoint_ns, place.checkpoint_id
        if ns == "":
            return place
        if checkpoint_id is None:
            return Place(place.thread_id, "", None)
        configurable = self.config.get("configurable") or {}
        around: Mapping[str, str] | None = configurable.get("checkpoint_map")
        if around is None:
            inner = yield Ask(saver, "get_tuple", (place.config(),))
            around = inner.metadata.get("parents") if inner is not None else None
        travel = {**(around or {}), ns: checkpoint_id}
        root = travel.pop("", None)
        if root is None:
            raise CheckpointNotFoundError(
                f"Thread '{place.thread_id}' has no checkpoint '{checkpoint_id}' in the inner "
                f"graph '{ns}'. get_state_history lists those that it has."
            )
        self.travel = travel
        return Place(place.thread_id, "", root)

    def _load_inner(self, saver: BaseCheckpointSaver[Any]) -> RunProgram[CheckpointTuple | None]:
        """The state of a graph inside a run: of an earlier attempt, or of its own memory."""
        assert self.parent is not None
        assert self.thread_id is not None
        above = self.parent.session
        if (
            NS_END in self.ns
            and self.parent.attempt == 1
            and not above.repeats
            and not above.travel
        ):
            return None  # the task is new, and so is everything inside it
        assert self.ledger is not None
        if self.ledger.deferred:
            yield Flush(self.ledger, last=False)
        origin = _step_into(above.travel, self.ns)
        if origin is not None:
            old_ns, old_id, self.travel = origin
            found: CheckpointTuple | None = yield Ask(
                saver, "get_tuple", (Place(self.thread_id, old_ns, old_id).config(),)
            )
            if found is not None:
                self._moved_from = old_ns
                return found
        latest: CheckpointTuple | None = yield Ask(
            saver, "get_tuple", (Place(self.thread_id, self.ns, None).config(),)
        )
        if (
            latest is None
            or latest.metadata.get("parents", {}).get(above.ns) == above.checkpoint_id
        ):
            return latest
        pinned = above.pinned(self.ns)
        if pinned is None:
            # Its memory was made on another branch, after this one had parted.
            return None
        if pinned == latest.checkpoint["id"]:
            return latest
        past: CheckpointTuple | None = yield Ask(
            saver, "get_tuple", (Place(self.thread_id, self.ns, pinned).config(),)
        )
        return past

    def _restore(self, saved: CheckpointTuple) -> RunProgram[None]:
        checkpoint = saved.checkpoint
        self.checkpoint_id = checkpoint["id"]
        self.stored_id = checkpoint["id"]
        self.metadata = saved.metadata
        self.step = saved.metadata.get("step", -1)
        self.pending = saved.pending_writes or ()
        assert self.ledger is not None
        yield from rebuild_deltas(self.ledger.saver, self.program, self.board, saved)
        if self.board.available(PREVIOUS):
            self.previous = self.board.live[PREVIOUS].get()
        if writes := null_writes(self.pending):
            apply_writes(
                self.program,
                self.board,
                [Outside(INPUT, (), writes)],
                self.next_version,
                is_step=False,
            )

    # -- starting

    def _is_repeated(self, saved: CheckpointTuple | None) -> bool:
        """Whether an earlier attempt of the same task has already begun this inner run."""
        if saved is None or self.parent is None:
            return False
        if self._moved_from is not None:
            return True
        above = self.parent.session
        return saved.metadata.get("parents", {}).get(above.ns) == above.checkpoint_id

    def _go_on(self, saved: CheckpointTuple | None, replay: bool) -> RunProgram[None]:
        """Continue from what is saved: a resume, a retry, or a deliberate replay."""
        if saved is None:
            raise EmptyInputError(
                f"Graph '{self.program.name}' was started without input, and "
                + (
                    "it has no checkpointer to go on from."
                    if self.ledger is None
                    else f"thread '{self.thread_id}' has nothing saved to go on from."
                )
                + " Pass an input."
            )
        self.resumed = True
        if (replay and not self._is_fresh_fork()) or self._moved_from is not None:
            yield from self._fork()
        else:
            self._recall_tasks()
            yield from self._recall_pins()
            self.show_checkpoint()
        self.show_present_values()

    def _recall_pins(self) -> RunProgram[None]:
        """Inner graphs with memory of their own that finished tasks of this step have called."""
        assert self.ledger is not None
        assert self.thread_id is not None
        for task in self.replanned or ():
            if not task.finished or not any(g.checkpointer is True for g in task.node.subgraphs):
                continue
            ns = strip_ids(task.ns)
            found: CheckpointTuple | None = yield Ask(
                self.ledger.saver, "get_tuple", (Place(self.thread_id, ns, None).config(),)
            )
            around = found.metadata.get("parents", {}) if found is not None else {}
            if found is not None and around.get(self.ns) == self.checkpoint_id:
                self.pins[ns] = found.checkpoint["id"]

    def _is_fresh_fork(self) -> bool:
        """Whether the head is an update or a fork that nothing has run from yet.

        A replay of it needs no fork of its own: `invoke(None, update_state(...))` is common.
        """
        assert self.ledger is not None
        return (
            self.checkpoint_id == self.ledger.fence.head
            and not self.pending
            and self.metadata.get("source") in ("update", "fork")
        )

    def _fork(self) -> RunProgram[None]:
        """A new line of history starts at the loaded checkpoint; nothing of the old one counts."""
        self.pending = ()
        if self._moved_from is not None and self._moved_from != self.ns:
            # Another namespace shares no stored values with the one that we come from.
            self.stored_id = None
            self.board.dirty |= set(self.board.versions) & set(self.program.channels)
            self._moved_from = None
        self._moved_from = None
        self.step += 1
        self.changed = None
        self.start_lineage()
        yield from self.save_checkpoint("fork")

    def _recall_tasks(self) -> None:
        """Plan the next step again, with what an earlier attempt has stored of it."""
        tasks = plan(self.program, self.board, self.task_base, self.stop, None)
        recall(tasks, self.pending)
        for task in tasks:
            if not task.finished and task.error is not None:
                task.error = None
                task.failed = True
        self.replanned = tasks
        self.repeats = True

    def _take_input(self, input: Any) -> RunProgram[None]:
        """A new input: tasks that were still waiting are dropped, and the graph starts over."""
        dropped = (
            plan(self.program, self.board, self.task_base, 1 << 62, None) if self.stored_id else []
        )
        if self.stored_id is None:
            self.step = -2
        self.changed = apply_writes(
            self.program,
            self.board,
            [
                *(Outside(task.name, task.triggers, ()) for task in dropped),
                Outside(INPUT, (), [(self.program.input_channel, input)]),
            ],
            self.next_version,
            is_step=bool(dropped),
        )
        self.step += 1
        self.start_lineage()
        yield from self.save_checkpoint("input")

    # -- commands

    def _open_with_command(
        self, command: Command[Any], saved: CheckpointTuple | None, explicit: bool
    ) -> RunProgram[None]:
        if command.resume is not None and self.ledger is None:
            raise OutsideRunError(
                "Command(resume=...) needs a checkpointer: without one there is nothing saved to "
                "resume. Compile the graph with one."
            )
        writes = command_writes(self.program, command)
        if saved is None:
            if command.resume is not None and not writes:
                raise EmptyInputError(
                    f"Thread '{self.thread_id}' has nothing saved to resume: start it with input."
                )
            if not command.targets():
                yield from self._take_input(command.update)
                return
            self.step = -1
            self.changed = self._apply_outside(writes)
            self.start_lineage()
            yield from self.save_checkpoint("input")
            return
        head = self.ledger.fence.head if self.ledger is not None else None
        past = explicit and self.checkpoint_id != head
        before = self._open_tasks() if past else ()
        if past:
            yield from self._fork()
        if writes:
            owner = null_task_id(self.pending)
            self.pending = [*self.pending, *((owner, name, value) for name, value in writes)]
            yield from self.save_writes([TaskWrites(owner, "", INPUT, writes)])
            self._apply_outside(writes)
        self._recall_tasks()
        yield from self._recall_pins()
        assert self.replanned is not None
        if command.resume is not None:
            self.answers = self._match(command.resume, self.replanned, before)
        self.resumed = True
        if not past:
            self.show_checkpoint()
        self.show_present_values()

    def _apply_outside(self, writes: Sequence[tuple[str, Any]]) -> set[str]:
        return apply_writes(
            self.program,
            self.board,
            [Outside(INPUT, (), writes)],
            self.next_version,
            is_step=False,
        )

    def _open_tasks(self) -> Sequence[Task]:
        """The tasks of the loaded checkpoint as they stood when it was interrupted."""
        tasks = plan(self.program, self.board, self.task_base, 1 << 62, None)
        recall(tasks, self.pending)
        return [task for task in tasks if task.interrupts or task.asked]

    def _match(
        self, resume: Any, tasks: Sequence[Task], before: Sequence[Task]
    ) -> Mapping[str, Any]:
        """Which answer belongs to which open interrupt."""
        from milepost.runtime.pending import interrupt_id

        opened: dict[str, str] = {id: id for id in open_interrupts(tasks)}
        if before:
            # A fork asks again under new ids; answers may still use the ids of the original.
            by_path = {task.path: task for task in tasks}
            opened = {}
            for old in before:
                if (new := by_path.get(old.path)) is None:
                    continue
                for at, question in enumerate([*old.asked, *old.interrupts]):
                    if question.id == interrupt_id(old.ns, at):
                        opened[question.id] = interrupt_id(new.ns, at)
        if isinstance(resume, dict) and resume and all(key in opened for key in resume):
            return {opened[key]: answer for key, answer in resume.items()}
        if len(opened) <= 1 or before:
            return dict.fromkeys(list(opened.values())[:1], resume)
        raise UnknownInterruptError(
            f"Thread '{self.thread_id}' has {len(opened)} open interrupts, so one value is not "
            "enough. Answer by id: Command(resume={id: answer, ...}). The open ids are: "
            f"{', '.join(opened)}."
        )

    # -- for type checkers: what other parts of a run provide

    _moved_from: str | None

    def show_present_values(self) -> None:
        """The first `values` event of a run that goes on from what is saved."""
        raise NotImplementedError


def head_of(saver: BaseCheckpointSaver[Any], thread_id: str) -> Generator[Ask, Any, str | None]:
    """The id of a thread's latest checkpoint."""
    if isinstance(saver, StepSaver):
        head: str | None = yield Ask(saver, "head", (thread_id,))
        return head
    latest = yield Ask(saver, "get_tuple", (Place(thread_id, "", None).config(),))
    return latest.checkpoint["id"] if latest else None


def rebuild_deltas(
    saver: BaseCheckpointSaver[Any], program: Program, board: Board, saved: CheckpointTuple
) -> Generator[Ask, Any, None]:
    """Replay the stored writes of delta channels that the checkpoint holds no value of."""
    wanted = [
        name
        for name in program.delta
        if name in board.versions and name not in saved.checkpoint["channel_values"]
    ]
    if not wanted:
        return
    history = yield Ask(
        saver, "get_delta_channel_history", (), {"config": saved.config, "channels": wanted}
    )
    for name in wanted:
        found = history.get(name) or {"writes": []}
        pattern: Any = program.channels[name]
        if "seed" in found:
            channel = pattern.from_checkpoint(found["seed"])
        else:
            channel = board.live[name]
        channel.replay_writes(found["writes"])
        board.replace(name, channel)


def _step_into(travel: Mapping[str, str], own_ns: str) -> tuple[str, str, Mapping[str, str]] | None:
    """The checkpoint that a journey into inner graphs has for this one, and the journey's rest.

    Task ids in namespaces are new after a fork, so levels are matched by their names.
    """
    depth = len(own_ns.split(NS_SEP))
    for ns, checkpoint_id in travel.items():
        if len(ns.split(NS_SEP)) == depth and strip_ids(ns) == strip_ids(own_ns):
            return ns, checkpoint_id, {n: c for n, c in travel.items() if n != ns}
    return None
