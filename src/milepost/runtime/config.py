"""Configs: what a caller says about a run, and what nodes are told."""

from __future__ import annotations

import os
from typing import Any

from milepost.errors import GraphBuildError
from milepost.types import RunnableConfig

DEFAULT_RECURSION_LIMIT = int(os.environ.get("MILEPOST_DEFAULT_RECURSION_LIMIT", "10007"))

_MAPPINGS = ("configurable", "metadata")


def merge_configs(*configs: RunnableConfig | None) -> RunnableConfig:
    """One config out of several; later ones win, mappings and tags are joined."""
    merged: dict[str, Any] = {}
    for config in configs:
        for key, value in (config or {}).items():
            if value is None:
                continue
            if key in _MAPPINGS:
                if not isinstance(value, dict):
                    raise TypeError(f"config['{key}'] must be a dict, not {type(value).__name__}.")
                merged[key] = {**merged.get(key, {}), **value}
            elif key == "tags":
                merged[key] = [*merged.get(key, []), *value]  # type: ignore[misc]
            else:
                merged[key] = value
    return merged  # type: ignore[return-value]


def recursion_limit(config: RunnableConfig) -> int:
    """How many super-steps a run may take."""
    limit = config.get("recursion_limit", DEFAULT_RECURSION_LIMIT)
    if limit < 1:
        raise ValueError(f"recursion_limit must be at least 1, not {limit}.")
    return limit


def check_interrupt_nodes(names: Any, nodes: Any) -> None:
    """Raise GraphBuildError if an interrupt list names a node that is not there."""
    if names and names != "*":
        for name in names:
            if name not in nodes:
                raise GraphBuildError(
                    f"Interrupt node '{name}' is not in the graph. "
                    f"Its nodes are: {', '.join(sorted(nodes))}."
                )
