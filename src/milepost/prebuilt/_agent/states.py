"""The state of an agent, and how functions of an agent read it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any, NotRequired, TypeAlias, TypeVar

from langchain_core.messages import AnyMessage, BaseMessage
from pydantic import BaseModel, create_model
from typing_extensions import TypedDict

from milepost.graph.message import add_messages
from milepost.managed import RemainingSteps

StructuredResponse: TypeAlias = dict[str, Any] | BaseModel
StructuredResponseSchema: TypeAlias = dict[str, Any] | type[BaseModel]


class AgentState(TypedDict):
    """The state of an agent.

    Examples:
        >>> from milepost.prebuilt.chat_agent_executor import AgentState
        >>> class State(AgentState):
        ...     user: str
    """

    messages: Annotated[Sequence[BaseMessage], add_messages]
    """The conversation."""
    remaining_steps: NotRequired[RemainingSteps]
    """How many steps the recursion limit still allows."""


class AgentStatePydantic(BaseModel):
    """The state of an agent, as a pydantic model.

    Examples:
        >>> from milepost.prebuilt.chat_agent_executor import AgentStatePydantic
        >>> class State(AgentStatePydantic):
        ...     user: str
    """

    messages: Annotated[Sequence[BaseMessage], add_messages]
    remaining_steps: RemainingSteps = 25


class AgentStateWithStructuredResponse(AgentState):
    """The state of an agent that ends with an answer in a given form.

    Examples:
        >>> from milepost.prebuilt.chat_agent_executor import AgentStateWithStructuredResponse
        >>> class State(AgentStateWithStructuredResponse):
        ...     user: str
    """

    structured_response: StructuredResponse
    """The answer in that form."""


class AgentStateWithStructuredResponsePydantic(AgentStatePydantic):
    """The same, as a pydantic model.

    Examples:
        >>> from milepost.prebuilt.chat_agent_executor import (
        ...     AgentStateWithStructuredResponsePydantic,
        ... )
        >>> class State(AgentStateWithStructuredResponsePydantic):
        ...     user: str
    """

    structured_response: StructuredResponse


StateSchema = TypeVar("StateSchema", bound=AgentState | AgentStatePydantic)
StateSchemaType: TypeAlias = type[StateSchema]

MODEL_INPUT = "llm_input_messages"
"""The key under which a hook before the model gives it messages that are not kept."""


def get(state: Any, key: str) -> Any:
    """The value of a key; None if there is none."""
    return state.get(key) if isinstance(state, dict) else getattr(state, key, None)


def with_messages(state: Any, messages: Sequence[Any]) -> Any:
    """A copy of a state with other messages."""
    if isinstance(state, BaseModel):
        return state.model_copy(update={"messages": messages})
    if isinstance(state, dict):
        return {**state, "messages": messages}
    return dataclasses.replace(state, messages=messages)


def model_input_schema(state_schema: type[Any]) -> type[Any]:
    """The schema of an agent's state, and the key for messages that only the model sees."""
    name = "CallModelInput"
    if isinstance(state_schema, type) and issubclass(state_schema, BaseModel):
        empty: Any = (list[AnyMessage], [])
        return create_model(name, __base__=state_schema, **{MODEL_INPUT: empty})
    if dataclasses.is_dataclass(state_schema):
        field: list[AnyMessage] = dataclasses.field(default_factory=list)
        bases: tuple[type[Any], ...] = (state_schema,)
        added = [(MODEL_INPUT, list[AnyMessage], field)]
        return dataclasses.make_dataclass(name, added, bases=bases, kw_only=True)

    class CallModelInput(state_schema):  # type: ignore[misc]
        llm_input_messages: list[AnyMessage]

    return CallModelInput
