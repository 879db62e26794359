"""Needed by langgraph-prebuilt (MISSING), langgraph-supervisor and langgraph-swarm."""

from typing_extensions import TypedDict

from milepost.types import MISSING


class DeprecatedKwargs(TypedDict):
    """Keyword arguments that are not taken any more."""


__all__ = ["MISSING", "DeprecatedKwargs"]
