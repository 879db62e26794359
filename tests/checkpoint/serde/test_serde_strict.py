"""What could not be read back is refused when it is written, with the place and the remedy."""

import sys
import threading
import warnings
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from types import ModuleType
from typing import Annotated, Any, TypedDict

import pydantic
import pytest

from milepost.checkpoint.serde.base import SerializerProtocol
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry, register_type
from milepost.errors import (
    DeserializationError,
    SerdeError,
    SerializationError,
    UnregisteredTypeError,
)
from milepost.types import Send
from milepost.warnings import MilepostWarning


class Thing:
    pass


@dataclass
class Known:
    x: Any = None


@dataclass
class DictLike(dict[str, Any]):
    x: int = 1


class Zone(tzinfo):
    def utcoffset(self, _: datetime | None) -> timedelta:
        return timedelta(hours=3)

    def dst(self, _: datetime | None) -> None:
        return None


@pytest.fixture
def serde() -> JsonPlusSerializer:
    registry = TypeRegistry()
    registry.register(Known)
    return JsonPlusSerializer(registry=registry)


def test_both_serializers_meet_the_protocol(serde: JsonPlusSerializer) -> None:
    assert isinstance(serde, SerializerProtocol)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": {"b": [0, 1, 2, {"c": Thing()}]}}, "a.b[3].c"),
        (Known([Known(Thing())]), "x[0].x"),
        ({"odd key": [Thing()]}, "['odd key'][0]"),
        ({(1, 2): Thing()}, "[(1, 2)]"),
        ((1, (2, Thing())), "[1][1]"),
        (Send("n", {"p": Thing()}), "arg.p"),
        (Thing(), ""),
        ([{Thing}], "[0]"),
    ],
)
def test_a_refusal_says_where(serde: JsonPlusSerializer, value: Any, path: str) -> None:
    with pytest.raises(SerializationError) as caught:
        serde.dumps_typed(value)
    assert caught.value.path == path
    error = caught.value.at(thread="t1", node="ask").at(channel="notes", node="other")
    assert error is caught.value
    for word in ("t1", "ask", "notes", path):
        assert word in str(error)
    assert "other" not in str(error)


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (Thing(), "register_type"), (lambda: 1, "not data"), (len, "not data"),
        (sys, "not data"), (Thing, "not data"), (DictLike(), "register_type"),
    ],
    ids=lambda v: v if type(v) is str and v.isascii() else type(v).__name__,
)  # fmt: skip
def test_a_refusal_says_what_to_do(serde: JsonPlusSerializer, value: Any, advice: str) -> None:
    for wrapped in (value, [value], {"a": (value,)}):
        with pytest.raises(SerializationError) as caught:
            serde.dumps_typed(wrapped)
        assert advice in str(caught.value)


WITHOUT: list[tuple[Any, Any, str]] = [
    (memoryview(b"x"), b"x", "bytes(value)"),
    (defaultdict(lambda: 1, a=bytearray(b"x")), {"a": bytearray(b"x")}, "dict(value)"),
    (
        datetime(2024, 1, 1, tzinfo=Zone()),
        datetime(2024, 1, 1, tzinfo=timezone(Zone().utcoffset(None))),
        "ZoneInfo",
    ),
]


@pytest.mark.parametrize(("value", "read", "advice"), WITHOUT, ids=["bytes", "dict", "zone"])
def test_what_langgraph_stores_without_a_part_is_stored_so_with_a_warning(
    serde: JsonPlusSerializer, value: Any, read: Any, advice: str
) -> None:
    for wrap in (lambda one: one, lambda one: [one], lambda one: {"a": (one,)}):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            back = serde.loads_typed(serde.dumps_typed(wrap(value)))
        assert back == wrap(read)
        assert type(back) is type(wrap(read))
        assert all(one.category is MilepostWarning for one in told)
        with pytest.raises(SerializationError) as caught:
            JsonPlusSerializer(strict=True).dumps_typed(wrap(value))
        assert advice in str(caught.value)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("text", ["2024-01-02T03:04:05+02:00", "2024-01-02T03:04:05Z"])
def test_a_datetime_that_pydantic_has_read_is_kept_with_its_offset(text: str, strict: bool) -> None:
    value = pydantic.TypeAdapter(datetime).validate_python(text)
    serde = JsonPlusSerializer(strict=strict)
    back = serde.loads_typed(serde.dumps_typed([value]))[0]
    assert back == value
    assert back.utcoffset() == value.utcoffset()
    assert back.isoformat() == value.isoformat()


def _cycles() -> list[Any]:
    plain: list[Any] = []
    plain.append(plain)
    table: dict[Any, Any] = {}
    table["t"] = (table,)
    known = Known()
    known.x = [known]
    return [plain, table, known]


@pytest.mark.parametrize("value", _cycles(), ids=["list", "dict", "object"])
def test_a_cycle_is_a_typed_error(serde: JsonPlusSerializer, value: Any) -> None:
    with pytest.raises(SerializationError, match=r"contains itself|too deep"):
        serde.dumps_typed(value)


def _deep(wrap: Any, count: int) -> Any:
    value: Any = 1
    for _ in range(count):
        value = wrap(value)
    return value


WRAPS = {
    "list": lambda v: [v],
    "dict": lambda v: {"k": v},
    "tuple": lambda v: (v,),
    "object": Known,
    "odd": lambda v: {(1,): v},
    "mixed": lambda v: [[[(v,)]]],
    "lists in tuples": lambda v: ([[[[[[[[v]]]]]]]],),
}


@pytest.mark.parametrize("count", [90, 300, 3_000, 100_000])
@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_depth_is_read_back_or_refused_and_never_overflows(
    serde: JsonPlusSerializer, wrap: Any, count: int
) -> None:
    value = _deep(wrap, count)
    if count < 300:
        written = serde.dumps_typed(value)
        assert serde.dumps_typed(serde.loads_typed(written)) == written
    else:
        with pytest.raises(SerializationError, match="too deep") as caught:
            serde.dumps_typed(value)
        assert len(str(caught.value)) < 1_000
    while isinstance(
        value, (list, tuple, dict, Known)
    ):  # taken apart: freeing it must not recurse either
        value = (
            value.x
            if isinstance(value, Known)
            else next(iter(value.values() if isinstance(value, dict) else value))
        )


def test_what_is_written_in_a_small_thread_is_read_in_one(serde: JsonPlusSerializer) -> None:
    value: Any = 1
    for _ in range(99):
        value = (_deep(lambda v: [v], 9), value)
    outcome: list[Any] = []
    before = threading.stack_size(1024 * 1024)
    try:
        thread = threading.Thread(
            target=lambda: outcome.append(serde.loads_typed(serde.dumps_typed(value)) == value)
        )
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert outcome == [True]


def test_an_interrupt_while_writing_is_not_swallowed() -> None:
    class Slow:
        pass

    def stop(_: Any) -> Any:
        raise KeyboardInterrupt

    registry = TypeRegistry()
    register_type(Slow, encode=stop, decode=lambda _: Slow(), registry=registry)
    with pytest.raises(KeyboardInterrupt):
        JsonPlusSerializer(registry=registry).dumps_typed([Slow()])


def test_an_unknown_type_in_stored_bytes_is_a_typed_error(serde: JsonPlusSerializer) -> None:
    written = serde.dumps_typed({"a": [Known(1)]})
    with pytest.raises(UnregisteredTypeError, match="register_type") as caught:
        JsonPlusSerializer(registry=TypeRegistry()).loads_typed(written)
    assert caught.value.path == "a[0]"
    assert isinstance(caught.value, SerdeError)


def test_pickle_is_written_and_read_only_when_asked() -> None:
    value = {"r": Thing}
    with pytest.raises(SerializationError):
        JsonPlusSerializer().dumps_typed(value)
    asked = JsonPlusSerializer(pickle_fallback=True)
    written = asked.dumps_typed(value)
    assert written[0] == "pickle"
    assert asked.loads_typed(written) == value
    with pytest.raises(DeserializationError, match="pickle_fallback"):
        JsonPlusSerializer().loads_typed(written)
    assert asked.dumps_typed({"plain": 1})[0] == "msgpack"


# Discovery


class Outer:
    @dataclass
    class Nested:
        a: int = 1


def test_types_that_a_module_shows_need_no_registration() -> None:
    registry = TypeRegistry()
    registry.register_module_types(sys.modules[__name__])
    serde = JsonPlusSerializer(registry=registry)
    written = serde.dumps_typed([Known(1), Outer.Nested()])
    fresh = TypeRegistry()
    fresh.register_module_types(sys.modules[__name__])
    assert JsonPlusSerializer(registry=fresh).loads_typed(written) == [Known(1), Outer.Nested()]


def test_a_loaded_subclass_of_a_type_that_a_schema_mentions_needs_no_registration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    far = ModuleType("a_module_far_away")
    exec(
        f"from dataclasses import dataclass\nfrom {__name__} import Known\n"
        "@dataclass\nclass Kind(Known):\n    y: int = 0\n@dataclass\nclass Other:\n    z: int = 0",
        vars(far),
    )

    def serde() -> JsonPlusSerializer:
        registry = TypeRegistry()
        registry.register_schema_types(list[Known])
        return JsonPlusSerializer(registry=registry)

    monkeypatch.setitem(sys.modules, far.__name__, far)
    kind = serde().dumps_typed([far.Kind(1, 2)])
    with pytest.warns(MilepostWarning, match="Other"):
        other = serde().dumps_typed([far.Other(3)])
    assert serde().loads_typed(kind) == [far.Kind(1, 2)]
    with pytest.raises(UnregisteredTypeError):
        serde().loads_typed(other)
    monkeypatch.delitem(sys.modules, far.__name__)
    with pytest.raises(UnregisteredTypeError):  # nothing is imported
        serde().loads_typed(kind)


def test_types_that_a_schema_mentions_need_no_registration() -> None:
    @dataclass
    class Leaf:
        n: int = 0

    @dataclass
    class Branch:
        leaves: dict[str, list[Leaf] | None]

    class Schema(TypedDict, total=False):
        branch: Branch | None
        strange: "NoSuchName"  # type: ignore[name-defined]  # noqa: F821

    class Plain(TypedDict):
        branch: Branch

    class Mixed(TypedDict):
        first: Annotated[dict[str, Branch] | None, "note"]
        last: int | None

    class Ending(TypedDict):
        nothing: None
        text: str | None
        branch: Branch
        more: Any

    for schema in (
        Schema,
        Plain,
        Mixed,
        Ending,
        list[Branch],
        Branch | None,
        dict[str, tuple[Branch, ...]],
    ):
        registry = TypeRegistry()
        registry.register_schema_types(schema)
        serde = JsonPlusSerializer(registry=registry)
        value = Branch({"a": [Leaf(3)]})
        assert serde.loads_typed(serde.dumps_typed(value)) == value


@pytest.mark.parametrize(
    "strange", [None, 3, "x", ..., Any, [int], (1,), object(), list["int"], type]
)  # type: ignore[name-defined]
def test_strange_annotations_are_passed_over(strange: Any) -> None:
    registry = TypeRegistry()
    before = dict(registry.types)
    registry.register_schema_types(strange)
    assert registry.types == before


def test_a_class_that_is_defined_again_can_still_be_written_and_read() -> None:
    registry = TypeRegistry()

    def make() -> type:
        @dataclass
        class Local:
            a: int

        registry.register_schema_types(Local)
        return Local

    first, second = make(), make()
    serde = JsonPlusSerializer(registry=registry)
    assert serde.loads_typed(serde.dumps_typed(second(1))) == second(1)
    assert serde.loads_typed(serde.dumps_typed(first(2))) == second(2)


def test_a_stored_name_cannot_be_taken_by_another_class() -> None:
    registry = TypeRegistry()
    registry.register(Known, name="k")
    with pytest.raises(ValueError, match="belongs to"):
        registry.register(Outer.Nested, name="k")


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_a_driver_may_hand_back_any_kind_of_buffer(serde: JsonPlusSerializer, buffer: Any) -> None:
    for value in ({"a": [1, (2,)]}, {1: "x"}, b"raw", None):
        kind, data = serde.dumps_typed(value)
        assert serde.loads_typed((kind, buffer(data))) == value


def test_bytes_that_are_too_short_or_too_long_are_refused(serde: JsonPlusSerializer) -> None:
    kind, data = serde.dumps_typed({"a": [1, (2, "x")]})
    for wrong in (data[:-1], data + b"\x01", data + data, b"", data + b"\xa8milepost"):
        with pytest.raises(DeserializationError):
            serde.loads_typed((kind, wrong))
