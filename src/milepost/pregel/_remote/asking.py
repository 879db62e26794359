"""Requests to a server, written once for the sync and the async client."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeAlias, TypeVar

from milepost._internal.generators import adrive, drive

if TYPE_CHECKING:
    from milepost.pregel._remote.events import RemoteRunnable

P = ParamSpec("P")
T = TypeVar("T")
G = TypeVar("G", bound="RemoteRunnable")


class Ask(NamedTuple):
    """A request: which method of which part of the client, with which arguments."""

    part: str
    method: str
    arguments: dict[str, Any]

    def of(self, client: Any) -> Any:
        """The answer of a sync client, or what an async one is awaited with."""
        return getattr(getattr(client, self.part), self.method)(**self.arguments)


Asking: TypeAlias = Generator[Ask, Any, T]
"""Yields requests, is sent their answers, and returns the result."""


def sync_and_async(
    method: Callable[Concatenate[G, P], Asking[T]],
) -> tuple[
    Callable[Concatenate[G, P], T],
    Callable[Concatenate[G, P], Coroutine[Any, Any, T]],
]:
    """The two methods that carry out what one generator asks for."""

    def sync(self: G, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return drive(method(self, *args, **kwargs), lambda ask: ask.of(self._sync()))

    async def aio(self: G, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await adrive(method(self, *args, **kwargs), lambda ask: ask.of(self._async()))

    name = method.__name__.lstrip("_")
    for made, called in ((sync, name), (aio, f"a{name}")):
        update_wrapper(made, method)
        made.__name__ = called
    return sync, aio
