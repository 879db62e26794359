"""Values of pydantic that are no models: secrets, sizes and URLs.

A secret hides what it holds when it is shown. It is stored like any other value; who may read the
database is a matter of encryption.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint.serde._msgpack.failures import Refused
from milepost.checkpoint.serde._msgpack.shapes import TEXT, check

if TYPE_CHECKING:
    from milepost.checkpoint.serde._types.fields import Codec

_HOLDS: Final[dict[str, type]] = {
    "SecretStr": str,
    "SecretBytes": bytes,
    "Secret": object,
    "ByteSize": int,
}
"""Class names, and what each is made of."""
_PARSED: Final = ("Url", "MultiHostUrl")
"""What other URLs are made of."""


def codec_of(cls: Any) -> Codec:
    """How the instances of a listed class become values and back."""
    return (_secret if cls.__name__ in _HOLDS else _url)(cls)


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
