"""Which graphs a node runs: they are shown, read and changed through the graph around them."""

from __future__ import annotations

from types import MethodType, ModuleType
from typing import Any

from milepost.runtime.calls import function_of


def graphs_in(action: Any) -> tuple[Any, ...]:
    """The compiled graph that a node is, or the graphs that its function can reach.

    They are looked for in what the function closes over, in the globals that it names, and in
    the object that it is a method of: directly, as the owner of a method (`run = graph.invoke`),
    or inside a list, a dict or an attribute there.
    """
    from milepost.graph.compiled import CompiledGraph

    if isinstance(action, CompiledGraph):
        return (action,)
    function = function_of(action)
    code = getattr(function, "__code__", None)
    if code is None:
        return ()
    reached: list[Any] = [getattr(function, "__self__", None)]
    for cell in getattr(function, "__closure__", None) or ():
        try:
            reached.append(cell.cell_contents)
        except ValueError:
            continue  # not bound yet
    outer = getattr(function, "__globals__", {})
    reached.extend(outer[name] for name in code.co_names if name in outer)
    found: dict[int, Any] = {}
    for thing in reached:
        for inner in (thing, *_contents(thing)):
            if isinstance(inner, CompiledGraph):
                found[id(inner)] = inner
    return tuple(found.values())


def _contents(thing: Any) -> tuple[Any, ...]:
    if isinstance(thing, dict):
        return tuple(thing.values())
    if isinstance(thing, (list, tuple, set)):
        return tuple(thing)
    if isinstance(thing, MethodType):
        return (thing.__self__,)
    if isinstance(thing, (type, ModuleType)) or callable(thing):
        return ()
    return tuple(getattr(thing, "__dict__", {}).values())
