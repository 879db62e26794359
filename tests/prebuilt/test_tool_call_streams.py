"""`ToolCallTransformer`: the tool calls of a run as streams, with the parts of their outputs."""

from __future__ import annotations

import asyncio
from typing import Any

from fake_models import calling
from langchain_core.tools import tool

from milepost.graph import START, MessagesState, StateGraph
from milepost.prebuilt import ToolCallTransformer, ToolNode, ToolRuntime


@tool
def count(to: int, runtime: ToolRuntime) -> str:
    """Count."""
    for n in range(to):
        runtime.emit_output_delta(n)
    return f"counted to {to}"


def graph() -> Any:
    builder = StateGraph(MessagesState).add_node("tools", ToolNode([count]))
    return builder.add_edge(START, "tools").compile(transformers=[ToolCallTransformer])


INPUT = {"messages": [calling(("count", {"to": 2}, "1"))]}
CALLS = [("1", "count", [0, 1], "counted to 2", None)]


def test_calls_are_streamed_with_the_parts_of_their_output():
    run = graph().stream_events(INPUT, version="v3")
    found = [
        (call.tool_call_id, call.tool_name, list(call), call.output, call.error)
        for call in run.tool_calls
    ]
    assert found == CALLS


def test_calls_are_streamed_on_a_loop():
    async def main() -> list[Any]:
        run = await graph().astream_events(INPUT, version="v3")
        return [
            (call.tool_call_id, call.tool_name, [n async for n in call], call.output, call.error)
            async for call in run.tool_calls
        ]

    assert asyncio.run(main()) == CALLS
