"""Documents of langgraph-checkpoint-redis, by their keys, and the values in them, under our rules.

Needs SCAN and JSON.GET alone: nothing depends on a search index, which may lag behind or have been
dropped.

The documents are JSON, so the values of channels lie in them as JSON. What JSON has no form for is
a marked dict (`__send__`, `__interrupt__`, `__bytes__`, `__delta_snapshot__`) or the name of a
class and arguments. What their serializer wrote as less than it was (a tuple as a list, a datetime
as text) is read as that.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from milepost._db.redis.commands import literally
from milepost._db.redis.errors import named
from milepost.checkpoint.serde._types import old_json
from milepost.constants import INTERRUPT
from milepost.errors import DeserializationError
from milepost.integrations.langgraph._formats.decoding import StrictSerializer, as_list
from milepost.integrations.langgraph._moving.sources import BadAddressError
from milepost.types import Interrupt, Send, _DeltaSnapshot

_PAGE: Final = 200
"""Documents that are asked for at once."""


class Found(NamedTuple):
    """The requested parts of the document at one key."""

    key: str
    fields: dict[str, Any]
    """Path → value; paths without a value are left out."""
    damage: str | None = None
    """Why the document cannot be read; None if it can."""


class Documents:
    """The documents that a client can reach."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def keys(self, prefix: str) -> Iterator[str]:
        """Each key that begins with `prefix:`, once: SCAN may give one several times."""
        seen: set[str] = set()
        for raw in self._client.scan_iter(match=f"{literally(prefix)}:*", count=1000):
            key = raw.decode("utf-8", "backslashreplace") if isinstance(raw, bytes) else raw
            if key not in seen:
                seen.add(key)
                yield key

    def fields(self, keys: Iterable[str], *paths: str) -> Iterator[Found]:
        """Some parts of each document, in the order of the keys; one that is gone is left out."""
        todo = iter(keys)
        while page := list(islice(todo, _PAGE)):
            pipeline = self._client.pipeline(transaction=False)
            for key in page:
                pipeline.execute_command("JSON.GET", key, *paths)
            replies = pipeline.execute(raise_on_error=False)
            for key, reply in zip(page, replies, strict=True):
                if (found := _found(key, paths, reply)) is not None:
                    yield found

    def read(self, keys: Iterable[str]) -> Iterator[Found]:
        """Complete documents: each is in `fields` under its path, `$`."""
        yield from self.fields(keys, "$")

    def milliseconds_left(self, keys: list[str]) -> Mapping[str, int]:
        """How long keys still live; keys that do not expire are left out."""
        pipeline = self._client.pipeline(transaction=False)
        for key in keys:
            pipeline.pttl(key)
        return {key: left for key, left in zip(keys, pipeline.execute(), strict=True) if left >= 0}


def _found(key: str, paths: tuple[str, ...], reply: Any) -> Found | None:
    if reply is None:
        return None
    if isinstance(reply, Exception):
        if "unknown command" in str(reply).lower():
            raise BadAddressError(
                "This server does not know JSON.GET. langgraph-checkpoint-redis keeps its threads "
                "in the module RedisJSON: name the server that it wrote to, with that module."
            ) from reply
        if isinstance(reply, named("ResponseError")) and "WRONGTYPE" in str(reply):
            return Found(key, {}, "it is no JSON document")
        raise reply
    try:
        parsed = json.loads(reply)
        answers = {paths[0]: parsed} if len(paths) == 1 else parsed
        fields = {path: answers[path][0] for path in paths if answers.get(path)}
    except (ValueError, AttributeError, LookupError, TypeError) as error:
        return Found(key, {}, f"its document cannot be parsed: {error}")
    return Found(key, fields)


# -- values


class RedisValues:
    """`serde` reads what is not JSON: bytes, msgpack, and what is sealed."""

    def __init__(self, serde: StrictSerializer) -> None:
        self._serde = serde

    def inline(self, stored: Any) -> Any:
        """The value of a channel inside of a checkpoint's document."""
        return old_json.revived(stored, self._find, _marked_inline)

    def typed(self, kind: str, blob: str | None, channel: str | None = None) -> Any:
        """A value that is stored with its kind: that of a write, or of a channel's own document.

        Before 0.2 the text was JSON as it is, and bytes were of the kind "base64"; since then
        everything is base64.
        """
        if kind == "base64":
            return _from_base64(blob or "")
        if kind == "json":
            value = old_json.revived(_parsed(blob or ""), self._find, _marked)
            return _as_interrupts(value) if channel == INTERRUPT else value
        return self._serde.loads_typed((kind, _from_base64(blob or "")))

    def json(self, text: str) -> Any:
        """A value whose JSON is stored as it is, whatever it looks like."""
        return old_json.revived(json.loads(text), self._find, _marked)

    def encoded(self, kind: str, body: bytes) -> Any:
        """A value of another kind than JSON."""
        return self._serde.loads_typed((kind, body))

    def _find(self, module: str, name: str) -> Callable[..., Any]:
        if (module, name) == ("builtins", "set"):
            return _set
        return self._serde.named_builder(module, name)


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
