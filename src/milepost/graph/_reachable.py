"""What a node's function reaches: graphs that it calls, tasks that it starts, types in its closure.

Its code and its closure show this. With it, inner graphs can be shown, read and changed through the
graph around them, the results of tasks are stored while the function still runs, and values of
types that the function was given can be stored at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, get_origin

from milepost._engine.context.node_callable import function_of
from milepost._engine.superstep.subtasks import TaskStarter

if TYPE_CHECKING:
    from milepost.graph._typing import AnyGraph


def graphs_in(action: Any) -> tuple[Any, ...]:
    """The compiled graph that a node is, or the graphs that its function can reach.

    They are looked for in what the function closes over, in the globals that it names, and in
    the object that it is a method of: directly, as the owner of a method (`run = graph.invoke`),
    or inside a module, a list, a dict or an attribute there, or in an attribute of that which
    the function names. What a decorator has wrapped (`functools.wraps`) counts as the function.
    """
    from milepost.graph._compiled import Pregel

    if isinstance(action, Pregel):
        return (action,)
    found = {id(thing): thing for thing in _reached(called_by(action)) if isinstance(thing, Pregel)}
    return tuple(found.values())


def graphs_in_tools(action: Any) -> tuple[AnyGraph, ...]:
    """The graphs that the tools of a ToolNode call, found as those that a node's function calls."""
    tools = getattr(action, "tools_by_name", None)
    found: dict[int, AnyGraph] = {}
    for tool in tools.values() if isinstance(tools, Mapping) else ():
        for name in ("func", "coroutine", "_run", "_arun"):
            if (function := getattr(tool, name, None)) is not None:
                found.update((id(graph), graph) for graph in graphs_in(function))
    return tuple(found.values())


def called_by(action: Any) -> Any:
    """The function that an action calls; of a LangChain RunnableLambda the one that it wraps."""
    for name in ("func", "afunc"):
        if callable(getattr(action, "invoke", None)) and (wrapped := getattr(action, name, None)):
            return function_of(wrapped)
    return function_of(action)


def calls_tasks(action: Any) -> bool:
    """Whether a node starts tasks, or its function can reach one.

    The function itself may reach it, or other functions of its package that it can reach.
    """
    return isinstance(action, TaskStarter) or any(
        isinstance(thing, TaskStarter) for thing in _through_functions(action, _reached)
    )


def types_closed_over(action: Any) -> Iterator[Any]:
    """The types that a node's function closes over, directly or inside an object.

    A function that makes graphs hands types to its nodes in this way, such as the
    `response_format` of an agent, and the module of the node does not know them. Inner functions
    of the same package are followed.
    """
    for held in _through_functions(action, _closed_over):
        for thing in (held, *_contents(held)):
            if isinstance(thing, type) or get_origin(thing) is not None:
                yield thing


def _through_functions(action: Any, reached: Callable[[Any], Iterator[Any]]) -> Iterator[Any]:
    """What an action's function reaches, and what functions of its package reach from there."""
    waiting: list[Any] = [called_by(action)]
    package = _package(waiting[0])
    seen: set[FunctionType] = set()
    while waiting:
        for thing in reached(waiting.pop()):
            yield thing
            if isinstance(thing, FunctionType) and thing not in seen and _package(thing) == package:
                seen.add(thing)
                waiting.append(thing)


def _package(function: Any) -> str:
    return (getattr(function, "__module__", None) or "").partition(".")[0]


def _reached(function: Any) -> Iterator[Any]:
    wrapped: set[int] = set()
    while function is not None and id(function) not in wrapped:
        yield from _reached_by(function)
        wrapped.add(id(function))
        function = getattr(function, "__wrapped__", None)


def _reached_by(function: Any) -> Iterator[Any]:
    code = getattr(function, "__code__", None)
    if code is None:
        return
    reached: list[Any] = [getattr(function, "__self__", None), *_closed_over(function)]
    outer = getattr(function, "__globals__", {})
    names = dict.fromkeys(_names(code))
    reached.extend(outer[name] for name in names if name in outer)
    for thing in reached:
        yield thing
        if isinstance(thing, ModuleType):
            yield from _attributes(thing, names)
            continue
        for inside in _contents(thing):
            yield inside
            if not isinstance(inside, (ModuleType, type, FunctionType)):
                yield from _attributes(inside, names)


def _attributes(thing: Any, names: Collection[str]) -> list[Any]:
    """Those attributes of an object or a module that a function names."""
    there = getattr(thing, "__dict__", {})
    return [there[name] for name in names if name in there]


def _closed_over(function: Any) -> Iterator[Any]:
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # not bound yet


def _names(code: CodeType) -> Iterator[str]:
    """What a function names, also in the functions and comprehensions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _contents(thing: Any) -> tuple[Any, ...]:
    if isinstance(thing, MethodType):
        return (thing.__self__,)
    if isinstance(thing, (type, FunctionType)):
        return ()
    attributes = getattr(thing, "__dict__", {}).values()
    if isinstance(thing, dict):
        return (*thing.values(), *attributes)
    if isinstance(thing, (list, tuple, set)):
        return (*thing, *attributes)
    return tuple(attributes)
