"""One run of one graph: a generator that yields effects and is sent their results.

    load a checkpoint → take the input → step, step, step → flush

A step plans its tasks, runs them, applies what they wrote, and commits a checkpoint. Only the
driver waits (see `drivers/effects.py`).

A run consists of a position in its thread, channels, a checkpoint writer, events, and resources
for its tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from milepost._engine.checkpoint_writer import CheckpointWriter
from milepost._engine.context.config import (
    RunResources,
    RunSettings,
    concurrency,
    recursion_limit,
    resources_of,
)
from milepost._engine.drivers.effects import AWAIT, Await, EffectGenerator, Start, TaskGenerator
from milepost._engine.observers import RunObserver, observed, observers_of
from milepost._engine.position import NO_CHECKPOINTS, Position, pin, pin_children
from milepost._engine.start import open_run
from milepost._engine.streaming.events import EventStream, RunEvents
from milepost._engine.superstep.apply import apply_writes, cannot_fail
from milepost._engine.superstep.node_cache import keep_cached, recall_cached
from milepost._engine.superstep.pending_writes import is_worth_storing, to_store
from milepost._engine.superstep.plan import Task, finished_writes, in_path_order, plan
from milepost._engine.superstep.subtasks import Subtasks, gather_interrupts
from milepost._engine.superstep.task import addressed_here, perform, perform_observed
from milepost._internal.notes import add_note
from milepost.constants import INTERRUPT, START
from milepost.errors import (
    GraphDrained,
    GraphInterrupt,
    GraphRecursionError,
    NoParentError,
    ParentCommand,
    StepTimeoutError,
)
from milepost.types import MISSING

if TYPE_CHECKING:
    from milepost._engine.context.task_context import TaskContext
    from milepost._engine.superstep.channel_state import ChannelState
    from milepost._engine.superstep.program import ExecutableGraph
    from milepost.types import All, Interrupt


class GraphRun:
    """A run in progress."""

    __slots__ = (
        "answers",
        "channels",
        "checkpoints",
        "depth",
        "events",
        "has_answers",
        "has_output",
        "interrupts",
        "is_retry",
        "last_shown",
        "observers",
        "paused",
        "paused_where",
        "planned",
        "position",
        "program",
        "resources",
        "resumed",
        "settings",
        "stop",
        "subtasks",
        "tasks",
    )

    def __init__(
        self,
        program: ExecutableGraph,
        settings: RunSettings,
        stream: EventStream,
        parent: TaskContext | None = None,
    ) -> None:
        above = parent.run if parent is not None else None
        self.program = program
        self.settings = settings
        self.depth: int = 0 if above is None else above.depth + 1
        """How many graphs enclose this one."""
        config = settings.config
        self.position = Position(parent)
        self.events = RunEvents(stream, program, self.position, config, settings.output_keys)
        self.checkpoints = CheckpointWriter(program, self.position, config, self.events)
        self.channels: ChannelState
        inherited = above.resources if above is not None else None
        self.resources: RunResources = resources_of(settings, inherited)
        self.answers: dict[str, Any] = {} if above is None else above.answers
        """Interrupt id → answer, for this run and the graphs inside it."""
        self.has_answers: bool = False if above is None else above.has_answers
        """Whether this call came with answers: `Command(resume=...)`."""
        self.stop = 0
        """The step at which the recursion limit ends the run."""
        self.tasks: Sequence[Task] = ()
        """The tasks of the current step; between two steps, those of the last one."""
        self.subtasks = Subtasks()
        self.planned: Sequence[Task] | None = None
        """The tasks of the next step, if it is planned already."""
        self.resumed = False
        """Whether the next step continues an earlier run: `interrupt_before` does not stop it."""
        self.is_retry = False
        """Whether an earlier run began this step: tasks and inner graphs may be stored already."""
        self.interrupts: tuple[Interrupt, ...] = ()
        self.paused = False
        """The run has stopped at an interrupt."""
        self.paused_where = "pending"
        """`interrupt_before` or `interrupt_after` for a breakpoint, `pending` for an interrupt."""
        self.observers: tuple[RunObserver, ...] = ()
        """All observers of the run; `events.observers` are those that also follow steps."""
        self.has_output = False
        """Whether there is a state to return: an input was taken or something was written."""
        self.last_shown: Any = MISSING
        """For a program with volatile keys: the state that was last due for the `values` stream."""

    # -- from the beginning to the end

    def run(self, input: Any) -> EffectGenerator[Any]:
        """Run to the end, to an interrupt or to an error; return the graph's output."""
        self.observers = observers = observers_of(self, input)
        if not observers:
            return self._run(input)
        self.events.observers = tuple(o for o in observers if o.follows_steps)
        return observed(
            observers,
            self._run(input),
            lambda o: o.run_begins(input),
            lambda o, _, error: o.run_ends(None if error else self._result(), error),
        )

    def _run(self, input: Any) -> EffectGenerator[Any]:
        settings, control, observers = self.settings, self.resources.control, self.events.observers
        position = self.position
        try:
            yield from open_run(self, input)
            for observer in self.observers:
                yield from observer.run_opened()
            at_once = concurrency(settings.config)
            while tasks := self._next_tasks():
                if (
                    settings.interrupt_before
                    and not self.resumed
                    and _names_any_task(settings.interrupt_before, tasks)
                ):
                    self._pause_at_breakpoint("interrupt_before")
                    break
                # After the breakpoint: a resume of what was drained does not stop there.
                if control.drain_requested:
                    raise GraphDrained(control.drain_reason or "shutdown")
                self.resumed = False
                step = self._step(tasks, at_once)
                if observers:
                    step = self._observed_step(step, tasks)
                done = yield from step
                if not done:
                    break
                position.inner_starts = NO_CHECKPOINTS  # they are for the first step
                if settings.interrupt_after and _names_any_task(settings.interrupt_after, tasks):
                    self._pause_at_breakpoint("interrupt_after")
                    break
        except GeneratorExit:
            raise  # the generator was dropped: no driver is left to carry out effects
        except BaseException as error:
            if (parent := self.position.parent) is not None:
                # The enclosing task fails, but open interrupts of this graph can still be answered.
                parent.open_inside = tuple(
                    i for task in self.tasks if not task.finished for i in task.interrupts
                )
            yield from self.close(self._outcome(error), succeeded=False)
            if isinstance(error, ParentCommand):
                if parent is None:
                    raise NoParentError(error.command, self.program.name) from None
                raise ParentCommand(*map(addressed_here, (error.command, *error.others))) from None
            raise
        yield from self.close(self._outcome(None), succeeded=not self.paused)
        if self.paused and self.position.parent is not None:
            raise GraphInterrupt(self.interrupts)
        return self._output()

    def _observed_step(
        self, step: EffectGenerator[bool], tasks: Sequence[Task]
    ) -> EffectGenerator[bool]:
        return observed(
            self.events.observers,
            step,
            lambda o: o.step_begins(tasks),
            lambda o, _, error: o.step_ends(tasks, error),
        )

    def close(self, outcome: str, *, succeeded: bool) -> EffectGenerator[None]:
        """Save what is not saved yet, whatever ended the run."""
        checkpoints = self.checkpoints
        if checkpoints.thread is None:
            return
        checkpoints.set_outcome(outcome)
        try:
            yield from checkpoints.finish(self.subtasks, succeeded=succeeded)
            if self.position.parent is not None and self.position.present:
                pin(self.position, self.channels, self.tasks)
            yield from checkpoints.flush()
        except GeneratorExit:
            raise  # the generator was dropped: no driver is left to carry out effects
        except BaseException:
            yield from checkpoints.release()
            raise
        yield from checkpoints.release()

    def _outcome(self, error: BaseException | None) -> str:
        """The status that the registry gets when the run ends."""
        if isinstance(error, Exception) and not isinstance(error, GraphDrained):
            return "error"
        return "interrupted" if self.paused or error is not None else "idle"

    def _output(self) -> Any:
        """What `invoke` returns."""
        result = self._result()
        if self.interrupts and self.position.parent is None:
            shown = list(self.interrupts)
            return {**result, INTERRUPT: shown} if isinstance(result, dict) else {INTERRUPT: shown}
        return result if self.has_output else None

    def _result(self) -> Any:
        """The state under the keys that the run shows, without interrupts."""
        if self.last_shown is not MISSING and not self.paused:
            return self.last_shown
        return self._read(self.events.keys)

    # -- one super-step: plan, run, apply, commit

    def _next_tasks(self) -> Sequence[Task]:
        if self.position.step + 1 > self.stop:
            raise GraphRecursionError(
                f"Graph '{self.program.name}' took {recursion_limit(self.settings.config)} steps "
                "without coming to an end. Check that its loop has a way out, or allow more: "
                'config={"recursion_limit": ...}.'
            )
        if self.planned is not None:
            tasks, self.planned = self.planned, None
        else:
            channels, base = self.channels, self.position.task_base()
            tasks = plan(self.program, channels, base, channels.changed, self.stop)
        self.tasks = tasks
        return tasks

    def _step(self, tasks: Sequence[Task], at_once: int | None) -> EffectGenerator[bool]:
        """Take one super-step; False if it was interrupted."""
        checkpoints, events, cache = self.checkpoints, self.events, self.resources.cache
        if not events.quiet:
            events.tasks_start(tasks)
        todo: Sequence[Task] = tasks
        if self.is_retry:
            todo = [task for task in tasks if not (task.finished or self.still_waits(task))]
            if not events.quiet:
                events.tasks_recalled(tasks)
        unsaved: list[Task] = []
        """Ended tasks that are not stored yet."""
        if cache is not None:
            yield from recall_cached(cache, todo, self.program)
            # Cached results are stored too: at a resume the cache may have lost them.
            unsaved = [task for task in todo if task.finished]
            todo = [task for task in todo if not task.finished]
            for task in unsaved:
                self._ended(task, alone=len(tasks) == 1)
        if todo:
            unsaved = yield from self._run_tasks(todo, unsaved, at_once, alone=len(tasks) == 1)
        for task in tasks:
            if not task.finished:
                yield from self._stop_unfinished(tasks, todo, unsaved)
                return False
        ordered = in_path_order(tasks) if len(tasks) > 1 else tasks
        try:
            self._apply(ordered)
        except Exception:
            if len(tasks) > 1:
                # Each task's writes were valid alone, but they conflict. All are stored, so that
                # a corrected graph can resume with them.
                yield from checkpoints.save_writes(list(map(to_store, unsaved)))
            raise
        writes = () if checkpoints.stores_at_exit else list(map(to_store, unsaved))
        yield from checkpoints.save_checkpoint("loop", writes, ordered)
        checkpoints.mid_apply = False
        if cache is not None:
            # Not before: a result that a reducer refuses must not be given to later runs.
            yield from keep_cached(cache, todo)
        if self.program.has_volatile_keys:
            # Only written keys count: a volatile key that lost its value is no change to show.
            shown = {name for task in tasks for name, _ in task.writes}
            self._show_changes(shown)
        elif not (events.quiet and self.has_output):
            self._show_changes(self.channels.changed)
        return True

    def _run_tasks(
        self, tasks: Sequence[Task], unsaved: list[Task], at_once: int | None, *, alone: bool
    ) -> EffectGenerator[list[Task]]:
        """Run tasks of a step, and the tasks that they call, until all have ended.

        Stores ended tasks while others still run. Returns the ended tasks that are not stored
        yet; `unsaved` are such tasks from before. `alone`: the step has one task.
        """
        checkpoints, events, subtasks = self.checkpoints, self.events, self.subtasks
        if subtasks.called or subtasks.ended_graphs:
            subtasks.begin_step()
        wait = AWAIT
        if (limit := self.settings.step_timeout) is not None:
            wait = Await(monotonic() + limit)
        apart = self.program.starts_tasks and self._stores_calls(tasks)
        work = perform_observed if events.observers else perform
        started: list[tuple[Task, TaskGenerator]] = []
        for task in tasks:  # in 3.11 a comprehension is a call
            started.append((task, work(self, task)))
        has_saver = checkpoints.thread is not None
        kept: set[Task] = set()
        """Tasks that were stored while the consumer of the stream handled an event."""
        keep = None
        if has_saver and not (events.quiet or checkpoints.stores_at_exit):
            keep = partial(self._keep, kept, alone)
        ended = yield Start(started, at_once, apart or limit is not None, keep)
        left = len(tasks)
        waiting: list[Task] = []
        reported: list[Task] = []
        """Under a limit: the tasks of the step that have ended."""
        while left or subtasks.running:
            if not ended:
                ended = yield wait
                if not ended and limit is not None:
                    yield from self._time_out(tasks, waiting, reported)
            for task in ended:
                if task.caller is not None:
                    subtasks.one_has_ended()
                else:
                    left -= 1
                    if limit is not None:
                        reported.append(task)
                    if subtasks.called and not task.finished and is_worth_storing(task):
                        # Tasks that this task called may still run, and raise interrupts too.
                        waiting.append(task)
                        continue
                    if not (alone and events.quiet):
                        self._ended(task, alone=alone or task in kept)
                if task in kept:
                    continue
                if has_saver and (task.finished or is_worth_storing(task)):
                    unsaved.append(task)
            ended = ()
            if unsaved and (left or subtasks.running):
                # A crash or a failing sibling must not lose the writes of ended tasks. The
                # writes of the last task are stored with the checkpoint.
                yield from checkpoints.save_writes(list(map(to_store, unsaved)))
                unsaved = []
        for task in waiting:
            gather_interrupts(subtasks.called, task)
            events.task_ended(task)
            unsaved.append(task)
        return unsaved

    def _keep(self, kept: set[Task], alone: bool, task: Task) -> EffectGenerator[None]:
        """Store a task that has ended before the run receives it, and add it to `kept`.

        What a channel refuses is not stored, so it is tried out. The writes of a step's only task
        are tried out for this alone, and a reducer may change the value in place: such writes are
        stored by the run.
        """
        if task.finished and task not in kept:
            if task.caller is None:
                if alone and not self.channels.can_try(task.writes):
                    return
                self.channels.preview(task.writes)
            yield from self.checkpoints.keep_writes([to_store(task)])
            kept.add(task)

    def _apply(self, tasks: Sequence[Task]) -> None:
        """Apply the writes of a step's tasks, which are in path order."""
        channels, checkpoints = self.channels, self.checkpoints
        # Under `exit` the earlier steps are not stored yet. If this step fails, the channels are
        # rolled back, and `finish` stores them. Otherwise the next run loads the stored state.
        undo = None
        if checkpoints.stores_at_exit and not cannot_fail(self.program, channels, tasks):
            undo = self._rollback_point(tasks)
        checkpoints.mid_apply = True
        try:
            channels.changed = apply_writes(self.program, channels, tasks, checkpoints.next_version)
        except BaseException:
            if undo is not None:
                undo()
                checkpoints.mid_apply = False
            raise
        self.position.step += 1
        self.is_retry = False
        for task in tasks:
            if task.inner_heads:
                pin_children(channels, tasks)
                break

    def _time_out(
        self, tasks: Sequence[Task], waiting: Sequence[Task], ended: Sequence[Task]
    ) -> EffectGenerator[None]:
        """Store the tasks in `waiting`, and raise StepTimeoutError; others are stored already.

        `ended` have ended: their results go to the cache.
        """
        for task in waiting:
            gather_interrupts(self.subtasks.called, task)
        yield from self.checkpoints.save_writes(list(map(to_store, waiting)))
        if (cache := self.resources.cache) is not None:
            yield from keep_cached(cache, ended)
        late = sorted({t.name for t in tasks if not (t.finished or t.paused or t.error)})
        raise StepTimeoutError(
            f"Step {self.position.step + 1} of graph '{self.program.name}' took longer than its "
            f"step_timeout of {self.settings.step_timeout} s. Still running: {', '.join(late)}."
        )

    def _stores_calls(self, tasks: Sequence[Task]) -> bool:
        """Whether tasks that these tasks call are stored while the callers still run."""
        thread = self.checkpoints.thread
        return (
            thread is not None
            and not self.checkpoints.stores_at_exit
            and any(task.node.starts_tasks for task in tasks)
        )

    def _ended(self, task: Task, *, alone: bool) -> None:
        """A task has ended: check what it wrote, and tell the streams.

        A task with writes that a channel refuses fails before its writes are stored. Stored
        writes would be applied, and would fail, at every resume.
        """
        if task.finished and not alone:
            try:
                self.channels.preview(task.writes)
            except Exception as error:
                add_note(error, f"While what task '{task.name}' wrote was checked.")
                task.finished, task.writes, task.error = False, (), error
        if not self.events.quiet:
            self.events.task_ended(task)

    def _rollback_point(self, writers: Sequence[Task]) -> Callable[[], None]:
        touched = {name for writer in writers for name, _ in writer.writes}
        touched.update(name for writer in writers for name in writer.triggers)
        touched.update(self.channels.volatile, self.program.finish_channels)
        return self.channels.rollback_point(touched, [writer.name for writer in writers])

    # -- interrupts

    def still_waits(self, task: Task) -> bool:
        """Whether answers came, but none for this task: the task is not run again."""
        return (
            bool(task.interrupts)
            and not task.failed
            and self.has_answers
            and not any(i.id in self.answers for i in task.interrupts)
        )

    def _stop_unfinished(
        self, tasks: Sequence[Task], performed: Sequence[Task], unsaved: Sequence[Task]
    ) -> EffectGenerator[None]:
        """Some tasks of a step have not finished: the run ends with an error or an interrupt."""
        unfinished = [task for task in tasks if not task.finished]
        errors = [task.error for task in unfinished if task.error is not None]
        self.checkpoints.set_outcome("error" if errors else "interrupted")
        if unsaved:
            yield from self.checkpoints.save_writes(list(map(to_store, unsaved)))
        if (cache := self.resources.cache) is not None:
            yield from keep_cached(cache, performed)
        self.paused = True
        self.interrupts = tuple(
            {
                i.id: i
                for task in unfinished
                if not isinstance(task.error, ParentCommand)
                for i in task.interrupts
            }.values()
        )
        if self.interrupts and not self.events.quiet:
            values = self._read(self.events.keys) if "values" in self.events.stream.wanted else None
            asked = [task for task in unfinished if not isinstance(task.error, ParentCommand)]
            self.events.interrupts(asked, self.interrupts, values)
        if errors:
            raise _first_error(errors)
        if not self.interrupts:
            # A breakpoint of an inner graph: the state shows what finished tasks wrote.
            self._show_changes({name for name, _ in finished_writes(tasks)})
        self._show_breakpoint()

    def _pause_at_breakpoint(self, where: str) -> None:
        self.paused = True
        self.paused_where = where
        self.tasks = ()
        self._show_breakpoint()

    # -- what is shown

    def show_checkpoint(self) -> None:
        """Stream the checkpoint that the run continues from."""
        if not self.events.quiet:
            self.events.checkpoint(self.channels, self.checkpoints.metadata, (), self.planned)

    def show_values(self) -> None:
        """Stream the state."""
        self.has_output = True
        if self.program.has_volatile_keys:
            self.last_shown = self._read(self.events.keys)
        if "values" in self.events.stream.wanted:
            self.events.push("values", self._read(self.events.keys))

    def _show_changes(self, changed: set[str] | None) -> None:
        """Stream the state if a shown key has changed."""
        keys = self.events.keys
        if changed is None or not changed.isdisjoint((keys,) if isinstance(keys, str) else keys):
            self.show_values()

    def _show_breakpoint(self) -> None:
        """Stream a breakpoint; the outermost graph does so for inner graphs too."""
        if self.position.parent is None and not self.interrupts:
            self.events.breakpoint()

    def _read(self, keys: str | Sequence[str]) -> Any:
        values = self.channels.values
        if self.paused:
            values = self.channels.preview(finished_writes(self.tasks))
        return self.channels.pick(keys, values)


def _names_any_task(names: All | Sequence[str], tasks: Sequence[Task]) -> bool:
    """Whether a list of interrupt nodes names one of these tasks."""
    if names == "*":
        return any(task.name != START for task in tasks)
    return any(task.name in names for task in tasks)


def _first_error(errors: Sequence[Any]) -> BaseException:
    for error in errors:
        if not isinstance(error, ParentCommand):
            return error if isinstance(error, BaseException) else RuntimeError(error)
    up: ParentCommand = errors[0]
    if len(errors) > 1:
        up = ParentCommand(*(one for error in errors for one in (error.command, *error.others)))
    return up
