"""What a builder knows of its nodes and edges before it is compiled."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from milepost._engine.context.node_callable import INJECTED, can_be_stopped, hints_of
from milepost._internal.dataclass_tools import record
from milepost._schema import has_fields, schema_of
from milepost.errors import GraphBuildError
from milepost.types import CachePolicy, Command, RetryPolicy, TimeoutPolicy, TracePolicy


@record(kw_only=True)
class NodeSpec:
    """A node as it was added."""

    name: str
    action: Any
    input_schema: Any
    defer: bool = False
    metadata: Mapping[str, Any] | None = None
    retry: tuple[RetryPolicy, ...] | None = None
    cache: CachePolicy | None = None
    timeout: TimeoutPolicy | None = None
    trace: TracePolicy | None = None
    error_handler: Any = None
    ends: tuple[str, ...] | Mapping[str, str] = ()
    """Nodes that its Commands may go to: for validation and drawing."""


@record(kw_only=True)
class BranchSpec:
    """A conditional edge as it was added."""

    name: str
    path: Callable[..., Any] | Any
    ends: Mapping[Hashable, str] | None
    """Answer → node; None if the answers are node names themselves."""
    likely: tuple[str, ...] = ()
    """Nodes that the return type names, of a function that may return others: for drawing."""
    input_schema: Any = None


def check_timeout(node: str, timeout: TimeoutPolicy | None, *actions: Any) -> None:
    """Raise GraphBuildError if a node with a timeout cannot be stopped."""
    if timeout is not None and not all(map(can_be_stopped, actions)):
        raise GraphBuildError(
            f"Node '{node}' is a sync function, which nothing can stop: a timeout needs an "
            "`async def` node."
        )


def first_parameter_schema(function: Any) -> Any:
    """The schema with keys that a function's first parameter is annotated with, if it is one."""
    hints = hints_of(function)
    try:
        first = next(iter(inspect.signature(function).parameters), "") if hints else ""
    except ValueError:  # of a partial with more arguments than its function takes
        return None
    hint = None if first in INJECTED else _bare(hints.get(first))
    if not has_fields(hint):
        return None
    read = schema_of(hint)
    return hint if read.channels or read.managed else None


def literal_answers(function: Any) -> tuple[tuple[Any, ...], bool]:
    """The literals in a return type, and whether the function returns nothing else."""
    hint = _bare(hints_of(function).get("return"))
    return _literals(hint), get_origin(hint) is Literal


def command_ends(function: Any) -> tuple[Any, ...]:
    """The destinations in a `Command[Literal[...]]` return type."""
    ends: tuple[Any, ...] = ()
    for part in _alternatives(hints_of(function).get("return")):
        if get_origin(part) is Command:
            ends += _literals(get_args(part)[0])
    return ends


def _alternatives(hint: Any) -> Sequence[Any]:
    hint = _bare(hint)
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return tuple(map(_bare, parts))


def _bare(hint: Any) -> Any:
    """A type without what `Annotated` says of it."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _literals(hint: Any) -> tuple[Any, ...]:
    found: tuple[Any, ...] = ()
    for part in _alternatives(hint):
        if get_origin(part) is Literal:
            found += get_args(part)
        elif get_origin(part) in (list, Sequence, tuple):
            for inner in get_args(part):
                found += _literals(inner)
    return found
