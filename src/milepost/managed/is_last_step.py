"""How near a run is to its recursion limit."""

from __future__ import annotations

from typing import Annotated

from milepost.managed.base import ManagedValue, Steps

__all__ = ["IsLastStep", "RemainingSteps", "RemainingStepsManager"]


class RemainingStepsManager(ManagedValue[int]):
    """How many steps the run may still take, this one included.

    Examples:
        >>> from typing_extensions import TypedDict
        >>> from milepost.graph import START, StateGraph
        >>> from milepost.managed import RemainingSteps
        >>> class State(TypedDict):
        ...     left: int
        ...     remaining_steps: RemainingSteps
        >>> look = lambda state: {"left": state["remaining_steps"]}
        >>> graph = StateGraph(State).add_node("look", look).add_edge(START, "look").compile()
        >>> graph.invoke({}, {"recursion_limit": 10})
        {'left': 9}
    """

    @staticmethod
    def get(scratchpad: Steps) -> int:
        """How many steps are left.

        Args:
            scratchpad: Where the run is: its present step, and the last one that it may take.
        """
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
