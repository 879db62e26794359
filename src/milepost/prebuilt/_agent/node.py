"""Functions of an agent as LangChain runnables, sync and async, with chain events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from milepost._engine.context.node_callable import Callee, callee_of
from milepost._engine.context.task_context import Runtime, current_context, find_context
from milepost.prebuilt._effects import Effects, drive_async, drive_sync

Logic = Callable[[Any, Runtime[Any], RunnableConfig], Effects[Any]]


class AgentNode(Runnable[Any, Any]):
    """A node of an agent; its logic is a generator of effects."""

    def __init__(self, logic: Logic, name: str) -> None:
        self.name = name
        self._logic = logic

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run the logic."""

        def run(state: Any, run_manager: Any, config: RunnableConfig) -> Any:  # noqa: ARG001
            return drive_sync(self._logic(state, _runtime(), config))

        return self._call_with_config(run, input, config, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """`invoke`, on an event loop."""

        async def run(state: Any, run_manager: Any, config: RunnableConfig) -> Any:  # noqa: ARG001
            return await drive_async(self._logic(state, _runtime(), config))

        return await self._acall_with_config(run, input, config, **kwargs)


def _runtime() -> Runtime[Any]:
    return current_context("create_react_agent").runtime


class StateFunction(Runnable[Any, Any]):
    """A function of the state that is given what nodes are given: config, store, runtime.

    It may return a runnable, which is then asked in its place.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.name = name
        self._callee: Callee = callee_of(function, name)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Call the function."""
        function = self._callee.sync
        if function is None:
            raise RuntimeError(
                f"'{self.name}' is an async function, and the agent was called from sync code: use "
                "ainvoke() or astream(), or give a sync function."
            )

        def run(state: Any, run_manager: Any, config: RunnableConfig) -> Any:  # noqa: ARG001
            result = function(state, **self._arguments(config))
            return result.invoke(state, config) if isinstance(result, Runnable) else result

        return self._call_with_config(run, input, config, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """`invoke`, on an event loop."""
        function = self._callee.aio
        if function is None:
            return self.invoke(input, config, **kwargs)

        async def run(state: Any, run_manager: Any, config: RunnableConfig) -> Any:  # noqa: ARG001
            result = await function(state, **self._arguments(config))
            return await result.ainvoke(state, config) if isinstance(result, Runnable) else result

        return await self._acall_with_config(run, input, config, **kwargs)

    def _arguments(self, config: RunnableConfig) -> dict[str, Any]:
        context = find_context()
        if context is None or not self._callee.inject:
            return {}
        given = self._callee.arguments(context)
        # The config of the chain that the function is a part of, so that what it calls shows there.
        return {**given, "config": config} if "config" in given else given
