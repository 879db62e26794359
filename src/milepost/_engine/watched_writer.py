"""The thread writer of a run that is followed: observers hear when its steps are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from milepost._engine.observers import StoredStep
from milepost._engine.thread_writer import ThreadWriter

if TYPE_CHECKING:
    from milepost._engine.drivers.effects import EffectGenerator
    from milepost._engine.observers import RunObserver
    from milepost.checkpoint._contract.step_saver import Fence, StepCommit
    from milepost.checkpoint.base import BaseCheckpointSaver
    from milepost.types import Durability


class WatchedThreadWriter(ThreadWriter):
    """Tells observers of commits, at the moment at which the saver is called."""

    __slots__ = ("_prepared",)

    def __init__(
        self,
        saver: BaseCheckpointSaver[Any],
        thread_id: str,
        durability: Durability,
        fence: Fence,
    ) -> None:
        super().__init__(saver, thread_id, durability, fence)
        self._prepared: dict[int, tuple[Sequence[RunObserver], StoredStep]] = {}
        """Who is to hear of which step, by identity of the encoded step, which is alive until it
        is stored."""

    def tell_of(self, prepared: Any, observers: Sequence[RunObserver], step: StepCommit) -> None:
        """Let observers of a run hear when a prepared step is stored."""
        new_id = None if step.new is None else step.new.checkpoint["id"]
        writes = sum(len(task.writes) for task in step.writes)
        weight = 0 if self.native is None else self.native.weight(prepared)
        told = StoredStep(step.checkpoint_ns, new_id, writes, weight)
        self._prepared[id(prepared)] = (observers, told)

    @contextmanager
    def _told(self, steps: Sequence[Any]) -> Iterator[None]:
        known = [found for step in steps if (found := self._prepared.get(id(step))) is not None]
        with ExitStack() as stack:
            for observer in known[-1][0] if known else ():
                stack.enter_context(observer.commit([told for _, told in known]))
            yield
        for step in steps:
            self._prepared.pop(id(step), None)

    def store_now(self, steps: Sequence[Any]) -> None:
        """Store prepared steps in one of our own savers, in sync code."""
        with self._told(steps):
            super().store_now(steps)

    async def astore_now(self, steps: Sequence[Any]) -> None:
        """`store_now`, for use on an event loop."""
        with self._told(steps):
            await super().astore_now(steps)

    def store(self, steps: Sequence[Any]) -> EffectGenerator[None]:
        """Store prepared steps in any other saver, in order; raises the first failure."""
        with self._told(steps):
            yield from super().store(steps)
