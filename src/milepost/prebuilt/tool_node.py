"""ToolNode, and what tools are given by it."""

from milepost.prebuilt._tools.errors import (
    INVALID_TOOL_NAME_ERROR_TEMPLATE,
    TOOL_CALL_ERROR_TEMPLATE,
    TOOL_EXECUTION_ERROR_TEMPLATE,
    TOOL_INVOCATION_ERROR_TEMPLATE,
    ToolInvocationError,
)

# LangGraph's tests import the next one by this name.
from milepost.prebuilt._tools.errors import handled_types as _infer_handled_types  # noqa: F401
from milepost.prebuilt._tools.injection import InjectedState, InjectedStore, ToolRuntime

# langchain-quickjs imports the next one by this name.
from milepost.prebuilt._tools.injection import injected_into as _get_all_injected_args  # noqa: F401
from milepost.prebuilt._tools.input_output import msg_content_output, tools_condition
from milepost.prebuilt._tools.node import ToolNode
from milepost.prebuilt._tools.request import (
    AsyncToolCallWrapper,
    ToolCallRequest,
    ToolCallWithContext,
    ToolCallWrapper,
)

__all__ = [
    "INVALID_TOOL_NAME_ERROR_TEMPLATE",
    "TOOL_CALL_ERROR_TEMPLATE",
    "TOOL_EXECUTION_ERROR_TEMPLATE",
    "TOOL_INVOCATION_ERROR_TEMPLATE",
    "AsyncToolCallWrapper",
    "InjectedState",
    "InjectedStore",
    "ToolCallRequest",
    "ToolCallWithContext",
    "ToolCallWrapper",
    "ToolInvocationError",
    "ToolNode",
    "ToolRuntime",
    "msg_content_output",
    "tools_condition",
]
