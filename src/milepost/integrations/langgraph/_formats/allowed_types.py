"""Which types a LangGraph program may keep in our savers, and how its records are stored.

LangGraph's own records (Send, Interrupt, …) are stored under the names of ours, field by field.
So one database serves both libraries, and each reads its own classes out of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from langgraph.types import Overwrite as TheirOverwrite

from milepost.checkpoint.serde._msgpack.failures import Refused
from milepost.checkpoint.serde._types import records
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry, Writer, default_registry
from milepost.errors import UnregisteredTypeError
from milepost.integrations.langgraph._formats.records import SHARED

if TYPE_CHECKING:
    from types import ModuleType

    from milepost.checkpoint.serde._types.fields import Decode
    from milepost.checkpoint.serde._types.records import RecordType
    from milepost.checkpoint.serde.base import SerializerProtocol

_Fields = dict[str, Any]

_OPTIONAL: Final = ("timeout", "response_schema")
"""Fields that are left out where they are None, as before there were such fields."""


def _stored_as(
    theirs: Any, names: Iterable[str]
) -> tuple[Callable[[Any], _Fields], Callable[[_Fields], Any]]:
    """How a record of LangGraph's becomes the fields of ours, and back."""
    if theirs is TheirOverwrite:
        return (
            lambda overwrite: {"value": overwrite.value, "type": "__overwrite__"},
            lambda fields: theirs(fields["value"]),
        )

    def encode(record: Any) -> _Fields:
        fields = {name: getattr(record, name) for name in names}
        return {k: v for k, v in fields.items() if v is not None or k not in _OPTIONAL}

    return encode, lambda fields: theirs(**fields)


class AllowedTypes(TypeRegistry):
    """What one adapted saver may write and read.

    What `register_type` or a compiled milepost graph has allowed is allowed here too.
    """

    def __init__(self, allowed: Iterable[Any] = ()) -> None:
        super().__init__()
        for ours, theirs, names in SHARED:
            for name in [name for name, record in self.types.items() if record.cls is ours]:
                del self.types[name]
            self.writers.pop(ours, None)
            name = f"milepost:{ours.__name__.lstrip('_')}"
            encode, decode = _stored_as(theirs, names)
            self.register(theirs, name=name, encode=encode, decode=decode)
        self.register_data_types(*allowed)

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
    """The module whose code is `depth` frames up the stack, as a list that may be empty."""
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
