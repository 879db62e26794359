"""What is written comes back as exactly what it was, however it is nested."""

import dataclasses
import enum
import ipaddress
import math
import os
import pathlib
import re
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milepost.checkpoint.serde._msgpack.engine import encode_elements
from milepost.checkpoint.serde._msgpack.skim import elements_head
from milepost.checkpoint.serde.base import decode_pieces
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry
from milepost.checkpoint.serde.types import _DeltaSnapshot
from milepost.errors import DeserializationError
from milepost.types import Command, Interrupt, Overwrite, Send, TimeoutPolicy

T = TypeVar("T")
SERDE = JsonPlusSerializer()


class Colour(enum.Enum):
    RED = 1
    GREEN = (2, "g")


class Mood(enum.StrEnum):
    GOOD = "good"


class Tone(enum.StrEnum):
    LOW = "low"


class Rank(enum.IntEnum):
    TOP = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Bits(enum.IntFlag):
    A = 1
    B = 2


@dataclasses.dataclass
class Point:
    x: int
    y: Any = None

    class Kind(enum.Enum):
        ROUND = "r"


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: tuple[int, ...]
    b: str = "b"


@dataclasses.dataclass
class Box(Generic[T]):
    content: T


@dataclasses.dataclass(slots=True)
class Slotted:
    a: int
    b: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Late:
    a: int
    b: int = dataclasses.field(init=False)


class Pair(NamedTuple):
    left: Any
    right: Any = None


class State(TypedDict):
    a: int


VALUES: list[Any] = [
    None, True, False, 0, -1, 2**63 - 1, 2**64 - 1, -(2**63), 2**64, -(2**63) - 1, 10**400, -(10**400),
    0.0, 1.5, math.inf, -math.inf, 5e-324, "", "text", "\x00", "żółć 🎉", b"", b"\xc4\x01", b"x" * 300, "a\ud800b", {"\udfff": "\udc00"},
    bytearray(b"abc"), bytearray(b"\xc1" * 70_000), complex(1, -2), complex(math.inf, 0),
    [], {}, (), set(), frozenset(), [1, [2, (3, [4])]], (1,), ((),), {"a": (1, {"b": [()]})},
    {1, 2}, {(1, 2), "a"}, frozenset({frozenset({1}), 2}), deque([1, (2,)]), deque([1, 2], maxlen=2),
    {3: "a", 2.5: "b", None: "c", True: "d", b"k": "e"}, {(1, 2): [3]}, {frozenset({1}): 1},
    {2**70: 1}, {Rank.TOP: 1}, {Mood.GOOD: 1, "good2": 2}, {date(2024, 1, 1): 1}, {Pair(1, 2): 3},
    {"a": bytearray(b"x"), "b": [b"x", bytearray()]}, {"x": {1: {(2,): bytearray(b"y")}}},
    OrderedDict([("b", 1), ("a", 2)]), Counter("abca"), defaultdict(list, {"a": [1]}), defaultdict(None),
    range(1, 10, 3), slice(1, None, 2), ..., NotImplemented,
    date(1, 1, 1), date(9999, 12, 31), datetime(2024, 2, 29, 1, 2, 3, 4), datetime(2024, 1, 1, tzinfo=UTC),
    datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Paris"), fold=1),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30), "IST")),
    time(1, 2, 3, 4), time(1, tzinfo=UTC), time(2, 30, fold=1), timedelta(days=-1, microseconds=5),
    UTC, timezone(timedelta(seconds=1)), ZoneInfo("Asia/Tokyo"),
    Decimal("1.10"), Decimal("NaN"), Decimal("-0"), Decimal("1E+400"), Decimal("sNaN123"), Fraction(-1, 3),
    uuid.UUID(int=7), uuid.uuid4(), pathlib.Path("/a/b"), pathlib.PurePosixPath("c"),
    pathlib.PureWindowsPath("c:\\x"), pathlib.Path("/bad/\udcff"),
    ipaddress.ip_address("10.0.0.1"), ipaddress.ip_address("fe80::1%eth0"), ipaddress.ip_network("10.0.0.0/8"),
    ipaddress.ip_network("fe80::/10"), ipaddress.ip_interface("10.1.2.3/8"), ipaddress.ip_interface("::1/64"),
    re.compile(r"a(?P<n>b)", re.I | re.M), re.compile(rb"\xff"),
    Colour.RED, Colour.GREEN, Mood.GOOD, Tone.LOW, Rank.TOP, Access.READ | Access.WRITE, Access(0), Bits.A | Bits.B,
    Point.Kind.ROUND, Point(1, Point(2)), Frozen((1, 2)), Box[int](1), Box([Box("x")]), Slotted(1, [2]),
    Pair(1, Pair(2)), State(a=1), Point(bytearray(b"x"), {(1,): 2}),
    Send("node", {"a": (1,)}), Send("n", Point(1), timeout=3), Command(update={"a": 1}, goto=[Send("x", 1), "y"]),
    Command(resume={"id": Colour.RED}, graph=Command.PARENT), Interrupt((1, 2), "id"), Overwrite([1]),
    TimeoutPolicy(run_timeout=timedelta(seconds=1)), _DeltaSnapshot([1, (2,)]),
]  # fmt: skip

WRAPPERS = {
    "alone": lambda v: v,
    "list": lambda v: [1, v, "x"],
    "tuple": lambda v: (v, v),
    "dict": lambda v: {"a": {"b": v}},
    "odd dict": lambda v: {(1, 2): v},
    "deque": lambda v: deque([v]),
    "dataclass": lambda v: Point(v, [v]),
    "slots": lambda v: Frozen((v,)),
    "named tuple": lambda v: Pair(v, v),
    "send": lambda v: Send("n", {"v": v}),
    "command": lambda v: Command(update={"v": v}),
    "snapshot": lambda v: _DeltaSnapshot(v),
}


@pytest.fixture(scope="module")
def serde() -> JsonPlusSerializer:
    registry = TypeRegistry()
    registry.register_data_types(__import__(__name__, fromlist=["x"]))
    return JsonPlusSerializer(registry=registry)


def same(a: Any, b: Any) -> bool:
    """Equal, and of equal types all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return math.copysign(1, a) == math.copysign(1, b) and (a == b or (a != a and b != b))
    if isinstance(a, Decimal):
        return str(a) == str(b)
    if isinstance(a, (list, tuple, deque)):
        same_bound = getattr(a, "maxlen", None) == getattr(b, "maxlen", None)
        return same_bound and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        factory = getattr(a, "default_factory", None) is getattr(b, "default_factory", None)
        return factory and len(a) == len(b) and all(map(same, a.items(), b.items()))
    if isinstance(a, (set, frozenset)):
        return a == b and Counter(map(type, a)) == Counter(map(type, b))
    if isinstance(a, (datetime, time)):
        return a.replace(tzinfo=None) == b.replace(tzinfo=None) and (a.fold, a.tzinfo) == (
            b.fold,
            b.tzinfo,
        )
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, Send):
        return a.node == b.node and same(a.arg, b.arg) and same(a.timeout, b.timeout)
    return bool(a == b)


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_every_type_comes_back_exactly(serde: JsonPlusSerializer, value: Any) -> None:
    for name, wrap in WRAPPERS.items():
        wrapped = wrap(value)
        assert same(serde.loads_typed(serde.dumps_typed(wrapped)), wrapped), name


@pytest.mark.parametrize("value", [math.nan, -0.0, -math.nan])
def test_floats_keep_their_sign_and_their_nan(serde: JsonPlusSerializer, value: float) -> None:
    (back,) = serde.loads_typed(serde.dumps_typed([value]))
    assert same(back, value)


def test_a_field_that_was_never_set_stays_unset(serde: JsonPlusSerializer) -> None:
    back = serde.loads_typed(serde.dumps_typed(Late(1)))
    assert back.a == 1
    assert not hasattr(back, "b")


def test_attributes_that_are_not_fields_come_along(serde: JsonPlusSerializer) -> None:
    point = Point(1)
    point.note = ("kept",)  # type: ignore[attr-defined]
    assert serde.loads_typed(serde.dumps_typed(point)).note == ("kept",)


def test_sets_are_written_in_one_order_whatever_the_hashes(serde: JsonPlusSerializer) -> None:
    names = [f"name{i}" for i in range(50)]
    assert serde.dumps_typed(set(names)) == serde.dumps_typed(set(names))


_KEYS = st.one_of(
    st.text(), st.integers(), st.floats(allow_nan=False), st.binary(), st.none(), st.sampled_from(Rank),
    st.sampled_from(Mood), st.tuples(st.integers(), st.text()), st.dates(), st.booleans(),
)  # fmt: skip
_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.binary().map(bytearray),
    st.datetimes(timezones=st.one_of(st.none(), st.just(UTC))), st.dates(), st.times(), st.timedeltas(),
    st.decimals(), st.fractions(), st.uuids(), st.complex_numbers(allow_nan=False), st.sampled_from(Colour),
    st.sampled_from(Mood), st.ip_addresses(),
)  # fmt: skip
_NESTED = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(_KEYS, inner), st.lists(inner).map(deque),
        inner.map(Point), st.tuples(inner, inner).map(lambda p: Pair(*p)), inner.map(lambda v: Send("n", v)),
        st.frozensets(_KEYS),
    ),
    max_leaves=25,
)  # fmt: skip


@given(_NESTED)
@settings(max_examples=1000 if os.environ.get("MILEPOST_LONG") else 100, deadline=None)
def test_nested_values_come_back_exactly(value: Any) -> None:
    registry = TypeRegistry()
    registry.register_data_types(Colour, Mood, Rank, Point, Pair)
    serde = JsonPlusSerializer(registry=registry)
    assert same(serde.loads_typed(serde.dumps_typed(value)), value)


@pytest.mark.parametrize("wrap", [lambda b: b, lambda b: {"deep": [{"in": b}]}])
def test_a_buffer_among_many_plain_elements_is_found(wrap: Any) -> None:
    for size in (1, 200, 70_000):
        for count in (3, 500):
            value: list[Any] = [f"žluťoučký kůň {i / 7}" for i in range(count)]
            value[count // 2] = wrap(bytearray(size))
            back = SERDE.loads_typed(SERDE.dumps_typed(value))
            assert back == value
            assert repr(back[count // 2]) == repr(value[count // 2])
            elements = encode_elements(value, SERDE.level)
            whole = elements_head("list", count) + b"".join(elements)
            assert whole == SERDE.dumps_typed(value)[1]


@pytest.mark.parametrize("value", [{"a": [1, "x"]}, None, b"bytes", [1.5, (2,)], {1: "one"}])
def test_a_value_is_read_from_any_pieces_of_its_bytes(value: Any) -> None:
    kind, data = SERDE.dumps_typed(value)
    for cut in range(len(data) + 1):
        pieces = [data[:cut], b"", data[cut:]]
        assert decode_pieces(SERDE, kind, pieces) == value
    if kind == "msgpack":
        for pieces in ([data, b"\x00"], [data[:-1]], []):
            with pytest.raises(DeserializationError):
                decode_pieces(SERDE, kind, pieces)


def test_a_foreign_serializer_gets_its_pieces_joined() -> None:
    class Foreign:
        def decode(self, kind: str, data: bytes) -> Any:
            return kind, data

    assert decode_pieces(Foreign(), "odd", [b"a", b"b"]) == ("odd", b"ab")  # type: ignore[arg-type]
