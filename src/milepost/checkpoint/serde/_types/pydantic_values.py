"""Values of pydantic that are no models: secrets and sizes.

The list is fixed: a stored name chooses among these classes and no others, so reading may import
pydantic for them. A secret hides what it holds when it is shown. It is stored like any other
value; who may read the database is a matter of encryption.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from milepost.errors import DeserializationError

if TYPE_CHECKING:
    from milepost.checkpoint.serde.registry import TypeRegistry, Writer

_HOME: Final = "pydantic.types"
_HOLDS: Final[dict[str, type]] = {
    "SecretStr": str,
    "SecretBytes": bytes,
    "Secret": object,
    "ByteSize": int,
}
"""Class names, and what each is made of."""


def writer_for(cls: type, registry: TypeRegistry) -> Writer | None:
    """The writer of one of the classes in the list; None for any other class."""
    name = cls.__name__
    if name not in _HOLDS or getattr(import_module(_HOME), name, None) is not cls:
        return None
    _register(cls, registry)
    return registry.writers[cls]


def allow_name(name: str, registry: TypeRegistry) -> None:
    """Register the class that is stored as `name`, if it is in the list."""
    short = name.partition(":")[2]
    if short not in _HOLDS:
        return
    try:
        cls: type = getattr(import_module(_HOME), short)
    except ImportError as error:
        raise DeserializationError(
            f"the stored value is a {short} of pydantic; run `pip install pydantic` to read it"
        ) from error
    _register(cls, registry)


def _register(cls: Any, registry: TypeRegistry) -> None:
    holds = _HOLDS[cls.__name__]

    def decode(value: Any) -> Any:
        if holds is not object and type(value) is not holds:
            raise TypeError(f"a {cls.__name__} is made of {holds.__name__}")
        return cls(value)

    encode = int if holds is int else cls.get_secret_value
    registry.register(cls, name=f"pydantic:{cls.__name__}", encode=encode, decode=decode)
