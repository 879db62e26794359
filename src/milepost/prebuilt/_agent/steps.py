"""The nodes of an agent that ask its model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from milepost.prebuilt._agent.model import AgentModel, chat_model_of
from milepost.prebuilt._agent.states import MODEL_INPUT, get, with_messages
from milepost.prebuilt._effects import Effects, Invoke

OUT_OF_STEPS = "Sorry, need more steps to process this request."
"""What the agent says when the recursion limit leaves no room for the tools. Documented."""


def call_model(
    model: AgentModel,
    name: str | None,
    return_direct: Collection[str],
    has_hook: bool,
    state: Any,
    config: RunnableConfig,
) -> Effects[dict[str, Any]]:
    """Ask the model what to do next; its answer, named after the agent, is an update of the state.

    A hook may give the model other messages than the state has.
    """
    state = _model_input(state, has_hook)
    chain = yield from model.chain(state)
    response = yield Invoke(chain, state, config)
    response.name = name
    if _is_too_late(state, response, return_direct):
        response = AIMessage(OUT_OF_STEPS, id=response.id)
    return {"messages": [response]}


def _model_input(state: Any, has_hook: bool) -> Any:
    messages: Sequence[Any] | None = get(state, "messages")
    if has_hook:
        messages = get(state, MODEL_INPUT) or messages
    if messages is None:
        wanted = f"'{MODEL_INPUT}' or 'messages'" if has_hook else "'messages'"
        raise ValueError(f"Expected input to call_model to have {wanted} key, but got {state}")
    check_history(messages)
    return with_messages(state, messages)


def _is_too_late(state: Any, response: Any, return_direct: Collection[str]) -> bool:
    """Whether the recursion limit leaves no step for the tools that the model calls."""
    left = get(state, "remaining_steps")
    if left is None or not isinstance(response, AIMessage):
        return False
    if all(call["name"] in return_direct for call in response.tool_calls) and left < 1:
        return True
    return bool(response.tool_calls) and left < 2


def ask_for_structure(
    model: AgentModel, response_format: Any, state: Any, config: RunnableConfig
) -> Effects[dict[str, Any]]:
    """Ask the model for the final answer in the form of a schema, or of a prompt and a schema."""
    messages, schema = list(get(state, "messages")), response_format
    if isinstance(schema, tuple):
        prompt, schema = schema
        messages.insert(0, SystemMessage(prompt))
    chain = yield from model.chain(state)
    structured = chat_model_of(chain).with_structured_output(schema)
    response = yield Invoke(structured, messages, config)
    return {"structured_response": response}


def check_history(messages: Sequence[BaseMessage]) -> None:
    """Raise ValueError if a tool call has no answer: most models refuse such a conversation."""
    answered = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    unanswered = [
        call
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
        if call["id"] not in answered
    ]
    if unanswered:
        raise ValueError(
            "Found AIMessages with tool_calls that do not have a corresponding ToolMessage, which "
            f"models refuse. The first of them: {unanswered[:3]}. Let the tools run first, or "
            "add a ToolMessage with the id of each call."
        )
