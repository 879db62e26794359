"""Pydantic models, of both versions, as plain values: what pydantic itself keeps of an instance, so
that no validator needs to run again. Pydantic is used only if the program has imported it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost._internal.warn import warn_of
from milepost.checkpoint.serde._msgpack.codec import WRITTEN
from milepost.checkpoint.serde._msgpack.shapes import LIST, check
from milepost.checkpoint.serde._types.fields import FIELDS, Codec, cached_properties, complete

if TYPE_CHECKING:
    from milepost.checkpoint.serde._msgpack.codec import Level

_REMEMBERED = 32
_OTHERS: frozenset[type] = frozenset({dict, type(None)})
_BESIDE = (frozenset({dict}), LIST)
"""Attributes that are no fields, and fields without a value, of an instance that has any."""


def is_model(cls: type) -> bool:
    """Whether `cls` is a pydantic v2 model."""
    pydantic = sys.modules.get("pydantic")
    base = getattr(pydantic, "BaseModel", None)
    return base is not None and cls is not base and issubclass(cls, base)


class FieldsDecoder(NamedTuple):
    """Decodes the brief form. The accelerator reads the members and does the same by itself, where
    the fields are those of the class."""

    cls: Any
    fields: dict[str, None]
    """Their names, in order."""
    given: set[str]
    takes_extra: bool
    slots: tuple[Any, ...]
    """What gets and sets SLOTS."""
    rebuilt: Callable[[Any, set[str], Any, None], Any]

    def __call__(self, stored: Any) -> Any:
        return self.rebuilt(stored, self.given.copy(), {} if self.takes_extra else None, None)


SLOTS = ("__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__", "__dict__")
Way = tuple[tuple[Any, ...], tuple[str, ...]]
"""What gets and sets SLOTS, and the names of the fields."""
Form = tuple[
    tuple[str, str, str, str], bool, list[tuple[set[str], bytes]], Way | None, tuple[str, ...]
]
"""SLOTS, whether instances have a dict of other fields (empty in a usual one), what instances begin
with, by the fields that were given, how they are copied, if that is the same as writing and reading
them, and the names of the fields: a usual instance has these in its dict, in order."""
_Given = tuple[set[str], str | None]


class ModelCodec:
    """How the instances of a model become values and back.

    Usual instances, those with fields and nothing beside them, have a shorter form. What is stored
    is the dict of fields; which of them were given comes after the tag. Most instances are made in
    a few ways, so there are a few tags, and reading looks up just one.
    """

    def __init__(self, cls: Any) -> None:
        self._cls = cls
        self._specs = cls.model_fields
        self._names = self._specs.keys()
        self._in_order = list(self._names)
        self._extra_allowed = cls.model_config.get("extra") == "allow"
        # BaseModel.__setattr__ is for users: it validates, and refuses on frozen models.
        base = vars(sys.modules["pydantic"].BaseModel)
        self._slots = tuple(base[name] for name in SLOTS)
        self._setters = tuple(slot.__set__ for slot in self._slots)
        self._derived = cached_properties(cls) - self._names
        self._private = _private_defaults(cls)
        self._before: list[_Given] = []
        self._last = self._listed(set(self._names))
        way = None
        # No copies of instances whose class does something when they are looked at or freed.
        if cls.__getattribute__ is object.__getattribute__ and not hasattr(cls, "__del__"):
            way = (self._slots, tuple(self._in_order))
        self.form: Form = (SLOTS, self._extra_allowed, [], way, tuple(self._in_order))
        """What the accelerator is told; its list is filled as instances are written."""

    # -- the shorter form

    def parts(self, model: Any) -> tuple[str, dict[str, Any]] | None:
        """The names of the fields that were given, for the tag, and the fields; None for an unusual
        instance."""
        extra, private = model.__pydantic_extra__, model.__pydantic_private__
        if extra or (extra is None) is self._extra_allowed or private is not None:
            return None
        fields = model.__dict__
        if fields.keys() != self._names:
            fields = self._without_derived(fields)
            if fields.keys() != self._names:
                return None
        given, listed = self._last  # taken at once: another thread may put another one there
        if model.__pydantic_fields_set__ != given:
            self._last = _, listed = self._listed(model.__pydantic_fields_set__)
        return None if listed is None else (listed, fields)

    def _listed(self, given: set[str]) -> _Given:
        """The names in one string; None if a name is so odd that they could not be told apart."""
        for entry in self._before:
            if entry[0] == given:
                return entry
        names = sorted(given)
        entry = (set(given), ",".join(names) if all(map(str.isidentifier, names)) else None)
        if len(self._before) < _REMEMBERED:
            self._before.append(entry)
        return entry

    def decoder(self, listed: str) -> Callable[[Any], Any]:
        """What decodes the fields that are stored with such a tag."""
        given = set(listed.split(",")) if listed else set()
        if not all(map(str.isidentifier, given)):
            raise ValueError("the names of the fields that were given are odd")
        fields = dict.fromkeys(self._in_order)
        # mypy does not see that a named tuple can be called.
        decoder: Any = FieldsDecoder(
            self._cls, fields, given, self._extra_allowed, self._slots, self._rebuilt
        )
        # The accelerator knows no private attributes, which the class has only since.
        return decoder.__call__ if self._private else decoder  # type: ignore[no-any-return]

    # -- the whole form

    def encode(self, model: Any) -> Any:
        """Fields, the names of those that were given, other fields and private attributes."""
        stored, private = model.__dict__, model.__pydantic_private__
        beside: Sequence[Any] = ()
        if stored.keys() != self._names:
            content = self._without_derived(stored)
            unset = [name for name in self._in_order if name not in stored]
            stored = {name: value for name, value in content.items() if name in self._names}
            others = {name: value for name, value in content.items() if name not in self._names}
            beside = (others, unset) if others or unset else ()
        return [
            stored,
            sorted(model.__pydantic_fields_set__),
            model.__pydantic_extra__,
            private if private is None else _set_only(private),
            *beside,
        ]

    def spared(self, stored: Any, level: Level) -> Any:
        """What `encode` returned, without values that cannot be stored and have a default."""
        private = stored[3]
        if not private or WRITTEN.issuperset(map(type, private.values())) or level.strict:
            return stored
        for name in self._private.keys() & private.keys():
            why = level.why_refused(type(private[name]))
            if why is not None:
                warn_of(
                    f"The private attribute {name!r} of a {self._cls.__qualname__} cannot be stored"
                    f" ({why}). It is left out, and has its default when it is read."
                )
                del private[name]
        return stored

    def decode(self, payload: Any) -> Any:
        """The instance that `encode` was given."""
        stored, given, extra, private, *beside = check(
            payload, FIELDS, LIST, _OTHERS, _OTHERS, *_BESIDE, least=4
        )
        if not beside:
            return self._rebuilt(stored, set(given), extra, private)
        others, unset = beside
        model = self._rebuilt(stored, set(given), extra, private, unset)
        model.__dict__.update(others)
        return model

    # -- for both

    def _without_derived(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Without what a cached_property has computed."""
        return {name: value for name, value in stored.items() if name not in self._derived}

    def _rebuilt(
        self, stored: Any, given: set[str], extra: Any, private: Any, unset: Sequence[str] = ()
    ) -> Any:
        if type(stored) is not dict or [*stored] != self._in_order:
            check([stored], FIELDS)
            stored = self._without_derived(stored)  # which earlier versions have stored
            if stored.keys() != self._names:
                here = [name for name in self._in_order if name in stored or name not in unset]
                stored = complete(self._cls, stored, here, self._default)
            # A migration may have taken a field away.
            given &= self._names | (extra or {}).keys()
        if not self._private.keys() <= (private or {}).keys():
            made = {n: make() for n, make in self._private.items() if n not in (private or {})}
            private = {**(private or {}), **made}
        model = object.__new__(self._cls)
        set_given, set_extra, set_private, set_dict = self._setters
        set_dict(model, stored)
        set_given(model, given)
        set_extra(model, extra)
        set_private(model, private)
        return model

    def _default(self, name: str, others: Mapping[str, Any]) -> Any:
        spec = self._specs[name]
        if spec.is_required():
            raise KeyError(name)
        if getattr(spec, "default_factory_takes_validated_data", False):
            return spec.default_factory(dict(others))
        return spec.get_default(call_default_factory=True)


def _private_defaults(cls: Any) -> dict[str, Callable[[], Any]]:
    """What makes the defaults of the private attributes that have one."""
    undefined = sys.modules["pydantic_core"].PydanticUndefined
    defaults = {}
    for name, spec in cls.__private_attributes__.items():
        if spec.default_factory is None:
            if spec.default is not undefined:
                defaults[name] = spec.get_default  # which copies it
        elif not getattr(spec, "default_factory_takes_validated_data", False):
            defaults[name] = spec.default_factory
    return defaults


def _set_only(private: dict[str, Any]) -> dict[str, Any]:
    undefined = sys.modules["pydantic_core"].PydanticUndefined
    return {name: value for name, value in private.items() if value is not undefined}


def is_model_v1(cls: type) -> bool:
    """Whether `cls` is a model of pydantic v1, or of `pydantic.v1`."""
    for home in ("pydantic.v1.main", "pydantic.main"):
        base = getattr(sys.modules.get(home), "BaseModel", None)
        if base is None or hasattr(base, "model_fields") or cls is base:
            continue
        if issubclass(cls, base):
            return True
    return False


def of_model_v1(cls: Any) -> Codec:
    """How instances of such a model become values and back."""
    specs = cls.__fields__
    names = specs.keys()

    def default(name: str, _: Mapping[str, Any]) -> Any:
        if specs[name].required:
            raise KeyError(name)
        return specs[name].get_default()

    def encode(model: Any) -> Any:
        stored = {key: value for key, value in model.__dict__.items() if key in names}
        extra = {key: value for key, value in model.__dict__.items() if key not in names}
        private = {
            name: getattr(model, name)
            for name in model.__private_attributes__
            if hasattr(model, name)
        }
        return [stored, sorted(model.__fields_set__), extra or None, private or None]

    def decode(payload: Any) -> Any:
        stored, given, extra, private = check(payload, FIELDS, LIST, _OTHERS, _OTHERS)
        if stored.keys() != names:
            stored = complete(cls, stored, names, default)
        model = cls.__new__(cls)
        object.__setattr__(model, "__dict__", {**stored, **(extra or {})})
        object.__setattr__(model, "__fields_set__", set(given))
        for name, value in (private or {}).items():
            object.__setattr__(model, name, value)
        return model

    return encode, decode


_NAMED = {
    cls.__name__: cls
    for cls in (bool, bytes, complex, dict, float, frozenset, int, list, object, set, str, tuple)
} | {"NoneType": type(None)}


def generic_parts(cls: Any) -> tuple[type, tuple[Any, ...]] | None:
    """The generic model and its arguments, for a parametrised model such as `Box[int]`."""
    parts = getattr(cls, "__pydantic_generic_metadata__", None)
    if not isinstance(parts, dict) or not parts.get("origin") or not parts.get("args"):
        return None
    return parts["origin"], parts["args"]


def resolve_name(name: str, known: Callable[[str], type | None]) -> Any:
    """The class that a stored name means, made only of registered models and built-in types."""
    if not name.endswith("]"):
        return _NAMED.get(name) or known(name)
    head, _, inside = name[:-1].partition("[")
    origin = resolve_name(head, known)
    arguments = [resolve_name(argument, known) for argument in _split(inside)]
    if origin is None or any(argument is None for argument in arguments):
        return None
    try:
        return origin[tuple(arguments) if len(arguments) > 1 else arguments[0]]
    except TypeError:
        return None


def _split(text: str) -> list[str]:
    """The arguments in `text`, cut at the commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for position, sign in enumerate(text):
        depth += (sign == "[") - (sign == "]")
        if sign == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    return [*parts, text[start:].strip()]
