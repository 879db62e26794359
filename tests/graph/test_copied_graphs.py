"""A compiled graph can be copied, and pickled where its functions can be."""

import copy
import dataclasses
import operator
import pickle
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from milepost.channels import DeltaChannel, EphemeralValue
from milepost.graph import START, StateGraph
from milepost.pregel import NodeBuilder, Pregel
from milepost.runtime import Runtime
from milepost.types import Command, RetryPolicy, RunnableConfig, Send


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


class Model(BaseModel):
    log: Annotated[list[Any], operator.add] = []
    user_name: str = Field("nobody", alias="userName")


@dataclasses.dataclass
class Data:
    log: Annotated[list[Any], operator.add] = dataclasses.field(default_factory=list)
    count: int = dataclasses.field(init=False, default=0)


def a(state: Any) -> Any:
    return {"log": ["a"]}


def b(state: Any) -> Any:
    return {"log": ["b"]}


def fails(state: Any) -> Any:
    raise ValueError("failed")


def handles(state: Any) -> Any:
    return {"log": ["handled"]}


def goes(state: Any) -> Command[Literal["b"]]:
    return Command(goto="b", update={"log": ["goes"]})


def route(state: Any) -> Literal["b", "__end__"]:
    return "b"


def sends(state: Any) -> Any:
    return [Send("b", state)]


def same(value: Any) -> Any:
    return value


def line(schema: Any) -> Any:
    return StateGraph(schema).add_sequence([a, b]).add_edge(START, "a").compile()


def branched(schema: Any, path: Any) -> Any:
    builder = StateGraph(schema).add_node(a).add_node(b).add_edge(START, "a")
    return builder.add_conditional_edges("a", path).compile()


def joined() -> Any:
    builder = StateGraph(State).add_node(a).add_node(b).add_node("c", a)
    builder.add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "c")
    return builder.compile()


def commanded() -> Any:
    builder = StateGraph(State).add_node(goes).add_node(b)
    return builder.add_edge(START, "goes").compile()


def with_handler() -> Any:
    retry = RetryPolicy(max_attempts=1)
    builder = StateGraph(State).add_node(fails, retry_policy=retry, error_handler=handles)
    return builder.add_edge(START, "fails").compile()


def wants(state: Any, config: RunnableConfig, *, runtime: Runtime[Any]) -> Any:
    return {"log": [bool(config), runtime.context]}


def filled_in() -> Any:
    return StateGraph(State).add_node(wants).add_edge(START, "wants").compile()


def inner() -> Any:
    return StateGraph(State).add_node("inner", line(State)).add_edge(START, "inner").compile()


def newest(old: Any, new: Any) -> Any:
    return [*old, *(one for writes in new for one in writes)]


class Delta(TypedDict, total=False):
    log: Annotated[list[Any], DeltaChannel(newest)]


def of_channels() -> Any:
    return Pregel(
        nodes={"n": NodeBuilder().subscribe_only("log").do(same).write_to("out")},
        channels={"log": EphemeralValue(list), "out": EphemeralValue(list)},
        input_channels=["log"],
        output_channels=["out"],
    )


GRAPHS: dict[str, Callable[[], Any]] = {
    "TypedDict": lambda: line(State),
    "pydantic": lambda: line(Model),
    "dataclass": lambda: line(Data),
    "branch": lambda: branched(State, route),
    "branch of a model": lambda: branched(Model, sends),
    "join": joined,
    "command": commanded,
    "error handler": with_handler,
    "channels": of_channels,
    "parameters": filled_in,
    "graph as a node": inner,
    "delta channel": lambda: line(Delta),
}


def pickled(graph: Any) -> Any:
    return pickle.loads(pickle.dumps(graph))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_copy_of_a_graph_runs_as_the_graph_does(run, name, copied):
    graph = GRAPHS[name]()
    expected = run.invoke(graph, {"log": ["given"]})
    assert run.invoke(copied(graph), {"log": ["given"]}) == expected
    assert run.invoke(copied(graph), {"log": ["given"]}) == expected


def test_an_object_that_has_a_graph_can_be_deep_copied(run):
    holder = {"graph": line(State), "inner": StateGraph(State).add_node("g", line(State))}
    twin = copy.deepcopy(holder)
    assert run.invoke(twin["graph"], {}) == {"log": ["a", "b"]}
    assert run.invoke(twin["inner"].add_edge(START, "g").compile(), {}) == {"log": ["a", "b"]}
