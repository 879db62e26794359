"""What both drivers share: where an interrupted run stops.

A run may be interrupted at any moment: by Ctrl-C, by a cancellation, by a consumer that goes away.
Tasks that have ended by then must not run again on a resume. So the run first gets the ended tasks
and stores them. Then it is stopped where it would start or await more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from milepost._engine.drivers.effects import STARTING, Abandoned, Await, Effect, EffectGenerator
from milepost._internal.generators import GeneratorDriver
from milepost.errors import CheckpointError, SerdeError

if TYPE_CHECKING:
    from milepost._engine.superstep.plan import Task

R = TypeVar("R")
Ended: TypeAlias = "tuple[Task, BaseException | None]"
"""A task that has ended, and what it crashed with."""

NOT_STORED: Final = (CheckpointError, SerdeError)
"""Failures of which a consumer that leaves the stream hears too: steps that it was shown may not be
stored."""


class RunDriver(GeneratorDriver[Effect[Any], R]):
    """Iterates over the effects of a run, and knows whether the run is being stopped early."""

    __slots__ = ("_ended", "reason")

    def __init__(self, generator: EffectGenerator[R], ended: Callable[[], list[Task]]) -> None:
        super().__init__(generator)
        self._ended = ended
        """Returns the ended tasks that the run has not received yet."""
        self.reason: BaseException | None = None
        """Why the run is to stop as soon as it has stored the tasks that have ended."""

    def is_stopped_at(self, effect: Effect[Any]) -> bool:
        """Whether an effect is not carried out, because the run is being stopped early."""
        if self.reason is None or not isinstance(effect, STARTING):
            return False
        if not self.take_ended(effect):
            self.error = self.reason
        return True

    def take_ended(self, effect: Effect[Any]) -> bool:
        """Give the run the tasks that ended just before it was stopped; False if there are none."""
        if type(effect) is not Await or not (ended := self._ended()):
            return False
        self.answer = ended
        return True

    def fail(self, failure: BaseException, effect: Effect[Any], *, answered: bool) -> None:
        """Handle an error in an effect or, if `answered`, after the effect was carried out."""
        if not isinstance(failure, Exception) and (answered or self.take_ended(effect)):
            self.reason = failure
        else:
            self.error = failure

    def abandon(self, effect: Effect[Any] | None) -> None:
        """The caller has left the run; `effect` is what the run still waits for."""
        self.reason = Abandoned()
        if effect is not None and not self.take_ended(effect):
            self.error = self.reason


def has_left(failure: BaseException, showing: bool) -> bool:
    """Whether the consumer has left the stream: closed it, or thrown an error into it at an event.

    `showing` is whether the stream was giving events to the consumer. An interrupt of the program
    is no error of the consumer's: the run gets that itself.
    """
    if isinstance(failure, GeneratorExit):
        return True
    return showing and isinstance(failure, Exception)


def sorted_out(items: Sequence[Ended]) -> tuple[list[Task], list[Ended]]:
    """Split ended tasks into those without a crash, and those with one, which are kept for later.

    The first crash is raised if no other task has ended: tasks without a crash are saved first.
    """
    ended = [task for task, crash in items if crash is None]
    crashed = [item for item in items if item[1] is not None]
    if crashed and not ended:
        crash = crashed[0][1]
        assert crash is not None
        raise crash
    return ended, crashed
