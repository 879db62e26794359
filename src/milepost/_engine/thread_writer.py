"""How a run hands its steps to a saver.

A thread writer belongs to one run on one thread; the inner graphs of the run share it. It gives
whole steps to milepost's own savers, and calls the five contract methods of any other saver.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from milepost._engine.drivers.effects import Effect, EffectGenerator, PutCheckpoint, PutWrites
from milepost._engine.observers import StoredStep
from milepost._engine.write_behind import LARGE_STEP, WriteBehindQueue
from milepost._internal.dataclass_tools import record
from milepost._internal.generators import adrive, drive
from milepost._internal.notes import add_note
from milepost.checkpoint._contract.records import Place
from milepost.checkpoint._contract.step_saver import Fence, StepCommit, step_saver
from milepost.errors import MilepostError, SaverError, SerializationError, ThreadConflict

if TYPE_CHECKING:
    from milepost._engine.observers import RunObserver
    from milepost.checkpoint.base import BaseCheckpointSaver
    from milepost.types import Durability


class ThreadWriter:
    """Writes the steps of one run to the saver of its thread."""

    def __init__(
        self,
        saver: BaseCheckpointSaver[Any],
        thread_id: str,
        durability: Durability,
        fence: Fence,
    ) -> None:
        self.saver = saver
        self.thread_id = thread_id
        self.durability = durability
        self.fence = fence
        self.native = step_saver(saver)
        self.prepare = self._copied_parts if self.native is None else self.native.prepare
        """Encodes a step, so that what the program does next cannot change it."""
        self.instant = self.native is not None and self.native.instant
        self.steadfast = self.native is not None and self.native.steadfast
        self.deferred = durability == "async" and not self.instant
        """Whether steps are stored while the run goes on."""
        self.queue: WriteBehindQueue | None = None
        """Steps that are still to be stored; None until the first one is queued."""
        self._opening = threading.Lock()

    def _copied_parts(self, step: StepCommit) -> StepCommit:
        """A step for a saver of another kind, which encodes in `put`, perhaps while the next node
        runs."""
        new, writes = step.new, step.writes
        values = {} if new is None else new.values()
        try:
            if new is not None:
                values = deepcopy(values) if self.deferred else values
                versions = dict(new.versions)
                seen = {node: dict(by_it) for node, by_it in new.versions_seen.items()}
                new = replace(
                    new, versions=versions, versions_seen=seen, values=partial(dict, values)
                )
            if self.deferred:
                writes = [replace(task, writes=deepcopy(list(task.writes))) for task in writes]
        except Exception as error:
            raise SerializationError(
                f"A value in the state of thread '{self.thread_id}' cannot be copied, so "
                f"{type(self.saver).__name__} cannot save it while the run goes on: {error!r}. "
                'Keep it out of the state, or run with durability="sync".'
            ) from error
        return replace(step, writes=writes, new=new)

    def open_queue(self) -> tuple[WriteBehindQueue, bool]:
        """The queue, and whether it was opened just now and needs a worker that stores it."""
        with self._opening:  # inner graphs may run side by side
            if (queue := self.queue) is not None and not queue.abandoned:
                return queue, False
            queue = self.queue = WriteBehindQueue(self._load)
            return queue, True

    def _load(self, step: Any) -> int:
        """The load of a prepared step in the queue."""
        return 1 if self.native is None else 1 + self.native.weight(step) // LARGE_STEP

    def _run_ended_error(self) -> ThreadConflict:
        """The error for tasks that still run though their run was interrupted, and has ended."""
        return ThreadConflict(
            f"The run on thread '{self.thread_id}' was interrupted and has ended. What a task "
            "of it has done since then is not stored; a resume runs the task again."
        )

    def store(self, steps: Sequence[Any], carry_out: Callable[[Effect[Any]], Any]) -> None:
        """Store prepared steps in order, in sync code; raises the first failure.

        `carry_out` calls the methods of a saver that is not one of ours.
        """
        if self.fence.ended:
            raise self._run_ended_error()
        try:
            if self.native is None:
                drive(self._store_foreign(steps), carry_out)
                return
            for error in self.native.commit(steps):
                if error is not None:
                    raise error
        except Exception as failure:
            raise self._explained(failure)  # noqa: B904 - it carries its cause

    async def astore(
        self, steps: Sequence[Any], carry_out: Callable[[Effect[Any]], Awaitable[Any]]
    ) -> None:
        """`store`, for use on an event loop."""
        if self.fence.ended:
            raise self._run_ended_error()
        try:
            if self.native is None:
                await adrive(self._store_foreign(steps), carry_out)
                return
            for error in await self.native.acommit(steps):
                if error is not None:
                    raise error
        except Exception as failure:
            raise self._explained(failure)  # noqa: B904 - it carries its cause

    def _explained(self, error: Exception) -> Exception:
        """An error of the saver, with a text that says what is stored.

        An error of our savers becomes the cause of a SaverError. An error of another saver keeps
        its type, which the program may expect, and gets a note.
        """
        if isinstance(error, (MilepostError, NotImplementedError)):
            return error
        text = (
            f"{type(self.saver).__name__} could not save a step of thread '{self.thread_id}': "
            f"{error!r}. "
            + (
                "Nothing of this run is stored; repair the cause and repeat the call."
                if self.durability == "exit"
                else "The steps before it are stored; repair the cause and resume the thread."
            )
        )
        if self.native is None:
            add_note(error, text)
            return error
        typed = SaverError(text)
        typed.__cause__ = error
        return typed

    def _store_foreign(self, steps: Sequence[StepCommit]) -> EffectGenerator[None]:
        saver = self.saver
        for step in steps:
            config = Place(step.thread_id, step.checkpoint_ns, step.checkpoint_id).config()
            for task in step.writes:
                yield PutWrites(saver, config, list(task.writes), task.task_id, task.task_path)
            if (new := step.new) is not None:
                changed = {name: new.versions[name] for name in new.changed}
                yield PutCheckpoint(saver, config, new.whole(), new.metadata, changed)


# -- runs with observers


@record
class WatchedStep:
    """A prepared step, and who is told when it is stored."""

    prepared: Any
    stored: StoredStep
    observers: Sequence[RunObserver]
    """Empty for a step of an inner graph that is not observed."""


class WatchedThreadWriter(ThreadWriter):
    """Calls `RunObserver.commit` around each call of the saver. Its steps are WatchedSteps."""

    def watched(
        self, prepared: Any, observers: Sequence[RunObserver], step: StepCommit
    ) -> WatchedStep:
        """A prepared step of which observers are told when it is stored."""
        new_id = None if step.new is None else step.new.id
        writes = sum(len(task.writes) for task in step.writes)
        weight = 0 if self.native is None else self.native.weight(prepared)
        stored = StoredStep(step.checkpoint_ns, new_id, writes, weight)
        return WatchedStep(prepared, stored, observers)

    def _load(self, step: WatchedStep) -> int:
        return super()._load(step.prepared)

    def _entered_while_stored(self, steps: Sequence[WatchedStep]) -> AbstractContextManager[object]:
        """The context managers of the observers, to be entered while these steps are stored."""
        known = [step for step in steps if step.observers]
        stored = [step.stored for step in known]
        entered: AbstractContextManager[object] = _NO_OBSERVERS
        for observer in known[-1].observers if known else ():
            if (context := observer.commit(stored)) is not None:
                entered = context if entered is _NO_OBSERVERS else _nested(entered, context)
        return entered

    def store(self, steps: Sequence[Any], carry_out: Callable[[Effect[Any]], Any]) -> None:
        """Store prepared steps in order, in sync code; raises the first failure."""
        with self._entered_while_stored(steps):
            super().store([step.prepared for step in steps], carry_out)

    async def astore(
        self, steps: Sequence[Any], carry_out: Callable[[Effect[Any]], Awaitable[Any]]
    ) -> None:
        """`store`, for use on an event loop."""
        with self._entered_while_stored(steps):
            await super().astore([step.prepared for step in steps], carry_out)


_NO_OBSERVERS = nullcontext()


@contextmanager
def _nested(
    outer: AbstractContextManager[object], inner: AbstractContextManager[object]
) -> Iterator[None]:
    with outer, inner:
        yield
