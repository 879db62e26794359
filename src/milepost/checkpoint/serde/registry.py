"""Which types may be written and read, and under which names.

Reading looks a stored name up here and nowhere else: it imports nothing, and calls nothing that
is not registered. Registering only ever adds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar, overload
from weakref import WeakSet

from milepost._internal import fork_guard
from milepost._internal.noted_types import hand_over
from milepost._internal.warn import warn_of
from milepost.checkpoint.serde._msgpack.failures import Refused
from milepost.checkpoint.serde._types import (
    families,
    listed,
    models,
    records,
    standard,
    unregistered,
)
from milepost.checkpoint.serde._types.discover import Discovery
from milepost.errors import UnregisteredTypeError

if TYPE_CHECKING:
    from types import ModuleType

    from milepost.checkpoint.serde._msgpack.codec import Level
    from milepost.checkpoint.serde._types.fields import Decode, Encode
    from milepost.checkpoint.serde._types.records import Migration, RecordType

T = TypeVar("T")
_REMEMBERED = 10_000
Writer = Callable[[Any, "Level"], object]
"""Makes an extension of an object, or an object of a built-in type that is written in its place."""
Reader = Callable[[bytes, "Level"], Any]


class TypeRegistry:
    """The types that one or more serializers know. All of ours share `default_registry`.

    Examples:
        >>> from dataclasses import dataclass
        >>> from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
        >>> from milepost.checkpoint.serde.registry import TypeRegistry
        >>> @dataclass
        ... class Parcel:
        ...     weight: float
        >>> registry = TypeRegistry()
        >>> registry.register(Parcel, name="parcel")
        >>> serde = JsonPlusSerializer(registry=registry)
        >>> serde.loads_typed(serde.dumps_typed(Parcel(2.5)))
        Parcel(weight=2.5)
    """

    plain_tuples = True
    """Whether tuples are written and read as usual, so that the accelerator may do it."""
    only_registered = False
    """Whether a data type that is not registered is read as its fields, and not as itself."""

    def __init__(self) -> None:
        self.writers: dict[type, Writer] = dict(standard.WRITERS)
        """By exact class. Filled as classes are met; holds only what is allowed."""
        self.models: dict[type, models.Form] = {}
        """How the accelerator writes pydantic models, as their writers do in the brief form."""
        self.readers: dict[int, Reader] = families.Readers({**standard.READERS, **records.READERS})
        """By extension code."""
        self.by_tag: dict[str, Decode] = {}
        """Decoders that were looked up before, by the tag in stored bytes."""
        self.changes = 0
        """How often a registration has changed what stored bytes mean."""
        self.bases: dict[type, Writer] = {}
        """What writes classes that are not registered all the same, as `base_writer` finds it.
        Not among `writers`, since a strict serializer refuses them."""
        self._warned: WeakSet[type] = WeakSet()
        self._named: set[tuple[str, str]] = set()
        """Module and name of types that the program allows without having imported them yet."""
        self.types: dict[str, RecordType] = {}
        """Registered types by every name that they have or had."""
        self.unregistered: dict[str, RecordType] = {}
        """Data types that are not registered, and of which this process has written values."""
        self.generics = 0
        """How many classes reading has made, of generic models that are registered."""
        self._lock = fork_guard.fresh_in_child(RLock())
        self._discovery = Discovery(self._allow)
        for record in listed.own_records():
            self._add(record)

    def register(
        self,
        cls: type,
        *,
        name: str | None = None,
        version: int = 1,
        encode: Encode | None = None,
        decode: Decode | None = None,
        old_names: Iterable[str] = (),
    ) -> None:
        """Allow `cls`; see `register_type`.

        Args:
            cls: The class.
            name: What it is stored under.
            version: The version of its fields.
            encode: Makes something that can be saved out of a value.
            decode: Makes a value out of that.
            old_names: Names that it was stored under before.
        """
        record = records.make(cls, name=name, version=version, encode=encode, decode=decode)
        with self._lock:
            self._add(record, old_names)

    def add_migration(self, cls: type, from_version: int, migrate: Migration) -> None:
        """Bring values stored at `from_version` to the next; see `register_migration`.

        Args:
            cls: The class.
            from_version: The version that is stored.
            migrate: Brings what is stored to the next version.
        """
        with self._lock:
            record = next((r for r in self.types.values() if r.cls is cls), None)
            if record is None:
                raise LookupError(f"Register {cls.__qualname__} with its version first.")
            record.migrations[from_version] = migrate
            self._changed()

    def _changed(self) -> None:
        self.by_tag.clear()
        self.changes += 1

    def _add(self, record: RecordType, old_names: Iterable[str] = ()) -> None:
        names = {record.name, records.name_of(record.cls)}
        for name in old_names:
            # A dotted name may be meant as module and class: `shop.models.Order`.
            names |= {name, ":".join(name.rsplit(".", 1))}
        for name in names:
            known = self.types.get(name)
            if known is None or known.cls is record.cls:
                continue
            if not _same_place(known.cls, record.cls):
                raise ValueError(
                    f"The stored name {name!r} belongs to {known.cls!r}; give"
                    f" {record.cls!r} another name."
                )
            # The definition was executed again (a reload, a function that defines classes).
            self.writers.pop(known.cls, None)
            self.models.pop(known.cls, None)
        former = next((r for r in self.types.values() if r.cls is record.cls), None)
        if former is not None:
            record.migrations = former.migrations
            names |= {name for name, known in self.types.items() if known is former}
        self.types.update(dict.fromkeys(names, record))
        self.bases.pop(record.cls, None)
        self._changed()
        self.writers[record.cls] = record.write
        self.models.pop(record.cls, None)
        if record.brief is not None:
            self.models[record.cls] = record.brief.form

    def find_writer(self, cls: type) -> Writer:
        """The writer of a class that has not been met yet; Refused if it is not allowed."""
        with self._lock:
            writer = families.writer_for(cls, self)
            if writer is not None:
                self.writers[cls] = writer
                return writer
            if records.is_data_type(cls):
                self._discovery.find_class(cls)
                if (cls.__module__, cls.__name__) in self._named:
                    self.register_schema_types(cls)
                if cls in self.writers:
                    return self.writers[cls]
                twin = self.types.get(records.name_of(cls))
                if twin is not None and _same_place(twin.cls, cls):
                    # An instance from before its class was defined again; it will be read back
                    # as the new one. Not kept, so that old classes can be collected.
                    return twin.write
            raise families.refusal(cls)

    def base_writer(self, cls: type) -> Writer | None:
        """What writes a class that `find_writer` refuses, if anything does: see `unregistered`.

        The first time that a class is met there is a warning.
        """
        with self._lock:
            writer = self.bases.get(cls)
            if writer is None and (found := unregistered.fallback_of(cls, self)) is not None:
                if cls not in self._warned:
                    warn_of(found.warning)
                    self._warned.add(cls)
                if found.record is not None:
                    self._add_unregistered(found.record)
                writer = self.bases[cls] = found.writer
            return writer

    def check_keys(self, keys: Iterable[Any]) -> None:
        """Refused if one of these would be read as its fields, which no set or dict can hold.

        Args:
            keys: Members of a set, or keys of a dict.
        """
        for cls in set(map(type, keys)):
            fallback = None if cls in self.writers else unregistered.fallback_of(cls, self)
            if fallback is not None and fallback.as_fields and not self._is_allowed(cls):
                raise Refused(
                    f"the type {cls.__module__}.{cls.__qualname__} is not in the list that the"
                    " serializer was given, so it would be read as a dict, which cannot be in a"
                    " set or a key of a dict; name it in allowed_msgpack_modules"
                )

    def _is_allowed(self, cls: type) -> bool:
        try:
            return cls in self.writers or self.find_writer(cls) is not None
        except Refused:
            return False

    def _add_unregistered(self, record: RecordType) -> None:
        former = self.unregistered.get(record.name)
        if former is not None:  # the definition was executed again
            self.bases.pop(former.cls, None)
        self.unregistered[record.name] = record
        self._changed()

    def decoder(self, tag: str) -> Decode:
        """The decoder for a stored tag.

        Args:
            tag: The name and version under which a value is stored.

        Raises:
            UnregisteredTypeError: There is none.
        """
        name, version, given = records.split_tag(tag)
        with self._lock:
            record = self._find(name)
            if record is None:
                _emit("msgpack_blocked", name)
                return self.stand_in_decoder(name)
            decode = record.decoder(version, given)
            if len(self.by_tag) < _REMEMBERED:
                self.by_tag[tag] = decode
            return decode

    def stand_in_decoder(self, name: str) -> Decode:
        """What decodes the values of a type that is not allowed.

        Args:
            name: The name without a version.

        Raises:
            UnregisteredTypeError: Nothing does.
        """
        raise UnregisteredTypeError(
            f"the stored type {name!r} is not registered in this program. Compile the"
            " graph that uses it, or call register_type on its class, with"
            f" old_names=[{name!r}] if it was moved or renamed"
        )

    def error_decoder(self, tag: str) -> Decode | None:
        """The decoder of an exception class, if it is known.

        Args:
            tag: The name and version under which it is stored.
        """
        decode = self.by_tag.get(tag)
        if decode is None:
            name, _, _ = records.split_tag(tag)
            families.allow_error(name, self)
            if self._find(name) is None:
                _emit("msgpack_blocked", name)
                return None
            decode = self.decoder(tag)
        return decode

    def class_named(self, name: str) -> type | None:
        """The class that is stored under `name`, if it is allowed.

        Args:
            name: The name without a version.
        """
        record = self._find(name)
        return None if record is None else record.cls

    def _find(self, name: str) -> RecordType | None:
        return self._registered(name) or self.unregistered.get(name)

    def _registered(self, name: str) -> RecordType | None:
        if name not in self.types:
            families.allow_name(name, self)
        if name not in self.types:
            self._discovery.find_name(name)
        if name not in self.types and self._named:
            module, _, short = name.partition(":")
            self._import_named(module, short)
        return self.types.get(name)

    def allow(self, *types: tuple[str, ...] | type) -> None:
        """Allow data types, and those that their fields mention.

        A class that needs encode and decode functions is not written all the same.

        Args:
            *types: Classes, or modules and names, which are imported when the first value is met.
        """
        for one in types:
            if isinstance(one, type):
                self.register_schema_types(one)
            else:
                *modules, name = one
                self._named.add((".".join(modules), name))
        self.bases.clear()

    def _import_named(self, module: str, name: str) -> None:
        # The program itself has named it, so this is no import on the word of stored bytes.
        if (module, name) in self._named:
            import_module(module)
        for home, other in self._named:  # a field of one that is loaded may mention it
            cls = getattr(sys.modules.get(home), other, None)
            if isinstance(cls, type):
                self.register_schema_types(cls)

    def register_data_types(self, *things: Any) -> None:
        """Allow classes, the types that schemas mention, and those visible in modules.

        Args:
            *things: Classes, schemas and modules.
        """
        for thing in things:
            if hasattr(thing, "__spec__") and hasattr(thing, "__dict__"):
                self.register_module_types(thing)
            else:
                self.register_schema_types(thing)

    def register_module_types(self, module: ModuleType) -> None:
        """Allow the data types that are visible in a module's namespace.

        Costs nothing now: the module is looked through when a type is first missing.

        Args:
            module: The module.
        """
        self._discovery.modules[module.__name__] = module
        self.bases.clear()

    def register_schema_types(self, tp: Any) -> None:
        """Allow the data types that a schema's annotations mention, however deep.

        Args:
            tp: The schema: a TypedDict, dataclass, pydantic model or any annotation.
        """
        self._discovery.walk(tp)

    def _allow(self, cls: type) -> None:
        if cls in self.writers:
            return
        writer = families.writer_for(cls, self)
        if writer is not None:
            self.writers[cls] = writer
            return
        try:
            self.register(cls)
        except (TypeError, ValueError):
            return  # needs encode and decode, or a name of its own: refused when it is written


def _emit(kind: str, stored: str) -> None:
    """Tell listeners about the type that is stored under this name."""
    from milepost.checkpoint.serde.event_hooks import emit_serde_event

    module, _, name = stored.partition(":")
    emit_serde_event({"kind": kind, "module": module, "name": name})


def _same_place(one: type, other: type) -> bool:
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


default_registry = TypeRegistry()
"""What every serializer uses unless it is given a registry of its own."""
hand_over(default_registry.register_data_types)


@overload
def register_type(
    cls: type[T],
    /,
    *,
    name: str | None = ...,
    version: int = ...,
    encode: Callable[[T], Any] | None = ...,
    decode: Callable[[Any], T] | None = ...,
    old_names: Iterable[str] = ...,
    registry: TypeRegistry | None = ...,
) -> type[T]: ...
@overload
def register_type(
    *,
    name: str | None = ...,
    version: int = ...,
    encode: Callable[[Any], Any] | None = ...,
    decode: Callable[[Any], Any] | None = ...,
    old_names: Iterable[str] = ...,
    registry: TypeRegistry | None = ...,
) -> Callable[[type[T]], type[T]]: ...
def register_type(
    cls: type[T] | None = None,
    /,
    *,
    name: str | None = None,
    version: int = 1,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
    old_names: Iterable[str] = (),
    registry: TypeRegistry | None = None,
) -> type[T] | Callable[[type[T]], type[T]]:
    """Allow a type to be saved. A call, or a decorator of the class.

    Args:
        cls: The class.
        name: What it is stored under; the default, `module:Class`, breaks when the class moves.
        version: Raise it when the fields change in a way that defaults do not cover, and add a
            migration with `register_migration`.
        encode: For classes that are not dataclasses, enums, named tuples, pydantic models or
            exceptions: returns any value that can be saved.
        decode: Takes what `encode` returned, and makes the value.
        old_names: Names that it was stored under before.
        registry: Where it is registered; by default for all serializers.

    Raises:
        TypeError: The class needs `encode` and `decode`.
        ValueError: The name belongs to another class.

    Examples:
        >>> from milepost.checkpoint.serde import register_type
        >>> from milepost.checkpoint.serde.registry import TypeRegistry
        >>> class Money:
        ...     def __init__(self, cents: int) -> None:
        ...         self.cents = cents
        >>> mine = TypeRegistry()  # leave it out to register for the whole program
        >>> to_int = lambda money: money.cents
        >>> Money = register_type(Money, name="money", encode=to_int, decode=Money, registry=mine)
    """

    def add(cls: type[T]) -> type[T]:
        (default_registry if registry is None else registry).register(
            cls, name=name, version=version, encode=encode, decode=decode, old_names=old_names
        )
        return cls

    return add if cls is None else add(cls)


def register_migration(
    cls: type, from_version: int, migrate: Migration, *, registry: TypeRegistry | None = None
) -> None:
    """Bring what was stored at one version of a type to the next.

    Args:
        cls: The class.
        from_version: The version that is stored.
        migrate: Is given what was stored (for types with fields a dict of them, for enums the
            member's name, otherwise what `encode` had returned) and returns it in the newer shape.
        registry: Where the class is registered.

    Examples:
        >>> from dataclasses import dataclass
        >>> from milepost.checkpoint.serde import register_migration, register_type
        >>> from milepost.checkpoint.serde.registry import TypeRegistry
        >>> mine = TypeRegistry()  # leave it out to register for the whole program
        >>> @register_type(name="parcel", version=2, registry=mine)
        ... @dataclass
        ... class Parcel:
        ...     grams: int
        >>> def in_grams(fields: dict) -> dict:
        ...     return {"grams": round(fields["kilos"] * 1000)}
        >>> register_migration(Parcel, 1, in_grams, registry=mine)
    """
    (default_registry if registry is None else registry).add_migration(cls, from_version, migrate)
