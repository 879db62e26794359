"""The default serializer."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from milepost._internal.warn import strict_by_default, warn_of
from milepost.checkpoint.serde._msgpack import engine
from milepost.checkpoint.serde._msgpack.codec import Level
from milepost.checkpoint.serde._types import old_json
from milepost.checkpoint.serde.registry import TypeRegistry, default_registry
from milepost.errors import DeserializationError, InvalidModuleError, SerializationError
from milepost.types import MISSING, _Missing

__all__ = ["InvalidModuleError", "JsonPlusSerializer"]

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from milepost._internal.native import Buffer

Allowed: TypeAlias = "Iterable[tuple[str, ...] | type]"
"""Types that a program allows: classes, or modules and names."""


class JsonPlusSerializer:
    """Writes and reads values exactly, as msgpack.

    What cannot be read back is refused when it is written. Of types that are not registered, some
    are written with a warning: a subclass of a built-in type, such as a `class Name(str)`, as that
    type, an exception as a RemoteError, and a data type (a dataclass, an enum, a pydantic model) as
    itself, which this process reads back, and another one if its graphs show the type.

    Args:
        pickle_fallback: Write what would be refused with pickle instead, and read such values.
            Anyone who can change stored pickle can run code in the reader, so it is off unless
            asked for.
        registry: The types that may be saved; all serializers share one by default.
        strict: Refuse all types that are not registered; so does MILEPOST_STRICT=1 in the
            environment.
        allowed_json_modules: Adds to `allowed_msgpack_modules`.
        allowed_msgpack_modules: Types that this serializer may also save: classes, or pairs of a
            module and a name, `[("shop.models", "Order")]`. They never take away what is
            registered, but with a list, or None, that is given here the values of every other data
            type are read as their fields, with a warning; `strict` refuses them. A class that is
            named is imported when its first value is met. `True` allows every data type, and
            imports what stored bytes name: use it only where no one else can write to the
            database.

    Examples:
        >>> from datetime import date
        >>> from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
        >>> serde = JsonPlusSerializer()
        >>> serde.loads_typed(serde.dumps_typed({"day": date(2026, 1, 2)}))
        {'day': datetime.date(2026, 1, 2)}
    """

    def __init__(
        self,
        *,
        pickle_fallback: bool = False,
        registry: TypeRegistry | None = None,
        strict: bool | None = None,
        allowed_json_modules: Allowed | Literal[True] | None = None,
        allowed_msgpack_modules: Allowed | Literal[True] | _Missing | None = MISSING,
    ) -> None:
        self.pickle_fallback = pickle_fallback
        self._strict = pickle_fallback or (strict_by_default() if strict is None else strict)
        everything = True in (allowed_json_modules, allowed_msgpack_modules)
        named = [
            one
            for allowed in (allowed_json_modules, allowed_msgpack_modules)
            if allowed is not None and allowed is not True and not isinstance(allowed, _Missing)
            for one in allowed
        ]
        self._use(default_registry if registry is None else registry)
        closed = allowed_msgpack_modules is not True and allowed_msgpack_modules is not MISSING
        if everything or named or closed:
            self._extend(named, everything=everything, only_registered=closed)

    def _use(self, registry: TypeRegistry) -> None:
        self.registry = registry
        self.level = Level(registry, strict=self._strict)

    def _extend(self, named: Allowed, *, everything: bool, only_registered: bool) -> None:
        """Allow more types, to this serializer only."""
        from milepost.checkpoint.serde._types.extended import ExtendedRegistry

        extended = ExtendedRegistry(
            self.registry,
            everything=everything,
            only_registered=only_registered,
            strict=self._strict,
        )
        extended.allow(*named)
        self._use(extended)

    def with_msgpack_allowlist(self, extra_allowlist: Allowed) -> Self:
        """A copy that also writes and reads these types; see `allowed_msgpack_modules`.

        Args:
            extra_allowlist: Classes, or pairs of a module and a name.
        """
        named = list(extra_allowlist)
        if not named:
            return self
        twin = copy(self)
        twin._extend(named, everything=False, only_registered=self.registry.only_registered)
        return twin

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The value as `(kind, data)`.

        Args:
            obj: The value.

        Raises:
            SerializationError: Says what was refused, and where.
        """
        if obj is None:
            return "null", b""
        if type(obj) is bytes:
            return "bytes", obj
        try:
            return "msgpack", self.level.pack(obj)
        except Exception:
            return self._dumps_exactly(obj)

    def _dumps_exactly(self, obj: Any) -> tuple[str, bytes]:
        try:
            return "msgpack", engine.pack_exactly(self.level, obj)
        except SerializationError:
            if not self.pickle_fallback:
                raise
        import pickle

        try:
            return "pickle", pickle.dumps(obj)
        except Exception as error:
            raise SerializationError(f"neither msgpack nor pickle can write it: {error}") from error

    def why_refused(self, cls: type) -> str | None:
        """Why no value of this very type is written; None if values of it are.

        What is inside a value may be refused all the same.
        """
        return self.level.why_refused(cls)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value that was written.

        Args:
            data: The kind and the bytes.

        Raises:
            DeserializationError: These bytes are not one.
            UnregisteredTypeError: They name a type that is not allowed.
        """
        kind, body = data
        if kind == "msgpack":
            return engine.unpack(self.level, body)
        if kind == "null" and not body:
            return None
        if kind == "bytes":
            return bytes(body)
        if kind == "bytearray":
            return bytearray(body)
        if kind == "json":
            return old_json.read(body, self._allowed_class, self._blocked)
        if kind == "pickle":
            return self._unpickled(body)
        raise DeserializationError(
            f"the stored kind {kind[:40]!r} is not one that this serializer writes"
            + ("; it is encrypted: use EncryptedSerializer" if "+" in kind else "")
        )

    def _allowed_class(self, module: str, name: str) -> type:
        known = self.registry.class_named
        home = _HOMES.get(module.partition(".")[0], module)
        found = known(f"{home}:{name}") or known(f"{module}:{name}")
        if found is None:
            raise InvalidModuleError(
                f"the stored type {module}.{name} is not allowed; if you trust it, use"
                f" JsonPlusSerializer(allowed_json_modules=[({module!r}, {name!r})])"
            )
        return found

    def _blocked(self, found: dict[str, Any], refusal: InvalidModuleError) -> Any:
        """Read stored JSON that names a class which is not allowed: as plain JSON."""
        if self._strict:
            raise refusal
        warn_of(f"{refusal}. It is read as the dict that is stored.")
        return found

    def _unpickled(self, body: bytes) -> Any:
        if not self.pickle_fallback:
            raise DeserializationError(
                "the stored value is pickle, which can run code when it is read; if you trust"
                " all who can write to this storage, use JsonPlusSerializer(pickle_fallback=True)"
            )
        import pickle

        try:
            return pickle.loads(body)
        except Exception as error:
            raise DeserializationError(f"the stored pickle does not load: {error}") from error

    def encode(self, obj: Any) -> tuple[str, bytes]:
        """The first of two steps: see `TwoStep`.

        Args:
            obj: The value.
        """
        return self.dumps_typed(obj)

    def decode(self, kind: str, data: bytes) -> Any:
        """The value that `encode` was given.

        Args:
            kind: What `encode` returned.
            data: What `encode` returned.
        """
        return self.loads_typed((kind, data))

    def decode_pieces(self, kind: str, pieces: Sequence[Buffer]) -> Any:
        """The same for data that is in pieces: they are joined at most once, for reading.

        Args:
            kind: What `encode` returned.
            pieces: What `encode` returned, in pieces.
        """
        if kind != "msgpack":
            return self.loads_typed((kind, b"".join(pieces)))
        return engine.unpack_pieces(self.level, pieces)

    def seal(self, data: bytes, place: str) -> bytes:  # noqa: ARG002
        """The second step: nothing to do, since this serializer keeps no secrets.

        Args:
            data: What `encode` returned.
            place: Where it is stored.
        """
        return data

    def unseal(self, data: bytes, place: str) -> bytes:  # noqa: ARG002
        """What was sealed.

        Args:
            data: What `seal` returned.
            place: Where it is stored.
        """
        return data


_HOMES = {
    "langchain": "langchain_core", "langchain_core": "langchain_core", "langgraph": "milepost"
}  # fmt: skip
"""Packages whose classes are stored under other names here."""
