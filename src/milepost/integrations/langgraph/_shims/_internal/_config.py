"""Needed by langgraph-supervisor (patch_configurable)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost._engine.context.config import merge_configs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from milepost.types import RunnableConfig


def patch_configurable(config: RunnableConfig | None, patch: Mapping[str, Any]) -> RunnableConfig:
    """A config with other keys in its `configurable`."""
    return merge_configs(config, {"configurable": dict(patch)})


__all__ = ["merge_configs", "patch_configurable"]
