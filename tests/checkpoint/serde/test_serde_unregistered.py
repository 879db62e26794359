"""Data types that are not registered: written with a warning, read where the program shows them."""

import enum
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import pydantic
import pytest

from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.serde._types.exceptions import RemoteError
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry
from milepost.errors import SerializationError, UnregisteredTypeError
from milepost.graph import START, StateGraph
from milepost.warnings import MilepostWarning

T = TypeVar("T")


@dataclass(frozen=True)
class Order:
    total: int


class Model(pydantic.BaseModel):
    name: str
    orders: list[Order] = []


class Extended(pydantic.BaseModel, extra="allow"):
    name: str


class Box(pydantic.BaseModel, Generic[T]):
    content: T


class Kind(enum.Enum):
    ONE = object()


class Mood(enum.StrEnum):
    GOOD = "good"


class Pair(NamedTuple):
    left: int
    right: int


class Failed(Exception):
    pass


VALUES = [
    Order(1),
    Model(name="a", orders=[Order(2)]),
    Box[int](content=1),
    Kind.ONE,
    {Order(1): 2},
    Mood.GOOD,
    Pair(1, 2),
    {Mood.GOOD: {Pair(1, 2)}},
]


def fresh(**options: Any) -> JsonPlusSerializer:
    return JsonPlusSerializer(registry=TypeRegistry(), **options)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_written_with_a_warning_and_read_back_by_this_process(value: Any) -> None:
    serde = fresh()
    with pytest.warns(MilepostWarning, match="register_type"):
        stored = serde.dumps_typed(value)
    assert serde.loads_typed(stored) == value
    assert type(serde.loads_typed(stored)) is type(value)


def test_the_warning_comes_once_for_each_type() -> None:
    serde = fresh()
    with pytest.warns(MilepostWarning, match="Order"):
        serde.dumps_typed([Order(1), Order(2)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        serde.dumps_typed([Order(3)])


@pytest.mark.parametrize("options", [{}, {"allowed_msgpack_modules": None}])
@pytest.mark.parametrize("value", [*VALUES, Failed("x")], ids=lambda value: type(value).__name__)
def test_a_strict_serializer_refuses_it(options: Any, value: Any) -> None:
    registry = TypeRegistry()
    with pytest.warns(MilepostWarning):
        stored = JsonPlusSerializer(registry=registry).dumps_typed(value)
    with pytest.raises(SerializationError, match="is not registered"):
        JsonPlusSerializer(registry=registry, strict=True, **options).dumps_typed(value)
    assert stored[0] == "msgpack"


class Size(enum.Enum):
    SMALL = 1


FIELDS: list[tuple[Any, Any]] = [
    (Order(1), {"total": 1}),
    (Model(name="a", orders=[Order(2)]), {"name": "a", "orders": [{"total": 2}]}),
    ([Box[int](content=1)], [{"content": 1}]),
    (Extended(name="a", more=[1]), {"name": "a", "more": [1]}),
    ({"size": Size.SMALL}, {"size": 1}),
    (Pair(1, 2), {"left": 1, "right": 2}),
]


@pytest.mark.parametrize("allowed", [None, [], [("shop", "Other")]])
@pytest.mark.parametrize(("value", "fields"), FIELDS, ids=lambda value: type(value).__name__)
def test_with_a_list_that_does_not_name_a_type_its_values_are_read_as_their_fields(
    allowed: Any, value: Any, fields: Any, caplog: pytest.LogCaptureFixture
) -> None:
    registry = TypeRegistry()
    with pytest.warns(MilepostWarning):
        exact = JsonPlusSerializer(registry=registry).dumps_typed(value)  # known to this process
    serde = JsonPlusSerializer(registry=registry, allowed_msgpack_modules=allowed)
    with pytest.warns(MilepostWarning, match="allowed_msgpack_modules"):
        stored = serde.dumps_typed(value)
    if value != {"size": Size.SMALL}:
        assert stored == exact
        with pytest.warns(MilepostWarning, match="blocked"):
            assert serde.loads_typed(stored) == fields
        assert "blocked" in caplog.text
    assert serde.loads_typed(stored) == fields


@pytest.mark.parametrize("value", [{Order(1)}, {Order(1): 2}, [frozenset({Order(1)})]])
def test_with_a_list_what_could_not_be_read_as_fields_is_refused(value: Any) -> None:
    with pytest.raises(SerializationError, match="allowed_msgpack_modules"):
        fresh(allowed_msgpack_modules=None).dumps_typed(value)
    named = fresh(allowed_msgpack_modules=[Order])
    assert named.loads_typed(named.dumps_typed(value)) == value


def test_stored_bytes_do_not_make_a_type_known() -> None:
    with pytest.warns(MilepostWarning):
        stored = fresh().dumps_typed(Order(1))
    with pytest.raises(UnregisteredTypeError, match="Order"):
        fresh().loads_typed(stored)


def test_a_warning_that_is_made_an_error_refuses_each_time() -> None:
    serde = fresh()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(SerializationError, match="unregistered type"):
                serde.dumps_typed(Order(1))


def defined_again() -> Any:
    @dataclass
    class Local:
        n: int

    return Local


def test_a_class_that_is_defined_again_is_read_as_the_newer_one() -> None:
    serde = fresh()
    for _ in range(3):
        cls = defined_again()
        with pytest.warns(MilepostWarning, match="Local"):
            stored = serde.dumps_typed(cls(1))
        assert type(serde.loads_typed(stored)) is cls
    assert len(serde.registry.bases) == 1


def test_an_exception_is_stored_as_its_name_and_message() -> None:
    serde = fresh()
    with pytest.warns(MilepostWarning, match="RemoteError"):
        stored = serde.dumps_typed({"error": Failed("no", 1)})
    back = serde.loads_typed(stored)["error"]
    assert isinstance(back, RemoteError)
    assert (back.type_name, back.arguments) == (f"{__name__}:Failed", ("no", 1))


def test_a_node_may_return_what_another_module_has_made(tmp_path: Path) -> None:
    """The types of modules that a graph's module imports, or of its own package, need no
    registration, in the process that writes them and in the next one."""
    package = tmp_path / "shop"
    (package / "deep").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "deep" / "__init__.py").touch()
    record = "from dataclasses import dataclass\n@dataclass\nclass {0}:\n    n: int = 1\n"
    (package / "deep" / "types.py").write_text(record.format("Own"))
    (tmp_path / "beside.py").write_text(record.format("Beside"))
    (tmp_path / "helper.py").write_text(record.format("Made") + "def make():\n    return Made()\n")
    (package / "nodes.py").write_text(
        "import beside\n"
        "from helper import make\n"
        "from milepost.graph import START, StateGraph\n"
        "def node(state):\n"
        "    from shop.deep.types import Own\n"
        "    return {'a': [make(), beside.Beside(), Own()]}\n"
        "from typing import TypedDict\n"
        "class State(TypedDict):\n    a: list\n"
        "builder = StateGraph(State).add_node('n', node).add_edge(START, 'n')\n"
    )
    program = (
        "import sys, shop.deep.types\n"
        "from shop.nodes import builder\n"
        "from milepost.checkpoint.sqlite import SqliteSaver\n"
        "with SqliteSaver.from_conn_string('t.db') as saver:\n"
        "    graph = builder.compile(checkpointer=saver)\n"
        "    at = {'configurable': {'thread_id': '1'}}\n"
        "    if sys.argv[1] == 'write': graph.invoke({'a': []}, at)\n"
        "    else: print([type(x).__name__ for x in graph.get_state(at).values['a']])\n"
    )
    for mode in ("write", "read"):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program, mode],
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
            env={"PYTHONPATH": str(tmp_path)},
        )  # fmt: skip
        assert done.stderr == ""
    assert done.stdout.strip() == "['Made', 'Beside', 'Own']"


def test_a_graph_without_a_checkpointer_gives_the_same_warning() -> None:
    builder: Any = StateGraph(dict)
    builder.add_node("n", lambda _: {"x": defined_again()(1)}).add_edge(START, "n")
    with pytest.warns(MilepostWarning, match="Local"):
        builder.compile().invoke({})
    with pytest.warns(MilepostWarning, match="Local"):
        builder.compile(checkpointer=InMemorySaver()).invoke(
            {}, {"configurable": {"thread_id": "1"}}
        )
