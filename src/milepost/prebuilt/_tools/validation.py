"""ValidationNode: checks the arguments of tool calls against schemas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool, create_schema_from_function
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import BaseModel, ValidationError
from pydantic.v1 import BaseModel as OldBaseModel
from pydantic.v1 import ValidationError as OldValidationError

FormatError = Callable[[BaseException, ToolCall, type[BaseModel]], str]


def _format_error(error: BaseException, call: ToolCall, schema: type[BaseModel]) -> str:  # noqa: ARG001
    return f"{error!r}\n\nRespond after fixing all validation errors."


class ValidationNode(Runnable[Any, Any]):
    """Answers the tool calls of the last message with their checked arguments, as JSON.

    A call with wrong arguments is answered with the errors, in a message that has `is_error` in its
    `additional_kwargs`. The tools are not run.

    Args:
        schemas: Pydantic models, tools with one, or functions whose parameters are one.
        format_error: Makes the text of the answer from an error, the call and the schema.
        name: What the node is called.
        tags: Tags of its runs.

    Examples:
        >>> import warnings
        >>> from langchain_core.messages import AIMessage
        >>> from milepost.prebuilt import ValidationNode
        >>> def weather(city: str) -> str:
        ...     '''The weather in a city.'''
        >>> with warnings.catch_warnings(action="ignore"):
        ...     node = ValidationNode([weather])
        >>> call = {"name": "weather", "args": {"city": "Paris"}, "id": "1"}
        >>> node.invoke([AIMessage("", tool_calls=[call])])[0].content
        '{"city":"Paris"}'
    """

    def __init__(
        self,
        schemas: Sequence[BaseTool | type[BaseModel] | Callable[..., Any]],
        *,
        format_error: FormatError | None = None,
        name: str = "validation",
        tags: list[str] | None = None,
    ) -> None:
        self.name = name
        self.tags = tags
        self._format_error = format_error or _format_error
        self.schemas_by_name: dict[str, type[BaseModel]] = dict(map(_named_schema, schemas))

    def invoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> Any:
        """Check the calls.

        Args:
            input: A state with messages, or a list of messages.
            config: Not used.
            **kwargs: Not used.
        """
        messages = input if isinstance(input, list) else input.get("messages")
        if not messages:
            raise ValueError("No message found in input: ValidationNode needs a list of messages.")
        if not isinstance(messages[-1], AIMessage):
            raise ValueError(f"Last message is not an AIMessage, but {messages[-1]!r}.")
        answers = [self._answer(call) for call in messages[-1].tool_calls]
        return answers if isinstance(input, list) else {"messages": answers}

    def _answer(self, call: ToolCall) -> ToolMessage:
        schema: Any = self.schemas_by_name[call["name"]]
        try:
            if issubclass(schema, BaseModel):
                content = schema.model_validate(call["args"]).model_dump_json()
            else:
                content = schema.validate(call["args"]).json()
        except (ValidationError, OldValidationError) as error:
            return ToolMessage(
                self._format_error(error, call, schema),
                name=call["name"],
                tool_call_id=call["id"],
                additional_kwargs={"is_error": True},
            )
        return ToolMessage(content, name=call["name"], tool_call_id=call["id"])


def _named_schema(given: Any) -> tuple[str, type[BaseModel]]:
    if isinstance(given, BaseTool):
        schema = given.args_schema
        if not isinstance(schema, type) or not is_basemodel_subclass(schema):
            raise ValueError(
                f"Tool {given.name} has the args_schema {schema!r}: a ValidationNode needs a "
                "pydantic model."
            )
        return given.name, cast("type[BaseModel]", schema)
    if isinstance(given, type) and issubclass(given, (BaseModel, OldBaseModel)):
        return given.__name__, cast("type[BaseModel]", given)
    if callable(given):
        schema = create_schema_from_function("Validation", given)
        return given.__name__, cast("type[BaseModel]", schema)
    raise ValueError(f"A ValidationNode takes pydantic models, tools and functions, not {given!r}.")
