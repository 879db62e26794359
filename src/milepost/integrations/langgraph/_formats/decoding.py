"""Reads what LangGraph's serializer has stored, under our rules.

Nothing is imported because stored bytes name it, and nothing is called that is not in a list: the
standard library's value types, LangChain's messages, LangGraph's records (which become ours), and
what the program has registered. Anything else is refused by name instead of being read as
something less than it was.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from importlib import import_module
from typing import Any, Final

import ormsgpack

from milepost import types
from milepost.checkpoint.serde._types import old_json
from milepost.checkpoint.serde._types.listed import LANGCHAIN
from milepost.checkpoint.serde._types.models import is_model
from milepost.checkpoint.serde.keyring import _aes
from milepost.checkpoint.serde.registry import TypeRegistry, default_registry
from milepost.errors import DecryptionError, DeserializationError, UnregisteredTypeError

_Build = Callable[..., Any]


def _late(module: str, name: str) -> _Build:
    """A class of the standard library that is imported only when it is met."""
    return lambda *args, **named: getattr(import_module(module), name)(*args, **named)


def _collected(make: _Build) -> _Build:
    """A container of what was stored as a list. Other things could be iterated over for ever: an IP
    network is a short text, and has up to 2**128 members."""
    return lambda members=(), *more: make(as_list(members), *more)


def as_list(stored: Any) -> Any:
    """Check that a stored value is a list, and return it."""
    if type(stored) not in (list, tuple):
        raise TypeError(f"a {type(stored).__name__} where a list was stored")
    return stored


def _interrupt(
    value: Any, id: str = "", response_schema: Any = None, **_older: Any
) -> types.Interrupt:
    return types.Interrupt(value, id, response_schema=response_schema)


def _send(node: str, arg: Any, timeout: Any = None) -> types.Send:
    return types.Send(node, arg, timeout=timeout)


BUILDERS: Final[dict[str, _Build]] = {
    "builtins.set": _collected(set),
    "builtins.frozenset": _collected(frozenset),
    "builtins.tuple": _collected(tuple),
    "collections.deque": _collected(deque),
    "datetime.datetime": datetime,
    "datetime.datetime.fromisoformat": datetime.fromisoformat,
    "datetime.date": date,
    "datetime.time": time,
    "datetime.timedelta": timedelta,
    "datetime.timezone": timezone,
    "decimal.Decimal": Decimal,
    "uuid.UUID": _late("uuid", "UUID"),
    "re.compile": _late("re", "compile"),
    "zoneinfo.ZoneInfo": _late("zoneinfo", "ZoneInfo"),
    **{
        f"ipaddress.IPv{version}{kind}": _late("ipaddress", f"IPv{version}{kind}")
        for version in (4, 6)
        for kind in ("Address", "Interface", "Network")
    },
    **{
        f"{module}.{name}": _late("pathlib", name)
        for module in ("pathlib", "pathlib._local")
        for name in ("Path", "PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")
    },
    "langgraph.types.Send": _send,
    "langgraph.types.Interrupt": _interrupt,
    "langgraph.types.Command": types.Command,
    "langgraph.types.Overwrite": types.Overwrite,
    "langgraph.types.TimeoutPolicy": types.TimeoutPolicy,
    "langgraph.types.StateSnapshot": types.StateSnapshot,
    "langgraph.types.PregelTask": types.PregelTask,
}


class StrictSerializer:
    """Reads LangGraph's stored values; writes nothing. Has the shape of a serializer.

    With `unseals` it opens what was sealed with the key in LANGGRAPH_AES_KEY.
    """

    def __init__(self, registry: TypeRegistry | None = None, *, unseals: bool = False) -> None:
        self._registry = default_registry if registry is None else registry
        self._unseals = unseals

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Nothing is written."""
        raise NotImplementedError(f"a {type(obj).__name__} is not stored in a LangGraph database")

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value; DeserializationError says which type was refused, or what is broken."""
        kind, body = data
        if kind in ("null", "empty"):
            return None
        if kind == "bytes":
            return bytes(body)
        if kind == "bytearray":
            return bytearray(body)
        if kind == "msgpack":
            return self._unpacked(body)
        if kind == "json":
            return old_json.read(body, self.named_builder)
        if kind == "pickle":
            raise DeserializationError(
                "the stored value is pickle, which can run code when it is read; open the thread"
                " once with LangGraph and a serializer without pickle_fallback"
            )
        inner, plus, cipher = kind.partition("+")
        if plus and self._unseals:
            return self.loads_typed((inner, _unsealed(cipher, bytes(body))))
        raise DeserializationError(
            f"the stored kind {kind[:40]!r} is not one that LangGraph's serializer writes"
            + (
                "; it is encrypted: set LANGGRAPH_AES_KEY to its key and pass --encrypted"
                if "+" in kind
                else ""
            )
        )

    def loads_json(self, cell: Any) -> dict[str, Any]:
        """The object in a cell of JSON."""
        found = json.loads(cell) if isinstance(cell, (bytes, str)) else cell
        if found is not None and not isinstance(found, dict):
            raise DeserializationError(f"a {type(found).__name__} where an object was stored")
        return found or {}

    # -- msgpack

    def _unpacked(self, body: bytes) -> Any:
        refused: list[Exception] = []

        def extension(code: int, data: bytes) -> Any:
            try:
                inside = ormsgpack.unpackb(data, ext_hook=extension, option=_KEYS)
                return self._extension(code, inside)
            except Exception as error:
                # ormsgpack replaces what a callback raises; the first one is the cause.
                refused.append(error)
                raise

        try:
            return ormsgpack.unpackb(bytes(body), ext_hook=extension, option=_KEYS)
        except Exception as error:
            cause = refused[0] if refused else error
            if isinstance(cause, DeserializationError):
                raise cause from None
            raise DeserializationError(f"the stored bytes do not decode: {cause!r}") from cause

    def _extension(self, code: int, inside: Any) -> Any:
        if code == _DELTA_SNAPSHOT:
            return types._DeltaSnapshot(inside)
        if code == _NUMPY:
            return _array(*as_list(inside))
        module, name, content, *method = as_list(inside)
        if code == _METHOD:
            return self._builder(f"{module}.{name}.{method[0]}", module, name)(content)
        build = self._builder(f"{module}.{name}", module, name)
        if code == _ONE:
            return build(content)
        if code == _SEVERAL:
            return build(*as_list(content))
        if code == _MODEL_2:
            return _model(build, content)
        if code in (_NAMED, _MODEL_1):
            return build(**content)
        raise DeserializationError(f"no type of LangGraph's has the extension code {code}")

    # -- names

    def named_builder(self, module: str, name: str) -> _Build:
        """What builds an object of a stored name; UnregisteredTypeError if it is not allowed."""
        return self._builder(f"{module}.{name}", module, name)

    def _builder(self, known: str, module: str, name: str) -> _Build:
        if (build := BUILDERS.get(known)) is not None:
            return build
        root = module.partition(".")[0]
        if root in ("langchain", "langchain_core") and name in LANGCHAIN:
            found: _Build = getattr(import_module(LANGCHAIN[name]), name)
            return found
        cls = self._registry.class_named(f"{module}:{name}")
        if cls is not None:
            return cls
        advice = f"allow it with --types {module}:{name}"
        if module == "__main__":
            advice = (
                "it belongs to a program that was run as a script: allow it with"
                " --types __main__=MODULE, where MODULE is the script's name without .py"
            )
        raise UnregisteredTypeError(f"the stored type {module}.{name} is not registered; {advice}")


def _unsealed(cipher: str, sealed: bytes) -> bytes:
    """What LangGraph has sealed: a nonce, a tag and the text, in AES in EAX mode."""
    if cipher != "aes":
        raise DecryptionError(
            f"a value is sealed with the cipher {cipher[:40]!r}, which is a program's own; only"
            " LangGraph's AES can be opened here"
        )
    key = os.environ.get("LANGGRAPH_AES_KEY", "").encode()
    if len(key) not in (16, 24, 32):
        raise DecryptionError("the value is sealed: set LANGGRAPH_AES_KEY to its key")
    try:
        plain: bytes = _aes(key, sealed[:16], "").decrypt_and_verify(sealed[32:], sealed[16:32])
    except ValueError:
        raise DecryptionError(
            "the value does not open with the key in LANGGRAPH_AES_KEY: it was sealed with another "
            "one, or changed since"
        ) from None
    return plain


_KEYS: Final = ormsgpack.OPT_NON_STR_KEYS
_ONE, _SEVERAL, _NAMED, _METHOD, _MODEL_1, _MODEL_2, _NUMPY, _DELTA_SNAPSHOT = range(8)
"""LangGraph's extension codes: how the stored arguments are handed to what is named."""


def _model(build: _Build, fields: dict[str, Any]) -> Any:
    """A pydantic model. LangGraph stores its fields under their own names; where they have
    aliases, a call would not take those."""
    if isinstance(build, type) and is_model(build) and not build.__module__.startswith("langchain"):
        model: Any = build
        with suppress(TypeError):  # pydantic before 2.11 cannot be asked
            return model.model_validate(fields, by_alias=True, by_name=True)
    return build(**fields)


def _array(dtype: str, shape: Any, order: str, data: bytes) -> Any:
    import numpy

    if numpy.dtype(dtype).hasobject:
        raise DeserializationError("the stored array holds Python objects")
    flat: Any = numpy.frombuffer(data, dtype=numpy.dtype(dtype))
    return flat.reshape(tuple(as_list(shape)), order=order)
