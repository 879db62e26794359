"""Values of pydantic that are no models: secrets, sizes and URLs.

The list is fixed: a stored name chooses among these classes and no others, so reading may import
pydantic for them. A secret hides what it holds when it is shown. It is stored like any other
value; who may read the database is a matter of encryption.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint.serde._msgpack.failures import Refused
from milepost.checkpoint.serde._msgpack.shapes import TEXT, check
from milepost.errors import DeserializationError

if TYPE_CHECKING:
    from milepost.checkpoint.serde._types.fields import Codec
    from milepost.checkpoint.serde.registry import TypeRegistry, Writer

_HOLDS: Final[dict[str, type]] = {
    "SecretStr": str,
    "SecretBytes": bytes,
    "Secret": object,
    "ByteSize": int,
}
"""Class names, and what each is made of."""
_SECRETS_V1: Final = ("SecretStr", "SecretBytes")
"""Those that `pydantic.v1` has too."""
_URLS: Final = (
    "AnyHttpUrl", "AnyUrl", "AnyWebsocketUrl", "FileUrl", "FtpUrl", "HttpUrl", "WebsocketUrl",
    "AmqpDsn", "ClickHouseDsn", "CockroachDsn", "KafkaDsn", "MariaDBDsn", "MongoDsn", "MySQLDsn",
    "NatsDsn", "PostgresDsn", "RedisDsn", "SnowflakeDsn",
)  # fmt: skip
_PARSED: Final = ("Url", "MultiHostUrl")
"""What the classes above are made of. Of older pydantics, these are all that there is."""
_HOMES: Final = {
    **dict.fromkeys(_HOLDS, "pydantic.types"),
    **dict.fromkeys(_URLS, "pydantic.networks"),
    **dict.fromkeys(_PARSED, "pydantic_core"),
}
"""Class names, and the modules that have them."""


def writer_for(cls: type, registry: TypeRegistry) -> Writer | None:
    """The writer of one of the classes in the list; None for any other class."""
    name = cls.__name__
    if cls.__module__.startswith("pydantic.v1"):
        if name not in _SECRETS_V1:
            return None
        _register(cls, registry)
        return registry.writers[cls]
    if name not in _HOMES or getattr(import_module(_HOMES[name]), name, None) is not cls:
        return None
    _register(cls, registry)
    return registry.writers[cls]


def allow_name(name: str, registry: TypeRegistry) -> None:
    """Register the class that is stored as `name`, if it is in the list."""
    short = name.partition(":")[2]
    if short.removeprefix("v1.") in _SECRETS_V1 and short.startswith("v1."):
        _register(getattr(import_module("pydantic.v1.types"), short[3:]), registry)
        return
    if short not in _HOMES:
        return
    try:
        cls: type = getattr(import_module(_HOMES[short]), short)
    except (ImportError, AttributeError) as error:
        raise DeserializationError(
            f"the stored value is a {short} of pydantic; run `pip install -U pydantic` to read it"
        ) from error
    _register(cls, registry)


def _register(cls: Any, registry: TypeRegistry) -> None:
    encode, decode = (_secret if cls.__name__ in _HOLDS else _url)(cls)
    version = "v1." if cls.__module__.startswith("pydantic.v1") else ""
    name = f"pydantic:{version}{cls.__name__}"
    registry.register(cls, name=name, encode=encode, decode=decode)


def _url(cls: Any) -> Codec:
    """A URL as its text. It is parsed again, but not validated: what is allowed may have changed,
    and a text that was just short enough may be longer as it is shown."""
    core: Any = import_module("pydantic_core")

    def parse(parsed: Any, text: str) -> Any:
        found = parsed(text)
        return found if str(found) == text else parsed(text, preserve_empty_path=True)

    def encode(value: Any) -> Any:
        inner = value if cls.__name__ in _PARSED else value._url
        text = str(inner)
        if parse(type(inner), text) != inner:
            raise Refused(f"the {cls.__name__} {text!r} could not be read back; save its text")
        return [type(inner).__name__, text]

    def decode(payload: Any) -> Any:
        name, text = check(payload, TEXT, TEXT)
        if name not in _PARSED:
            raise ValueError(f"a URL is not made of a {name[:40]!r}")
        parsed = parse(getattr(core, name), text)
        if cls.__name__ in _PARSED:
            return parsed
        url = object.__new__(cls)
        url._url = parsed
        return url

    return encode, decode


def _secret(cls: Any) -> Codec:
    holds = _HOLDS[cls.__name__]

    def decode(value: Any) -> Any:
        if holds is not object and type(value) is not holds:
            raise TypeError(f"a {cls.__name__} is made of {holds.__name__}")
        return cls(value)

    return (int if holds is int else cls.get_secret_value), decode
