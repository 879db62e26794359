"""Objects that the accelerator makes are those that Python makes.

MILEPOST_LONG=1 makes it long.
"""

import contextlib
import gc
import random
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ormsgpack
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, RootModel, create_model
from test_serde_fuzz import _mutated
from test_serde_native import LONG, outcome, pure

from milepost._internal import native
from milepost.checkpoint.serde._msgpack import ext
from milepost.checkpoint.serde._types.models import FieldsDecoder
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry


class Inner(BaseModel):
    number: int = 1


class Model(BaseModel):
    text: str
    inner: Inner | None = None
    kept: list[Any] = Field(default_factory=list)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int = 0


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)
    a: tuple[int, ...] = ()


class Private(BaseModel):
    a: int = 0
    _b: int = PrivateAttr(default=3)


class Numbers(RootModel[list[int]]):
    pass


class Empty(BaseModel):
    pass


class Making(BaseModel):
    """It has a `__new__` of its own, which is not called."""

    a: int = 0

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made.append(cls)
        return super().__new__(cls)


made: list[type] = []


@dataclass
class Point:
    x: Any
    y: Any = 0


Wide = create_model("Wide", **{f"field_{n}": (int, n) for n in range(20)})
Odd = create_model("Odd", größe=(int, 1), **{"x" * 31: (int, 2), "y" * 32: (int, 3)})
Longest = create_model("Longest", **{"x" * 255: (int, 2), "y" * 256: (int, 3)})
CLASSES = (
    Inner, Model, Open, Frozen, Private, Numbers, Empty, Making, Point, Wide, Odd, Longest
)  # fmt: skip
REGISTRY = TypeRegistry()
for cls in CLASSES:
    REGISTRY.register(cls, name=cls.__name__)
SERDE = JsonPlusSerializer(registry=REGISTRY)
CALL = {"name": "add", "args": {"a": [1, (2,)]}, "id": "1", "type": "tool_call"}
VALUES = [
    Model(text="é", inner=Inner(number=2), kept=[Inner(), (Inner(), Open(a=1, b=2))]),
    Model(text="", inner=None),
    Open(),
    Open(a=1, b=Inner()),
    Frozen(a=(1, 2)),
    Private(a=2),
    Numbers([1, 2]),
    Empty(),
    Wide(field_3=4),
    Odd(),
    Longest(),
    Point(Inner(), Point(1)),
    Making(),
    Model.model_construct(kept=[]),
    Model.model_construct(text="", more=(1,)),
    [HumanMessage("hello", id="1"), AIMessage("hi", tool_calls=[CALL]), ToolMessage("3", tool_call_id="1")],
]  # fmt: skip


def shown(value: Any) -> Any:
    """All that there is to see of a value: types, the order of fields, what pydantic keeps."""
    if isinstance(value, BaseModel):
        private = value.__pydantic_private__
        about = (sorted(value.__pydantic_fields_set__), shown(value.__pydantic_extra__), private)
        return (type(value), shown(value.__dict__), *about, type(value.__pydantic_fields_set__))
    if isinstance(value, Point):
        return Point, shown(vars(value))
    if isinstance(value, dict):
        return dict, [(shown(key), shown(member)) for key, member in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), list(map(shown, value))
    return type(value), repr(value)


def read_alike(data: bytes, serde: JsonPlusSerializer = SERDE) -> Any:
    """What is read, which must be the same with the accelerator and without, in one piece and in
    several."""
    with pure():
        expected = shown(outcome(serde.loads_typed, ("msgpack", data)))
    found = outcome(serde.loads_typed, ("msgpack", data))
    assert shown(found) == expected
    half = len(data) // 2
    in_pieces = outcome(serde.decode_pieces, "msgpack", [data[:half], data[half:]])
    assert shown(in_pieces) == expected
    return found


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_all_that_is_kept_of_an_object_is_read(value: Any) -> None:
    stored = SERDE.dumps_typed([value, value])[1]
    for _ in range(2):  # the second time, the decoder is known
        first, second = read_alike(stored)
        assert shown(first) == shown(second) == shown(value)
    if isinstance(value, BaseModel):
        assert first is not second
        assert first.__dict__ is not second.__dict__
        assert first.__pydantic_fields_set__ is not second.__pydantic_fields_set__
        assert first.__pydantic_extra__ is None or (
            first.__pydantic_extra__ is not second.__pydantic_extra__
        )


def test_a_known_model_is_made_without_its_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = SERDE.dumps_typed([VALUES[0]])
    expected = SERDE.loads_typed(stored)
    monkeypatch.setattr(FieldsDecoder, "__call__", None)
    assert SERDE.loads_typed(stored) == expected


def test_a_model_with_more_or_less_than_its_fields_is_left_to_python() -> None:
    more = Inner()
    object.__setattr__(more, "seen", 1)
    SERDE.dumps_typed([Inner(), Model(text="", kept=[])])  # what they begin with is known then
    assert native.elements is not None
    for value in ([more], [Model.model_construct(text="", kept=[], _fields_set={"kept", "text"})]):
        value[0].__dict__.pop("text", None)
        assert native.elements(value, 8, None, REGISTRY.models, None) is None
    assert native.elements([Inner()], 8, None, REGISTRY.models, None) is not None


def packb(payload: Any) -> bytes:
    return ormsgpack.packb(payload, option=ormsgpack.OPT_NON_STR_KEYS)


def record(tag: str, payload: Any) -> bytes:
    inside = b"\x92" + ormsgpack.packb(tag) + payload
    return ormsgpack.packb(ormsgpack.Ext(ext.RECORD, inside))


USUAL = {"text": "a", "inner": None, "kept": [1]}
TEXT = ormsgpack.packb("a")
UNUSUAL: list[Any] = [
    {"inner": None, "text": "a", "kept": []},
    {"text": "a", "kept": [], "inner": None},
    {"text": "a", "inner": None},
    {"text": "a"},
    {"inner": None, "kept": []},
    {**USUAL, "more": 1},
    {"text": "a", "inner": None, "others": []},
    {"text": "a", "inner": None, 7: []},
    {},
    [USUAL],
    None,
    b"\x83\xa4text" + TEXT + b"\xa4text" + TEXT + b"\xa4kept\x90",
    b"\x83\xd9\x04text" + TEXT + b"\xa5inner\xc0\xa4kept\x90",
    b"\xde\x00\x03\xa4text" + TEXT + b"\xa5inner\xc0\xa4kept\x90",
    b"\xdf\x00\x00\x00\x03\xa4text" + TEXT + b"\xa5inner\xc0\xa4kept\x90",
    b"\x83\xa4text" + TEXT + b"\xa5inner\xc0\xa4kept",
    b"\x83\xa4text" + TEXT + b"\xa5inner\xc0\xa4kept\x90\x01",
    b"\x83\xa4text\xdd\xff\xff\xff\xff\xa5inner\xc0\xa4kept\x90",
]


@pytest.mark.parametrize("payload", UNUSUAL, ids=repr)
def test_fields_that_are_not_those_of_the_class_are_read_alike(payload: Any) -> None:
    SERDE.loads_typed(SERDE.dumps_typed(Model(text="a", inner=None, kept=[])))
    data = payload if isinstance(payload, bytes) else packb(payload)
    for tag in ("Model!inner,kept,text", "Model!", "Model", "Model!a b", "Nothing!text", "", "é"):
        read_alike(b"\x91" + record(tag, data))


@pytest.mark.parametrize("seed", range(20 if LONG else 2))
def test_mutated_objects_are_read_alike(seed: int) -> None:
    source = random.Random(seed)
    stored = [SERDE.dumps_typed([value])[1] for value in VALUES]
    for _ in range(3_000 if LONG else 250):
        with contextlib.suppress(RecursionError):
            read_alike(_mutated(source, source.choice(stored)))


def test_a_type_registered_with_a_migration_is_migrated() -> None:
    registry = TypeRegistry()
    registry.register(Inner, name="inner")
    serde = JsonPlusSerializer(registry=registry)
    stored = serde.dumps_typed([Inner(number=3)])[1]
    assert read_alike(stored, serde) == [Inner(number=3)]
    registry.register(Inner, name="inner", version=2)
    registry.add_migration(Inner, 1, lambda fields: {"number": fields["number"] + 1})
    assert read_alike(stored, serde) == [Inner(number=4)]


def test_a_class_that_is_abstract_by_now_is_refused_alike() -> None:
    class Later(BaseModel):
        a: int = 0

    registry = TypeRegistry()
    registry.register(Later, name="later")
    serde = JsonPlusSerializer(registry=registry)
    stored = serde.dumps_typed([Later()])[1]
    serde.loads_typed(("msgpack", stored))
    Later.work = abstract  # type: ignore[attr-defined]
    Later.__abstractmethods__ = frozenset({"work"})  # type: ignore[assignment]
    assert "Error" in read_alike(stored, serde)


def abstract() -> None: ...


def test_a_decoder_that_is_forgotten_while_it_reads_is_used_to_the_end() -> None:
    registry = TypeRegistry()
    registry.register(Model, name="model")

    def forget(payload: Any) -> Point:
        registry.by_tag.clear()
        return Point(payload)

    registry.register(Point, name="point", encode=lambda point: point.x, decode=forget)
    serde = JsonPlusSerializer(registry=registry)
    value = [Model(text="a", kept=[Point(n)]) for n in range(3)]
    stored = serde.dumps_typed(value)[1]
    for _ in range(2):
        assert shown(read_alike(stored, serde)) == shown(value)


def test_reading_objects_leaks_no_references() -> None:
    stored = SERDE.dumps_typed(VALUES)[1]
    broken = [stored[:size] for size in range(0, len(stored), 41)]
    spoilt = [stored[:at] + b"\xc1" + stored[at + 1 :] for at in range(0, len(stored), 41)]
    others = [
        b"\x91" + record("Model!text", payload if isinstance(payload, bytes) else b"\x80")
        for payload in UNUSUAL
    ]
    hooks, known = SERDE.level.hooks, REGISTRY.by_tag
    read: Callable[..., Any] | None = native.unpack
    assert read is not None

    def work() -> None:
        assert read(stored, hooks, known)
        for data in (*broken, *spoilt, *others):
            with contextlib.suppress(Exception):
                read(data, hooks, known)

    gc.collect()  # what other tests have left is not to go in between
    for _ in range(2):
        work()
    classes = [sys.getrefcount(cls) for cls in CLASSES]
    tracemalloc.start()
    try:
        work()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(12):
            work()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    gc.collect()
    assert [sys.getrefcount(cls) for cls in CLASSES] == classes
    assert after - before < 12 * 100


def test_known_decoders_that_are_no_dict_are_refused() -> None:
    assert native.unpack is not None
    with pytest.raises(TypeError, match="a dict of decoders"):
        native.unpack(b"\x01", (abs,), ())  # type: ignore[arg-type]
