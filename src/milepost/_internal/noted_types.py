"""Schemas and modules whose types may be stored, noted before the serializer is loaded.

A graph is compiled with what its program defines. The registry of the serializer has to know that
as soon as there is a serializer, and a graph that runs without a saver needs none.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from types import ModuleType
from typing import Any

from milepost._internal import fork_guard

_lock = fork_guard.fresh_in_child(Lock())
_waiting: list[Any] = []
_tell: list[Callable[[Any], None]] = []
"""What the registry is told by, once it is there."""


def note_types(thing: Any) -> None:
    """Allow the types that a schema mentions, or that a module shows."""
    with _lock:
        if not _tell:
            _waiting.append(thing)
            return
    _tell[0](thing)


def hand_over(
    register_schema: Callable[[Any], None], register_module: Callable[[Any], None]
) -> None:
    """Let a registry have what was noted, and what comes from now on."""

    def tell(thing: Any) -> None:
        (register_module if isinstance(thing, ModuleType) else register_schema)(thing)

    with _lock:
        _tell[:] = [tell]
        noted = _waiting.copy()
        _waiting.clear()
    for thing in noted:
        tell(thing)
