"""One program for both libraries: the names of one of them, under one roof."""

from __future__ import annotations

from importlib import import_module
from typing import Any

HOMES = {
    "StateGraph": "graph",
    "START": "graph",
    "END": "graph",
    "MessagesState": "graph",
    "add_messages": "graph.message",
    "Command": "types",
    "CachePolicy": "types",
    "RetryPolicy": "types",
    "Send": "types",
    "interrupt": "types",
    "Interrupt": "types",
    "Overwrite": "types",
    "TracePolicy": "types",
    "omit_payload": "types",
    "entrypoint": "func",
    "task": "func",
    "Runtime": "runtime",
    "NodeTimeoutError": "errors",
    "ParentCommand": "errors",
    "Pregel": "pregel",
    "NodeBuilder": "pregel",
    "EphemeralValue": "channels",
    "LastValue": "channels",
    "Topic": "channels",
    "BinaryOperatorAggregate": "channels",
    "DeltaChannel": "channels",
    "ToolNode": "prebuilt",
    "tools_condition": "prebuilt",
    "InMemorySaver": "checkpoint.memory",
    "InMemoryStore": "store.memory",
    "InMemoryCache": "cache.memory",
}


class Library:
    """What programs import from a library: `Library("langgraph").StateGraph`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        if name == "callbacks":
            return import_module(f"{self.name}.callbacks")
        if name not in HOMES:
            raise AttributeError(name)
        return getattr(import_module(f"{self.name}.{HOMES[name]}"), name)


def names_of(root: str) -> Library:
    """What programs import from the library, whatever it is called there."""
    return Library(root)
