"""Needed by langmem."""

from milepost.config import get_config, get_store
from milepost.integrations.langgraph._shims._internal._config import (
    ensure_config,
    patch_configurable,
)

__all__ = ["ensure_config", "get_config", "get_store", "patch_configurable"]
