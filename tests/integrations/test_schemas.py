"""The schemas of a compiled graph are those that LangGraph gives for the same graph."""

import importlib
import operator
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, NotRequired, Required, TypeVar

import pytest
from libraries import LANGGRAPH, MILEPOST
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from milepost._schema import schema_of

Item = TypeVar("Item")


class Typed(TypedDict, total=False):
    a: Annotated[list[int], operator.add]
    b: str


class OnlyA(TypedDict):
    a: list[int]


class Model(BaseModel):
    a: Annotated[list[int], operator.add] = []
    b: str | None = Field(None, description="a text")


@dataclass
class Data:
    a: Annotated[list[int], operator.add]
    b: str = "x"
    c: list[str] = field(default_factory=list)
    d: int | None = None


@dataclass
class DataContext:
    user: str = "u"


class Reserved(TypedDict):
    copy: int
    model_name: str


GRAPHS: dict[str, dict[str, Any]] = {
    "TypedDict": {"state_schema": Typed},
    "other input and output": {
        "state_schema": Typed,
        "input_schema": OnlyA,
        "output_schema": OnlyA,
    },
    "pydantic": {"state_schema": Model},
    "pydantic output": {"state_schema": Typed, "output_schema": Model},
    "dataclass": {"state_schema": Data},
    "one value": {"state_schema": Annotated[list, operator.add]},
    "names that pydantic wants": {"state_schema": Reserved},
    "TypedDict context": {"state_schema": Typed, "context_schema": OnlyA},
    "dataclass context": {"state_schema": Typed, "context_schema": DataContext},
    "pydantic context": {"state_schema": Typed, "context_schema": Model},
}


def compiled(library: Any, options: dict[str, Any], name: str | None) -> Any:
    builder = library.StateGraph(**options)
    builder.add_node("node", lambda state: None)
    builder.add_edge(library.START, "node")
    return builder.compile(name=name)


def entrypoints(library: Any) -> dict[str, Any]:
    @library.entrypoint()
    def plain(x: int) -> str:
        return str(x)

    @library.entrypoint()
    def untyped(x):
        return x

    @library.entrypoint()
    def model(x: Model) -> library.entrypoint.final[int, str]:
        return library.entrypoint.final(value=1, save="")

    @library.entrypoint(context_schema=OnlyA)
    def mapping(x: dict[str, int]) -> Typed:
        return {}

    return {graph.nodes.__iter__().__next__(): graph for graph in (plain, untyped, model, mapping)}


FACTS: dict[str, Callable[[Any], Any]] = {
    "input": lambda g: g.get_input_jsonschema(),
    "output": lambda g: g.get_output_jsonschema(),
    "context": lambda g: g.get_context_jsonschema(),
    "input model": lambda g: (g.get_input_schema().__name__, g.input_schema.model_json_schema()),
    "output model": lambda g: (g.get_output_schema().__name__, g.output_schema.model_json_schema()),
    "input type": lambda g: str(g.InputType),
    "input channels": lambda g: g.input_channels,
    "output channels": lambda g: g.output_channels,
    "stream channels": lambda g: (
        g.stream_channels,
        g.stream_channels_list,
        g.stream_channels_asis,
    ),
    "config specs": lambda g: g.config_specs,
    "names": lambda g: (g.get_name(), g.get_name("Input"), g.get_name(name="x")),
}


@pytest.mark.parametrize("name", [None, "mine"])
@pytest.mark.parametrize("options", GRAPHS)
def test_the_schemas_of_a_state_graph_are_those_of_langgraph(
    options: str, name: str | None
) -> None:
    theirs, ours = (compiled(lib, GRAPHS[options], name) for lib in (LANGGRAPH, MILEPOST))
    for fact, tell in FACTS.items():
        assert tell(ours) == tell(theirs), fact


def nested(typed_dict: Any) -> Any:
    """A graph whose state is made with one of the two TypedDicts, with others in it."""

    class Inner(typed_dict):
        """What is inside."""

        number: int
        note: NotRequired[str]

    class Base(typed_dict):
        question: Annotated[str, Field(description="asked")]
        more: NotRequired[int]

    class State(Base, total=False):
        log: Annotated[list[str], operator.add]
        inner: Required[Inner]
        maybe: Inner | None
        several: list[Inner]
        by_name: dict[str, tuple[Inner, ...]]
        kind: Literal["a", "b"]

    return compiled(MILEPOST, {"state_schema": State, "context_schema": Inner}, None)


@pytest.mark.parametrize("fact", FACTS)
def test_the_typed_dict_of_typing_is_described_on_each_python(fact: str) -> None:
    told = FACTS[fact](nested(typing.TypedDict))
    assert told == FACTS[fact](nested(TypedDict))
    if fact == "input":
        assert told["required"] == ["question", "inner"]
        assert told["$defs"]["Inner"]["required"] == ["number"]


class Tree(typing.TypedDict):
    children: list["Tree"]


class Box(typing.TypedDict, Generic[Item]):
    item: Item


@pytest.mark.parametrize("schema", [Tree, Box, Box[int]])
def test_recursive_and_generic_typed_dicts_are_described(schema: Any) -> None:
    graph = compiled(MILEPOST, {"state_schema": schema}, None)
    (key,) = schema_of(schema).keys
    assert list(graph.get_output_jsonschema().get("properties", {key: 1})) == [key]
    assert list(graph.get_output_schema().model_json_schema()["properties"]) == [key]


def test_the_messages_of_a_conversation_are_described_as_on_langgraph() -> None:
    def described(lib: Any) -> Any:
        class Chat(lib.MessagesState):
            language: str

        return compiled(lib, {"state_schema": Chat}, None).get_input_jsonschema()

    assert described(MILEPOST) == described(LANGGRAPH)
    assert "HumanMessage" in described(MILEPOST)["$defs"]


@pytest.mark.parametrize("name", ["plain", "untyped", "model", "mapping"])
def test_the_schemas_of_an_entrypoint_are_those_of_langgraph(name: str) -> None:
    theirs, ours = (entrypoints(lib)[name] for lib in (LANGGRAPH, MILEPOST))
    for fact, tell in FACTS.items():
        assert tell(ours) == tell(theirs), fact
    assert str(ours.OutputType) == str(theirs.OutputType)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("include", [None, ["tags", "configurable"]])
def test_the_schema_of_the_config_is_that_of_langgraph(include: Any) -> None:
    theirs, ours = (
        compiled(lib, GRAPHS["TypedDict context"], None) for lib in (LANGGRAPH, MILEPOST)
    )
    assert ours.get_config_jsonschema(include=include) == theirs.get_config_jsonschema(
        include=include
    )
    assert ours.config_schema().__name__ == theirs.config_schema().__name__


def test_the_schema_of_the_config_is_deprecated() -> None:
    graph = compiled(MILEPOST, GRAPHS["TypedDict"], None)
    with pytest.warns(DeprecationWarning, match="get_context_jsonschema"):
        graph.get_config_jsonschema()


def test_a_model_takes_what_the_graph_takes() -> None:
    graph = compiled(MILEPOST, GRAPHS["TypedDict"], None)
    assert graph.get_input_schema().model_validate({"a": [1]}).model_dump() == {"a": [1]}


def test_a_context_that_is_no_schema_is_refused() -> None:
    graph = compiled(MILEPOST, {"state_schema": Typed, "context_schema": int}, None)
    with pytest.raises(ValueError, match="TypedDict or a dataclass"):
        graph.get_context_jsonschema()


@pytest.mark.parametrize("name", ["graph.MessagesState", "prebuilt.chat_agent_executor.AgentState"])
def test_examples_for_programmers_are_not_in_the_schema_of_our_own_states(name: str) -> None:
    module, _, kind = f"milepost.{name}".rpartition(".")
    state: Any = getattr(importlib.import_module(module), kind)
    builder = MILEPOST.StateGraph(state).add_node("a", lambda s: s).add_edge("__start__", "a")
    described = builder.compile().get_input_jsonschema()["description"]
    assert state.__doc__.startswith(described)
    assert ">>>" not in described
