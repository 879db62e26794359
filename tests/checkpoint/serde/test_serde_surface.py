"""Allowlists, serializers of the older form, LangGraph's JSON, and listeners."""

import json
import pickle
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pydantic.v1
import pytest

from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.serde.base import (
    SerializerCompat,
    SerializerProtocol,
    maybe_add_typed_methods,
)
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from milepost.checkpoint.serde.jsonplus import InvalidModuleError, JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry
from milepost.checkpoint.serde.types import ChannelProtocol, SendProtocol
from milepost.errors import DeserializationError, SerializationError, UnregisteredTypeError
from milepost.graph import START, StateGraph
from milepost.types import Interrupt, Send
from milepost.warnings import MilepostWarning


@dataclass
class Order:
    total: int


def fresh(**options: Any) -> JsonPlusSerializer:
    return JsonPlusSerializer(registry=TypeRegistry(), **options)


@pytest.mark.parametrize("option", ["allowed_msgpack_modules", "allowed_json_modules"])
@pytest.mark.parametrize("entry", [Order, (__name__, "Order")], ids=["class", "name"])
def test_a_type_in_an_allowlist_is_written_and_read(option: str, entry: Any) -> None:
    with pytest.raises(SerializationError):
        fresh(strict=True).dumps_typed(Order(1))
    allowing: Any = {option: [entry]}
    stored = fresh(**allowing).dumps_typed(Order(1))
    assert fresh(**allowing).loads_typed(stored) == Order(1)
    assert fresh().with_msgpack_allowlist([entry]).loads_typed(stored) == Order(1)
    with pytest.raises(UnregisteredTypeError):
        fresh().loads_typed(stored)


@dataclass
class Cart:
    order: Order


@pytest.mark.parametrize("entry", [Cart, (__name__, "Cart")], ids=["class", "name"])
def test_what_the_fields_of_an_allowed_type_mention_is_allowed_too(entry: Any) -> None:
    serde = fresh(allowed_msgpack_modules=[entry])
    assert serde.loads_typed(serde.dumps_typed(Cart(Order(1)))) == Cart(Order(1))
    again = fresh(allowed_msgpack_modules=[entry])
    assert again.loads_typed(serde.dumps_typed(Cart(Order(1)))) == Cart(Order(1))


@pytest.mark.parametrize("nothing", [None, [], ()])
def test_an_allowlist_that_names_nothing_allows_what_is_registered(nothing: Any) -> None:
    with pytest.raises(SerializationError):
        fresh(allowed_msgpack_modules=nothing, strict=True).dumps_typed(Order(1))
    assert fresh(allowed_json_modules=nothing).loads_typed(("json", b"[1]")) == [1]


def test_true_allows_every_data_type_to_the_serializer_that_asks_for_it() -> None:
    stored = fresh(allowed_msgpack_modules=True).dumps_typed([Order(1)])
    told: list[SerdeEvent] = []
    unregister = register_serde_event_listener(told.append)
    assert fresh(allowed_msgpack_modules=True).loads_typed(stored) == [Order(1)]
    unregister()
    with pytest.raises(SerializationError):
        fresh(allowed_msgpack_modules=True).dumps_typed(lambda: 1)
    with pytest.raises(UnregisteredTypeError):
        fresh().loads_typed(stored)


def test_an_allowlist_is_for_one_serializer() -> None:
    plain = fresh(allowed_msgpack_modules=None)
    allowing = plain.with_msgpack_allowlist([Order])
    assert plain.with_msgpack_allowlist([]) is plain
    stored = allowing.dumps_typed(Order(1))
    assert allowing.loads_typed(stored) == Order(1)
    with pytest.warns(MilepostWarning, match="blocked"):
        assert plain.loads_typed(stored) == {"total": 1}
    with pytest.warns(MilepostWarning, match="not in the list"):
        assert plain.dumps_typed(Order(1)) == stored


def test_what_the_registry_learns_later_is_known_to_a_serializer_with_an_allowlist() -> None:
    plain = fresh()
    allowing = plain.with_msgpack_allowlist([("no.module", "Name")])
    plain.registry.register(Order, version=1)
    stored = allowing.dumps_typed(Order(1))
    assert allowing.loads_typed(stored) == Order(1)
    plain.registry.register(Order, version=2)
    plain.registry.add_migration(Order, 1, lambda fields: {"total": fields["total"] + 1})
    assert allowing.loads_typed(stored) == Order(2)


def test_a_saver_with_an_allowlist_is_a_saver_beside_the_first() -> None:
    saver = InMemorySaver(serde=fresh())
    allowing = saver.with_allowlist([(__name__, "Order")])
    assert allowing is not saver
    assert allowing.storage is saver.storage
    assert allowing.serde.loads_typed(allowing.serde.dumps_typed(Order(1))) == Order(1)


class OldInner(pydantic.v1.BaseModel):
    word: str = "w"


class OldModel(pydantic.v1.BaseModel):
    count: int
    inner: OldInner
    secret: pydantic.v1.SecretStr
    note: str = "none"
    _hidden: int = pydantic.v1.PrivateAttr(0)


def test_a_model_of_the_first_pydantic_is_read_as_it_was() -> None:
    serde = fresh(allowed_msgpack_modules=[OldModel, OldInner])
    model = OldModel(count=1, inner=OldInner(), secret=pydantic.v1.SecretStr("s"))
    model._hidden = 7
    again = serde.loads_typed(serde.dumps_typed({"model": model}))["model"]
    assert again == model
    assert again.secret.get_secret_value() == "s"
    assert again.__fields_set__ == model.__fields_set__
    assert again._hidden == 7
    with pytest.raises(SerializationError, match="OldModel is not registered"):
        fresh(strict=True).dumps_typed(model)


def test_a_name_in_an_allowlist_is_imported_when_it_is_met_and_no_other_is() -> None:
    code = """
import sys
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
import ormsgpack
serde = JsonPlusSerializer(allowed_msgpack_modules=[("wsgiref.types", "NoSuch"), ("sched", "scheduler")])
print("sched" in sys.modules, "this" in sys.modules)
for name in ("this:s", "sched:scheduler"):
    stored = ormsgpack.packb(ormsgpack.Ext(37, ormsgpack.packb([name, {}])))
    print(serde.loads_typed(("msgpack", stored)))
    print("sched" in sys.modules, "this" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    told = ["False False", "{}", "False False", "{}", "True False"]
    assert done.stdout.splitlines() == told


def test_a_sealed_serializer_hands_the_allowlist_on() -> None:
    pytest.importorskip("Crypto")
    serde = EncryptedSerializer.from_pycryptodome_aes(fresh(), key=b"k" * 16)
    allowing = serde.with_msgpack_allowlist([Order])
    assert allowing.loads_typed(allowing.dumps_typed(Order(1))) == Order(1)


def test_a_serializer_of_the_older_form_is_taken_by_a_saver() -> None:
    config: Any = {"configurable": {"thread_id": "t"}}
    builder = StateGraph(dict[str, Any])
    builder.add_node("n", lambda state: {**state, "b": {1, 2}})
    builder.add_edge(START, "n")
    saver = InMemorySaver(serde=pickle)  # type: ignore[arg-type]
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"a": 1}, config)
    assert graph.get_state(config).values == {"a": 1, "b": {1, 2}}
    assert isinstance(saver.serde, SerializerCompat)


def test_a_serializer_of_the_present_form_stays_as_it_is() -> None:
    serde = fresh()
    assert maybe_add_typed_methods(serde) is serde
    old = maybe_add_typed_methods(pickle)  # type: ignore[arg-type]
    assert isinstance(old, SerializerProtocol)
    assert old.dumps_typed({"a": 1})[0] == "dict"
    assert old.loads_typed(old.dumps_typed({"a": 1})) == {"a": 1}


def lc(*path: str, **named: Any) -> tuple[str, bytes]:
    return "json", json.dumps(
        {"x": {"lc": 2, "type": "constructor", "id": path, "kwargs": named}}
    ).encode()


def test_json_of_older_versions_is_read() -> None:
    serde = fresh(allowed_json_modules=[(*__name__.split("."), "Order")])
    assert serde.loads_typed(lc(*__name__.split("."), "Order", total=3)) == {"x": Order(3)}
    old = lc(
        "langgraph", "types", "Interrupt", value="v", resumable=True, ns=["a:b"], when="during"
    )
    assert serde.loads_typed(old) == {"x": Interrupt("v", ns=["a:b"])}
    assert fresh().loads_typed(("bytearray", b"x")) == bytearray(b"x")


@pytest.mark.parametrize(
    "stored",
    [lc("os", "system", command="true"), lc("builtins", "eval"), lc(__name__, "Order", total=1)],
)
def test_json_that_names_what_is_not_allowed_is_read_as_it_is(stored: tuple[str, bytes]) -> None:
    with pytest.warns(MilepostWarning, match="allowed_json_modules"):
        assert fresh().loads_typed(stored) == json.loads(stored[1])
    with pytest.raises(InvalidModuleError, match="allowed_json_modules") as caught:
        fresh(strict=True).loads_typed(stored)
    assert caught.value.message == str(caught.value)


@pytest.mark.parametrize("body", [b"{", b'{"lc": 2, "type": "constructor", "id": 5}', b"\xff"])
def test_json_that_is_none_is_a_typed_error(body: bytes) -> None:
    with pytest.raises(DeserializationError):
        fresh().loads_typed(("json", body))


def test_listeners_hear_of_stored_types_that_are_refused() -> None:
    stored = fresh(allowed_msgpack_modules=[Order]).dumps_typed(Order(1))
    heard: list[SerdeEvent] = []

    def fails(event: SerdeEvent) -> None:
        raise ValueError(event)

    ends = [register_serde_event_listener(one) for one in (fails, heard.append)]
    try:
        with pytest.raises(UnregisteredTypeError):
            fresh().loads_typed(stored)
    finally:
        for end in (*ends, *ends):
            end()
    assert heard
    assert heard[0] == {"kind": "msgpack_blocked", "module": __name__, "name": "Order"}
    told = len(heard)
    with pytest.raises(UnregisteredTypeError):
        fresh().loads_typed(stored)
    assert len(heard) == told


def test_the_protocols_describe_what_there_is() -> None:
    assert isinstance(Send("n", 1), SendProtocol)
    assert {"get", "update", "checkpoint"} <= vars(ChannelProtocol).keys()


def test_an_interrupt_takes_the_arguments_of_older_versions() -> None:
    old = Interrupt("v", resumable=True, ns=["a:b", "c:d"], when="during")
    assert old == Interrupt(value="v", ns=("a:b", "c:d"))
    assert old.id not in ("placeholder-id", Interrupt("v", ns=["a:b"]).id)
    assert Interrupt("v", "given", ns=["a:b"]).id == "given"
    assert Interrupt("v", resumable=False) == Interrupt("v")
    assert fresh().loads_typed(fresh().dumps_typed(old)) == old
