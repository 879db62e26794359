"""One run of one graph: a generator that yields effects and is sent their results.

    load what is saved → take the input → step, step, step → flush

A step plans its tasks, starts them, takes each as it ends, applies what they wrote, and saves.
Everything that waits is the driver's business (see effects.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from milepost.constants import INTERRUPT, START
from milepost.errors import (
    GraphDrained,
    GraphInterrupt,
    GraphRecursionError,
    InvalidUpdateError,
    ParentCommand,
)
from milepost.runtime.apply import apply_writes, cannot_fail
from milepost.runtime.board import Board
from milepost.runtime.caching import keep_cached, recall_cached
from milepost.runtime.calling import gather_interrupts
from milepost.runtime.config import concurrency, recursion_limit
from milepost.runtime.effects import AWAIT, Ask, Flush, RunProgram, Spawn, Start
from milepost.runtime.opening import Opening
from milepost.runtime.options import Options
from milepost.runtime.pending import to_store
from milepost.runtime.plan import Task, in_path_order, plan
from milepost.runtime.program import Program
from milepost.runtime.scope import RunControl, Scope
from milepost.runtime.stream import Feed
from milepost.runtime.task import addressed_here, perform

if TYPE_CHECKING:
    from milepost.cache.base import BaseCache
    from milepost.runtime.saving import Ledger
    from milepost.store.base import BaseStore
    from milepost.types import All, Interrupt


class Session(Opening):
    """A run in progress. `run` is the program; the rest is what tasks may ask of it."""

    def __init__(
        self, program: Program, options: Options, feed: Feed, parent: Scope | None = None
    ) -> None:
        self.program = program
        self.options = options
        self.feed = feed
        self.parent = parent
        above: Session | None = parent.session if parent is not None else None
        self.depth: int = 0 if above is None else above.depth + 1
        """How many graphs there are around this one."""
        self.config = options.config
        self.store: BaseStore | None = options.store
        self.cache: BaseCache[Any] | None = options.cache
        self.control: RunControl = options.control or RunControl()
        self.answers: Mapping[str, Any] = {}
        """Interrupt id → answer, for this run and the graphs inside it."""
        self.chooses = False
        """Whether this call answers some of what is open."""
        if above is not None:
            self.store = self.store if self.store is not None else above.store
            self.cache = self.cache if self.cache is not None else above.cache
            self.control = options.control or above.control
            self.answers, self.chooses = above.answers, above.chooses
        self.previous: Any = None
        self.stop = 0
        """The step at which the recursion limit ends the run."""
        self.tasks: Sequence[Task] = ()
        self.interrupts: tuple[Interrupt, ...] = ()
        self.paused = False
        """The run has stopped at an interrupt."""
        self.spoke = False
        """Whether there is a state to return: an input was taken or something was written."""
        self.spawner: Spawn
        """Starts tasks that running tasks call; set by whoever drives the run."""
        self.called: list[Task] = []
        """Those that were called in this step and have not finished before."""
        self.lock = threading.Lock()
        self.board: Board
        self.at_once: int | None = None
        """How many tasks of a step may run at the same time."""
        self.quiet = feed.silent
        """Whether nobody listens to this run's events."""
        self._prepare_bookkeeping()

    # -- the program

    def run(self, input: Any) -> RunProgram[Any]:
        """Run to the end, to an interrupt or to an error; return the graph's output."""
        try:
            yield from self.open(input)
            self.at_once = concurrency(self.config)
            while True:
                tasks = self._next_tasks()
                if not tasks:
                    break
                if self.control.drain_requested:
                    raise GraphDrained(self.control.drain_reason or "shutdown")
                if (
                    self.options.interrupt_before
                    and not self.resumed
                    and self._pauses(self.options.interrupt_before, tasks)
                ):
                    self._pause_statically()
                    break
                self.resumed = False
                done = yield from self._step(tasks)
                if not done:
                    break
                if self.options.interrupt_after and self._pauses(
                    self.options.interrupt_after, tasks
                ):
                    self._pause_statically()
                    break
        except GeneratorExit:
            raise  # it was dropped: nobody carries out what it would ask for
        except BaseException as error:
            if self.parent is not None:
                # The task around us fails, but what is open in here can still be answered.
                self.parent.open_inside = tuple(
                    i for task in self.tasks if not task.finished for i in task.interrupts
                )
            yield from self.close(error)
            if isinstance(error, ParentCommand):
                self._leave(error)
            raise
        yield from self.close(None)
        if self.paused and self.parent is not None:
            raise GraphInterrupt(self.interrupts)
        return self.output()

    def _next_tasks(self) -> Sequence[Task]:
        if self.step + 1 > self.stop:
            raise GraphRecursionError(
                f"Graph '{self.program.name}' took {recursion_limit(self.config)} steps without "
                "coming to an end. Check that its loop has a way out, or allow more: "
                'config={"recursion_limit": ...}.'
            )
        if self.replanned is not None:
            tasks, self.replanned = self.replanned, None
        else:
            tasks = plan(self.program, self.board, self.task_base, self.stop, self.changed)
        self.tasks = tasks
        return tasks

    def _step(self, tasks: Sequence[Task]) -> RunProgram[bool]:
        """Take one super-step; False if it was interrupted."""
        if not self.quiet:
            self.announce(tasks)
        todo = tasks
        if self.repeats:
            todo = [task for task in tasks if not (task.finished or self.still_waits(task))]
        last: Sequence[Task] = ()
        if self.cache is not None:
            yield from recall_cached(self.cache, todo)
            last = [task for task in todo if task.finished]
            todo = [task for task in todo if not task.finished]
            for task in last:
                if len(tasks) > 1:
                    self._check_writes(task)
                self.ended(task)
        self.called = []
        if todo:
            programs = [(task, perform(self, task)) for task in todo]
            apart = self.program.starts_tasks and self._hears_of_calls(todo)
            ended = yield Start(programs, self.at_once, apart)
            last = yield from self._take_ended(len(todo), ended, last, alone=len(tasks) == 1)

        if unfinished := [task for task in tasks if not task.finished]:
            errors = [task.error for task in unfinished if task.error is not None]
            self._rest("error" if errors else "interrupted")
            if last:
                yield from self.save_writes([to_store(task) for task in last])
            self._pause(tasks)
            if errors:
                raise self._first(errors)
            self._show_breakpoint()
            return False

        if self.cache is not None:
            yield from keep_cached(self.cache, todo)
        ordered = in_path_order(tasks) if len(tasks) > 1 else tasks
        # Under `exit` the steps before are still to be saved if this one fails, and of this one
        # only the checkpoint. Otherwise they are saved, and will be loaded again.
        at_exit = self.ledger is not None and self.ledger.durability == "exit"
        undo = None
        if at_exit and not cannot_fail(self.program, self.board, ordered):
            undo = self._way_back(ordered)
        self.halfway = True
        try:
            self.changed = apply_writes(self.program, self.board, ordered, self.next_version)
        except BaseException as error:
            if undo is not None:
                undo()
                self.halfway = False
            if len(tasks) > 1 and isinstance(error, Exception):
                # Each was sound by itself: they contradict each other, and are all kept, so that
                # a graph that is mended can go on with them.
                yield from self.save_writes([to_store(task) for task in last])
            raise
        self.step += 1
        self.repeats = False
        self.pin_children()
        kept = () if at_exit else [to_store(task) for task in last]
        yield from self.save_checkpoint("loop", kept, ordered)
        self.halfway = False
        if not (self.quiet and self.spoke):
            self._show_values()
        return True

    def _hears_of_calls(self, tasks: Sequence[Task]) -> bool:
        """Whether what these tasks call is stored before they have ended themselves."""
        return (
            self.ledger is not None
            and self.ledger.durability != "exit"
            and any(task.node.starts_tasks for task in tasks)
        )

    def _way_back(self, writers: Sequence[Task]) -> Callable[[], None]:
        touched = {name for writer in writers for name, _ in writer.writes}
        touched.update(name for writer in writers for name in writer.triggers)
        touched.update(self.board.volatile, self.program.waiting)
        return self.board.way_back(touched, [writer.name for writer in writers])

    def _take_ended(
        self, left: int, ended: Sequence[Task], recalled: Sequence[Task], *, alone: bool
    ) -> RunProgram[Sequence[Task]]:
        """Take tasks as they end, until none is left; return what is still to be stored of them.

        `ended` are those that have ended already, `recalled` those that the cache had the results
        of: by the time of a resume it may have forgotten them.

        What has ended while others run is stored at once: a crash, or a sibling that fails, shall
        not cost it. What ends last can wait for the checkpoint.
        """
        stored = list(recalled)
        waiting: list[Task] = []
        while left or self.spawned:
            if not ended:
                ended = yield AWAIT
            for task in ended:
                if task.called:
                    with self.lock:
                        self.spawned -= 1
                else:
                    left -= 1
                    if task.paused and self.called:
                        # Tasks that it called may still run, and come to interrupts of their own.
                        waiting.append(task)
                        continue
                    if not alone and task.finished:
                        self._check_writes(task)
                    self.ended(task)
                if self.ledger is not None and self._is_stored(task):
                    stored.append(task)
            ended = ()
            if stored and (left or self.spawned):
                yield from self.save_writes([to_store(task) for task in stored])
                stored = []
        for task in waiting:
            gather_interrupts(self, task)
            self.ended(task)
            stored.append(task)
        return stored

    def _check_writes(self, task: Task) -> None:
        """Fail a task whose writes the state cannot take, before they are stored beside others'.

        Stored, they would be applied at every resume, and fail there for ever.
        """
        try:
            self.board.preview(task.writes)
        except Exception as error:
            error.add_note(f"While what task '{task.name}' wrote was checked.")
            task.finished, task.writes, task.error = False, (), error

    # -- interrupts

    def _pauses(self, names: All | Sequence[str], tasks: Sequence[Task]) -> bool:
        if names == "*":
            return any(task.name != START for task in tasks)
        return any(task.name in names for task in tasks)

    def still_waits(self, task: Task) -> bool:
        """Answers came, but none for this task: it need not ask again."""
        return (
            bool(task.interrupts)
            and not task.failed
            and self.chooses
            and not any(i.id in self.answers for i in task.interrupts)
        )

    def _pause(self, tasks: Sequence[Task]) -> None:
        self.paused = True
        self.interrupts = tuple(
            {
                i.id: i
                for task in tasks
                if not task.finished and not isinstance(task.error, ParentCommand)
                for i in task.interrupts
            }.values()
        )
        self._show_interrupts()

    def _pause_statically(self) -> None:
        self.paused = True
        self.tasks = ()
        self._show_breakpoint()

    @staticmethod
    def _first(errors: Sequence[Any]) -> BaseException:
        for error in errors:
            if not isinstance(error, ParentCommand):
                return error if isinstance(error, BaseException) else RuntimeError(error)
        parent_command: ParentCommand = errors[0]
        return parent_command

    def _leave(self, up: ParentCommand) -> None:
        """Hand a command to the graph around this one."""
        if self.parent is None:
            raise InvalidUpdateError(
                f"A node returned {up.command!r}, but '{self.program.name}' runs on its own: "
                "there is no parent graph to take the command."
            ) from None
        raise ParentCommand(addressed_here(up.command)) from None

    # -- the end

    def close(self, error: BaseException | None) -> RunProgram[None]:
        """Save what is not saved yet, whatever ended the run."""
        if self.ledger is None:
            return
        self._rest(self._outcome(error))
        try:
            if (save := self.store_prepared(self.ledger)) is not None:
                yield save
            yield from self.save_on_exit(error)
            self.pin()
            if self.parent is None or self.owns_ledger:
                yield Flush(self.ledger)
        except GeneratorExit:
            raise  # it was dropped: nobody carries out what it would ask for
        except BaseException:
            yield from self._leave_thread()
            raise
        yield from self._leave_thread()

    def _outcome(self, error: BaseException | None) -> str:
        """How the run ends, in the registry's words."""
        if isinstance(error, Exception) and not isinstance(error, GraphDrained):
            return "error"
        return "interrupted" if self.paused or error is not None else "idle"

    @property
    def _own_claim(self) -> Ledger | None:
        """The ledger, if the claim on the thread is this run's and not one's around it."""
        return self.ledger if self.owns_ledger and self.shared is None else None

    def _rest(self, status: str) -> None:
        """From now on nobody is at work on the tasks that wait."""
        if (ledger := self._own_claim) is not None:
            ledger.fence.waiting = status

    def _leave_thread(self) -> RunProgram[None]:
        """See to it that the registry does not say that this run is still going on."""
        if (ledger := self._own_claim) is None:
            return
        fence = ledger.fence
        fence.ended = True
        status = fence.waiting if fence.status == "running" else None
        if fence.status is None:
            status = fence.before  # nothing was stored: all is as it was
        if ledger.native is not None and status is not None:
            # If that fails, the lease is over before long.
            with suppress(Exception):
                yield Ask(ledger.native, "release", (ledger.thread_id, fence, status))

    def output(self) -> Any:
        """What `invoke` returns."""
        keys = self.options.output_keys
        result = self._read(self.program.output_keys if keys is None else keys)
        if self.interrupts and self.parent is None:
            shown = list(self.interrupts)
            return {**result, INTERRUPT: shown} if isinstance(result, dict) else {INTERRUPT: shown}
        return result if self.spoke else None

    @staticmethod
    def _is_stored(task: Task) -> bool:
        """Whether anything of an ended task is worth storing."""
        if task.was_cancelled and not task.finished:
            return False  # a resume runs it again
        return not isinstance(task.error, ParentCommand)
