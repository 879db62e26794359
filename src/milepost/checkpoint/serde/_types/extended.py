"""A registry that allows more than another one, for one serializer alone."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from milepost.checkpoint.serde._msgpack.signals import Refused
from milepost.checkpoint.serde._types.records import Tag, is_data_type
from milepost.checkpoint.serde.event_hooks import emit_serde_event
from milepost.checkpoint.serde.registry import TypeRegistry

if TYPE_CHECKING:
    from milepost.checkpoint.serde._types.records import Decode, RecordType
    from milepost.checkpoint.serde.registry import Writer


class ExtendedRegistry(TypeRegistry):
    """What `base` allows, now or later, and what this registry is told of beside that.

    With `everything` it allows every data type: one that is written is registered here, and one
    that stored bytes name is imported. A program has to ask for that: whoever can write to the
    database then chooses which modules a reader imports.
    """

    def __init__(
        self, base: TypeRegistry, *, everything: bool = False, only_registered: bool = False
    ) -> None:
        super().__init__()
        self.base = base
        self.everything = everything
        self.only_registered = only_registered
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
        if self.base._find(Tag.of(tag).name) is not None:
            return self.base.by_tag.get(tag) or self.base.decoder(tag)
        return super().decoder(tag)

    def _find(self, name: str) -> RecordType | None:
        found = self.base._find(name) or super()._find(name)
        if found is None and self.everything:
            module, _, qualname = name.partition(":")
            self._import(module, qualname)
            found = self.types.get(name)
        elif found is not None and self.everything and name in self.types:
            _tell(name)
        return found

    def _import(self, module: str, qualname: str) -> None:
        try:
            found: object = sys.modules.get(module) or import_module(module)
            for part in qualname.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError, ValueError):
            return
        if isinstance(found, type) and is_data_type(found):
            self._allow(found)


def _tell(name: str) -> None:
    module, _, short = name.partition(":")
    emit_serde_event({"kind": "msgpack_unregistered_allowed", "module": module, "name": short})
