"""Keywords that LangGraph has renamed, and still takes: they work here too, with its warning."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final

from milepost._internal.warn import Strictness, warn_of
from milepost.warnings import (
    LangGraphDeprecatedSinceV05,
    LangGraphDeprecatedSinceV10,
    LangGraphDeprecationWarning,
)

_RENAMED: Final[Mapping[str, tuple[str, type[LangGraphDeprecationWarning]]]] = {
    "config_schema": ("context_schema", LangGraphDeprecatedSinceV10),
    "config_type": ("context_schema", LangGraphDeprecatedSinceV10),
    "input": ("input_schema", LangGraphDeprecatedSinceV05),
    "output": ("output_schema", LangGraphDeprecatedSinceV05),
    "retry": ("retry_policy", LangGraphDeprecatedSinceV05),
}
"""Older name -> today's, and since when."""


def older_names(
    callee: str, given: Mapping[str, Any], known: Container[str], strictness: Strictness
) -> dict[str, Any]:
    """The values of keywords that `callee` does not have any more, under today's names.

    `known` are the older names that it has had. Any other keyword is passed over with a warning,
    as LangGraph passes over it in silence.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name in known:
            today, since = _RENAMED[name]
            warn_of(f"`{name}` of {callee} is deprecated: it is `{today}` now", category=since)
            found[today] = value
        else:
            unknown = TypeError(f"{callee} has no keyword '{name}'.")
            strictness.check((callee, name), unknown, "It is passed over.")
    return found
