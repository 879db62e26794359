"""Tells listeners about stored types that were refused.

A listener is called with the module and the name of a type that stored bytes name and this program
does not allow. Where a class is moved or a database is not trusted, that is worth a metric.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import NotRequired, TypedDict

from milepost._internal import log

__all__ = [
    "SerdeEvent",
    "SerdeEventListener",
    "emit_serde_event",
    "register_serde_event_listener",
]


class SerdeEvent(TypedDict):
    """What happened to a stored type that is not registered.

    `kind` is `msgpack_blocked`, or `msgpack_unregistered_allowed` for a serializer that allows
    every type.
    """

    kind: str
    module: str
    name: str
    method: NotRequired[str]


SerdeEventListener = Callable[[SerdeEvent], None]

_listeners: list[SerdeEventListener] = []
_lock = Lock()


def register_serde_event_listener(listener: SerdeEventListener) -> Callable[[], None]:
    """Call `listener` with every event from now on; the function that is returned ends that."""
    with _lock:
        _listeners.append(listener)

    def unregister() -> None:
        with _lock:
            if listener in _listeners:
                _listeners.remove(listener)

    return unregister


def emit_serde_event(event: SerdeEvent) -> None:
    """Tell all listeners. One that fails is logged, and the others are told all the same."""
    with _lock:
        listeners = tuple(_listeners)
    for listener in listeners:
        try:
            listener(event)
        except Exception as error:
            log.warning(log.STORAGE, "A listener to serializer events has failed: %s.", error)
