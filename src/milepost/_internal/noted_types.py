"""Schemas and modules whose types may be stored, noted before the serializer is loaded.

A graph is compiled with what its program defines. The registry of the serializer has to know that
as soon as there is a serializer, and a graph that runs without a saver needs none.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

from milepost._internal import fork_guard

_lock = fork_guard.fresh_in_child(Lock())
_noted: list[Any] = []
_register: list[Callable[[Any], None]] = []
"""The function of the registry that allows types, once there is a registry."""


def note_types(thing: Any) -> None:
    """Allow the types that a schema mentions, or that a module shows."""
    with _lock:
        if not _register:
            _noted.append(thing)
            return
    _register[0](thing)


def hand_over(register: Callable[[Any], None]) -> None:
    """Let a registry have what was noted, and what comes from now on."""
    with _lock:
        _register[:] = [register]
    while _noted:
        register(_noted.pop(0))
