"""Which methods a saver has: sync, async, or both."""

from __future__ import annotations

from typing import Any, Final

from milepost.checkpoint.base import BaseCheckpointSaver

_PUT: Final = BaseCheckpointSaver.put


def is_sync_only(target: Any) -> bool:
    """A saver whose async methods were left out."""
    return isinstance(target, BaseCheckpointSaver) and not _has(target, "aput")


def is_async_only(target: Any) -> bool:
    """A saver whose sync methods were left out."""
    if getattr(type(target), "put", _PUT) is not _PUT:
        return False  # as nearly all
    return isinstance(target, BaseCheckpointSaver) and _has(target, "aput")


def _has(saver: BaseCheckpointSaver[Any], method: str) -> bool:
    return getattr(type(saver), method) is not getattr(BaseCheckpointSaver, method)
