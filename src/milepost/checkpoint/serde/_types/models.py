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


class Brief(NamedTuple):
    """A shorter form for usual instances, those with fields and nothing beside them.

    What is stored is the dict of fields; which of them were given comes after the tag. Most
    instances are made in a few ways, so there are a few tags, and reading looks up just one.
    """

    parts: Callable[[Any], tuple[str, dict[str, Any]] | None]
    """The names of the fields that were given, for the tag, and the fields; None for an unusual
    instance."""
    decode: Callable[[str], Callable[[Any], Any]]
    """What decodes the fields that are stored with such a tag."""
    form: Form
    """What the accelerator is told; its list is filled as instances are written."""
    spared: Callable[[Any, Level], Any]
    """The values that an unusual instance is stored as, without those that cannot be stored and
    have a default."""


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


def of_model(cls: Any) -> tuple[Codec, Brief]:
    """How instances become values and back, and the shorter form."""
    specs = cls.model_fields
    names = specs.keys()
    in_order = list(names)
    extra_allowed = cls.model_config.get("extra") == "allow"
    make = object.__new__
    # BaseModel.__setattr__ is for users: it validates, and refuses on frozen models.
    base = vars(sys.modules["pydantic"].BaseModel)
    slots = tuple(base[name] for name in SLOTS)
    set_given, set_extra, set_private, set_dict = (slot.__set__ for slot in slots)
    derived = cached_properties(cls) - names
    defaults = _private_defaults(cls)

    def default(name: str, others: Mapping[str, Any]) -> Any:
        spec = specs[name]
        if spec.is_required():
            raise KeyError(name)
        if getattr(spec, "default_factory_takes_validated_data", False):
            return spec.default_factory(dict(others))
        return spec.get_default(call_default_factory=True)

    def encode(model: Any) -> Any:
        stored, private = model.__dict__, model.__pydantic_private__
        beside: Sequence[Any] = ()
        if stored.keys() != names:
            content = {name: value for name, value in stored.items() if name not in derived}
            others = {name: value for name, value in content.items() if name not in names}
            unset = [name for name in in_order if name not in stored]
            stored = {name: value for name, value in content.items() if name in names}
            beside = (others, unset) if others or unset else ()
        return [
            stored,
            sorted(model.__pydantic_fields_set__),
            model.__pydantic_extra__,
            private if private is None else _set_only(private),
            *beside,
        ]

    def rebuilt(
        stored: Any, given: set[str], extra: Any, private: Any, unset: Sequence[str] = ()
    ) -> Any:
        if type(stored) is not dict or [*stored] != in_order:
            check([stored], FIELDS)
            # Earlier versions stored what a cached_property had computed.
            stored = {name: value for name, value in stored.items() if name not in derived}
            if stored.keys() != names:
                here = [name for name in in_order if name in stored or name not in unset]
                stored = complete(cls, stored, here, default)
            given &= names | (extra or {}).keys()  # a migration may have taken a field away
        model = make(cls)
        set_dict(model, stored)
        set_given(model, given)
        set_extra(model, extra)
        set_private(model, completed(private) if defaults else private)
        return model

    def completed(private: Any) -> dict[str, Any]:
        stored = private or {}
        if defaults.keys() <= stored.keys():
            return stored
        return {**stored, **{name: make() for name, make in defaults.items() if name not in stored}}

    def spared(stored: Any, level: Level) -> Any:
        private = stored[3]
        if not private or WRITTEN.issuperset(map(type, private.values())) or level.strict:
            return stored
        for name in defaults.keys() & private.keys():
            why = level.why_refused(type(private[name]))
            if why is not None:
                warn_of(
                    f"The private attribute {name!r} of a {cls.__qualname__} cannot be stored"
                    f" ({why}). It is left out, and has its default when it is read."
                )
                del private[name]
        return stored

    def decode(payload: Any) -> Any:
        stored, given, extra, private, *beside = check(
            payload, FIELDS, LIST, _OTHERS, _OTHERS, *_BESIDE, least=4
        )
        if not beside:
            return rebuilt(stored, set(given), extra, private)
        others, unset = beside
        model = rebuilt(stored, set(given), extra, private, unset)
        model.__dict__.update(others)
        return model

    before: list[_Given] = []
    last = _listed(set(names), before)

    def parts(model: Any) -> tuple[str, dict[str, Any]] | None:
        nonlocal last
        extra = model.__pydantic_extra__
        if extra or (extra is None) is extra_allowed or model.__pydantic_private__ is not None:
            return None
        fields = model.__dict__
        if fields.keys() != names:
            fields = {name: value for name, value in fields.items() if name not in derived}
            if fields.keys() != names:
                return None
        given, listed = last  # taken at once: another thread may put another one there
        if model.__pydantic_fields_set__ != given:
            last = _, listed = _listed(model.__pydantic_fields_set__, before)
        return None if listed is None else (listed, fields)

    def decode_given(listed: str) -> Callable[[Any], Any]:
        given = set(listed.split(",")) if listed else set()
        if not all(map(str.isidentifier, given)):
            raise ValueError("the names of the fields that were given are odd")
        fields = dict.fromkeys(in_order)
        # mypy does not see that a named tuple can be called.
        decoder: Any = FieldsDecoder(cls, fields, given, extra_allowed, slots, rebuilt)
        # The accelerator knows no private attributes, which the class has only since.
        return decoder.__call__ if defaults else decoder  # type: ignore[no-any-return]

    # No copies of instances whose class does something when they are looked at or freed.
    way = None
    if cls.__getattribute__ is object.__getattribute__ and not hasattr(cls, "__del__"):
        way = (slots, tuple(in_order))
    form: Form = (SLOTS, extra_allowed, [], way, tuple(in_order))
    return (encode, decode), Brief(parts, decode_given, form, spared)


def _listed(given: set[str], before: list[_Given]) -> _Given:
    """The names in one string; None if a name is so odd that they could not be told apart."""
    for entry in before:
        if entry[0] == given:
            return entry
    names = sorted(given)
    entry = (set(given), ",".join(names) if all(map(str.isidentifier, names)) else None)
    if len(before) < _REMEMBERED:
        before.append(entry)
    return entry


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
