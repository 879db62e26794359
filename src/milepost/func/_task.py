"""`@task`: a function whose result is stored, so that a resumed run does not call it again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from milepost._engine.context.config import retry_policies
from milepost._engine.context.node_callable import Callee, injections, is_async, name_of
from milepost._engine.context.task_context import current_context
from milepost._engine.drivers.effects import ClearCache
from milepost._engine.superstep.node_cache import namespace_of
from milepost._engine.superstep.program import Node, StateReader
from milepost._engine.superstep.subtasks import TaskStarter, call
from milepost._internal.older_names import older_names
from milepost._internal.warn import Strictness
from milepost.constants import RETURN
from milepost.errors import GraphBuildError
from milepost.graph._methods import sync_and_async
from milepost.types import CachePolicy, RetryPolicy, TimeoutPolicy

if TYPE_CHECKING:
    from milepost._engine.drivers.effects import EffectGenerator
    from milepost._engine.drivers.futures import TaskFuture
    from milepost.cache.base import BaseCache

P = ParamSpec("P")
T = TypeVar("T")


class TaskFunction(TaskStarter, Generic[P, T]):
    """What `@task` makes of a function: calling it starts the task and returns a future."""

    def __init__(
        self,
        function: Callable[P, T] | Callable[P, Awaitable[T]],
        *,
        name: str | None,
        retry: tuple[RetryPolicy, ...],
        cache: CachePolicy | None,
        timeout: TimeoutPolicy | None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.func = function
        named = function.func if isinstance(function, functools.partial) else function
        self.name = name or name_of(named) or "task"
        if timeout is not None and not is_async(function):
            raise GraphBuildError(
                f"Task '{self.name}' is a sync function, which nothing can stop: a timeout needs "
                "an `async def` task."
            )
        self._node = Node(
            name=self.name,
            callee=_callee(self.name, function),
            triggers=(),
            reader=StateReader(),
            writes_of=lambda output: [(RETURN, output)],
            retry=retry,
            cache=cache,
            timeout=timeout,
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> TaskFuture[T]:
        context = current_context(self.name)
        return call(context, self._node, (args, kwargs))

    def _clear_cache(self, cache: BaseCache[Any]) -> EffectGenerator[None]:
        """Forget the cached results of this task."""
        yield ClearCache(cache, [namespace_of(self._node)])

    clear_cache, aclear_cache = sync_and_async(_clear_cache)


def _callee(name: str, function: Callable[..., Any]) -> Callee:
    """Calls the function with the arguments of the task's call, and with what it asks for."""
    inject = injections(function, inputs=0)
    parameters = inspect.signature(function).parameters.values() if inject else ()
    by_place = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]

    def run(argument: tuple[tuple[Any, ...], dict[str, Any]], **asked_for: Any) -> Any:
        args, kwargs = argument
        if not asked_for:
            return function(*args, **kwargs)
        for given in by_place[: len(args)]:
            asked_for.pop(given, None)
        return function(*args, **{**asked_for, **kwargs})

    if is_async(function):
        return Callee(name, None, run, inject, function)
    return Callee(name, run, None, inject, function)


class OlderTaskNames(TypedDict, total=False):
    """What parameters of `task` were called before LangGraph 0.5."""

    retry: RetryPolicy | Sequence[RetryPolicy]


class _TaskDecorator(Protocol):
    @overload
    def __call__(self, function: Callable[P, Awaitable[T]], /) -> TaskFunction[P, T]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> TaskFunction[P, T]: ...


@overload
def task(function: Callable[P, Awaitable[T]], /) -> TaskFunction[P, T]: ...
@overload
def task(function: Callable[P, T], /) -> TaskFunction[P, T]: ...
@overload
def task(
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    cache_policy: CachePolicy | None = None,
    timeout: float | timedelta | TimeoutPolicy | None = None,
    **kwargs: Unpack[OlderTaskNames],
) -> _TaskDecorator: ...


def task(
    __func_or_none__: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    cache_policy: CachePolicy | None = None,
    timeout: float | timedelta | TimeoutPolicy | None = None,
    **kwargs: Unpack[OlderTaskNames],
) -> Any:
    """Make a task of a function, sync or async.

    It can be called inside an entrypoint or a node, and returns a future at once: wait with
    `.result()` or `await`. Calls run in parallel. A finished call is not repeated when the run is
    resumed, provided the program makes its calls in the same order again. Parameters called
    `config`, `runtime`, `store`, `writer` and `previous` are filled in, as those of nodes.

    Args:
        name: What the task is called in streams and traces; the function's name by default.
        retry_policy: When to try a call again.
        cache_policy: Whether a result may be taken from the cache.
        timeout: How long one attempt may take; for async functions.
        **kwargs: An older name, which warns: `retry`.

    Examples:
        >>> from milepost.func import entrypoint, task
        >>> from milepost.types import RetryPolicy
        >>> @task(retry_policy=RetryPolicy(max_attempts=5))
        ... def size(word: str) -> int:
        ...     return len(word)
        >>> @entrypoint()
        ... def sizes(words: list[str]) -> list[int]:
        ...     return [future.result() for future in [size(word) for word in words]]
        >>> sizes.invoke(["a", "four"])
        [1, 4]
    """
    if kwargs:
        older = older_names("task", kwargs, OlderTaskNames.__annotations__, Strictness())
        retry_policy = retry_policy or older.get("retry_policy")
    decorate: Callable[..., TaskFunction[..., Any]] = functools.partial(
        TaskFunction,
        name=name,
        retry=retry_policies(retry_policy),
        cache=cache_policy,
        timeout=TimeoutPolicy.coerce(timeout),
    )
    return decorate if __func_or_none__ is None else decorate(__func_or_none__)
