"""The loop of an agent: the nodes that ask its model, and the edges that say what comes next."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig

from milepost._internal.dataclass_tools import record
from milepost._internal.warn import Strictness
from milepost.constants import END
from milepost.graph.state import StateGraph
from milepost.prebuilt._agent.model import AgentModel, chat_model_of
from milepost.prebuilt._agent.states import MODEL_INPUT, get, with_messages
from milepost.prebuilt._effects import Effects, Invoke
from milepost.prebuilt._tools.errors import error_message
from milepost.prebuilt._tools.input_output import with_answers
from milepost.types import Send

AGENT, TOOLS = "agent", "tools"
BEFORE, AFTER = "pre_model_hook", "post_model_hook"
STRUCTURE = "generate_structured_response"
"""The names of the nodes."""

OUT_OF_STEPS = "Sorry, need more steps to process this request."
"""What the agent says when the recursion limit leaves no room for the tools. Documented."""

# -- nodes


def call_model(
    model: AgentModel,
    name: str | None,
    return_direct: Collection[str],
    has_hook: bool,
    strictness: Strictness,
    state: Any,
    config: RunnableConfig,
) -> Effects[dict[str, Any]]:
    """Ask the model what to do next; its answer, named after the agent, is an update of the state.

    A hook may give the model other messages than the state has.
    """
    state = _model_input(state, has_hook, strictness)
    chain = yield from model.chain(state)
    response = yield Invoke(chain, state, config)
    response.name = name
    if _is_too_late(state, response, return_direct):
        response = AIMessage(OUT_OF_STEPS, id=response.id)
    return {"messages": [response]}


def _model_input(state: Any, has_hook: bool, strictness: Strictness) -> Any:
    messages: Sequence[Any] | None = get(state, "messages")
    if has_hook:
        messages = get(state, MODEL_INPUT) or messages
    if messages is None:
        wanted = f"'{MODEL_INPUT}' or 'messages'" if has_hook else "'messages'"
        raise ValueError(f"Expected input to call_model to have {wanted} key, but got {state}")
    return with_messages(state, _history(messages, strictness))


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
    messages, schema = with_answers(get(state, "messages"), _unfinished), response_format
    if isinstance(schema, tuple):
        prompt, schema = schema
        messages.insert(0, SystemMessage(prompt))
    chain = yield from model.chain(state)
    structured = chat_model_of(chain).with_structured_output(schema)
    response = yield Invoke(structured, messages, config)
    return {"structured_response": response}


def check_history(messages: Sequence[BaseMessage]) -> None:
    """Raise ValueError if a tool call has no answer: most models refuse such a conversation."""
    if unanswered := _unanswered(messages):
        raise _refusal(unanswered)


def _history(messages: Sequence[BaseMessage], strictness: Strictness) -> Sequence[BaseMessage]:
    """What the model is given: it is told of calls that the conversation has left behind.

    Their tools failed, or their run was cancelled, and the user went on. Calls at the very end are
    still to be made. The state keeps what was said.
    """
    unanswered = _unanswered(messages)
    if not unanswered:
        return messages
    last = messages[-1]
    if isinstance(last, AIMessage) and unanswered[-1] in last.tool_calls:
        raise _refusal(unanswered)
    told = with_answers(messages, _unfinished)
    check_history(told)
    strictness.check(
        "unfinished calls",
        partial(_refusal, unanswered),
        "The model is told that these calls did not finish.",
    )
    return told


def _unfinished(call: ToolCall) -> ToolMessage | None:
    """The answer to a call that has none; None if the call has no id to be answered by."""
    if call["id"] is None:
        return None
    return error_message(
        call,
        f"The call of '{call['name']}' did not finish, or its result was lost. It may have had "
        "effects.",
    )


def _unanswered(messages: Sequence[BaseMessage]) -> list[ToolCall]:
    answered = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    return [
        call
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
        if call["id"] not in answered
    ]


def _refusal(unanswered: Sequence[ToolCall]) -> ValueError:
    return ValueError(
        "Found AIMessages with tool_calls that do not have a corresponding ToolMessage, which "
        f"models refuse. The first of them: {unanswered[:3]}. Let the tools run first, or "
        "add a ToolMessage with the id of each call."
    )


# -- edges


@record
class Routes:
    """The edges of an agent."""

    entry: str
    """The node with which each round begins."""
    finish: str
    """The node after an answer without tool calls, not counting hooks."""
    has_after_hook: bool
    sends: bool
    """Whether each call gets a task of the tools node."""
    return_direct: Collection[str]
    """Tools after which the agent ends."""

    def add_to(self, builder: StateGraph[Any, Any, Any, Any], *, has_tools: bool) -> None:
        """Add the edges after the model and after the tools to a graph."""
        if not has_tools:
            if self.finish != END:
                builder.add_edge(AFTER if self.has_after_hook else AGENT, self.finish)
            return
        if self.has_after_hook:
            targets = [self.entry, TOOLS, self.finish]
            builder.add_conditional_edges(AFTER, self.post_model_hook_router, targets)
        else:
            builder.add_conditional_edges(AGENT, self.should_continue, [TOOLS, self.finish])
        if self.return_direct:
            builder.add_conditional_edges(TOOLS, self.route_tool_responses, [self.entry, END])
        else:
            builder.add_edge(TOOLS, self.entry)

    def should_continue(self, state: Any) -> str | list[Send]:
        """After the model."""
        last = get(state, "messages")[-1]
        if not isinstance(last, AIMessage) or not last.tool_calls:
            return self.finish
        return _each(last.tool_calls) if self.sends else TOOLS

    def post_model_hook_router(self, state: Any) -> str | list[Send]:
        """After the hook that follows the model: to the calls that it left unanswered."""
        messages = get(state, "messages")
        answered = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
        last = next(m for m in reversed(messages) if isinstance(m, AIMessage))
        if pending := [call for call in last.tool_calls if call["id"] not in answered]:
            return _each(pending)
        return self.entry if isinstance(messages[-1], ToolMessage) else self.finish

    def route_tool_responses(self, state: Any) -> str:
        """After the tools, if some of them end the agent."""
        for message in reversed(get(state, "messages")):
            if isinstance(message, ToolMessage):
                if message.name in self.return_direct:
                    return END
                continue
            # Parallel calls are answered one by one: the one that ends the agent may come later.
            calls = message.tool_calls if isinstance(message, AIMessage) else ()
            return END if any(c["name"] in self.return_direct for c in calls) else self.entry
        return self.entry


def _each(calls: Sequence[ToolCall]) -> list[Send]:
    """A task for each call. The state is not sent along: the tools node reads it."""
    return [Send(TOOLS, [{**call, "type": "tool_call"}]) for call in calls]
