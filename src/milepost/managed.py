"""Values that nodes can read from the state and that the runtime computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Protocol

if TYPE_CHECKING:

    class Steps(Protocol):
        """How far a run is."""

        @property
        def step(self) -> int: ...
        @property
        def stop(self) -> int: ...


class ManagedValue:
    """A key of a schema that is computed when a node reads it, and cannot be written."""

    @staticmethod
    def get(steps: Steps) -> object:
        """The value at this step."""
        raise NotImplementedError


class RemainingStepsManager(ManagedValue):
    """How many steps the run may still take, this one included."""

    @staticmethod
    def get(steps: Steps) -> int:
        return steps.stop - steps.step


class IsLastStepManager(ManagedValue):
    """Whether the recursion limit ends the run after this step."""

    @staticmethod
    def get(steps: Steps) -> bool:
        return steps.step == steps.stop - 1


RemainingSteps = Annotated[int, RemainingStepsManager]
"""In a schema: how many steps the run may still take."""

IsLastStep = Annotated[bool, IsLastStepManager]
"""In a schema: whether this is the last step that the recursion limit allows."""

__all__ = ["IsLastStep", "RemainingSteps"]
