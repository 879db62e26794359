"""Needed by langchain's create_agent and langgraph-prebuilt."""

from milepost.stream import ProtocolEvent, StreamTransformer

__all__ = ["ProtocolEvent", "StreamTransformer"]
