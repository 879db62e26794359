"""Functions as runnables: needed by langchain's create_agent, langgraph-prebuilt,
langgraph-supervisor, langmem and trustcall."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableLike
from langchain_core.runnables.config import ensure_config

from milepost._engine.context.node_callable import Callee, callee_of, is_async, name_of
from milepost._engine.context.task_context import find_context
from milepost._internal.asyncio_tools import in_thread


class RunnableCallable(Runnable[Any, Any]):
    """A function, or a sync and an async form of one, as a LangChain runnable.

    Parameters that a node may have (`config`, `runtime`, `store`, `writer`, `previous`) are filled.
    """

    def __init__(
        self,
        func: Callable[..., Any] | None,
        afunc: Callable[..., Awaitable[Any]] | None = None,
        *,
        name: str | None = None,
        tags: Sequence[str] | None = None,
        trace: bool = True,
        recurse: bool = True,
        explode_args: bool = False,
        **kwargs: Any,
    ) -> None:
        if func is not None and afunc is None and is_async(func):
            func, afunc = None, func
        if func is None and afunc is None:
            raise ValueError("RunnableCallable needs a function, sync or async.")
        self.func = func
        self.afunc = afunc
        found = name_of(func or afunc)
        self.name = name or (found if found != "<lambda>" else None)
        self.tags = tags
        self.trace = trace
        self.recurse = recurse
        self.explode_args = explode_args
        self.kwargs = kwargs
        self._sync = None if func is None else callee_of(func, self.name)
        self._aio = None if afunc is None else callee_of(afunc, self.name)

    def __repr__(self) -> str:
        return f"RunnableCallable({self.name})"

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Call the sync form."""
        if self._sync is None:
            raise TypeError(
                f'"{self.name}" has no synchronous form: call the graph with ainvoke or astream.'
            )
        if self.trace:
            config = self._tagged(config)
            return self._call_with_config(cast("Any", self._call), input, config, **kwargs)
        return self._call(input, ensure_config(config), **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Call the async form, or the sync one on a thread."""
        if self.trace:
            config = self._tagged(config)
            return await self._acall_with_config(cast("Any", self._acall), input, config, **kwargs)
        return await self._acall(input, ensure_config(config), **kwargs)

    def _tagged(self, config: RunnableConfig | None) -> RunnableConfig:
        config = ensure_config(config)
        if self.tags:
            config["tags"] = [*config.get("tags", ()), *self.tags]
        return config

    def _call(self, input: Any, config: RunnableConfig, **kwargs: Any) -> Any:
        assert self._sync is not None
        result = self._result(self._sync, input, config, kwargs)
        if self.recurse and isinstance(result, Runnable):
            return result.invoke(input, config)
        return result

    async def _acall(self, input: Any, config: RunnableConfig, **kwargs: Any) -> Any:
        if self._aio is None:
            return await in_thread(self._call, input, config, **kwargs)
        result = await self._result(self._aio, input, config, kwargs)
        if self.recurse and isinstance(result, Runnable):
            return await result.ainvoke(input, config)
        return result

    def _result(
        self, callee: Callee, input: Any, config: RunnableConfig, given: dict[str, Any]
    ) -> Any:
        """What a form returns, called with what its signature asks for."""
        context = find_context()
        named = callee.arguments_alone(config) if context is None else callee.arguments(context)
        if "config" in named:
            named["config"] = config
        named |= {**self.kwargs, **given}
        positional: Sequence[Any] = (input,)
        if self.explode_args:
            positional, exploded = input
            named |= exploded
        return callee.target(*positional, **named)


__all__ = ["RunnableCallable", "RunnableLike"]
