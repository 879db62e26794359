"""Threads that an older program stored: what the newer one can read, resume, and say beforehand."""

import asyncio
import operator
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from test_reencryption import Database

from graphs import thread
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.evolution import adry_run, dry_run
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry, register_migration, register_type
from milepost.errors import DeserializationError, UnregisteredTypeError
from milepost.graph import START, StateGraph
from milepost.types import Command, interrupt


@dataclass
class Order:
    """What the first program stores."""

    price: int
    note: str = ""


@dataclass
class Purchase:
    """The same in the second program: another name, a field less, one renamed, one required."""

    total: int
    buyer: str


class State(TypedDict, total=False):
    order: Any
    log: Annotated[list[str], operator.add]


@pytest.fixture(params=["sqlite", "postgres", "memory", "sealed"])
def stored(request: pytest.FixtureRequest) -> Any:
    """Opens savers with one registry or another on the same threads."""
    if request.param == "memory":
        saver = InMemorySaver()

        def swap(registry: TypeRegistry) -> Any:
            saver.serde = JsonPlusSerializer(registry=registry)
            return saver

        return swap
    sealed = request.param == "sealed"
    request.param = "sqlite" if sealed else request.param
    database = Database(request)

    def open(registry: TypeRegistry) -> Any:
        serde: Any = JsonPlusSerializer(registry=registry)
        if sealed:
            serde = EncryptedSerializer.from_pycryptodome_aes(serde, key=b"k" * 16)
        return database(serde)

    return open


def asking(saver: Any, make: Any = None) -> Any:
    def ask(state: State) -> Any:
        order = state["order"]
        answer = interrupt({"confirm": order})
        return {"log": [f"{answer}: {order!r}"]}

    builder = StateGraph(State).add_node("make", lambda _: {"order": make and make()})
    builder.add_node("ask", ask).add_edge(START, "make").add_edge("make", "ask")
    return builder.compile(checkpointer=saver)


def first_program() -> TypeRegistry:
    registry = TypeRegistry()
    register_type(Order, name="shop.order", registry=registry)
    return registry


def second_program(*, migrates: bool) -> TypeRegistry:
    registry = TypeRegistry()
    register_type(Purchase, old_names=["shop.order"], version=2, registry=registry)
    if migrates:
        register_migration(
            Purchase, 1, lambda old: {"total": old["price"], "buyer": "unknown"}, registry=registry
        )
    return registry


def fill(saver: Any) -> None:
    if hasattr(saver, "setup"):
        saver.setup()
    graph = asking(saver, lambda: Order(5, "x"))
    for name in ("one", "two"):
        assert "__interrupt__" in graph.invoke({"log": ["in"]}, thread(name))
    asking(saver).invoke({"log": ["in"]}, thread("none"))


def test_a_newer_program_resumes_in_the_middle_of_an_interrupt(stored):
    with stored(first_program()) as saver:
        fill(saver)
    with stored(second_program(migrates=True)) as saver:
        for report in (dry_run(saver), asyncio.run(adry_run(saver))):
            assert report
            assert (report.checked, report.threads) == (9, [])
        graph = asking(saver)
        (question,) = graph.get_state(thread("one")).interrupts
        assert question.value == {"confirm": Purchase(5, "unknown")}
        done = graph.invoke(Command(resume="yes"), thread("one"))
        assert done["log"] == ["in", "yes: Purchase(total=5, buyer='unknown')"]
        assert graph.get_state(thread("one")).values["order"] == Purchase(5, "unknown")


@pytest.mark.parametrize(
    ("registry", "error"),
    [
        (lambda: second_program(migrates=False), DeserializationError),
        (TypeRegistry, UnregisteredTypeError),
    ],
)
def test_a_dry_run_says_beforehand_which_threads_would_fail(stored, registry, error):
    with stored(first_program()) as saver:
        fill(saver)
    with stored(registry()) as saver:
        asked = [{}, {"threads": ["one", "two", "none", "unknown"]}]
        for options in asked:
            for report in (dry_run(saver, **options), asyncio.run(adry_run(saver, **options))):
                assert not report
                assert report.complete
                assert (report.checked, report.threads) == (9, ["one", "two"])
                assert {f.channel for f in report.failures} == {"order", "__interrupt__"}
                assert all(f.checkpoint for f in report.failures)
                for failure in report.failures:
                    assert isinstance(failure.error, error)
                    assert failure.thread in str(failure.error)
        with pytest.raises(error, match=r"shop\.order|Purchase") as raised:
            asking(saver).get_state(thread("one"))
        assert raised.value.thread == "one"
        assert asking(saver).get_state(thread("none")).next == ("ask",)
    with stored(first_program()) as saver:
        assert asking(saver).get_state(thread("one")).values["order"] == Order(5, "x")
