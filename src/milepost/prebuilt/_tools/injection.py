"""Arguments of tools that come from the run and not from the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import Parameter, signature
from types import UnionType
from typing import Annotated, Any, Generic, Union, get_args, get_origin, get_type_hints

from langchain_core.messages import ToolCall
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg
from langchain_core.tools.base import get_all_basemodel_annotations
from typing_extensions import TypeVar

from milepost._engine.streaming.tool_calls import current_writer
from milepost._internal.dataclass_tools import record
from milepost._internal.supported import unsupported
from milepost.runtime import ExecutionInfo
from milepost.store.base import BaseStore
from milepost.types import MISSING, StreamWriter

try:
    # Only what derives from it is hidden from models without a mark in `Annotated`.
    from langchain_core.tools.base import _DirectlyInjectedToolArg
except ImportError as error:
    raise unsupported("milepost.prebuilt", "langchain") from error


class InjectedState(InjectedToolArg):
    """Annotates a parameter of a tool that gets the state, or one key of it.

    Args:
        field: The key; the whole state by default.

    Examples:
        >>> from typing import Annotated
        >>> from langchain_core.tools import tool
        >>> from milepost.prebuilt import InjectedState
        >>> @tool
        ... def orders(user: Annotated[str, InjectedState("user")]) -> str:
        ...     '''The orders of the user.'''
        ...     return f"none of {user}"
    """

    def __init__(self, field: str | None = None) -> None:
        self.field = field


class InjectedStore(InjectedToolArg):
    """Annotates a parameter of a tool that gets the store.

    Examples:
        >>> from typing import Annotated, Any
        >>> from langchain_core.tools import tool
        >>> from milepost.prebuilt import InjectedStore
        >>> @tool
        ... def remember(city: str, store: Annotated[Any, InjectedStore()]) -> str:
        ...     '''Remember where the user lives.'''
        ...     store.put(("facts",), "home", {"city": city})
        ...     return "noted"
    """


# LangChain checks the arguments of tools with pydantic, which reads these defaults.
StateT = TypeVar("StateT", default=Any)
ContextT = TypeVar("ContextT", default=Any)


@dataclass
class ToolRuntime(_DirectlyInjectedToolArg, Generic[ContextT, StateT]):
    """What a tool gets for a parameter that is annotated so; models never see that parameter.

    Examples:
        >>> from langchain_core.tools import tool
        >>> from milepost.prebuilt import ToolRuntime
        >>> @tool
        ... def who(runtime: ToolRuntime) -> str:
        ...     '''Who the user is.'''
        ...     return runtime.state["user"]
    """

    state: StateT
    """The state of the graph."""
    context: ContextT
    """What the caller of the graph passed as `context=`."""
    config: RunnableConfig
    """The config of the call."""
    stream_writer: StreamWriter
    """Sends to the `custom` stream."""
    tool_call_id: str | None
    """The id that the model gave the call."""
    store: BaseStore | None
    """The store that the graph was compiled with."""
    tools: list[BaseTool] = field(default_factory=list)
    """All tools of the node."""
    execution_info: ExecutionInfo | None = None
    """Which task this call is; None outside a run."""
    server_info: Any = None
    """What the server that runs the graph says about the call; None if there is no server."""

    @property
    def idempotency_key(self) -> str:
        """The same whenever this call is made again: after a retry, a crash or an answer.

        Pass it to services that deduplicate requests. It is empty outside a run.
        """
        return "" if self.execution_info is None else self.execution_info.idempotency_key

    def emit_output_delta(self, delta: Any) -> None:
        """Stream a part of the output; without effect unless such parts are listened to.

        Args:
            delta: The part.
        """
        write = current_writer.get()
        if write is not None:
            write(delta)


@record
class Injected:
    """Which parameters of a tool are injected."""

    state: Mapping[str, str | None]
    """Parameter → key of the state; None for the whole state."""
    optional: frozenset[str]
    """The parameters in `state` that have a default."""
    store: str | None
    runtime: str | None
    hidden: frozenset[str]
    """All parameters that models may not choose, also those that LangChain fills."""

    @property
    def names(self) -> set[str]:
        """The parameters that are filled here."""
        return {*self.state, *(name for name in (self.store, self.runtime) if name)}


def injected_into(tool: BaseTool) -> Injected:
    """The parameters of a tool that are filled in, as its annotations ask."""
    schema: Any = tool.get_input_schema()
    annotations = {**_hints(tool), **get_all_basemodel_annotations(schema)}
    state: dict[str, str | None] = {}
    optional: set[str] = set()
    store = runtime = None
    for name, annotation in annotations.items():
        if (mark := _mark(annotation, InjectedState, name, tool)) is not None:
            state[name] = mark.field if isinstance(mark, InjectedState) else None
            field = schema.model_fields.get(name)
            if field is not None and not field.is_required():
                optional.add(name)
        if _mark(annotation, InjectedStore, name, tool) is not None:
            store = name
        if name == "runtime" or _mark(annotation, ToolRuntime, name, tool) is not None:
            runtime = name
    hidden = {name for name, annotation in annotations.items() if _is_injected(annotation)}
    return Injected(state, frozenset(optional), store, runtime, frozenset(hidden))


def _hints(tool: BaseTool) -> dict[str, Any]:
    """The annotations of the function that the tool calls; of the methods of a class, those of
    what all of them take and has no default: what they can do without is in the schema."""
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    if function is not None:
        return get_type_hints(function, include_extras=True)
    wanted: dict[str, Any] | None = None
    for name in ("_run", "_arun"):
        method = getattr(type(tool), name)
        if method is getattr(BaseTool, name):
            continue
        hints: dict[str, Any] = {}
        with suppress(Exception):  # names for type checkers alone
            hints = get_type_hints(method, include_extras=True)
        defaults = signature(method).parameters
        found = {n: h for n, h in hints.items() if n in defaults and not _has_default(defaults[n])}
        wanted = found if wanted is None else {n: h for n, h in wanted.items() if n in found}
    return wanted or {}


def _has_default(parameter: Parameter) -> bool:
    return parameter.default is not parameter.empty


def with_injected(
    call: ToolCall, injected: Injected, runtime: ToolRuntime[Any, Any], messages_key: str
) -> ToolCall:
    """A call with its injected arguments, in place of any that the model made up."""
    arguments = {name: value for name, value in call["args"].items() if name not in injected.hidden}
    if injected.state:
        state = _as_object(runtime.state, injected, call["name"], messages_key)
        for name, key in injected.state.items():
            value = state if not key else _value(state, key)
            if value is not MISSING:
                arguments[name] = value
            elif name not in injected.optional:
                error = KeyError if isinstance(state, dict) else AttributeError
                raise error(
                    f"Tool '{call['name']}' wants the key '{key}' of the state for its parameter "
                    f"'{name}', but the state does not have that key: give it a default."
                )
    if injected.store:
        if runtime.store is None:
            raise ValueError(
                f"Tool '{call['name']}' wants the store, but the graph has none: compile it with "
                "one, `builder.compile(store=InMemoryStore())`."
            )
        arguments[injected.store] = runtime.store
    if injected.runtime:
        arguments[injected.runtime] = runtime
    return {**call, "args": arguments}


def _as_object(state: Any, injected: Injected, tool: str, messages_key: str) -> Any:
    """The state as something with keys: a list of messages has one."""
    if not isinstance(state, list):
        return state
    wanted = [key for key in injected.state.values() if key and key != messages_key]
    if wanted:
        raise ValueError(
            f"Invalid input to ToolNode. Tool {tool} requires graph state dict as input. "
            f"State should contain fields {', '.join(wanted)}."
        )
    return {messages_key: state}


def _value(state: Any, key: str) -> Any:
    return state.get(key, MISSING) if isinstance(state, dict) else getattr(state, key, MISSING)


def _mark(annotation: Any, kind: type, parameter: str, tool: BaseTool) -> Any:
    """The mark of a kind in an annotation, an instance or the class; None if there is none."""
    found = [part for part in _parts(annotation) if _is_a(part, kind)]
    if len(found) > 1:
        raise ValueError(
            f"Parameter '{parameter}' of tool '{tool.name}' is annotated with {kind.__name__} more "
            f"than once: {found}."
        )
    return found[0] if found else None


def _is_injected(annotation: Any) -> bool:
    """Whether LangChain hides a parameter from models: by its type, or by a mark."""
    if _is_a(get_origin(annotation) or annotation, _DirectlyInjectedToolArg):
        return True
    return any(_is_a(mark, InjectedToolArg) for mark in get_args(annotation)[1:])


def _is_a(part: Any, kind: type) -> bool:
    return isinstance(part, kind) or (isinstance(part, type) and issubclass(part, kind))


def _parts(annotation: Any) -> Iterator[Any]:
    """What an annotation is made of: the alternatives of a union, the marks of `Annotated`."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType, Annotated):
        for part in get_args(annotation):
            yield from _parts(part)
    else:
        yield annotation if origin is None else origin
