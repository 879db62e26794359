"""create_react_agent, and the states of the agents that it makes."""

from milepost.prebuilt._agent.create import create_react_agent, create_tool_calling_executor
from milepost.prebuilt._agent.model import Prompt
from milepost.prebuilt._agent.model import chat_model_of as _get_model  # noqa: F401
from milepost.prebuilt._agent.model import should_bind_tools as _should_bind_tools  # noqa: F401
from milepost.prebuilt._agent.states import (
    AgentState,
    AgentStatePydantic,
    AgentStateWithStructuredResponse,
    AgentStateWithStructuredResponsePydantic,
    StateSchema,
    StateSchemaType,
    StructuredResponse,
    StructuredResponseSchema,
)

# langgraph-supervisor and LangGraph's tests import the next three by these names.
from milepost.prebuilt._agent.steps import check_history as _validate_chat_history  # noqa: F401

__all__ = [
    "AgentState",
    "AgentStatePydantic",
    "AgentStateWithStructuredResponse",
    "AgentStateWithStructuredResponsePydantic",
    "Prompt",
    "StateSchema",
    "StateSchemaType",
    "StructuredResponse",
    "StructuredResponseSchema",
    "create_react_agent",
    "create_tool_calling_executor",
]
