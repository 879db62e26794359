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

    Examples:
        >>> from milepost.checkpoint.serde.event_hooks import SerdeEvent
        >>> event: SerdeEvent = {"kind": "msgpack_blocked", "module": "shop", "name": "Order"}
    """

    kind: str
    """`msgpack_blocked`, or `msgpack_unregistered_allowed` for a serializer that allows every type.
    """
    module: str
    """The module of the type."""
    name: str
    """The name of the type."""
    method: NotRequired[str]
    """The method that would have made the value, if it is not the constructor."""


SerdeEventListener = Callable[[SerdeEvent], None]

_listeners: list[SerdeEventListener] = []
_lock = Lock()


def register_serde_event_listener(listener: SerdeEventListener) -> Callable[[], None]:
    """Call `listener` with every event from now on; the function that is returned ends that.

    Args:
        listener: Called with each event.

    Examples:
        >>> from milepost.checkpoint.serde.event_hooks import register_serde_event_listener
        >>> events = []
        >>> stop = register_serde_event_listener(events.append)
        >>> stop()
    """
    with _lock:
        _listeners.append(listener)

    def unregister() -> None:
        with _lock:
            if listener in _listeners:
                _listeners.remove(listener)

    return unregister


def emit_serde_event(event: SerdeEvent) -> None:
    """Tell all listeners. One that fails is logged, and the others are told all the same.

    Args:
        event: What happened.

    Examples:
        >>> from milepost.checkpoint.serde.event_hooks import emit_serde_event
        >>> emit_serde_event({"kind": "msgpack_blocked", "module": "shop", "name": "Order"})
    """
    with _lock:
        listeners = tuple(_listeners)
    for listener in listeners:
        try:
            listener(event)
        except Exception as error:
            log.warning(log.STORAGE, "A listener to serializer events has failed: %s.", error)
