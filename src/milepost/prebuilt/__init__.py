"""Agents and tool nodes for LangChain's models and tools, which are loaded when they are used."""

from typing import TYPE_CHECKING

from milepost._internal.lazy_imports import on_demand

if TYPE_CHECKING:
    from milepost.prebuilt._tools.streaming import ToolCallTransformer
    from milepost.prebuilt.chat_agent_executor import create_react_agent
    from milepost.prebuilt.tool_node import (
        InjectedState,
        InjectedStore,
        ToolNode,
        ToolRuntime,
        tools_condition,
    )
    from milepost.prebuilt.tool_validator import ValidationNode
else:
    __getattr__, __dir__ = on_demand(
        __name__,
        {
            "InjectedState": "milepost.prebuilt.tool_node",
            "InjectedStore": "milepost.prebuilt.tool_node",
            "ToolCallTransformer": "milepost.prebuilt._tools.streaming",
            "ToolNode": "milepost.prebuilt.tool_node",
            "ToolRuntime": "milepost.prebuilt.tool_node",
            "ValidationNode": "milepost.prebuilt.tool_validator",
            "create_react_agent": "milepost.prebuilt.chat_agent_executor",
            "tools_condition": "milepost.prebuilt.tool_node",
        },
    )

__all__ = [
    "InjectedState",
    "InjectedStore",
    "ToolCallTransformer",
    "ToolNode",
    "ToolRuntime",
    "ValidationNode",
    "create_react_agent",
    "tools_condition",
]
