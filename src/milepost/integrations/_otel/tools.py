"""Which tasks of a run are tool calls."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from opentelemetry.util.types import AttributeValue

from milepost.integrations._otel import names

if TYPE_CHECKING:
    from milepost._engine.superstep.plan import Task

_TOOL_NODE = "milepost.prebuilt._tools.node"


def tool_call_of(task: Task) -> dict[str, AttributeValue] | None:
    """What the conventions say of a call that a ToolNode makes as a task; None for other tasks."""
    module = sys.modules.get(_TOOL_NODE)
    if module is None or not task.called:
        return None
    if not isinstance(task.node.callee.target, module.ToolNode):
        return None
    call = task.input.call
    return {
        names.OPERATION: names.EXECUTE_TOOL,
        names.TOOL: call["name"],
        names.TOOL_CALL: call["id"] or "",
        names.TOOL_TYPE: "function",
    }
