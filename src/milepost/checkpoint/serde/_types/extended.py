"""A registry that allows more than another one, for one serializer only."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from milepost._internal import log
from milepost._internal.warn import warn_of
from milepost.checkpoint.serde._msgpack.failures import Refused
from milepost.checkpoint.serde._types.records import fields_of, is_data_type, split_tag
from milepost.checkpoint.serde.registry import TypeRegistry, _emit

if TYPE_CHECKING:
    from milepost.checkpoint.serde._types.fields import Decode
    from milepost.checkpoint.serde._types.records import RecordType
    from milepost.checkpoint.serde.registry import Writer


class ExtendedRegistry(TypeRegistry):
    """What `base` allows, now or later, and the types that are allowed to this registry besides.

    With `everything` it allows every data type: one that is written is registered here, and one
    that stored bytes name is imported. A program has to ask for that: anyone who can write to
    the database then chooses which modules a reader imports.

    With `only_registered` the types are all that the program allows: a value of another one is
    stored as it is and read as its fields, with a warning, or refused by a `strict` registry.
    """

    def __init__(
        self,
        base: TypeRegistry,
        *,
        everything: bool = False,
        only_registered: bool = False,
        strict: bool = False,
    ) -> None:
        super().__init__()
        self.base = base
        self.everything = everything
        self.only_registered = only_registered
        self.strict = strict
        self._blocked: set[str] = set()
        self.plain_tuples = base.plain_tuples

    def find_writer(self, cls: type) -> Writer:
        """The writer of a class: the base's, or one of our own."""
        try:
            writer = self.base.writers.get(cls) or self.base.find_writer(cls)
        except Refused:
            if self.everything and is_data_type(cls):
                self._allow(cls)
            writer = self.writers.get(cls) or super().find_writer(cls)
        else:
            self.writers[cls] = writer
        return writer

    def decoder(self, tag: str) -> Decode:
        """The decoder for a stored tag. The base keeps its own: migrations may be added to it."""
        if self._of_base(split_tag(tag)[0]) is not None:
            return self.base.by_tag.get(tag) or self.base.decoder(tag)
        return super().decoder(tag)

    def stand_in_decoder(self, name: str) -> Decode:
        """What decodes the values of a type that is not allowed."""
        if self.strict or not self.only_registered:
            return super().stand_in_decoder(name)
        if name not in self._blocked:
            warn_of(
                f"The stored type {name!r} is blocked, since the list of types that the serializer "
                "was given does not name it; its values are read as their fields. Name it in "
                "allowed_msgpack_modules to read them as they were."
            )
            log.warning(log.STORAGE, "The stored type '%s' is blocked: it is not allowed.", name)
            self._blocked.add(name)
        return fields_of

    def _of_base(self, name: str) -> RecordType | None:
        return self.base._registered(name) if self.only_registered else self.base._find(name)

    def _registered(self, name: str) -> RecordType | None:
        return self.base._registered(name) or super()._registered(name)

    def _find(self, name: str) -> RecordType | None:
        found = self._of_base(name) or super()._find(name)
        if found is None and self.everything:
            module, _, qualname = name.partition(":")
            self._import(module, qualname)
            found = self.types.get(name)
        elif found is not None and self.everything and name in self.types:
            _emit("msgpack_unregistered_allowed", name)
        return found

    def _import(self, module: str, qualname: str) -> None:
        try:
            found: object = import_module(module)
            for part in qualname.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError, ValueError):
            return
        if isinstance(found, type) and is_data_type(found):
            self._allow(found)
