"""One program for both libraries: the names of one of them, under one roof."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

HOMES = {
    "StateGraph": "graph",
    "START": "graph",
    "Command": "types",
    "CachePolicy": "types",
    "RetryPolicy": "types",
    "Send": "types",
    "interrupt": "types",
    "entrypoint": "func",
    "task": "func",
    "NodeTimeoutError": "errors",
    "ParentCommand": "errors",
    "Pregel": "pregel",
    "NodeBuilder": "pregel",
    "EphemeralValue": "channels",
    "LastValue": "channels",
    "Topic": "channels",
    "BinaryOperatorAggregate": "channels",
    "InMemorySaver": "checkpoint.memory",
    "InMemoryCache": "cache.memory",
}


def names_of(root: str) -> Any:
    """What programs import from the library, whatever it is called there."""
    found = {
        name: getattr(importlib.import_module(f"{root}.{home}"), name)
        for name, home in HOMES.items()
    }
    return SimpleNamespace(name=root, **found)
