"""milepost's own records, under names that outlive any move of their classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost import types
from milepost.checkpoint.serde._types.records import RecordType, make
from milepost.types import Interrupt, Send

if TYPE_CHECKING:
    from collections.abc import Iterator

_TYPES: tuple[type, ...] = (
    types.CacheKey,
    types.Command,
    types.Overwrite,
    types.PregelTask,
    types.StateSnapshot,
    types.StateUpdate,
    types.TimeoutPolicy,
    types._Answered,
    types._DeltaSnapshot,
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


def _encode_interrupt(interrupt: Interrupt) -> dict[str, Any]:
    fields = {"value": interrupt.value, "id": interrupt.id}
    schema = interrupt.response_schema
    return fields if schema is None else {**fields, "response_schema": schema}


def _decode_interrupt(fields: dict[str, Any]) -> Interrupt:
    schema = fields.get("response_schema")
    return Interrupt(fields["value"], fields["id"], response_schema=schema)
