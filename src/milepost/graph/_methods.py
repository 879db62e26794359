"""One text for a sync method of a graph and its async form."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from milepost._engine.drivers import async_driver
from milepost._engine.drivers.sync import SyncDriver

if TYPE_CHECKING:
    from milepost._engine.drivers.effects import EffectGenerator

G = TypeVar("G")
P = ParamSpec("P")
R = TypeVar("R")


def sync_and_async(
    program: Callable[Concatenate[G, P], EffectGenerator[R]],
    driver: type[SyncDriver] = SyncDriver,
) -> tuple[Callable[Concatenate[G, P], R], Callable[Concatenate[G, P], Coroutine[Any, Any, R]]]:
    """The methods that carry out what `program` returns: `x` and `ax` for a function `_x`.

    Both have its parameters and its docstring. `driver` is that of the sync method.
    """

    def sync_method(graph: G, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return driver().run(program(graph, *args, **kwargs))

    async def async_method(graph: G, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await async_driver().run(program(graph, *args, **kwargs))

    name = program.__name__.removeprefix("_")
    for method, its_name in ((sync_method, name), (async_method, f"a{name}")):
        update_wrapper(method, program)
        method.__name__ = its_name
        method.__qualname__ = program.__qualname__.replace(program.__name__, its_name)
    return sync_method, async_method
