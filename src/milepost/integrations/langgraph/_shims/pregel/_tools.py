"""Needed by langgraph-prebuilt: where a tool finds the stream for what it says while it runs."""

from milepost._engine.streaming.tool_calls import current_writer as _tool_call_writer

__all__ = ["_tool_call_writer"]
