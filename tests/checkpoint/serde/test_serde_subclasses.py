"""Subclasses of built-in types that are not registered: stored as those, with a warning."""

import enum
import warnings
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

import pytest

from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.serde import register_type
from milepost.checkpoint.serde._msgpack.engine import encode_elements
from milepost.checkpoint.serde._msgpack.skim import elements_head
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry
from milepost.errors import SerializationError
from milepost.graph import START, StateGraph
from milepost.warnings import MilepostWarning


def extended(base: type) -> Any:
    """A class that extends `base`, and answers every question wrongly."""

    def lies(*_: Any) -> Any:
        raise AssertionError("a method of the subclass was called")

    names = ["__iter__", "__len__", "__str__", "__int__", "items", "keys"]
    lying = dict.fromkeys([] if base is Counter else names, lies)  # its own __init__ asks
    return type(f"My{base.__name__.title()}", (base,), lying)


VALUES: list[tuple[type, Any]] = [
    (str, "text"), (str, ""), (str, "é\ud800"), (int, 5), (int, -(2**80)), (float, -0.0), (complex, 1 - 2j),
    (bytes, b"\xc4\x01"), (bytearray, b"x"), (list, [1, (2,), bytearray(b"x")]), (tuple, (1, [2])),
    (dict, {"a": {1: 2}}), (dict, {(1, 2): bytearray(b"x"), None: 1}), (set, {1, (2,)}), (frozenset, {"a"}),
    (deque, [1, 2]), (OrderedDict, {"b": 1, "a": 2}), (Counter, {"a": -1}),
]  # fmt: skip


def fresh(**options: Any) -> JsonPlusSerializer:
    return JsonPlusSerializer(registry=TypeRegistry(), **options)


@pytest.mark.parametrize(("base", "content"), VALUES, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize(
    "wrap", [lambda v: v, lambda v: [v], lambda v: {"k": (v,)}, lambda v: {(1,): v}]
)
def test_a_subclass_of_a_builtin_is_stored_as_what_it_extends(
    base: Any, content: Any, wrap: Any
) -> None:
    serde = fresh()
    with pytest.warns(MilepostWarning):
        stored = serde.dumps_typed(wrap(extended(base)(content)))
    plain = wrap(base(content))
    assert stored == serde.dumps_typed(plain) or type(plain) is bytes  # which has a kind of its own
    back = serde.loads_typed(stored)
    assert (repr(back), back == plain) == (repr(plain), True)


@pytest.mark.parametrize(
    "value",
    [
        datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC, fold=1), date(2024, 1, 2), time(1, 2, fold=1),
        timedelta(-1, 2, 3), Decimal("1.10"), UUID(int=5),
    ],
    ids=lambda v: type(v).__name__,
)  # fmt: skip
def test_a_subclass_of_a_standard_type_is_stored_as_what_it_extends(value: Any) -> None:
    base = type(value)
    mine = type("Mine", (base,), {})
    if base is Decimal:
        made = mine("1.10")
    elif base is UUID:
        made = mine(int=5)
    else:
        made = mine(*value.__reduce__()[1])
    serde = fresh()
    with pytest.warns(MilepostWarning):
        stored = serde.dumps_typed(made)
    back = serde.loads_typed(stored)
    assert type(back) is base
    assert back == value
    assert getattr(back, "fold", 0) == getattr(made, "fold", 0)


def test_a_default_dict_keeps_its_factory() -> None:
    serde = fresh()
    with pytest.warns(MilepostWarning):
        stored = serde.dumps_typed(type("Groups", (defaultdict,), {})(list, {"a": [1]}))
    back = serde.loads_typed(stored)
    assert type(back) is defaultdict
    assert (back, back.default_factory) == ({"a": [1]}, list)


class State(TypedDict):
    value: Any


class Name(str):
    pass


class Mood(enum.StrEnum):
    GOOD = "good"


class Pair(NamedTuple):
    left: int
    right: int


def test_the_warning_comes_once_and_names_the_line_that_keeps_the_type() -> None:
    serde = fresh()
    with pytest.warns(MilepostWarning) as caught:
        _ = [serde.dumps_typed([Name("a"), Mood.GOOD, Pair(1, 2)]) for _ in range(3)]
    said = [str(one.message) for one in caught]
    lines = [
        "register_type(Name, encode=str, decode=Name)", "register_type(Mood)", "register_type(Pair)"
    ]  # fmt: skip
    assert len(said) == len(lines)
    for text, cls, line in zip(said, (Name, Mood, Pair), lines, strict=True):
        assert f"{cls.__module__}.{cls.__qualname__}" in text
        assert line in text


def test_the_line_keeps_it_also_after_a_value_was_stored() -> None:
    registry = TypeRegistry()
    serde = JsonPlusSerializer(registry=registry)
    with pytest.warns(MilepostWarning):
        serde.dumps_typed([Name("a"), Mood.GOOD])
    register_type(Name, encode=str, decode=Name, registry=registry)
    registry.register_schema_types(Mood)
    back = serde.loads_typed(serde.dumps_typed([Name("a"), Mood.GOOD]))
    assert [type(one) for one in back] == [Name, Mood]


def test_strict_refuses_beside_a_serializer_that_does_not() -> None:
    registry = TypeRegistry()
    with pytest.warns(MilepostWarning):
        JsonPlusSerializer(registry=registry).dumps_typed(Name("a"))
    strict = JsonPlusSerializer(registry=registry, strict=True)
    for value in (Name("a"), [Name("a")], {Name("a"): 1}, {"a": (Name("a"),)}):
        with pytest.raises(SerializationError, match="Name is not registered"):
            strict.dumps_typed(value)


def test_the_environment_makes_serializers_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILEPOST_STRICT", "1")
    with pytest.raises(SerializationError, match="Name is not registered"):
        fresh().dumps_typed(Name("a"))


def test_where_the_warning_is_an_error_nothing_is_stored() -> None:
    serde = fresh()
    with warnings.catch_warnings():
        warnings.simplefilter("error", MilepostWarning)
        for value in (Name("a"), {"x": Name("a")}, {Name("a"): 1}):
            with pytest.raises(SerializationError, match="stored as plain str"):
                serde.dumps_typed(value)


class Own(str):
    """Equal to nothing but itself."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


@pytest.mark.filterwarnings("ignore::milepost.warnings.MilepostWarning")
@pytest.mark.parametrize("make", [set, frozenset, dict.fromkeys])
def test_members_that_would_become_one_are_refused(make: Any) -> None:
    with pytest.raises(SerializationError, match="one would be lost"):
        fresh().dumps_typed(make([Own("a"), Own("a")]))
    assert len(fresh().loads_typed(fresh().dumps_typed(make([Own("a"), Own("b")])))) == 2


@pytest.mark.filterwarnings("ignore::milepost.warnings.MilepostWarning")
def test_one_that_contains_itself_is_refused() -> None:
    mine = type("Mine", (list,), {})()
    mine.append([mine])
    with pytest.raises(SerializationError, match="contains itself"):
        fresh().dumps_typed(mine)


@pytest.mark.filterwarnings("ignore::milepost.warnings.MilepostWarning")
def test_elements_are_the_bytes_of_the_whole() -> None:
    for value in ([Name("a"), [Name("b")]], {"a": Name("b"), 1: Mood.GOOD}, ["\ud800"]):
        kind = "list" if isinstance(value, list) else "dict"
        elements = encode_elements(value, JsonPlusSerializer().level)  # type: ignore[arg-type]
        whole = JsonPlusSerializer().dumps_typed(value)[1]
        assert elements_head(kind, len(value)) + b"".join(elements) == whole  # type: ignore[arg-type]


def test_a_dict_with_a_key_that_is_not_utf8_is_kept_by_a_saver() -> None:
    value = {"x\ud800": ["\udfff", {"\udc00": 1}], "y": 1}
    builder = StateGraph(State)
    builder.add_node("n", lambda _: {"value": value})
    builder.add_edge(START, "n")
    graph = builder.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    graph.invoke({"value": None}, config)
    assert graph.get_state(config).values["value"] == value
