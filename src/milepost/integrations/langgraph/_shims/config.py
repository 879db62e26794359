"""Configs of nodes: needed by langgraph-supervisor (patch_configurable) and langmem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.runnables import config as langchain

from milepost._engine.context.config import merge_configs
from milepost.config import get_config, get_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from milepost.types import RunnableConfig


def ensure_config(*configs: RunnableConfig | None) -> RunnableConfig:
    """A config with all keys: those of the runnable that this is called in, and the given ones."""
    return merge_configs(langchain.ensure_config(), *configs)


def patch_configurable(config: RunnableConfig | None, patch: Mapping[str, Any]) -> RunnableConfig:
    """A config with other keys in its `configurable`."""
    return merge_configs(config, {"configurable": dict(patch)})


__all__ = ["ensure_config", "get_config", "get_store", "merge_configs", "patch_configurable"]
