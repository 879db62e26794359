"""Which failures of tool calls become messages to the model, and what the messages say."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.tools import ToolException

from milepost.errors import GraphBubbleUp, is_invalid_resume

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

# What models read. Programs compare the results of tools with these texts, so they are the
# documented ones.
INVALID_TOOL_NAME_ERROR_TEMPLATE = (
    "Error: {requested_tool} is not a valid tool, try one of [{available_tools}]."
)
TOOL_CALL_ERROR_TEMPLATE = "Error: {error}\n Please fix your mistakes."
TOOL_EXECUTION_ERROR_TEMPLATE = (
    "Error executing tool '{tool_name}' with kwargs {tool_kwargs} with error:\n"
    " {error}\n"
    " Please fix the error and try again."
)
TOOL_INVOCATION_ERROR_TEMPLATE = (
    "Error invoking tool '{tool_name}' with kwargs {tool_kwargs} with error:\n"
    " {error}\n"
    " Please fix the error and try again."
)


class ToolInvocationError(ToolException):
    """A model called a tool with arguments that the tool does not take."""

    def __init__(
        self,
        tool_name: str,
        source: ValidationError,
        tool_kwargs: dict[str, Any],
        filtered_errors: list[ErrorDetails] | None = None,
    ) -> None:
        """`filtered_errors` are those of `source` that the model can correct."""
        if filtered_errors is None:
            shown = str(source)
        else:
            shown = "\n".join(map(_line, filtered_errors))
        self.message = TOOL_INVOCATION_ERROR_TEMPLATE.format(
            tool_name=tool_name, tool_kwargs=tool_kwargs, error=shown
        )
        self.tool_name = tool_name
        self.tool_kwargs = tool_kwargs
        self.source = source
        self.filtered_errors = filtered_errors
        super().__init__(self.message)


def _line(error: ErrorDetails) -> str:
    """Where the error is, unless it is in all arguments together, and what is wrong."""
    place, text = ".".join(map(str, error.get("loc", ()))), error.get("msg", "Unknown error")
    return f"{place}: {text}" if place else text


def correctable_errors(error: ValidationError, injected: Collection[str]) -> list[ErrorDetails]:
    """The errors in arguments that the model chose, without the values of injected arguments.

    A validator of the whole schema names no argument: what the validator says is for the model.
    """
    found: list[ErrorDetails] = []
    for detail in error.errors():
        if detail["loc"] and detail["loc"][0] in injected:
            continue
        given = detail.get("input")
        if isinstance(given, dict):
            kept = {name: value for name, value in given.items() if name not in injected}
            detail = {**detail, "input": kept}
        found.append(detail)
    return found


HandleToolErrors: TypeAlias = (
    bool | str | Callable[..., str] | type[Exception] | tuple[type[Exception], ...]
)
"""Which errors of tools become messages: all or none, those of some types, or what a function is
annotated to take. A text is the message; a function makes the message."""


def only_invocation_errors(error: Exception) -> str:
    """The default: a model is told of its wrong arguments; other errors end the run."""
    if isinstance(error, ToolInvocationError):
        return error.message
    raise error


def is_control_flow(error: Exception) -> bool:
    """Whether an error is an interrupt, a command or a wrong answer, which no policy handles."""
    return isinstance(error, GraphBubbleUp) or is_invalid_resume(error)


def handles(policy: HandleToolErrors, error: Exception) -> bool:
    """Whether an error becomes a message."""
    if not policy:
        return False
    if isinstance(policy, (type, tuple)):
        return isinstance(error, policy)
    if callable(policy):
        return isinstance(error, handled_types(policy))
    return True


def text_of(policy: HandleToolErrors, error: Exception) -> str:
    """The message to the model about an error."""
    if isinstance(policy, str):
        return policy
    if isinstance(policy, (bool, tuple, type)):
        return TOOL_CALL_ERROR_TEMPLATE.format(error=repr(error))
    if callable(policy):
        return policy(error)
    raise ValueError(
        "handle_tool_errors must be a bool, a text, an exception type, a tuple of them or a "
        f"function, not {policy!r}."
    )


def handled_types(handler: Callable[..., str]) -> tuple[type[Exception], ...]:
    """The errors that a handler's first parameter is annotated with; all, without annotation."""
    parameters = list(inspect.signature(handler).parameters.values())
    if len(parameters) == 2 and parameters[0].name in ("self", "cls"):
        del parameters[0]
    hint = get_type_hints(handler).get(parameters[0].name) if parameters else None
    if hint is None:
        return (Exception,)
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise ValueError(
                f"The parameter '{parameters[0].name}' of the error handler {handler!r} is "
                f"annotated with {hint!r}, which names no exception type: write "
                "`def handler(e: ValueError)` or `def handler(e: ValueError | TypeError)`."
            )
    return tuple(kinds)


def error_message(call: ToolCall, content: str) -> ToolMessage:
    """The result of a call that has failed."""
    return ToolMessage(content, name=call["name"], tool_call_id=call["id"], status="error")
