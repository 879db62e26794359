"""Values as data."""

import enum
import json
import subprocess
import sys
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inspect_shop import at, builder, fill

from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.inspect import (
    Database,
    Ref,
    StateNotFoundError,
    StoredObject,
    as_data,
    compare,
    part_of,
    show,
)
from milepost.messages import AIMessage
from milepost.types import Interrupt, Send


class Colour(enum.Enum):
    RED = 1


@dataclass
class Point:
    x: int
    y: Any


class Pair(NamedTuple):
    left: int
    right: int


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({"a": [1, None, True, 1.5, "x"]}, {"a": [1, None, True, 1.5, "x"]}),
        (b"hello", {"$bytes": 5, "head": "aGVsbG8="}),
        (float("nan"), {"$type": "float", "value": "nan"}),
        (1 << 80, {"$type": "int", "value": str(1 << 80)}),
        ((1, 2), {"$type": "tuple", "items": [1, 2]}),
        ({3, 1}, {"$type": "set", "items": [1, 3]}),
        (deque([1]), {"$type": "collections.deque", "items": [1]}),
        ({1: "a"}, {"$type": "dict", "pairs": [[1, "a"]]}),
        ({"$type": "mine"}, {"$type": "dict", "pairs": [["$type", "mine"]]}),
        (Colour.RED, {"$type": f"{__name__}.Colour", "name": "RED"}),
        (Point(1, [2]), {"$type": f"{__name__}.Point", "x": 1, "y": [2]}),
        (Pair(1, 2), {"$type": f"{__name__}.Pair", "left": 1, "right": 2}),
        (AIMessage("hi", id="1"), {"type": "ai", "content": "hi", "id": "1"}),
        (
            StoredObject("langchain_core:HumanMessage", {"content": "hi", "type": "human"}),
            {"type": "human", "content": "hi"},
        ),
        (StoredObject("shop:Order", {"id": 7}), {"$type": "shop.Order", "id": 7}),
        (StoredObject("shop:Size", "XL"), {"$type": "shop.Size", "value": "XL"}),
        (Send("n", 1), {"$type": "Send", "node": "n", "arg": 1}),
        (Interrupt("why", id="i"), {"$type": "Interrupt", "id": "i", "value": "why"}),
        (Decimal("1.50"), {"$type": "decimal.Decimal", "value": "1.50"}),
        (
            datetime(2026, 1, 2, tzinfo=UTC),
            {"$type": "datetime.datetime", "value": "2026-01-02T00:00:00+00:00"},
        ),
        (ValueError("no"), {"$type": "ValueError", "message": "no"}),
        ("half \ud800", "half \\ud800"),
    ],
)
def test_a_value_is_shown_as_data(value, data):
    assert as_data(value) == data
    json.dumps(as_data(value), allow_nan=False)


def test_what_nests_too_deep_is_cut_off():
    value: Any = []
    for _ in range(2_000):
        value = [value]
    assert "$deep" in json.dumps(as_data(value))


def test_a_class_whose_repr_fails_is_shown_by_name():
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError

    assert as_data(Odd())["value"] == "<RuntimeError in its repr>"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=12,
)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text(max_size=6), json_values), st.integers(20, 200))
def test_a_part_that_is_left_out_is_found_under_the_path_that_stands_there(value, limit):
    def visit(data: Any) -> None:
        if isinstance(data, dict) and "$more" in data:
            assert as_data(part_of(value, tuple(data["path"]))) is not None
            return
        inner = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
        for one in inner:
            visit(one)

    visit(as_data(value, limit=limit))


def test_a_large_value_is_left_out_and_small_ones_beside_it_are_not():
    data = as_data({"big": "x" * 5_000, "small": "y"}, limit=1_000)
    assert data == {"big": {"$more": 5_002, "path": ["big"]}, "small": "y"}
    assert as_data({"many": list(range(9_999))}, limit=1_000)["many"]["members"] == 9_999


def test_a_path_that_leads_nowhere_says_what_there_is():
    with pytest.raises(StateNotFoundError, match=r"'a\.c'; there is b"):
        part_of({"a": {"b": 1}}, ("a", "c"))


def test_a_negative_place_counts_from_the_end():
    assert part_of({"a": [1, 2, 3]}, ("a", "-1")) == 3
    assert part_of({"a": [1, 2, 3]}, ("a", -1)) == 3


def test_classes_of_the_program_are_neither_imported_nor_needed(tmp_path):
    with SqliteSaver.from_conn_string(str(tmp_path / "a.db")) as saver:
        fill(saver)
    script = (
        "import sys; from milepost.inspect import *\n"
        "with open_database(sys.argv[1]) as db:\n"
        "    view = show(db, Ref('done'))\n"
        "assert view.values['order'] == {'$type': 'inspect_shop.Order', 'number': 0,"
        " 'items': ['tea']}, view.values\n"
        "assert view.values['messages'][0]['type'] == 'human'\n"
        "loaded = {'inspect_shop', 'langchain_core', 'pydantic', 'numpy'} & {*sys.modules}\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "a.db")], check=True, timeout=60)


def test_arrays_and_messages_of_other_libraries_are_shown_without_them():
    numpy = pytest.importorskip("numpy")
    langchain = pytest.importorskip("langchain_core.messages")
    saver = InMemorySaver()
    graph = builder().compile(checkpointer=saver)
    message = langchain.HumanMessage("hi", id="1", tags=["extra"])
    graph.update_state(at("t"), {"messages": [message, numpy.arange(3)]}, as_node="plan")
    shown, array = show(Database.of(saver), Ref("t")).values["messages"]
    assert (shown["type"], shown["content"], shown["id"]) == ("human", "hi", "1")
    assert array["$type"] == "numpy.ndarray"


def test_not_a_number_is_no_change_of_itself():
    assert (
        compare({"a": float("nan"), "b": [float("nan")]}, {"a": float("nan"), "b": [float("nan")]})
        == []
    )
    [change] = compare({"a": float("nan")}, {"a": 1.0})
    assert change.path == ("a",)
