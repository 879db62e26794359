"""A value that a checkpointer would refuse gives a warning in a graph that has none."""

import asyncio
import threading
import warnings
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

from milepost.channels import UntrackedValue
from milepost.checkpoint.memory import InMemorySaver
from milepost.errors import SerializationError
from milepost.graph import END, START, StateGraph
from milepost.warnings import MilepostWarning


class Client:
    pass


@dataclass
class Order:
    items: list[Any]


class State(TypedDict, total=False):
    value: Any
    other: Any
    never: Annotated[Any, UntrackedValue]


def writing(*updates: Any, checkpointer: Any = None) -> Any:
    """A graph whose nodes n0, n1, … write these."""
    builder = StateGraph(State)
    for at, update in enumerate(updates):
        builder.add_node(f"n{at}", lambda _, update=update: update)
        builder.add_edge(f"n{at - 1}" if at else START, f"n{at}")
    builder.add_edge(f"n{len(updates) - 1}", END)
    return builder.compile(checkpointer=checkpointer)


@pytest.mark.parametrize(
    "value",
    [Client(), [Client()], {"a": (1, Client())}, {"k": {1: [Client()]}}, Order([Client()])],
    ids=["alone", "list", "tuple", "deep", "dataclass"],
)
def test_the_warning_names_node_key_type_and_what_to_do(value: Any) -> None:
    with pytest.warns(MilepostWarning) as caught:
        result = writing({"value": value}).invoke({})
    assert result == {"value": value}
    (warning,) = caught
    for word in ("'n0'", "'value'", f"{__name__}.Client", "register_type", "checkpointer=False"):
        assert word in str(warning.message)
    config = {"configurable": {"thread_id": "t"}}
    with pytest.raises(SerializationError, match="Client"):
        writing({"value": value}, checkpointer=InMemorySaver()).invoke({}, config)


def test_the_warning_comes_once_for_each_type_and_node() -> None:
    graph = writing({"value": Client(), "other": Client()}, {"value": [Client()]})
    with pytest.warns(MilepostWarning) as caught:
        _ = (graph.invoke({}), graph.invoke({}), asyncio.run(graph.ainvoke({})))
    said = [str(one.message) for one in caught]
    assert [("'n0'" in text, "'n1'" in text) for text in said] == [(True, False), (False, True)]


def test_a_later_value_of_another_type_is_looked_at_too() -> None:
    values = iter([1, "x", [1], threading.Lock()])
    builder = StateGraph(State)
    builder.add_node("n", lambda _: {"value": next(values)})
    builder.add_edge(START, "n")
    graph = builder.compile()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            graph.invoke({})
    with pytest.warns(MilepostWarning, match="lock"):
        graph.invoke({})


@pytest.mark.parametrize(
    ("update", "checkpointer"),
    [
        ({"value": Client()}, False),
        ({"never": Client()}, None),
        ({"value": [1, ({"a"}, Order([b"x"]))]}, None),
        ({"value": list(range(100_000))}, None),
    ],
    ids=["never saved", "untracked", "storable", "long"],
)
def test_a_value_that_is_not_stored_or_can_be_stored_gives_no_warning(
    update: Any, checkpointer: Any
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        writing(update, checkpointer=checkpointer).invoke({})


def test_a_value_that_contains_itself_ends_the_look() -> None:
    value: list[Any] = [Client()]
    value.append(value)
    with pytest.warns(MilepostWarning):
        writing({"value": value}).invoke({})


def test_a_subclass_of_text_gives_the_warning_of_the_serializer() -> None:
    class Local(str):
        pass

    with pytest.warns(MilepostWarning, match="stored as plain str"):
        writing({"value": Local("x")}).invoke({})
