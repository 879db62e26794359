"""Savers and stores that a program has opened and never closes, at the end of the interpreter.

Python then ends their context managers while modules are being emptied: what such an end looks up
may be None, other threads run no more, and Python prints what goes wrong. There is little to do at
that point, since connections to servers end with the process.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakSet

from milepost._internal import fork_guard

P = ParamSpec("P")
T = TypeVar("T")


def lend(
    thing: T,
    close: Callable[[], object],
    at_exit: Callable[[], object] | None = None,
    is_finalizing: Callable[[], bool] = sys.is_finalizing,
) -> Iterator[T]:
    """The end of a context manager: yield `thing`, then close it.

    Args:
        thing: What was opened.
        close: Closes it.
        at_exit: Called instead of `close` when the interpreter ends. It may use neither global
            names nor other threads.
        is_finalizing: Bound here.
    """
    try:
        yield thing
    finally:
        if not is_finalizing():
            close()
        elif at_exit is not None:
            at_exit()


_kept_at_exit: WeakSet[Any] = WeakSet()


def keep_at_exit(thing: T) -> T:
    """Do not finalize `thing` if it is there when the interpreter exits.

    The connections of redis-py on an event loop fail, and say so, if they are finalized that late.
    """
    _kept_at_exit.add(thing)
    return thing


@atexit.register
def _keep() -> None:
    fork_guard.keep_for_ever(*_kept_at_exit)


def quiet_at_exit(function: Callable[P, AsyncGenerator[T, None]]) -> Callable[P, AsyncIterator[T]]:
    """For an async generator under `asynccontextmanager`: leave it alone if the interpreter ends.

    An event loop asks to be told when an async generator is dropped, and starts a task that closes
    it. A loop that was never closed does so even if asyncio is empty by then.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        return _Quiet(function(*args, **kwargs))

    return call


class _Quiet(AsyncIterator[T]):
    """The methods of an async generator that `asynccontextmanager` uses."""

    def __init__(self, generator: AsyncGenerator[T, None]) -> None:
        self._generator = generator
        self.athrow: Final = generator.athrow
        self.aclose: Final = generator.aclose

    def __anext__(self) -> Any:
        # A generator takes over the thread's hooks when it is first asked for a value.
        hooks = sys.get_asyncgen_hooks()
        if hooks.finalizer is None:
            return self._generator.__anext__()
        sys.set_asyncgen_hooks(finalizer=_unless_finalizing(hooks.finalizer))
        try:
            return self._generator.__anext__()
        finally:
            sys.set_asyncgen_hooks(finalizer=hooks.finalizer)


def _unless_finalizing(
    tell: Callable[[Any], object], is_finalizing: Callable[[], bool] = sys.is_finalizing
) -> Callable[[Any], None]:
    def dropped(generator: Any) -> None:
        if not is_finalizing():
            tell(generator)

    return dropped
