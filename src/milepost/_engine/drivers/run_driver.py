"""What both drivers share: where an interrupted run stops.

A run may be interrupted at any moment: by Ctrl-C, by a cancellation, by a consumer that goes away.
Tasks that have ended by then are done, and must not run again on a resume. So the run is given
those first, stores them, and is stopped where it would start or await more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from milepost._engine.drivers.effects import STARTING, Await, Effect, EffectGenerator
from milepost._internal.generators import GeneratorDriver

if TYPE_CHECKING:
    from milepost._engine.superstep.plan import Task

R = TypeVar("R")
Ended: TypeAlias = "tuple[Task, BaseException | None]"
"""A task that has ended, and what it crashed with."""


class RunDriver(GeneratorDriver[Effect[Any], R]):
    """Iterates over the effects of a run, and knows whether the run is being broken off."""

    __slots__ = ("_ended", "reason")

    def __init__(self, program: EffectGenerator[R], ended: Callable[[], list[Task]]) -> None:
        super().__init__(program)
        self._ended = ended
        """Gives the tasks that have ended and that the run does not know of."""
        self.reason: BaseException | None = None
        """Why the run is to stop as soon as it has stored the tasks that have ended."""

    def is_stopped_at(self, effect: Effect[Any]) -> bool:
        """Whether an effect is not carried out, because the run is being broken off."""
        if self.reason is None or not isinstance(effect, STARTING):
            return False
        if not self.take_ended(effect):
            self.error = self.reason
        return True

    def take_ended(self, effect: Effect[Any]) -> bool:
        """Give the run tasks that ended just before it was broken off; False if there are none."""
        if type(effect) is not Await or not (ended := self._ended()):
            return False
        self.answer = ended
        return True

    def fail(self, failure: BaseException, effect: Effect[Any], *, answered: bool) -> None:
        """Carrying out an effect has failed, or something came in between after that."""
        if not isinstance(failure, Exception) and (answered or self.take_ended(effect)):
            self.reason = failure
        else:
            self.error = failure

    def abandon(self, effect: Effect[Any] | None, reason: BaseException) -> None:
        """The caller has left the run; `effect` is what the run still waits for."""
        self.reason = reason
        if effect is not None and not self.take_ended(effect):
            self.error = reason


def sorted_out(items: Sequence[Ended]) -> tuple[list[Task], list[Ended]]:
    """Of tasks that have ended: those without a crash, and the others, which are kept for later.

    What one of them crashed with is raised when no other is left: the others are done, and can be
    saved.
    """
    ended = [task for task, crash in items if crash is None]
    crashed = [item for item in items if item[1] is not None]
    if crashed and not ended:
        crash = crashed[0][1]
        assert crash is not None
        raise crash
    return ended, crashed
