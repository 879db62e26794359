"""A compiled graph is a LangChain Runnable, without being made of LangChain."""

from __future__ import annotations

import importlib
import subprocess
import sys
import typing
import warnings
from typing import Any

import pytest
from callback_stories import Recorder, plain
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.runnables import Runnable, RunnableLambda, RunnableSequence
from libraries import LANGGRAPH, MILEPOST
from stories import Log, says
from typing_extensions import TypedDict

from milepost._engine.context.runtime import GIVEN_RUNTIME
from milepost.config import get_store
from milepost.errors import GraphBuildError, OutsideRunError
from milepost.runtime import Runtime, get_runtime
from milepost.store.memory import InMemoryStore


class Number(TypedDict):
    x: int


def increment(library: Any) -> Any:
    builder = library.StateGraph(Number)
    builder.add_node("add", lambda state: {"x": state["x"] + 1})
    builder.add_edge(library.START, "add")
    return builder.compile()


def test_a_compiled_graph_is_an_instance_and_a_subclass_of_runnable() -> None:
    graph = increment(MILEPOST)
    assert isinstance(graph, Runnable)
    assert issubclass(type(graph), Runnable)

    @MILEPOST.entrypoint()
    def program(x: int) -> int:
        return x

    assert isinstance(program, Runnable)


COMPOSITIONS = {
    "| function": lambda g: (g | (lambda s: s["x"]), {"x": 1}),
    "function |": lambda g: ((lambda x: {"x": x}) | g, 4),
    "runnable |": lambda g: (RunnableLambda(lambda x: {"x": x}) | g, 4),
    "dict |": lambda g: ({"x": lambda x: x} | g, 7),
    "| graph": lambda g: (g | g, {"x": 1}),
    "pipe": lambda g: (g.pipe(lambda s: s["x"], str), {"x": 1}),
    "pick": lambda g: (g.pick("x"), {"x": 1}),
    "assign": lambda g: (g.assign(y=lambda s: s["x"] * 2), {"x": 1}),
    "map": lambda g: (g.map(), [{"x": 1}, {"x": 2}]),
    "bind": lambda g: (g.bind(stream_mode="updates"), {"x": 1}),
    "with_retry": lambda g: (g.with_retry(stop_after_attempt=2), {"x": 1}),
    "with_fallbacks": lambda g: (RunnableLambda(_fails).with_fallbacks([g]), {"x": 1}),
    "of its own fallbacks": lambda g: (g.with_fallbacks([RunnableLambda(len)]), {"y": 1}),
    "with_types": lambda g: (g.with_types(input_type=Number), {"x": 1}),
}


def _fails(given: Any) -> Any:
    raise ValueError("first")


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_composes_as_a_graph_of_langgraph_does(run: Any, name: str) -> None:
    results = []
    for library in (LANGGRAPH, MILEPOST):
        composed, given = COMPOSITIONS[name](increment(library))
        assert isinstance(composed, Runnable)
        results.append(run.invoke(composed, given))
    assert results[1] == results[0]


def test_a_sequence_streams_the_graph_as_its_last_step(run: Any) -> None:
    streams = [
        run.stream(RunnableLambda(lambda x: {"x": x}) | increment(library), 1)
        for library in (LANGGRAPH, MILEPOST)
    ]
    assert streams[1] == streams[0] == [{"add": {"x": 2}}]


def test_with_retry_calls_the_graph_again() -> None:
    tries: list[int] = []

    def flaky(state: Any) -> Any:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("not yet")
        return {"x": 5}

    builder = MILEPOST.StateGraph(Number)
    builder.add_node("flaky", flaky)
    builder.add_edge(MILEPOST.START, "flaky")
    patient = builder.compile().with_retry(wait_exponential_jitter=False, stop_after_attempt=3)
    assert patient.invoke({"x": 0}) == {"x": 5}


def test_listeners_hear_of_the_graphs_run(run: Any) -> None:
    heard: list[Any] = []
    graph = increment(MILEPOST).with_listeners(
        on_start=lambda told: heard.append(told.name),
        on_end=lambda told: heard.append(told.outputs),
    )
    run.invoke(graph, {"x": 1})
    assert heard == ["LangGraph", {"x": 2}]


def test_as_tool_takes_the_keys_of_the_graphs_input() -> None:
    tools = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for library in (LANGGRAPH, MILEPOST):
            tools.append(increment(library).as_tool(name="add", description="Adds one."))
    assert tools[1].args == tools[0].args
    assert tools[1].invoke({"x": 1}) == tools[0].invoke({"x": 1}) == {"x": 2}


class Place(typing.TypedDict):
    x: int


class Journey(typing.TypedDict):
    start: Place
    stops: list[Place]


def test_as_tool_takes_an_input_with_the_typed_dict_of_typing() -> None:
    builder = MILEPOST.StateGraph(Journey).add_node("n", lambda state: {"stops": []})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = builder.add_edge(MILEPOST.START, "n").compile()
        tool = graph.as_tool(name="go", description="Goes.")
        named = graph.as_tool(name="go", description="Goes.", arg_types={"start": dict})
    assert set(tool.args) == {"start", "stops"}
    assert tool.invoke({"start": {"x": 1}, "stops": []}) == {"start": {"x": 1}, "stops": []}
    assert set(named.args) == {"start"}


def test_inputs_are_transformed_and_results_come_as_they_are_done(run: Any) -> None:
    graph = increment(MILEPOST)
    inputs = [{"x": 1}, {"x": 2}]

    async def source() -> Any:
        yield {"x": 1}

    async def collect(items: Any) -> list[Any]:
        return [item async for item in items]

    if run.colour == "sync":
        transformed = list(graph.transform(iter([{"x": 1}])))
        done = list(graph.batch_as_completed(inputs))
    else:
        transformed = run._runner.run(collect(graph.atransform(source())))
        done = run._runner.run(collect(graph.abatch_as_completed(inputs)))
    assert transformed == [{"add": {"x": 2}}]
    assert sorted(done) == [(0, {"x": 2}), (1, {"x": 3})]


# -- astream_events and astream_log


def events_graph(library: Any) -> Any:
    model = FakeListChatModel(responses=["hello"])

    async def talk(state: Any) -> Any:
        return {"log": [(await model.ainvoke("hi")).content]}

    def onward(state: Any) -> str:
        return "inner"

    inner = library.StateGraph(Log)
    inner.add_node("deep", says("deep"))
    inner.add_edge(library.START, "deep")
    builder = library.StateGraph(Log)
    builder.add_node("talk", talk)
    builder.add_node("inner", inner.compile())
    builder.add_node("single", RunnableLambda(lambda state: {"log": ["single"]}))
    builder.add_node("chain", RunnableLambda(lambda s: "chain") | (lambda t: {"log": [t]}))
    builder.add_edge(library.START, "talk")
    builder.add_conditional_edges("talk", onward, ["inner"])
    builder.add_edge("inner", "single")
    builder.add_edge("single", "chain")
    return builder.compile()


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:This API is in beta")
def test_events_are_those_of_langgraph(version: str) -> None:
    import asyncio

    async def collect(graph: Any) -> list[Any]:
        found = []
        async for event in graph.astream_events({"log": []}, version=version):
            metadata = {
                k: plain(v) for k, v in event["metadata"].items() if not k.startswith("ls_")
            }
            metadata.pop("lc_versions", None)
            data = plain(event["data"])
            found.append((event["event"], event["name"], sorted(event["tags"]), data, metadata))
        return found

    theirs, ours = (asyncio.run(collect(events_graph(lib))) for lib in (LANGGRAPH, MILEPOST))
    kinds = {kind for kind, *_ in theirs}
    assert {"on_chain_start", "on_chain_stream", "on_chain_end", "on_chat_model_stream"} <= kinds
    assert ours == theirs


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:This API is in beta")
def test_the_log_ends_with_the_same_output_as_on_langgraph() -> None:
    import asyncio

    async def whole(graph: Any) -> Any:
        log: Any = None
        async for patch in graph.astream_log({"log": []}):
            log = patch if log is None else log + patch
        return plain(log.state["final_output"]), sorted(log.state["logs"])

    theirs, ours = (asyncio.run(whole(events_graph(lib))) for lib in (LANGGRAPH, MILEPOST))
    assert ours == theirs


# -- LangChain when it comes late, and when it is not there

_LATE = """
import sys
from typing import TypedDict
from milepost.graph import START, StateGraph

class State(TypedDict):
    x: int

graph = StateGraph(State).add_node("a", lambda s: {"x": 1}).add_edge(START, "a").compile()
for name in dir(graph):
    if name != "step_timeout" and not name.endswith("_schema"):
        getattr(graph, name, None)
assert "langchain_core" not in sys.modules
from langchain_core.runnables import Runnable
assert isinstance(graph, Runnable)
assert (graph | (lambda s: s["x"])).invoke({"x": 0}) == 1
assert not [finder for finder in sys.meta_path if type(finder).__module__.startswith("milepost")]
"""

_WITHOUT = """
import sys
sys.modules["langchain_core"] = None
from typing import TypedDict
from milepost.graph import START, StateGraph

class State(TypedDict):
    x: int

graph = StateGraph(State).add_node("a", lambda s: {"x": 1}).add_edge(START, "a").compile()
assert graph.invoke({"x": 0}, {"callbacks": [object()]}) == {"x": 1}
for call in (lambda: graph | len, lambda: graph.bind(), lambda: __import__("milepost.callbacks")):
    try:
        call()
    except ImportError as error:
        assert "pip install 'milepost[langchain]'" in str(error), error
    else:
        raise AssertionError("no ImportError")
"""


@pytest.mark.parametrize("program", [_LATE, _WITHOUT], ids=["late", "without"])
def test_langchain_may_come_late_or_be_missing(program: str) -> None:
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert said.returncode == 0, said.stderr


def test_a_sequence_knows_the_graph_as_its_step() -> None:
    graph = increment(MILEPOST)
    sequence = graph | len
    assert isinstance(sequence, RunnableSequence)
    assert sequence.first is graph


# -- adding to a compiled graph


def test_nodes_edges_and_branches_are_attached_to_the_compiled_graph_alone(run: Any) -> None:
    builder = MILEPOST.StateGraph(Log)
    builder.add_node("a", says("a"))
    builder.add_edge(MILEPOST.START, "a")
    other = MILEPOST.StateGraph(Log)
    for name in "bcd":
        other.add_node(name, says(name))
    other.add_edge(MILEPOST.START, "b")
    other.add_conditional_edges("b", lambda state: "c", ["c"])
    graph, untouched = builder.compile(), builder.compile()
    for name in "bcd":
        graph.attach_node(name, other.nodes[name])
    graph.attach_node(MILEPOST.START, None)
    graph.attach_edge("a", "b")
    graph.attach_branch("b", "choose", next(iter(other.branches["b"].values())))
    graph.attach_edge(["b", "c"], "d")
    assert graph.validate() is graph
    recorder = Recorder()
    assert run.invoke(graph, {"log": []}, {"callbacks": [recorder]}) == {"log": list("abcd")}
    assert run.invoke(untouched, {"log": []}) == {"log": ["a"]}
    assert set(builder.nodes) == {"a"}
    with pytest.raises(GraphBuildError, match="'nowhere' is not a node"):
        graph.attach_edge("nowhere", "a")


def _user(root: str) -> Any:
    return importlib.import_module(f"{root}.config").get_config()["configurable"].get("user")


@pytest.mark.parametrize("root", ["langgraph", "milepost"])
def test_a_runnable_with_a_config_of_its_own_finds_that_config(root: str) -> None:
    """In a node, in a graph that it calls there, and outside of graphs."""
    library = LANGGRAPH if root == "langgraph" else MILEPOST
    inner = library.StateGraph(Number).add_node("inner", lambda _: {"x": _user(root)})
    inner = inner.add_edge(library.START, "inner").compile()
    look = RunnableLambda(lambda _: _user(root))
    call = RunnableLambda(lambda state: inner.invoke(state)["x"])
    bob: Any = {"configurable": {"user": "bob"}}

    def node(state: Any) -> Any:
        return {"x": [_user(root), look.invoke(1, bob), call.invoke(state, bob), look.invoke(1)]}

    graph = library.StateGraph(Number).add_node("node", node).add_edge(library.START, "node")
    found = graph.compile().invoke({"x": 0}, {"configurable": {"user": "top"}})
    assert found["x"] == ["top", "bob", "bob", "top"]
    assert look.invoke(1, bob) == "bob"


def test_code_outside_of_a_run_may_give_a_runtime_in_the_config_of_a_runnable() -> None:
    """langmem does, to store memories in the background."""
    store = InMemoryStore()
    look = RunnableLambda(lambda _: (get_store(), get_runtime().store))
    given: Any = {"configurable": {GIVEN_RUNTIME: Runtime(store=store)}}
    assert look.invoke(1, given) == (store, store)
    with pytest.raises(OutsideRunError):
        look.invoke(1)
