"""A node that is a runnable of LangChain, or a sequence of them.

The steps of a sequence are shown below the node, not below a chain of their own. For
`astream_events` and `astream_log` they are streamed, so that their chunks are shown too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables import RunnableSequence

from milepost._internal.supported import unsupported

try:
    from langchain_core.tracers._streaming import _StreamingCallbackHandler
except ImportError as error:
    raise unsupported("callbacks of nodes", "langchain") from error

_FIRST = "seq:step:1"


class Steps:
    """Runs a runnable, or the steps of a sequence one after the other."""

    def __init__(self, target: Any) -> None:
        self.steps: list[Any] = target.steps if isinstance(target, RunnableSequence) else [target]

    def invoke(self, input: Any, config: Any) -> Any:
        """Run the steps in sync code."""
        for at, step in enumerate(self.steps):
            input = step.invoke(input, _for_step(config, at))
        return input

    async def ainvoke(self, input: Any, config: Any) -> Any:
        """Run the steps on an event loop."""
        callbacks = config.get("callbacks")
        if isinstance(callbacks, BaseCallbackManager) and any(map(streams, callbacks.handlers)):
            return await self._streamed(input, config)
        for at, step in enumerate(self.steps):
            input = await step.ainvoke(input, _for_step(config, at))
        return input

    async def _streamed(self, input: Any, config: Any) -> Any:
        chunks: AsyncIterator[Any] = self.steps[0].astream(input, config)
        for at, step in enumerate(self.steps[1:], 1):
            chunks = step.atransform(chunks, _for_step(config, at))
        result: Any = None
        first = True
        async for chunk in chunks:
            try:
                result = chunk if first else result + chunk
            except TypeError:
                result = chunk  # chunks of this type cannot be added up
            first = False
        return result


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


def streams(handler: Any) -> bool:
    """Whether a handler belongs to `astream_events` or `astream_log`.

    Those have methods through which the chunks of runnables go. A handler of the program's that
    merely has methods of these names gets what other handlers get: a tracer, what a `TracePolicy`
    lets through.
    """
    return _StreamingCallbackHandler in type(handler).__mro__
