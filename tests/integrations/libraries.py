"""One name for what both libraries offer, so that a program is written once and run on both."""

from __future__ import annotations

import importlib
from typing import Any


class Library:
    """`Library("langgraph").StateGraph`, `Library("milepost").StateGraph`, and so on."""

    _HOMES = {
        "StateGraph": "graph",
        "START": "graph",
        "END": "graph",
        "MessagesState": "graph",
        "add_messages": "graph.message",
        "Command": "types",
        "Interrupt": "types",
        "Overwrite": "types",
        "Send": "types",
        "RetryPolicy": "types",
        "TracePolicy": "types",
        "interrupt": "types",
        "omit_payload": "types",
        "DeltaChannel": "channels",
        "entrypoint": "func",
        "task": "func",
        "InMemorySaver": "checkpoint.memory",
        "InMemoryStore": "store.memory",
        "Runtime": "runtime",
        "ToolNode": "prebuilt",
        "tools_condition": "prebuilt",
    }

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        if name == "callbacks":
            return importlib.import_module(f"{self.name}.callbacks")
        return getattr(importlib.import_module(f"{self.name}.{self._HOMES[name]}"), name)


LANGGRAPH = Library("langgraph")
MILEPOST = Library("milepost")
