"""What a run tells its streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from milepost.constants import INTERRUPT
from milepost.errors import ParentCommand
from milepost.runtime import stream
from milepost.runtime.messages import know_inputs, tell_returned
from milepost.runtime.offering import Offering
from milepost.runtime.plan import Task, finished_writes
from milepost.runtime.snapshot import checkpoint_event

if TYPE_CHECKING:
    from milepost.types import Interrupt


class Telling(Offering):
    """The part of a run that speaks."""

    interrupts: tuple[Interrupt, ...]
    spoke: bool

    def _read(self, keys: str | Sequence[str]) -> Any:
        values = self.board.values
        if self.paused:
            values = self.board.preview(finished_writes(self.tasks))
        return self.board.pick(keys, values)

    def show_checkpoint(self) -> None:
        """Tell the streams about the present checkpoint."""
        if not (self.feed.wants("checkpoints") or self.feed.wants("debug")):
            return
        event = checkpoint_event(self)
        if self.feed.wants("checkpoints"):
            self._push("checkpoints", event)
        if self.feed.wants("debug"):
            self._push("debug", stream.as_debug(self.step, "checkpoint", event))

    def announce(self, tasks: Sequence[Task]) -> None:
        """Tell the streams which tasks are about to run."""
        if self.feed.wants("messages"):
            know_inputs(self, tasks)
        for task in tasks:
            if task.finished or not stream.visible(task):
                continue
            if self.feed.wants("tasks"):
                self._push("tasks", stream.task_started(task))
            if self.feed.wants("debug"):
                started = stream.task_started(task)
                self._push("debug", stream.as_debug(self.step + 1, "task", started))

    def ended(self, task: Task) -> None:
        """Tell the streams that a task has ended."""
        feed = self.feed
        if self.quiet or not stream.visible(task):
            return
        if task.finished and feed.wants("messages"):
            tell_returned(self, task)
        if task.finished and feed.wants("updates"):
            self._push("updates", stream.update_of(self._stream_keys, task))
        if stream.is_cached(task) or isinstance(task.error, ParentCommand):
            return  # it has not run, or what it wrote is for the graph around this one
        if feed.wants("tasks"):
            self._push("tasks", stream.task_ended(self.program, task))
        if feed.wants("debug"):
            ended = stream.task_ended(self.program, task)
            self._push("debug", stream.as_debug(self.step + 1, "task_result", ended))

    def _show_values(self) -> None:
        keys = self._stream_keys
        names = (keys,) if isinstance(keys, str) else keys
        if self.changed is not None and self.changed.isdisjoint(names):
            return
        self.spoke = True
        if self.feed.wants("values"):
            self._push("values", self._read(keys))

    def show_present_values(self) -> None:
        """The first `values` event of a run that goes on from what is saved."""
        self.spoke = True
        if self.feed.wants("values"):
            self._push("values", self._read(self._stream_keys))

    def _show_interrupts(self) -> None:
        if not self.interrupts or self.quiet:
            return
        if self.feed.wants("updates"):
            self._push("updates", {INTERRUPT: self.interrupts})
        if self.feed.wants("values"):
            values = self._read(self._stream_keys)
            shown = {**values} if isinstance(values, dict) else {}
            self._push("values", {**shown, INTERRUPT: self.interrupts})

    def _show_breakpoint(self) -> None:
        """A breakpoint asks nothing; of one inside, too, the outermost graph tells."""
        if self.parent is None and not self.interrupts and self.feed.wants("updates"):
            self._push("updates", {INTERRUPT: ()})

    @property
    def _stream_keys(self) -> str | Sequence[str]:
        """The part of the state that the caller wants to see."""
        wanted = self.options.output_keys
        return self.program.stream_keys if wanted is None else wanted
