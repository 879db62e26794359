"""Searches that run in this process: containment, order, parts of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec


def contains(stored: Any, wanted: Any) -> bool:
    """Whether JSON has a part, as PostgreSQL's `@>` says it."""
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(
            key in stored and contains(stored[key], one) for key, one in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(stored, list) and all(
            any(contains(member, one) for member in stored) for one in wanted
        )
    if isinstance(stored, bool) is not isinstance(wanted, bool):
        return False
    return bool(stored == wanted)


def select(record: msgspec.Struct, fields: Sequence[str] | None) -> Any:
    if not fields:
        return record
    return {name: getattr(record, name) for name in fields if hasattr(record, name)}
