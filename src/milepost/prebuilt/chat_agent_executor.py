"""create_react_agent: a graph in which a model calls tools until it has its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from milepost._internal.noted_types import note_types
from milepost._internal.older_names import older_names
from milepost._internal.warn import Strictness
from milepost.constants import END
from milepost.graph.state import StateGraph
from milepost.prebuilt._agent.loop import (
    AFTER,
    AGENT,
    BEFORE,
    STRUCTURE,
    TOOLS,
    Routes,
    ask_for_structure,
    call_model,
)

# langgraph-supervisor and LangGraph's tests import this one, _get_model and _should_bind_tools.
from milepost.prebuilt._agent.loop import check_history as _validate_chat_history  # noqa: F401
from milepost.prebuilt._agent.model import AgentModel, Model, Prompt
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
    model_input_schema,
)
from milepost.prebuilt._effects import EffectRunnable
from milepost.prebuilt._tools.node import ToolNode

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from milepost.graph.state import CompiledStateGraph
    from milepost.store.base import BaseStore
    from milepost.types import Checkpointer

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

_OLDER_NAMES = frozenset({"config_schema"})


def create_react_agent(
    model: Model,
    tools: Sequence[BaseTool | Callable[..., Any] | dict[str, Any]] | ToolNode,
    *,
    prompt: Prompt[Any] | None = None,
    response_format: StructuredResponseSchema | tuple[str, StructuredResponseSchema] | None = None,
    pre_model_hook: Any = None,
    post_model_hook: Any = None,
    state_schema: type[Any] | None = None,
    context_schema: type[Any] | None = None,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    interrupt_before: list[str] | None = None,
    interrupt_after: list[str] | None = None,
    debug: bool = False,
    version: Literal["v1", "v2"] = "v2",
    name: str | None = None,
    **deprecated_kwargs: Any,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """An agent: a graph that asks a model, makes the tool calls that it wants, and asks again.

    If the recursion limit leaves no step for the tools, the agent says so instead of failing.

    Args:
        model: A chat model, its name (`"provider:model"`, with the package `langchain`), or a
            function `(state, runtime)`, sync or async, that returns a model with its tools bound.
        tools: Tools, functions, dicts of tools that the provider of the model runs itself, or a
            ToolNode.
        prompt: A text or SystemMessage to begin with, or a function or runnable that makes the
            input of the model from the state.
        response_format: A schema, or a prompt and a schema: when the loop has ended, the model is
            asked once more, and its answer in that form is the key `structured_response`.
        pre_model_hook: A node before each call of the model. It returns `messages`, to change the
            state, or `llm_input_messages`, which only the model sees.
        post_model_hook: A node after each call of the model.
        state_schema: A schema with the keys `messages` and `remaining_steps`, and with
            `structured_response` where there is a response format.
        context_schema: What `runtime.context` is.
        checkpointer: As for `StateGraph.compile`.
        store: As for `StateGraph.compile`.
        interrupt_before: As for `StateGraph.compile`.
        interrupt_after: As for `StateGraph.compile`.
        debug: As for `StateGraph.compile`.
        version: "v2" makes each tool call in a task of the tools node of its own, "v1" makes all
            calls of a message in one. Either way each call is stored as it ends.
        name: Of the graph, and of the messages of its model.
        **deprecated_kwargs: An older name, which warns: `config_schema`.

    Examples:
        >>> from langchain_core.language_models.fake_chat_models import FakeListChatModel
        >>> from milepost.prebuilt import create_react_agent
        >>> agent = create_react_agent(FakeListChatModel(responses=["Hello"]), tools=[])
        >>> result = agent.invoke({"messages": [("user", "Hi")]})
        >>> [message.content for message in result["messages"]]
        ['Hi', 'Hello']
    """
    if unknown := deprecated_kwargs.keys() - _OLDER_NAMES:
        raise TypeError(f"create_react_agent() got unexpected keyword arguments: {unknown}")
    strictness = Strictness()
    older = older_names("create_react_agent", deprecated_kwargs, _OLDER_NAMES, strictness)
    context_schema = context_schema or older.get("context_schema")
    if version not in ("v1", "v2"):
        raise ValueError(f"Invalid version {version}. Supported versions are 'v1' and 'v2'.")
    schema = _state_schema(state_schema, with_response=response_format is not None)
    if isinstance(tools, ToolNode):
        tool_node, builtin_tools = tools, []
    else:
        builtin_tools = [tool for tool in tools if isinstance(tool, dict)]
        tool_node = ToolNode([tool for tool in tools if not isinstance(tool, dict)])
    known = list(tool_node.tools_by_name.values())
    agent_model = AgentModel(model, prompt, known, builtin_tools)
    return_direct = {tool.name for tool in known if tool.return_direct}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(schema, context_schema)
    has_hook = pre_model_hook is not None
    builder.add_node(
        AGENT,
        EffectRunnable(
            partial(call_model, agent_model, name, return_direct, has_hook, strictness),
            "call_model",
        ),
        input_schema=model_input_schema(schema) if has_hook else schema,
    )
    routes = Routes(
        entry=BEFORE if has_hook else AGENT,
        finish=END if response_format is None else STRUCTURE,
        has_after_hook=post_model_hook is not None,
        sends=version == "v2",
        return_direct=return_direct,
    )
    if known:
        builder.add_node(TOOLS, tool_node, input_schema=schema)
    if has_hook:
        builder.add_node(BEFORE, pre_model_hook)
        builder.add_edge(BEFORE, AGENT)
    builder.set_entry_point(routes.entry)
    if post_model_hook is not None:
        builder.add_node(AFTER, post_model_hook)
        builder.add_edge(AGENT, AFTER)
    if response_format is not None:
        _allow_types(response_format)
        structure = partial(ask_for_structure, agent_model, response_format)
        builder.add_node(STRUCTURE, EffectRunnable(structure, STRUCTURE))
    routes.add_to(builder, has_tools=bool(known))
    return builder.compile(
        checkpointer=checkpointer,
        store=store,
        interrupt_before=interrupt_before,
        interrupt_after=interrupt_after,
        debug=debug,
        name=name,
    )


create_tool_calling_executor = create_react_agent
"""The former name of create_react_agent."""


def _state_schema(given: type[Any] | None, *, with_response: bool) -> type[Any]:
    if given is None:
        return AgentStateWithStructuredResponse if with_response else AgentState
    required = {"messages", "remaining_steps"}
    if with_response:
        required.add("structured_response")
    if missing := required - set(get_type_hints(given)):
        raise ValueError(
            f"Missing required key(s) {missing} in state_schema: {given.__name__} has to declare "
            "them."
        )
    return given


def _allow_types(response_format: Any) -> None:
    """Allow the final answer to be stored."""
    schema = response_format[1] if isinstance(response_format, tuple) else response_format
    if not isinstance(schema, dict):
        note_types(schema)
