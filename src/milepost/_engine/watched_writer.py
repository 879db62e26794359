"""The thread writer of an observed run: observers are told when steps are stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from milepost._engine.observers import StoredStep
from milepost._engine.thread_writer import ThreadWriter

if TYPE_CHECKING:
    from milepost._engine.drivers.effects import Effect
    from milepost._engine.observers import RunObserver
    from milepost.checkpoint._contract.step_saver import Fence, StepCommit
    from milepost.checkpoint.base import BaseCheckpointSaver
    from milepost.types import Durability


class WatchedThreadWriter(ThreadWriter):
    """Calls `RunObserver.commit` around each call of the saver."""

    def __init__(
        self,
        saver: BaseCheckpointSaver[Any],
        thread_id: str,
        durability: Durability,
        fence: Fence,
    ) -> None:
        super().__init__(saver, thread_id, durability, fence)
        self._prepared: dict[int, tuple[Any, Sequence[RunObserver], StoredStep]] = {}
        """`id` of each prepared step → the step, its observers and its description. The step is
        kept, so that no other object gets its id."""

    def notify_when_stored(
        self, prepared: Any, observers: Sequence[RunObserver], step: StepCommit
    ) -> None:
        """Tell observers when a prepared step is stored."""
        new_id = None if step.new is None else step.new.checkpoint["id"]
        writes = 0
        for task in step.writes:
            writes += len(task.writes)
        weight = 0 if self.native is None else self.native.weight(prepared)
        stored = StoredStep(step.checkpoint_ns, new_id, writes, weight)
        self._prepared[id(prepared)] = (prepared, observers, stored)

    def _entered_while_stored(self, steps: Sequence[Any]) -> AbstractContextManager[object]:
        """The context managers of the observers, to be entered while these steps are stored."""
        prepared = self._prepared
        known = [prepared[id(step)] for step in steps if id(step) in prepared]
        if not known:
            return _NO_OBSERVERS
        stored = [description for _, _, description in known]
        entered: AbstractContextManager[object] = _NO_OBSERVERS
        for observer in known[-1][1]:
            if (context := observer.commit(stored)) is not None:
                entered = context if entered is _NO_OBSERVERS else _nested(entered, context)
        return entered

    def store(self, steps: Sequence[Any], carry_out: Callable[[Effect[Any]], Any]) -> None:
        """Store prepared steps in order, in sync code; raises the first failure."""
        with self._entered_while_stored(steps):
            super().store(steps, carry_out)
        for step in steps:
            self._prepared.pop(id(step), None)

    async def astore(
        self, steps: Sequence[Any], carry_out: Callable[[Effect[Any]], Awaitable[Any]]
    ) -> None:
        """`store`, for use on an event loop."""
        with self._entered_while_stored(steps):
            await super().astore(steps, carry_out)
        for step in steps:  # not before: steps whose storing was cancelled are stored again
            self._prepared.pop(id(step), None)


_NO_OBSERVERS = nullcontext()


@contextmanager
def _nested(
    outer: AbstractContextManager[object], inner: AbstractContextManager[object]
) -> Iterator[None]:
    with outer, inner:
        yield
