"""The beginning of a run: take what is saved and what the caller gave, and get ready to step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from milepost.checkpoint.commit import TaskWrites
from milepost.checkpoint.records import CheckpointTuple
from milepost.constants import ANSWERS, INPUT, START
from milepost.errors import EmptyInputError, OutsideRunError, UnknownInterruptError
from milepost.ids import LateId, interrupt_id
from milepost.runtime.apply import apply_writes
from milepost.runtime.config import recursion_limit
from milepost.runtime.effects import RunProgram
from milepost.runtime.loading import Loading
from milepost.runtime.pending import (
    answers_in,
    command_writes,
    is_id,
    null_task_id,
    open_interrupts,
    own_questions,
    recall,
)
from milepost.runtime.plan import Task, plan, sketch
from milepost.runtime.program import Outside, Write
from milepost.types import Command


class Opening(Loading):
    """The part of a run that decides what it starts from."""

    answers: Mapping[str, Any]
    chooses: bool

    def open(self, input: Any) -> RunProgram[None]:
        """Load what is saved, and get ready for the first step."""
        saver = self._saver()
        saved: CheckpointTuple | None = None
        explicit = False
        if saver is not None:
            saved, explicit = yield from self._load(saver)
        elif self.parent is None:
            self._present = LateId()  # the tasks of two runs have different ids
        self.board = self.program.board(saved.checkpoint if saved else None)
        if saved is not None:
            yield from self._restore(saved)
        self.stop = self.step + recursion_limit(self.config) + 2

        if isinstance(input, Command):
            yield from self._open_with_command(input, saved, explicit)
        elif input is None or (self.parent is not None and self._is_repeated(saved)):
            yield from self._go_on(saved, explicit and self.parent is None)
        else:
            yield from self._take_input(input)

    # -- starting

    def _is_repeated(self, saved: CheckpointTuple | None) -> bool:
        """Whether an earlier attempt of the same task has already begun this inner run."""
        if saved is None or self.parent is None:
            return False
        return self._moved_from is not None or self._is_of_this_call(saved)

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
            self._recall_answers()
            self._recall_tasks()
            self.show_checkpoint()
            self._try_failed_again()
        self.show_present_values()

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
        self.step += 1
        self.changed = None
        self.start_lineage()
        yield from self.save_checkpoint("fork")

    def _recall_tasks(self) -> None:
        """Plan the next step again, with what an earlier attempt has stored of it."""
        self.replanned = plan(self.program, self.board, self.task_base, self.stop, None)
        recall(self.replanned, self.pending)
        self.repeats = True

    def _recall_answers(self) -> None:
        """Take what was answered before this call; a graph inside a run has what the run has."""
        if self.parent is None:
            self.answers = answers_in(self.pending)

    def _try_failed_again(self) -> None:
        """What failed in an earlier attempt may succeed in this one."""
        for task in self.replanned or ():
            if not task.finished and task.error is not None:
                task.error = None
                task.failed = True

    def _waiting(self) -> list[Task]:
        """The tasks of the next step, with what is stored of them and without their inputs."""
        tasks = sketch(self.program, self.board, self.task_base)
        recall(tasks, self.pending)
        return tasks

    def _take_input(self, input: Any) -> RunProgram[None]:
        """A new input: tasks that were still waiting are dropped, and the graph starts over."""
        dropped = sketch(self.program, self.board, self.task_base) if self.stored_id else []
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
        yield from self.save_checkpoint("input", held=self._only_passes_input_on())

    def _only_passes_input_on(self) -> bool:
        """Whether the first step calls nothing of the program's, and nobody watches checkpoints."""
        start = self.program.nodes.get(START)
        return (
            start is not None
            and not start.branches
            and self.program.triggers.get(START) == (START,)
            and not self.feed.wants("checkpoints")
            and not self.feed.wants("debug")
        )

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
        before = self._waiting() if past else ()
        if past:
            # Before anything is stored: what cannot be answered leaves no fork behind.
            given = self._chosen(command.resume, *_to_ask_again(before))
            yield from self._fork()
        if writes:
            self._apply_outside(writes)
        self._recall_tasks()
        assert self.replanned is not None
        if past:
            given = _asked_again(before, self.replanned, given)
        else:
            self._recall_answers()
            opened = open_interrupts(self.replanned)
            left = [id for id in opened if id not in self.answers]
            given = self._chosen(command.resume, opened, left or opened)
        self.answers = {**self.answers, **given}
        self.chooses = self.chooses or bool(given)
        yield from self._keep([*writes, (ANSWERS, given)] if given else writes)
        self.resumed = True
        if not past:
            self.show_checkpoint()
        self._try_failed_again()
        self.show_present_values()

    def _keep(self, writes: Sequence[Write]) -> RunProgram[None]:
        """Store what a command has brought before anything is done with it: whoever gave it must
        not be asked for it again because a node fails or the process dies."""
        if writes:
            owner = null_task_id(self.pending)
            self.pending = [*self.pending, *((owner, name, value) for name, value in writes)]
            yield from self.save_writes([TaskWrites(owner, "", INPUT, writes)])

    def _chosen(
        self, resume: Any, opened: Sequence[str], next_to_answer: Sequence[str]
    ) -> dict[str, Any]:
        """Which answer belongs to which interrupt."""
        if resume is None:
            return {}
        if (
            isinstance(resume, dict)
            and resume
            and all(key in opened or is_id(key) for key in resume)
        ):
            # Some may be answered already: whoever asks may have looked a while ago.
            answers = {id: answer for id, answer in resume.items() if id in opened}
            if not answers:
                raise UnknownInterruptError(
                    f"No interrupt of thread '{self.thread_id}' that is open has one of these ids: "
                    f"{', '.join(resume)}. Open are: {', '.join(opened)}."
                )
            return answers
        if len(next_to_answer) <= 1:
            return dict.fromkeys(next_to_answer, resume)
        raise UnknownInterruptError(
            f"Thread '{self.thread_id}' has {len(next_to_answer)} open interrupts, so one value is "
            "not enough. Answer by id: Command(resume={id: answer, ...}). The open ids are: "
            f"{', '.join(next_to_answer)}."
        )


def _to_ask_again(tasks: Sequence[Task]) -> tuple[list[str], list[str]]:
    """What a fork asks again: all of it, and what each task asks first."""
    asked = [own_questions(task) for task in tasks]
    return list(chain.from_iterable(asked)), [next(iter(own)) for own in asked if own]


def _asked_again(
    before: Sequence[Task], tasks: Sequence[Task], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Answers that use the ids of before a fork, with those under which it asks."""
    by_path = {task.path: task for task in tasks}
    return {
        interrupt_id(by_path[old.path].ns, at): given[id]
        for old in before
        for id, at in own_questions(old).items()
        if id in given and old.path in by_path
    }
