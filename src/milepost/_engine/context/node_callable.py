"""What can be called as a node, and what it is given besides its input.

A node may be a sync or async function, a bound method, a callable object, a partial, or anything
with `invoke`/`ainvoke`. Its signature is read once, when the graph is built.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from operator import attrgetter
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

from milepost._engine.context.langchain_bridge import is_langchain_runnable, parallel, steps_of
from milepost._internal.dataclass_tools import record
from milepost.errors import GraphBuildError, NodeError
from milepost.types import StreamWriter

if TYPE_CHECKING:
    from milepost._engine.context.task_context import TaskContext
    from milepost.types import RunnableConfig

Injection = tuple[str, "Callable[[TaskContext], Any]"]
"""A parameter, and how its argument is found."""

INJECTED: dict[str, Callable[[TaskContext], Any]] = {
    "config": attrgetter("config"),
    "store": attrgetter("runtime.store"),
    "writer": attrgetter("stream_writer"),
    "previous": attrgetter("runtime.previous"),
    "runtime": attrgetter("runtime"),
}
"""Parameters that are filled in by their names. A graph with them can be pickled."""
_TYPES = {"config": "RunnableConfig", "store": "BaseStore", "writer": "StreamWriter"}
"""What some of them are. A parameter of another type that has a default keeps its default."""


@record
class Callee:
    """Something to call with an input: sync, async, or both."""

    name: str
    sync: Callable[..., Any] | None
    aio: Callable[..., Awaitable[Any]] | None
    inject: tuple[Injection, ...] = ()
    target: Any = None
    """What the user gave."""

    def arguments(self, context: TaskContext) -> dict[str, Any]:
        """The keyword arguments that the signature asks for."""
        return {name: find(context) for name, find in self.inject}

    def arguments_alone(self, config: RunnableConfig | None) -> dict[str, Any]:
        """The keyword arguments outside a run: a config, an empty runtime, None for the rest."""
        from milepost._engine.context.runtime import Runtime

        found: dict[str, Any] = {name: None for name, _ in self.inject}
        if "config" in found:
            found["config"] = config or {}
        if "runtime" in found:
            found["runtime"] = Runtime()
        return found


def same(value: Any) -> Any:
    """The function of nodes whose output is their input. The engine does not call it."""
    return value


def callee_of(target: Any, name: str | None = None) -> Callee:
    """How to call `target`; raises GraphBuildError if it cannot be called."""
    label = name or name_of(target) or "node"
    if _is_runnable(target):
        steps = steps_of(target)
        sync, aio = getattr(steps, "invoke", None), getattr(steps, "ainvoke", None)
        return Callee(label, sync, aio, _runnable_injections(sync or aio), target)
    if isinstance(target, dict):
        return callee_of(parallel(target), label)
    if not callable(target):
        raise GraphBuildError(
            f"{target!r} cannot be a node: give a function, a callable object, or an object "
            "with an invoke() or ainvoke() method."
        )
    inject = injections(target)
    if is_generator(target):
        return _gathering(label, target, inject)
    if is_async(target):
        return Callee(label, None, target, inject, target)
    return Callee(label, target, None, inject, target)


def is_generator(target: Any) -> bool:
    """Whether calling `target` gives something to iterate over."""
    function = function_of(target)
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _gathering(name: str, target: Any, inject: tuple[Injection, ...]) -> Callee:
    """Calls a generator function: yielded values are added up, or else the last one is taken."""
    if inspect.isasyncgenfunction(function_of(target)):

        async def gather_async(*args: Any, **kwargs: Any) -> Any:
            gathered = None
            async for value in target(*args, **kwargs):
                gathered = _added(gathered, value)
            return gathered

        return Callee(name, None, gather_async, inject, target)

    def gather(*args: Any, **kwargs: Any) -> Any:
        gathered = None
        for value in target(*args, **kwargs):
            gathered = _added(gathered, value)
        return gathered

    return Callee(name, gather, None, inject, target)


def _added(before: Any, value: Any) -> Any:
    if before is None:
        return value
    try:
        return before + value
    except TypeError:
        return value


def name_of(target: Any) -> str | None:
    """The name that a node gets from its function."""
    name = getattr(target, "__name__", None)
    if name is None and _is_runnable(target):
        get_name = getattr(target, "get_name", None)
        name = getattr(target, "name", None) if get_name is None else get_name()
    if name is None:
        name = type(target).__name__
    return name if isinstance(name, str) else None


def is_async(target: Any) -> bool:
    """Whether calling `target` gives something to await."""
    while isinstance(target, functools.partial):
        target = target.func
    if inspect.iscoroutinefunction(target):
        return True
    call = getattr(target, "__call__", None)  # noqa: B004
    return call is not None and inspect.iscoroutinefunction(call)


def can_be_stopped(target: Any) -> bool:
    """Whether a timeout can end a call of `target`: all of its parts are async."""
    if not _is_runnable(target):
        return is_async(target)
    parts = getattr(target, "steps__", None) or getattr(target, "steps", None)
    if parts is None and (bound := getattr(target, "bound", None)) is not None:
        parts = [bound]
    if parts:
        return all(map(can_be_stopped, parts.values() if isinstance(parts, dict) else parts))
    if getattr(target, "func", None) is not None:  # it wraps a function, as a RunnableLambda does
        return getattr(target, "afunc", None) is not None
    return hasattr(target, "ainvoke")


def function_of(target: Any) -> Any:
    """The plain function whose signature and annotations describe `target`."""
    while isinstance(target, functools.partial):
        target = target.func
    if inspect.isfunction(target) or inspect.ismethod(target):
        return target
    return getattr(target, "__call__", target)  # noqa: B004


def hints_of(target: Any) -> Mapping[str, Any]:
    """Type hints of a callable; empty where they cannot be resolved."""
    function = function_of(target)
    if not callable(function):
        return {}  # a runnable, whose annotations are those of its fields
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:
        return {}


def _is_runnable(target: Any) -> bool:
    """Whether `target` is run by its `invoke`: a Runnable, or an object that is not callable.

    For any other callable an attribute `invoke` means nothing: a mock has every attribute.
    """
    if inspect.isclass(target) or not (hasattr(target, "invoke") or hasattr(target, "ainvoke")):
        return False
    return not callable(target) or is_langchain_runnable(target)


def injections(target: Any, inputs: int = 1) -> tuple[Injection, ...]:
    """What a function asks for by its parameters, besides so many inputs."""
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return ()  # a builtin without a signature takes its input alone
    hints = hints_of(target)
    found: list[Injection] = []
    for parameter in parameters[inputs:]:
        hint = hints.get(parameter.name, parameter.annotation)
        is_failure = hint is NodeError or hint == "NodeError"
        find = _failure_of if is_failure else INJECTED.get(parameter.name)
        by_name = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        is_meant = parameter.default is parameter.empty or _may_be(parameter.name, hint)
        if find is not None and by_name and is_meant:
            found.append((parameter.name, find))
    return tuple(found)


def _may_be(name: str, hint: Any) -> bool:
    """Whether an annotation allows what is filled in under this name."""
    if get_origin(hint) in (Union, UnionType, Annotated):
        return any(_may_be(name, part) for part in get_args(hint))
    wanted = _TYPES.get(name)
    if wanted is None or hint in (inspect.Parameter.empty, Any):
        return True
    if isinstance(hint, str):
        return re.search(rf"\b{wanted}\b", hint) is not None
    # Also of LangChain or LangGraph, by their names.
    kinds = [kind.__name__ for kind in getattr(hint, "__mro__", ())]
    return wanted in kinds or (name == "writer" and hint == StreamWriter)


def _failure_of(context: TaskContext) -> NodeError | None:
    return context.failure


def _runnable_injections(method: Any) -> tuple[Injection, ...]:
    try:
        parameters = inspect.signature(method).parameters
    except (TypeError, ValueError):
        return ()
    return (("config", INJECTED["config"]),) if "config" in parameters else ()
