"""A chat model that follows a script, and the names of both libraries' prebuilt parts."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda


class ScriptedModel(BaseChatModel):
    """Says the n-th line of its script in a conversation in which it has spoken n times."""

    script: list[Any]
    """A text, or a list of tool calls `(name, arguments, id)`."""
    structured: Any = None
    heard: list[list[str]] = []
    """What it was asked, each time: the contents of the messages."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        self.heard.append([str(message.content) for message in messages])
        spoken = sum(isinstance(message, AIMessage) for message in messages)
        line = self.script[spoken % len(self.script)]
        if isinstance(line, str):
            message = AIMessage(line, id=f"ai-{spoken}")
        else:
            message = AIMessage("", id=f"ai-{spoken}", tool_calls=[called(*call) for call in line])
        return ChatResult(generations=[ChatGeneration(message=message)])

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        names = [tool if isinstance(tool, dict) else tool.name for tool in tools]
        shown = [
            name if isinstance(name, dict) else {"type": "function", "function": {"name": name}}
            for name in names
        ]
        return self.bind(tools=shown)

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Runnable[Any, Any]:
        def answer(messages: Any) -> Any:
            self.heard.append([str(message.content) for message in messages])
            return self.structured

        return RunnableLambda(answer)


def called(name: str, args: dict[str, Any], id: str) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def calling(*calls: tuple[str, dict[str, Any], str]) -> AIMessage:
    """A message that calls tools."""
    return AIMessage("", id="ai", tool_calls=[called(*call) for call in calls])


def prebuilt_of(root: str) -> Any:
    """What programs import from a library for agents."""
    homes = {
        "prebuilt.chat_agent_executor": ("AgentState", "AgentStatePydantic"),
        "prebuilt.tool_node": (
            *("InjectedState", "InjectedStore", "ToolNode", "ToolRuntime"),
            *("ToolInvocationError", "msg_content_output", "tools_condition"),
        ),
        "prebuilt.tool_validator": ("ValidationNode",),
        "checkpoint.memory": ("InMemorySaver",),
        "store.memory": ("InMemoryStore",),
        "graph": ("END", "START", "MessagesState", "StateGraph"),
        "types": ("Command", "Send", "interrupt"),
        "runtime": ("Runtime",),
    }
    found = {}
    for home, names in homes.items():
        module = importlib.import_module(f"{root}.{home}")
        found.update({name: getattr(module, name) for name in names})
    executor = importlib.import_module(f"{root}.prebuilt.chat_agent_executor")
    return SimpleNamespace(
        root=root, create_react_agent=_quietly(executor.create_react_agent), **found
    )


def _quietly(function: Callable[..., Any]) -> Callable[..., Any]:
    """LangGraph warns that it will move the function elsewhere."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs)

    return call


def shown(value: Any) -> Any:
    """Messages and commands as plain values that can be compared, whatever their ids."""
    if isinstance(value, BaseMessage):
        extra = [(getattr(value, key, None)) for key in ("tool_calls", "tool_call_id", "status")]
        return (value.type, value.content, value.name, *extra)
    if isinstance(value, dict):
        return {key: shown(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(one) for one in value]
    if type(value).__name__ == "Command":
        return ("Command", value.graph, shown(value.update), shown(value.goto))
    if type(value).__name__ == "Send":
        return ("Send", value.node, shown(value.arg))
    return value
