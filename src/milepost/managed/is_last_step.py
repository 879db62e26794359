"""How near a run is to its recursion limit."""

from __future__ import annotations

from typing import Annotated

from milepost.managed.base import ManagedValue, Steps

__all__ = ["IsLastStep", "RemainingSteps", "RemainingStepsManager"]


class RemainingStepsManager(ManagedValue[int]):
    """How many steps the run may still take, this one included."""

    @staticmethod
    def get(scratchpad: Steps) -> int:
        return scratchpad.stop - scratchpad.step


class IsLastStepManager(ManagedValue[bool]):
    """Whether the recursion limit ends the run after this step."""

    @staticmethod
    def get(scratchpad: Steps) -> bool:
        return scratchpad.step == scratchpad.stop - 1


RemainingSteps = Annotated[int, RemainingStepsManager]
"""In a schema: how many steps the run may still take."""

IsLastStep = Annotated[bool, IsLastStepManager]
"""In a schema: whether this is the last step that the recursion limit allows."""
