"""`@entrypoint`: a function as a whole graph of one node."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack, get_args, get_origin

from milepost._engine.context.config import retry_policies
from milepost._engine.context.node_callable import callee_of, hints_of, is_async, name_of
from milepost._engine.superstep.program import ExecutableGraph, Node, StateReader, Write
from milepost._internal.noted_types import note_types
from milepost._internal.older_names import older_names
from milepost._internal.warn import Strictness
from milepost.channels import EphemeralValue, LastValue
from milepost.constants import END, PREVIOUS, START
from milepost.errors import GraphBuildError, InvalidUpdateError
from milepost.graph._compiled import Pregel
from milepost.graph._reachable import graphs_in
from milepost.store._core.validation import ensure_valid_store
from milepost.types import (
    CachePolicy,
    Checkpointer,
    OnConflict,
    RetryPolicy,
    TimeoutPolicy,
    ensure_valid_checkpointer,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from milepost.cache.base import BaseCache
    from milepost.store.base import BaseStore

R = TypeVar("R")
S = TypeVar("S")


class OlderEntrypointNames(TypedDict, total=False):
    """What parameters of `entrypoint` were called before LangGraph 1.0."""

    config_schema: Any
    retry: RetryPolicy | Sequence[RetryPolicy]


class GeneratorEntrypointError(GraphBuildError, NotImplementedError):
    """The function of an entrypoint is a generator."""


class entrypoint:  # noqa: N801 - a decorator with arguments
    """Make a durable program of a function.

    The function takes one argument, its input, and may ask for `previous` (what its last run on
    this thread returned or saved), `config`, `store`, `writer` and `runtime`. The result has the
    methods of a compiled graph: `invoke`, `stream`, `get_state` and so on.

    Args:
        checkpointer: Saves the results of tasks, and what the function returns.
        store: Memory across threads.
        cache: Keeps results of tasks that have a cache policy.
        context_schema: The type of `runtime.context`.
        cache_policy: Whether the result of the whole function may be taken from the cache.
        retry_policy: When to try the function again.
        timeout: How long one attempt may take; for async functions.
        on_conflict: What a run does that finds another run on its thread: "newest" takes the
            thread over, "reject" raises ThreadConflict.
        strict: Refuse what is most likely a mistake instead of warning of it.
        **kwargs: Older names, which warn: `config_schema`, `retry`.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.func import entrypoint, task
        >>> @task
        ... def double(n: int) -> int:
        ...     return 2 * n
        >>> @entrypoint(checkpointer=InMemorySaver())
        ... def total(numbers: list[int], *, previous: int | None = None) -> int:
        ...     return (previous or 0) + sum(future.result() for future in map(double, numbers))
        >>> config = {"configurable": {"thread_id": "1"}}
        >>> total.invoke([1, 2], config), total.invoke([3], config)
        (6, 12)
    """

    @dataclass(frozen=True, slots=True)
    class final(Generic[R, S]):  # noqa: N801
        """Return one value to the caller and save another for the next run's `previous`."""

        value: R
        save: S

    def __init__(
        self,
        checkpointer: Checkpointer = None,
        store: BaseStore | None = None,
        cache: BaseCache[Any] | None = None,
        context_schema: Any = None,
        cache_policy: CachePolicy | None = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
        *,
        on_conflict: OnConflict = "newest",
        strict: bool | None = None,
        **kwargs: Unpack[OlderEntrypointNames],
    ) -> None:
        self.strictness = Strictness(strict)
        if kwargs:
            known = OlderEntrypointNames.__annotations__
            older = older_names("entrypoint", kwargs, known, self.strictness)
            context_schema = context_schema or older.get("context_schema")
            retry_policy = retry_policy or older.get("retry_policy")
        self.checkpointer = ensure_valid_checkpointer(checkpointer)
        self.store = ensure_valid_store(store)
        self.cache = cache
        self.context_schema = context_schema
        self.cache_policy = cache_policy
        self.on_conflict = on_conflict
        self.retry = retry_policies(retry_policy)
        self.timeout = TimeoutPolicy.coerce(timeout)

    def __call__(self, function: Callable[..., Any]) -> Pregel[Any, Any, Any, Any]:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise GeneratorEntrypointError(
                "An entrypoint cannot be a generator: return a value, and use the stream writer "
                "to send what should arrive earlier."
            )
        if not inspect.signature(function).parameters:
            raise GraphBuildError(
                "An entrypoint needs at least one parameter: the input that it is called with."
            )
        name = name_of(function) or "entrypoint"
        if self.timeout is not None and not is_async(function):
            raise GraphBuildError(
                f"Entrypoint '{name}' is a sync function, which nothing can stop: a timeout needs "
                "an `async def` function."
            )
        graph: Pregel[Any, Any, Any, Any] = Pregel(
            program=self._program(name, function),
            checkpointer=self.checkpointer,
            store=self.store,
            cache=self.cache,
            on_conflict=self.on_conflict,
            context_schema=self.context_schema,
        )
        for hint in hints_of(function).values():
            note_types(hint)
        module = sys.modules.get(getattr(function, "__module__", ""))
        if module is not None:
            note_types(module)
        graph.__doc__ = function.__doc__
        return graph

    def _program(self, name: str, function: Callable[..., Any]) -> ExecutableGraph:
        node = Node(
            name=name,
            callee=callee_of(function, name),
            triggers=(START,),
            reader=StateReader(channel=START),
            writes_of=_writes_of,
            retry=self.retry,
            cache=self.cache_policy,
            timeout=self.timeout,
            subgraphs=graphs_in(function),
            starts_tasks=True,
        )
        given, returned, saved = _types(function)
        return ExecutableGraph(
            name=name,
            nodes={name: node},
            channels={
                START: EphemeralValue(given),
                END: LastValue(returned),
                PREVIOUS: LastValue(saved),
            },
            keys=(),
            output_keys=END,
            stream_keys=END,
            goto=partial(_no_goto, self.strictness),
            strictness=self.strictness,
            writes_of_update=_writes_of,
        )


def _types(function: Callable[..., Any]) -> tuple[Any, Any, Any]:
    """The types of a function's input, of what it returns, and of what it saves."""
    signature = inspect.signature(function)
    hints = hints_of(function)
    first = next(iter(signature.parameters.values()))
    given = hints.get(first.name, first.annotation)
    back = hints.get("return", signature.return_annotation)
    if back is entrypoint.final:
        back = Any
    returned = saved = back
    if get_origin(back) is entrypoint.final:
        returned, saved = get_args(back)
    empty = inspect.Signature.empty
    return tuple(Any if typ is empty else typ for typ in (given, returned, saved))  # type: ignore[return-value]


def _writes_of(output: Any) -> list[Write]:
    if isinstance(output, entrypoint.final):
        return [(END, output.value), (PREVIOUS, output.save)]
    return [(END, output), (PREVIOUS, output)]


def _no_goto(strictness: Strictness, target: Any) -> Write | None:
    wrong = InvalidUpdateError(f"An entrypoint has no nodes to go to, so not {target!r} either.")
    strictness.check(("target", repr(target)), wrong, "It is passed over.")
    return None
