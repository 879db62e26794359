"""Times of pandas, URLs of pydantic, attrs classes, and the texts of LangChain's messages."""

import subprocess
import sys
from datetime import timedelta, timezone
from functools import cache
from typing import Any

import ormsgpack
import pytest

from milepost.checkpoint.serde._msgpack import ext
from milepost.checkpoint.serde._types import fields
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry
from milepost.errors import DeserializationError, SerializationError
from milepost.store.memory import InMemoryStore

attrs = pytest.importorskip("attrs")
pd = pytest.importorskip("pandas")
pydantic = pytest.importorskip("pydantic")
messages = pytest.importorskip("langchain_core.messages")


def fresh() -> JsonPlusSerializer:
    return JsonPlusSerializer(registry=TypeRegistry())


def again(value: Any) -> Any:
    """Through bytes, and back in another program."""
    return fresh().loads_typed(fresh().dumps_typed({"a": [(value,)]}))["a"][0][0]


MOMENTS = [
    pd.Timestamp("2024-05-06 07:08:09.123456789"),
    pd.Timestamp("1677-09-22"),
    pd.Timestamp("9999-12-31").as_unit("s"),
    pd.Timestamp("2024-01-01", tz="UTC"),
    pd.Timestamp("2024-01-01", tz="Europe/Berlin"),
    pd.Timestamp("2021-10-31 01:30", tz="UTC").tz_convert("Europe/Berlin"),
    pd.Timestamp("2021-10-31 00:30", tz="UTC").tz_convert("Europe/Berlin"),
    pd.Timestamp("2024-01-01", tz=timezone(timedelta(hours=5, minutes=30))),
    pd.Timedelta("-1 days 00:00:00.000000001"),
    pd.Timedelta(5, unit="s"),
]


@pytest.mark.parametrize("value", MOMENTS, ids=repr)
def test_a_time_of_pandas_comes_back_to_the_nanosecond(value: Any) -> None:
    back = again(value)
    assert type(back) is type(value)
    assert (back, back.unit) == (value, value.unit)
    assert getattr(back, "nanosecond", 0) == getattr(value, "nanosecond", 0)
    assert getattr(back, "tzinfo", None) == getattr(value, "tzinfo", None)
    assert getattr(back, "fold", 0) == getattr(value, "fold", 0)


def test_no_time_comes_back_as_no_time() -> None:
    assert again(pd.NaT) is pd.NaT


def test_a_zone_that_could_not_be_found_again_is_refused() -> None:
    tz = pytest.importorskip("dateutil.tz")
    with pytest.raises(SerializationError, match="ZoneInfo"):
        again(pd.Timestamp("2024-01-01", tz=tz.gettz("Europe/Berlin")))


@pytest.mark.parametrize(
    "payload",
    [
        ["Timestamp", "D", 1, None], ["Period", "ns", 1, None], ["Timestamp", "ns", 2**63, None],
        ["Timestamp", "ns", 1, "UTC"], ["Timestamp", "ns", "1", None], ["Timedelta"],
    ],
    ids=repr,
)  # fmt: skip
def test_other_bytes_make_no_time(payload: list[Any]) -> None:
    data = ormsgpack.packb(ormsgpack.Ext(ext.PANDAS_TIME, ormsgpack.packb(payload)))
    with pytest.raises(DeserializationError):
        fresh().loads_typed(("msgpack", data))


URLS = [
    ("HttpUrl", "https://user:p%40ss@exämple.com/a b?q=ü#f"),
    ("AnyUrl", "custom:thing"),
    ("AnyHttpUrl", "http://[::1]:8080"),
    ("FileUrl", "file:///etc/hosts"),
    ("WebsocketUrl", "wss://example.com/x"),
    ("RedisDsn", "redis://localhost:6379/0"),
    ("PostgresDsn", "postgres://u:p@one:5432,two/db"),
]


@pytest.mark.parametrize(("name", "text"), URLS, ids=[name for name, _ in URLS])
def test_a_url_of_pydantic_comes_back(name: str, text: str) -> None:
    url = getattr(pydantic, name)(text)
    back = again(url)
    assert type(back) is type(url)
    assert (back, str(back), hash(back)) == (url, str(url), hash(url))


def test_a_url_that_is_longer_as_it_is_shown_comes_back() -> None:
    url = pydantic.HttpUrl("https://example.com/" + "ü" * 1000)
    assert again(url) == url


def test_what_urls_are_made_of_comes_back() -> None:
    core = pytest.importorskip("pydantic_core")
    for url in (
        core.Url("http://x.com"), core.Url("http://x.com", preserve_empty_path=True),
        core.MultiHostUrl("redis://a,b:1"),
    ):  # fmt: skip
        back = again(url)
        assert (type(back), back, str(back)) == (type(url), url, str(url))


def test_a_url_in_a_model_comes_back() -> None:
    model = pydantic.create_model("Site", home=pydantic.HttpUrl)
    registry = TypeRegistry()
    registry.register(model)
    serde = JsonPlusSerializer(registry=registry)
    site = model(home="https://x.y")
    assert serde.loads_typed(serde.dumps_typed(site)) == site


@pytest.mark.parametrize("payload", [["Url", 5], ["Path", "x"], "http://x.y", ["Url", "no url"]])
def test_other_bytes_make_no_url(payload: Any) -> None:
    data = ormsgpack.packb(
        ormsgpack.Ext(ext.RECORD, ormsgpack.packb(["pydantic:HttpUrl", payload]))
    )
    with pytest.raises(DeserializationError):
        fresh().loads_typed(("msgpack", data))


@attrs.define
class Slotted:
    a: int
    _b: list[int] = attrs.field(factory=list)
    c: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        if self.a < 0:
            raise AssertionError("rebuilt by way of __init__")
        self.c = self.a + 1


@attrs.frozen(cache_hash=True)
class Frozen:
    a: str


@attrs.define(slots=False)
class Open:
    a: Any = attrs.field(converter=lambda value: [value])
    b: int = 5


class Further(Open):
    pass


@attrs.define(cache_hash=True, slots=False, frozen=True)
class Counted:
    a: str


REGISTRY = TypeRegistry()
for each in (Slotted, Frozen, Open, Further, Counted):
    REGISTRY.register(each)
KNOWING = JsonPlusSerializer(registry=REGISTRY)


def _changed(value: Any, **attributes: Any) -> Any:
    for name, new in attributes.items():
        object.__setattr__(value, name, new)
    return value


@pytest.mark.parametrize(
    "value",
    [
        Slotted(1, [2]), _changed(Slotted(1), a=-1), Frozen("x"), Open((1,)), Further(1),
        _changed(Open(1), extra="more"), Counted("x"), _changed(Counted("x"), a="y"),
    ],
    ids=repr,
)  # fmt: skip
def test_an_attrs_class_comes_back(value: Any) -> None:
    if type(value) in (Frozen, Counted):
        hash(value)
    back = KNOWING.loads_typed(KNOWING.dumps_typed([value]))[0]
    assert type(back) is type(value)
    assert attrs.asdict(back) == attrs.asdict(value)
    assert getattr(back, "extra", None) == getattr(value, "extra", None)
    if type(value) in (Frozen, Counted):
        assert getattr(back, "_attrs_cached_hash", None) is None
        assert hash(back) == hash(type(value)(value.a))


def test_the_hash_that_attrs_keeps_is_not_stored_whatever_its_attribute_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name of the attribute is attrs' own business, and another version may have another."""
    monkeypatch.setattr("attr._make._HASH_CACHE_FIELD", "_kept_elsewhere")
    monkeypatch.setattr(fields, "_cached_hash", cache(fields._cached_hash.__wrapped__))
    named = attrs.make_class("Named", ["a"], unsafe_hash=True, cache_hash=True)
    registry = TypeRegistry()
    registry.register(named)
    knowing = JsonPlusSerializer(registry=registry)
    value = named("x")
    hash(value)
    assert vars(value)["_kept_elsewhere"] is not None
    back = knowing.loads_typed(knowing.dumps_typed(value))
    assert vars(back) == {"a": "x", "_kept_elsewhere": None}


def test_an_attrs_class_may_get_a_field_with_a_default() -> None:
    def program(*fields: Any) -> JsonPlusSerializer:
        registry = TypeRegistry()
        registry.register(attrs.make_class("Cart", dict(fields)), name="cart")
        return JsonPlusSerializer(registry=registry)

    def field(**options: Any) -> Any:
        return attrs.field(**options)

    before = program(("a", field()))
    cart = before.registry.types["cart"].cls(1)
    stored = before.dumps_typed(cart)
    after = program(("a", field()), ("b", field(factory=list)), ("c", field(default=3)))
    back = after.loads_typed(stored)
    assert (back.a, back.b, back.c) == (1, [], 3)
    with pytest.raises(DeserializationError, match="needs the field 'b'"):
        program(("a", field()), ("b", field())).loads_typed(stored)


def test_an_attrs_class_in_a_schema_needs_no_registration() -> None:
    registry = TypeRegistry()
    registry.register_schema_types(dict[str, Frozen])
    serde = JsonPlusSerializer(registry=registry)
    assert serde.loads_typed(serde.dumps_typed(Frozen("x"))) == Frozen("x")


@pytest.mark.parametrize("strict", [False, True])
def test_the_text_of_a_message_is_stored_as_text(strict: bool) -> None:
    serde = JsonPlusSerializer(strict=strict)
    text = messages.AIMessage("hello").text
    for value in (text, [text], {"a": (text,)}, {text: 1}):
        back = serde.loads_typed(serde.dumps_typed(value))
        assert back == value
        assert "TextAccessor" not in repr(serde.dumps_typed(value))
    assert type(serde.loads_typed(serde.dumps_typed(text))) is str


def test_writing_text_imports_none_of_these_libraries() -> None:
    code = (
        "import sys; from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer as S;"
        "S().loads_typed(S().dumps_typed(['\\ud800', 1, {'a': (1,)}]));"
        "print({'attr', 'attrs', 'pandas', 'pydantic', 'langchain_core'} & sys.modules.keys())"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"


def test_items_of_a_store_come_back() -> None:
    store = InMemoryStore()
    store.put(("a", "b"), "k", {"x": (1, 2)})
    for item in (store.get(("a", "b"), "k"), store.search(("a",))[0]):
        back = again(item)
        assert type(back) is type(item)
        assert back == item
        assert (back.created_at, back.version) == (item.created_at, item.version)
