"""Reads values that langgraph-checkpoint-redis has stored, under our rules.

Its documents are JSON, so the values of channels lie in them as JSON. What JSON has no form for is
a marked dict (`__send__`, `__interrupt__`, `__bytes__`, `__delta_snapshot__`) or the name of a
class and arguments. What its serializer wrote as less than it was (a tuple as a list, a datetime
as text) is read as that.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any

from milepost.checkpoint.serde._types import old_json
from milepost.constants import INTERRUPT
from milepost.errors import DeserializationError
from milepost.integrations.langgraph._formats.decoding import StrictSerializer, as_list
from milepost.types import Interrupt, Send, _DeltaSnapshot


class RedisValues:
    """`serde` reads what is not JSON: bytes, msgpack, and what is sealed."""

    def __init__(self, strict: StrictSerializer, serde: Any) -> None:
        self._strict = strict
        self._serde = serde

    def inline(self, stored: Any) -> Any:
        """The value of a channel inside of a checkpoint's document."""
        return self._revived(stored, _marked_inline)

    def typed(self, kind: str, blob: str | None, channel: str | None = None) -> Any:
        """A value that is stored with its kind: that of a write, or of a channel's own document.

        Before 0.2 the text was JSON as it is, and bytes were of the kind "base64"; since then
        everything is base64.
        """
        if kind == "base64":
            return _from_base64(blob or "")
        if kind == "json":
            value = self._revived(_parsed(blob or ""), _marked)
            return _as_interrupts(value) if channel == INTERRUPT else value
        return self._serde.loads_typed((kind, _from_base64(blob or "")))

    def json(self, text: str) -> Any:
        """A value whose JSON is stored as it is, whatever it looks like."""
        return self._revived(json.loads(text), _marked)

    def encoded(self, kind: str, body: bytes) -> Any:
        """A value of another kind than JSON."""
        return self._serde.loads_typed((kind, body))

    def _revived(self, stored: Any, plain: old_json.Plain) -> Any:
        try:
            return old_json.revived(stored, self._find, plain)
        except DeserializationError:
            raise
        except Exception as error:
            raise DeserializationError(f"the stored JSON does not decode: {error!r}") from error

    def _find(self, module: str, name: str) -> Callable[..., Any]:
        if (module, name) == ("builtins", "set"):
            return _set
        return self._strict.named_builder(module, name)


def _set(members: Any = (), *, __set_items__: Any = None) -> set[Any]:
    """The later versions store a set's members as its argument, the earlier under a name."""
    return set(as_list(members if __set_items__ is None else __set_items__))


def _marked(members: dict[str, Any]) -> Any:
    if members.get("__send__") is True and members.keys() == {"__send__", "node", "arg"}:
        return Send(members["node"], members["arg"])
    if members.get("__interrupt__") is True and "value" in members:
        return _interrupt(members)
    if members.get("__delta_snapshot__") is True and members.keys() == {
        "__delta_snapshot__",
        "value",
    }:
        return _DeltaSnapshot(members["value"])
    return members


def _marked_inline(members: dict[str, Any]) -> Any:
    if members.keys() == {"__bytes__"}:
        return _from_base64(members["__bytes__"])
    return _marked(members)


def _interrupt(members: dict[str, Any]) -> Interrupt:
    id = members.get("id", "")
    return Interrupt(members["value"], id if isinstance(id, str) else "")


def _as_interrupts(value: Any) -> Any:
    """In 0.1 an interrupt was a dict like any other; the channel tells what it is."""
    if not isinstance(value, list):
        return value
    return [_interrupt(one) if isinstance(one, dict) and "value" in one else one for one in value]


def _parsed(blob: str) -> Any:
    """JSON, or base64 of JSON. No text is both: what of JSON is in base64's alphabet (numbers,
    true, false, null) begins, when it is decoded, with a byte that is not ASCII."""
    try:
        return json.loads(base64.b64decode(blob, validate=True))
    except ValueError:  # of either
        pass
    try:
        return json.loads(blob)
    except ValueError as error:
        raise DeserializationError(f"the stored text is not JSON: {error}") from error


def _from_base64(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise DeserializationError(f"the stored text is not base64: {error}") from error
