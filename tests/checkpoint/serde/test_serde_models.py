"""Pydantic models: rebuilt as they were, without a validator running again."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, Generic, TypeVar

import ormsgpack
import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    computed_field,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass

from milepost.checkpoint.serde._msgpack import ext
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry
from milepost.errors import DeserializationError, SerializationError, UnregisteredTypeError
from milepost.warnings import MilepostWarning

T = TypeVar("T")


class Inner(BaseModel):
    n: int = 0


class Model(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    name: str = Field(alias="theName")
    inner: Inner = Inner()
    many: list[Inner] = []
    _secret: int = PrivateAttr(default=1)


class Doubling(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def double(cls, n: int) -> int:
        return n * 2

    @model_validator(mode="after")
    def add(self) -> "Doubling":
        self.__dict__["n"] += 1
        return self


class Computing(BaseModel):
    n: int

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def twice(self) -> int:
        return 2 * self.n

    @cached_property
    def tool(self) -> object:
        """What could not be stored."""
        return object()


@dataclass
class Kept:
    n: int

    @cached_property
    def tool(self) -> object:
        return object()


class Working(BaseModel):
    n: int = 0
    _lock: Any = PrivateAttr(default_factory=Lock)
    _count: int = PrivateAttr(default=0)
    _clock: Any = PrivateAttr()


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that it shadows an attribute

    class Shadowing(Computing):
        """A field where its parent computes."""

        tool: int = 0  # type: ignore[assignment]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)
    a: int = 1


class Container(BaseModel, Generic[T]):
    content: T


class Numbers(RootModel[list[int]]):
    pass


@pydantic_dataclass
class Checked:
    n: int


@pytest.fixture
def serde() -> JsonPlusSerializer:
    registry = TypeRegistry()
    registry.register_module_types(__import__(__name__, fromlist=["x"]))
    return JsonPlusSerializer(registry=registry)


@pytest.mark.parametrize(
    "model",
    [
        Inner(),
        Inner(n=3),
        Model(theName="x", many=[Inner(n=1)]),
        Open(a=2, b="extra"),
        Open(),
        Numbers([1, 2]),
        Checked(3),
    ],
    ids=repr,
)
def test_models_come_back_with_all_that_pydantic_keeps(
    serde: JsonPlusSerializer, model: Any
) -> None:
    back = serde.loads_typed(serde.dumps_typed({"m": model}))["m"]
    assert type(back) is type(model)
    assert back == model
    if isinstance(model, BaseModel):
        assert back.model_fields_set == model.model_fields_set
        assert back.model_dump() == model.model_dump()
        assert back.model_extra == model.model_extra


def test_what_was_given_belongs_to_each_instance(serde: JsonPlusSerializer) -> None:
    one, other = serde.loads_typed(serde.dumps_typed([Inner(n=1), Inner(n=2)]))
    one.__pydantic_fields_set__.clear()
    assert other.model_fields_set == {"n"}
    ways = [Inner(), Inner(n=1), Open(), Open(a=1), Open(b=1), Inner(n=2), Inner()] * 3
    back = serde.loads_typed(serde.dumps_typed(ways))
    assert [m.model_fields_set for m in back] == [m.model_fields_set for m in ways]


def test_a_stored_list_of_given_fields_is_not_trusted(serde: JsonPlusSerializer) -> None:
    kind, data = serde.dumps_typed(Inner(n=3))
    hostile = data.replace(b"!n", b"!/")
    assert hostile != data
    with pytest.raises(DeserializationError):
        serde.loads_typed((kind, hostile))


def test_private_attributes_are_kept(serde: JsonPlusSerializer) -> None:
    model = Model(name="x")
    model._secret = 42
    assert serde.loads_typed(serde.dumps_typed(model))._secret == 42


def test_a_private_attribute_that_cannot_be_stored_has_its_default_again(
    serde: JsonPlusSerializer,
) -> None:
    model = Working(n=1)
    model._count = 2
    with pytest.warns(MilepostWarning, match="'_lock' of a Working cannot be stored"):
        written = serde.dumps_typed([model])
    [back] = serde.loads_typed(written)
    assert back.n == 1
    assert back._count == 2
    assert not back._lock.locked()
    assert back._lock is not model._lock
    assert not hasattr(back, "_clock")


def test_it_is_refused_where_it_has_no_default(serde: JsonPlusSerializer) -> None:
    model = Working()
    model._clock = Lock()
    with (
        pytest.warns(MilepostWarning),
        pytest.raises(
            SerializationError, match=r"_thread.lock is not registered.*at path '_clock'"
        ),
    ):
        serde.dumps_typed(model)
    with pytest.raises(
        SerializationError, match=r"_thread.lock is not registered.*at path '_lock'"
    ):
        JsonPlusSerializer(registry=serde.registry, strict=True).dumps_typed(Working())


@pytest.mark.parametrize("tag", ["!n", ""])
def test_private_attributes_that_a_class_has_only_since_have_their_defaults(
    serde: JsonPlusSerializer, tag: str
) -> None:
    payload: Any = {"n": 1} if tag else [{"n": 1}, ["n"], None, None]
    body = ormsgpack.packb([f"{__name__}:Working{tag}", payload])
    stored = "msgpack", ormsgpack.packb([ormsgpack.Ext(ext.RECORD, body)])
    for _ in range(2):  # the second time, the decoder is known
        [back] = serde.loads_typed(stored)
        assert (back.n, back._count, back._lock.locked()) == (1, 0, False)


def test_validators_do_not_run_twice(serde: JsonPlusSerializer) -> None:
    model = Doubling(n=2)
    assert model.n == 5
    assert serde.loads_typed(serde.dumps_typed(model)).n == 5


@pytest.mark.parametrize("around", [lambda model: model, lambda model: [model, model]])
def test_what_a_cached_property_has_computed_is_not_stored(
    serde: JsonPlusSerializer, around: Any
) -> None:
    written = serde.dumps_typed(around(Computing(n=2)))
    model = Computing(n=2)
    assert model.twice == 4
    assert model.tool
    assert serde.dumps_typed(around(model)) == written
    assert serde.loads_typed(written) == around(Computing(n=2))
    plain = Kept(1)
    assert plain.tool
    assert vars(serde.loads_typed(serde.dumps_typed(plain))) == {"n": 1}


@pytest.mark.parametrize(
    ("tag", "payload"),
    [("!n", {"n": 2, "twice": 4}), ("", [{"n": 2, "twice": 4}, ["n"], None, None])],
)
def test_computed_values_that_earlier_versions_stored_are_computed_again(
    serde: JsonPlusSerializer, tag: str, payload: Any
) -> None:
    body = ormsgpack.packb([f"{__name__}:Computing{tag}", payload])
    stored = "msgpack", ormsgpack.packb([ormsgpack.Ext(ext.RECORD, body)])
    for _ in range(2):  # the second time, the decoder is known
        [back] = serde.loads_typed(stored)
        assert back == Computing(n=2)
        assert "twice" not in vars(back)


def test_a_field_in_place_of_a_cached_property_is_stored(serde: JsonPlusSerializer) -> None:
    model = Shadowing(n=1, tool=5)
    assert model.twice == 2
    [back] = serde.loads_typed(serde.dumps_typed([model]))
    assert vars(back) == {"n": 1, "tool": 5}


def test_an_instance_comes_back_without_the_fields_that_it_does_not_have(
    serde: JsonPlusSerializer,
) -> None:
    part = Model.model_construct(many=[Inner(n=1)])
    assert not hasattr(part, "name")
    [back] = serde.loads_typed(serde.dumps_typed([part]))
    assert vars(back) == vars(part)
    assert back.model_fields_set == {"many"}


def test_attributes_that_are_no_fields_come_back(serde: JsonPlusSerializer) -> None:
    model = Inner(n=1)
    object.__setattr__(model, "seen", (1,))
    [back] = serde.loads_typed(serde.dumps_typed([model]))
    assert vars(back) == {"n": 1, "seen": (1,)}


def test_a_parametrised_model_is_allowed_where_the_model_is(serde: JsonPlusSerializer) -> None:
    for value in (Container[int](content=1), Container[list[Inner]](content=[Inner(n=2)])):
        written = serde.dumps_typed(value)
        assert type(serde.loads_typed(written)) is type(value)
        fresh = TypeRegistry()
        fresh.register_data_types(Container, Inner)
        back = JsonPlusSerializer(registry=fresh).loads_typed(written)
        assert type(back) is type(value)
        assert back == value


def test_a_model_that_is_not_registered_is_refused_both_ways(serde: JsonPlusSerializer) -> None:
    stranger = JsonPlusSerializer(registry=TypeRegistry(), strict=True)
    with pytest.raises(SerializationError, match="register_type"):
        stranger.dumps_typed(Inner())
    with pytest.raises(UnregisteredTypeError, match="Inner"):
        stranger.loads_typed(serde.dumps_typed(Inner()))
