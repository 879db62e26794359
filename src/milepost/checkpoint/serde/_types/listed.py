"""Classes that need no registration, by fixed lists: LangChain's, pydantic's and our own.

A stored name chooses among these classes and no others, so reading may import their modules. Each
is imported when the first of its objects is met: stores are above serializers, and programs that
use LangChain's messages need not load ours.

LangChain's messages and documents are pydantic models and stored as such, under names of our own.
`message.text` is a `TextAccessor`, which is text that can be called as a method was in older
versions. It is stored as the text that it is.

A secret of pydantic hides what it holds when it is shown. It is stored like any other value; who
may read the database is a matter of encryption.

milepost's own records have names that outlive any move of their classes. Every registry knows them
from the start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost import types
from milepost.checkpoint.serde._msgpack.failures import Refused
from milepost.checkpoint.serde._msgpack.shapes import TEXT, check
from milepost.checkpoint.serde._types.records import RecordType, make
from milepost.errors import DeserializationError
from milepost.types import Interrupt, Send

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from milepost.checkpoint.serde._types.fields import Codec, Decode, Encode
    from milepost.checkpoint.serde.registry import TypeRegistry, Writer


class _Listed(NamedTuple):
    """Some classes of one package."""

    homes: dict[str, str]
    """Names of classes, and the public modules that have them."""
    prefixes: tuple[str, ...]
    """What comes before the name of a class in stored names; the first is written."""
    missing: str = ""
    """The error where a module, or the class in it, is not there."""
    codec: Callable[[Any], tuple[Encode | None, Decode | None]] = lambda _: (None, None)
    """How the instances of a class become values and back, if not by their fields."""

    def register(self, cls: type, registry: TypeRegistry) -> None:
        encode, decode = self.codec(cls)
        name = f"{self.prefixes[0]}{cls.__name__}"
        registry.register(cls, name=name, encode=encode, decode=decode)


def _item_codec(cls: Any) -> Codec:
    """Encode an item of a store as the arguments that make it."""
    names = ["value", "key", "namespace", "created_at", "updated_at", "version"]
    if cls.__name__ == "SearchItem":
        names.append("score")
    return (
        lambda item: {name: getattr(item, name) for name in names},
        lambda fields: cls(**fields),
    )


_HOLDS: Final[dict[str, type]] = {
    "SecretStr": str,
    "SecretBytes": bytes,
    "Secret": object,
    "ByteSize": int,
}
"""Class names, and what each is made of."""
_PARSED: Final = ("Url", "MultiHostUrl")
"""The classes that other URLs hold."""


def _pydantic_codec(cls: Any) -> Codec:
    """How pydantic's secrets, sizes and URLs, which are no models, become values and back."""
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


_OF_LANGCHAIN: Final = ("AI", "Chat", "Function", "Human", "System", "Tool")
LANGCHAIN: Final = {
    **{f"{name}Message": "langchain_core.messages" for name in _OF_LANGCHAIN},
    **{f"{name}MessageChunk": "langchain_core.messages" for name in _OF_LANGCHAIN},
    "RemoveMessage": "langchain_core.messages",
    "Document": "langchain_core.documents",
}
_MESSAGES: Final = "milepost.messages._light"
_OUR_MESSAGES: Final = (
    "HumanMessage", "AIMessage", "AIMessageChunk", "SystemMessage", "ToolMessage", "RemoveMessage"
)  # fmt: skip
_PYDANTIC: Final = {
    **dict.fromkeys(("SecretStr", "SecretBytes", "Secret", "ByteSize"), "pydantic.types"),
    **dict.fromkeys(
        (
            "AnyHttpUrl", "AnyUrl", "AnyWebsocketUrl", "FileUrl", "FtpUrl", "HttpUrl",
            "WebsocketUrl", "AmqpDsn", "ClickHouseDsn", "CockroachDsn", "KafkaDsn", "MariaDBDsn",
            "MongoDsn", "MySQLDsn", "NatsDsn", "PostgresDsn", "RedisDsn", "SnowflakeDsn",
        ),
        "pydantic.networks",
    ),
    # What the classes above are made of. Of older pydantics, these are all that there is.
    **dict.fromkeys(("Url", "MultiHostUrl"), "pydantic_core"),
}  # fmt: skip
_NO_PYDANTIC: Final = (
    "the stored value is a {} of pydantic; run `pip install -U pydantic` to read it"
)
_LISTS: Final = (
    _Listed(
        LANGCHAIN,
        ("langchain_core:",),
        "the stored value is a LangChain {}; run `pip install langchain-core` to read it",
    ),
    _Listed(dict.fromkeys(_OUR_MESSAGES, _MESSAGES), ("milepost:", f"{_MESSAGES}:")),
    _Listed(
        dict.fromkeys(("Item", "SearchItem"), "milepost.store.base"),
        ("milepost:",),
        codec=_item_codec,
    ),
    _Listed(_PYDANTIC, ("pydantic:",), _NO_PYDANTIC, _pydantic_codec),
    _Listed(
        dict.fromkeys(("SecretStr", "SecretBytes"), "pydantic.v1.types"),
        ("pydantic:v1.",),
        _NO_PYDANTIC,
        _pydantic_codec,
    ),
)
_BY_NAME: Final = {
    f"{prefix}{name}": (listed, name)
    for listed in _LISTS
    for prefix in listed.prefixes
    for name in listed.homes
}
PREFIXES: Final = frozenset(name.partition(":")[0] for name in _BY_NAME)
"""What comes before the colon in the stored names of listed classes."""


def writer_for(cls: type, root: str, registry: TypeRegistry) -> Writer | None:
    """The writer of a listed class, whose package is `root`; None for any other class."""
    name = cls.__name__
    if name == "TextAccessor" and root == "langchain_core" and issubclass(cls, str):
        return lambda value, _: str.__str__(value)
    for listed in _LISTS:
        home = listed.homes.get(name)
        if home is None or home.partition(".")[0] != root:
            continue
        if getattr(import_module(home), name, None) is cls:
            listed.register(cls, registry)
            return registry.writers[cls]
    return None


def allow_name(stored: str, registry: TypeRegistry) -> None:
    """Register the class that is stored under this name, if it is listed."""
    if stored not in _BY_NAME:
        return
    listed, name = _BY_NAME[stored]
    try:
        cls: type = getattr(import_module(listed.homes[name]), name)
    except (ImportError, AttributeError) as error:
        raise DeserializationError(listed.missing.format(name)) from error
    listed.register(cls, registry)


_OWN: tuple[type, ...] = (
    types.CacheKey,
    types.Command,
    types.Overwrite,
    types.PregelTask,
    types.StateSnapshot,
    types.StateUpdate,
    types.TimeoutPolicy,
    types._Answered,
    types._DeltaSnapshot,
)


def own_records() -> Iterator[RecordType]:
    """One record for each of milepost's own types."""
    for cls in _OWN:
        yield make(cls, name=f"milepost:{cls.__name__.lstrip('_')}")
    yield make(Send, name="milepost:Send", encode=_encode_send, decode=_decode_send)
    yield make(
        Interrupt, name="milepost:Interrupt", encode=_encode_interrupt, decode=_decode_interrupt
    )


def _encode_send(send: Send) -> dict[str, Any]:
    fields = {"node": send.node, "arg": send.arg}
    return fields if send.timeout is None else {**fields, "timeout": send.timeout}


def _decode_send(fields: dict[str, Any]) -> Send:
    return Send(fields["node"], fields["arg"], timeout=fields.get("timeout"))


def _encode_interrupt(interrupt: Interrupt) -> dict[str, Any]:
    fields = {"value": interrupt.value, "id": interrupt.id}
    schema = interrupt.response_schema
    return fields if schema is None else {**fields, "response_schema": schema}


def _decode_interrupt(fields: dict[str, Any]) -> Interrupt:
    schema = fields.get("response_schema")
    return Interrupt(fields["value"], fields["id"], response_schema=schema)
