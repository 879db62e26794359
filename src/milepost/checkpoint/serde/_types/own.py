"""milepost's own records, under names that outlive any move of their classes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint.serde._types.records import RecordType, make
from milepost.types import (
    CacheKey,
    Command,
    Interrupt,
    Overwrite,
    PregelTask,
    Send,
    StateSnapshot,
    StateUpdate,
    TimeoutPolicy,
    _Answered,
    _DeltaSnapshot,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.checkpoint.serde.registry import TypeRegistry, Writer

_TYPES: tuple[type, ...] = (
    CacheKey,
    Command,
    Overwrite,
    PregelTask,
    StateSnapshot,
    StateUpdate,
    TimeoutPolicy,
    _Answered,
    _DeltaSnapshot,
)


def records() -> Iterator[RecordType]:
    """One record for each of them."""
    for cls in _TYPES:
        yield make(cls, name=f"milepost:{cls.__name__.lstrip('_')}")
    yield make(Send, name="milepost:Send", encode=_encode_send, decode=_decode_send)
    yield make(
        Interrupt, name="milepost:Interrupt", encode=_encode_interrupt, decode=_decode_interrupt
    )


def _encode_send(send: Send) -> dict[str, Any]:
    fields = {"node": send.node, "arg": send.arg}
    return fields if send.timeout is None else {**fields, "timeout": send.timeout}


def _decode_send(fields: dict[str, Any]) -> Send:
    return Send(fields["node"], fields["arg"], timeout=fields.get("timeout"))


_ITEM: Final = ("value", "key", "namespace", "created_at", "updated_at", "version")
_ITEMS: Final = {"Item": _ITEM, "SearchItem": (*_ITEM, "score")}
"""What a store gives back, and its arguments."""
_STORE: Final = "milepost.store.base"
_MESSAGES: Final = "milepost.messages._light"
_HOMES: Final = {
    **dict.fromkeys(_ITEMS, _STORE),
    **dict.fromkeys(
        (
            "HumanMessage",
            "AIMessage",
            "AIMessageChunk",
            "SystemMessage",
            "ToolMessage",
            "RemoveMessage",
        ),
        _MESSAGES,
    ),
}
"""Where classes are that are looked up when the first of their objects is met: stores are above
serializers, and programs that use LangChain's messages need not load ours."""


def writer_for(cls: type, registry: TypeRegistry) -> Writer | None:
    """The writer of an item of a store or of a message of our own; None for any other class."""
    if cls.__module__ != _MESSAGES and cls.__name__ not in _ITEMS:
        return None
    if cls is not _late_class(cls.__name__):
        return None
    _register(cls, registry)
    return registry.writers[cls]


def allow_name(name: str, registry: TypeRegistry) -> None:
    """Register the class that is stored as `name`, if it is one of those."""
    cls = _late_class(name.partition(":")[2])
    if cls is not None:
        _register(cls, registry)


def _late_class(name: str) -> type | None:
    if name not in _HOMES:
        return None
    found: type = getattr(import_module(_HOMES[name]), name)
    return found


def _register(cls: Any, registry: TypeRegistry) -> None:
    stored = f"milepost:{cls.__name__}"
    if cls.__module__ == _MESSAGES:
        registry.register(cls, name=stored)
        return
    names = _ITEMS[cls.__name__]

    def encode(item: Any) -> dict[str, Any]:
        return {name: getattr(item, name) for name in names}

    def decode(fields: dict[str, Any]) -> Any:
        return cls(**fields)

    registry.register(cls, name=stored, encode=encode, decode=decode)


def _encode_interrupt(interrupt: Interrupt) -> dict[str, Any]:
    fields = {"value": interrupt.value, "id": interrupt.id}
    schema = interrupt.response_schema
    return fields if schema is None else {**fields, "response_schema": schema}


def _decode_interrupt(fields: dict[str, Any]) -> Interrupt:
    schema = fields.get("response_schema")
    return Interrupt(fields["value"], fields["id"], response_schema=schema)
