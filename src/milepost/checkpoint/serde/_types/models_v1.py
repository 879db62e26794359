"""Models of pydantic's first version as plain values, looked at only if the program has it."""

from __future__ import annotations

import sys
from typing import Any

from milepost.checkpoint.serde._msgpack.shapes import LIST, check
from milepost.checkpoint.serde._types.fields import FIELDS, complete
from milepost.checkpoint.serde._types.models import _OTHERS, Codec


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
    """What pydantic keeps of an instance, so that no validator needs to run again."""
    specs = cls.__fields__
    names = specs.keys()

    def default(name: str) -> Any:
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
