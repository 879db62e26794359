"""Which checkpoints a filter on metadata finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from milepost.types import MISSING


def metadata_matches(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether all pairs of the filter are in the metadata.

    A key with a period is first looked up as it is, then as a path: `user.name`.
    """
    return all(_value_at(metadata, key) == value for key, value in wanted.items())


def _value_at(metadata: Mapping[str, Any], key: str) -> Any:
    found = metadata.get(key, MISSING)
    if found is not MISSING or "." not in key:
        return found
    inner: Any = metadata
    for part in key.split("."):
        if not isinstance(inner, Mapping) or part not in inner:
            return MISSING
        inner = inner[part]
    return inner
