"""A node that is a sequence of runnables: its steps are shown below the node, not below a chain."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables import RunnableSequence

_FIRST = "seq:step:1"


class Steps:
    """Runs the steps of a sequence one after the other."""

    def __init__(self, sequence: RunnableSequence[Any, Any]) -> None:
        self.steps = sequence.steps

    def invoke(self, input: Any, config: Any) -> Any:
        """Run the steps in sync code."""
        for at, step in enumerate(self.steps):
            input = step.invoke(input, _for_step(config, at))
        return input

    async def ainvoke(self, input: Any, config: Any) -> Any:
        """Run the steps on an event loop."""
        for at, step in enumerate(self.steps):
            input = await step.ainvoke(input, _for_step(config, at))
        return input


def _for_step(config: Any, at: int) -> Any:
    """The config of a node as a step of the node gets it."""
    callbacks = config.get("callbacks")
    if at == 0 or not isinstance(callbacks, BaseCallbackManager):
        return config
    callbacks = callbacks.copy()
    callbacks.remove_tags([_FIRST])
    callbacks.add_tags([f"seq:step:{at + 1}"], inherit=False)
    return {**config, "callbacks": callbacks}


def steps_in(target: object) -> int:
    """How many steps a node has."""
    return len(target.steps) if isinstance(target, RunnableSequence) else 1
