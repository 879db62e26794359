"""Which types a LangGraph program may keep in our savers, and how its records are stored.

LangGraph's own records (Send, Interrupt, …) are stored under the names of ours, field by field.
So one database serves both libraries, and each reads its own classes out of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from copy import copy
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.serde.types import _DeltaSnapshot as TheirDeltaSnapshot
from langgraph.types import Command as TheirCommand
from langgraph.types import Interrupt as TheirInterrupt
from langgraph.types import Overwrite as TheirOverwrite
from langgraph.types import Send as TheirSend
from langgraph.types import TimeoutPolicy as TheirTimeoutPolicy

from milepost import types
from milepost.checkpoint.serde._msgpack.failures import Refused
from milepost.checkpoint.serde._types import records
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry, Writer, default_registry
from milepost.errors import UnregisteredTypeError

if TYPE_CHECKING:
    from types import ModuleType

    from milepost.checkpoint.serde._types.fields import Decode
    from milepost.checkpoint.serde._types.records import RecordType
    from milepost.checkpoint.serde.base import SerializerProtocol

_Fields = dict[str, Any]


def _fields(*names: str) -> Callable[[Any], _Fields]:
    return lambda record: {name: getattr(record, name) for name in names}


def _send_fields(send: TheirSend) -> _Fields:
    fields = {"node": send.node, "arg": send.arg}
    return fields if send.timeout is None else {**fields, "timeout": send.timeout}


def _interrupt_fields(interrupt: TheirInterrupt[Any]) -> _Fields:
    fields = {"value": interrupt.value, "id": interrupt.id}
    schema = interrupt.response_schema
    return fields if schema is None else {**fields, "response_schema": schema}


_SHARED: tuple[tuple[type, type, Callable[[Any], _Fields], Callable[[_Fields], Any]], ...] = (
    (types.Send, TheirSend, _send_fields, lambda f: TheirSend(**f)),
    (types.Interrupt, TheirInterrupt, _interrupt_fields, lambda f: TheirInterrupt(**f)),
    (
        types.Command,
        TheirCommand,
        _fields("graph", "update", "resume", "goto"),
        lambda f: TheirCommand(**f),
    ),
    (
        types.Overwrite,
        TheirOverwrite,
        lambda o: {"value": o.value, "type": "__overwrite__"},
        lambda f: TheirOverwrite(f["value"]),
    ),
    (
        types.TimeoutPolicy,
        TheirTimeoutPolicy,
        _fields("run_timeout", "idle_timeout", "refresh_on"),
        lambda f: TheirTimeoutPolicy(**f),
    ),
    (
        types._DeltaSnapshot,
        TheirDeltaSnapshot,
        _fields("value"),
        lambda f: TheirDeltaSnapshot(**f),
    ),
)
"""Our record, theirs, and how theirs becomes the fields of ours and back."""


class AllowedTypes(TypeRegistry):
    """What one adapted saver may write and read.

    What `register_type` or a compiled milepost graph has allowed is allowed here too.
    """

    def __init__(self, allowed: Iterable[Any] = ()) -> None:
        super().__init__()
        for ours, theirs, encode, decode in _SHARED:
            self._give_name(ours, theirs, encode, decode)
        self.register_data_types(*allowed)

    def _give_name(
        self,
        ours: type,
        theirs: type,
        encode: Callable[[Any], _Fields],
        decode: Callable[[_Fields], Any],
    ) -> None:
        for name in [name for name, record in self.types.items() if record.cls is ours]:
            del self.types[name]
        self.writers.pop(ours, None)
        name = f"milepost:{ours.__name__.lstrip('_')}"
        self.register(theirs, name=name, encode=encode, decode=decode)

    def find_writer(self, cls: type) -> Writer:
        try:
            return super().find_writer(cls)
        except Refused:
            try:
                return default_registry.find_writer(cls)
            except Refused as refusal:
                if not records.is_data_type(cls):
                    raise
                name = f"{cls.__module__}.{cls.__qualname__}"
                raise Refused(
                    f"the type {name} is not allowed, so it could not be read back; "
                    + _advice(cls.__qualname__)
                ) from refusal

    def decoder(self, tag: str) -> Decode:
        try:
            return super().decoder(tag)
        except UnregisteredTypeError as error:
            name = records.split_tag(tag)[0]
            raise UnregisteredTypeError(
                f"the stored type {name!r} is not allowed here; "
                + _advice(name.rpartition(":")[2].rpartition(".")[2])
            ) from error

    def _find(self, name: str) -> RecordType | None:
        found = super()._find(name)
        return default_registry._find(name) if found is None else found


def _advice(name: str) -> str:
    return f"allow it with as_langgraph(saver, types=[{name}]), or call register_type on it"


def classes_named(names: Collection[tuple[str, ...]]) -> list[type]:
    """The classes in an allowlist that LangGraph passes, which is a set of module and name.

    They come out of the program's own schemas, so they are imported already. One that is not is
    left out: the refusal will name it if it is ever met.
    """
    found = []
    for module, *path in names:
        thing: Any = sys.modules.get(module)
        for part in ".".join(path).split("."):
            thing = getattr(thing, part, None)
        if isinstance(thing, type):
            found.append(thing)
    return found


def calling_module(depth: int) -> list[ModuleType]:
    """The module whose code called the function that asks, as a list that may be empty."""
    name = sys._getframe(depth).f_globals.get("__name__", "")
    module = sys.modules.get(name)
    return [] if module is None else [module]


def reading_theirs(serde: SerializerProtocol, allowed: TypeRegistry) -> SerializerProtocol:
    """A serializer like `serde` that makes LangGraph's classes of what is stored."""
    if isinstance(serde, EncryptedSerializer):
        sealed = copy(serde)
        sealed.serde = reading_theirs(serde.serde, allowed)
        return sealed
    if isinstance(serde, JsonPlusSerializer):
        return JsonPlusSerializer(pickle_fallback=serde.pickle_fallback, registry=allowed)
    # A serializer of the user's own decides for itself what it writes and reads.
    return serde
