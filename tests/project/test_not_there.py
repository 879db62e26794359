"""What docs/from-langgraph.md says is not there: LangGraph has it, milepost does not."""

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import TypedDict

PAGE = (Path(__file__).parents[2] / "docs" / "from-langgraph.md").read_text()

MODULES = ("prebuilt", "pregel", "cache.sqlite", "cache.redis", "graph.ui", "callbacks")
NAMES = {
    "graph": ("MessageGraph",),
    "errors": ("NodeInterrupt", "ErrorCode", "is_invalid_resume"),
    "types": ("GraphOutput", "StreamPart", "ValuesStreamPart"),
    "checkpoint.memory": ("PersistentDict",),
}
METHODS = (
    *("get_input_schema", "get_output_schema", "get_input_jsonschema", "get_output_jsonschema"),
    *("get_context_jsonschema", "config_schema", "input_schema", "output_schema"),
    *("input_channels", "output_channels", "stream_channels", "astream_events"),
    *("batch_as_completed", "abatch_as_completed", "pipe", "with_retry", "with_fallbacks"),
    *("bind", "transform", "step_timeout"),
)


class State(TypedDict):
    x: int


def builder(root: str) -> Any:
    graph = importlib.import_module(f"{root}.graph")
    built = graph.StateGraph(State)
    built.add_node("a", lambda state: {"x": 2})
    return built.add_edge(graph.START, "a")


def thing(root: str, name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(f"{root}.{module}"), attribute)


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    assert f"`langgraph.{name}`" in PAGE
    assert importlib.import_module(f"langgraph.{name}")
    with pytest.raises(ImportError):
        importlib.import_module(f"milepost.{name}")


@pytest.mark.parametrize("name", [f"{home}.{name}" for home in NAMES for name in NAMES[home]])
def test_names(name: str) -> None:
    assert f"`{name}`" in PAGE or f"`{name.rpartition('.')[2]}`" in PAGE
    assert thing("langgraph", name)
    with pytest.raises(AttributeError):
        thing("milepost", name)


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_a_compiled_graph(name: str) -> None:
    assert f"`{name}`" in PAGE or f"`graph.{name}`" in PAGE
    assert hasattr(builder("langgraph").compile(), name)
    assert not hasattr(builder("milepost").compile(), name)


@pytest.mark.parametrize(
    ("name", "parameter", "shown"),
    [
        ("graph.StateGraph.set_node_defaults", "timeout", "set_node_defaults(timeout=)"),
        ("graph.StateGraph.compile", "transformers", "compile(transformers=)"),
        ("graph.StateGraph.add_node", "trace_policy", "add_node(trace_policy=)"),
        ("func.entrypoint", "timeout", "@entrypoint(timeout=)"),
        ("types.interrupt", "response_schema", "interrupt(value, response_schema=)"),
    ],
)
def test_parameters(name: str, parameter: str, shown: str) -> None:
    assert f"`{shown}`" in PAGE

    def taken(root: str) -> Any:
        if ".StateGraph." in name:
            found = getattr(thing(root, "graph.StateGraph"), name.rpartition(".")[2])
        else:
            found = thing(root, name)
        return inspect.signature(found).parameters

    assert parameter in taken("langgraph")
    assert parameter not in taken("milepost")


@pytest.mark.parametrize("method", ["invoke", "stream"])
def test_another_form_of_events_and_results_is_refused(method: str) -> None:
    assert '`version="v2"`' in PAGE
    assert (
        "version" in inspect.signature(getattr(builder("langgraph").compile(), method)).parameters
    )
    run = getattr(builder("milepost").compile(), method)
    assert list(run({"x": 1}, version="v1"))
    with pytest.raises(ValueError, match="stream_mode"):
        list(run({"x": 1}, version="v2"))


def test_a_timeout_of_steps_is_refused_with_what_to_do_instead() -> None:
    graph = builder("milepost").compile()
    with pytest.raises(AttributeError, match=r"add_node\(..., timeout="):
        graph.step_timeout = 5


def test_callbacks_hear_nothing_of_the_graph_and_its_nodes() -> None:
    callbacks = pytest.importorskip("langchain_core.callbacks")
    heard: list[str] = []

    class Handler(callbacks.BaseCallbackHandler):
        def on_chain_start(self, *_: Any, **__: Any) -> None:
            heard.append("start")

    for root, events in (("langgraph", ["start", "start"]), ("milepost", [])):
        heard.clear()
        builder(root).compile().invoke({"x": 1}, {"callbacks": [Handler()]})
        assert heard == events


def test_a_graph_becomes_a_runnable_and_its_schemas_are_the_builders() -> None:
    runnables = pytest.importorskip("langchain_core.runnables")
    graph = builder("milepost").compile()
    chain = runnables.RunnableLambda(graph.invoke) | (lambda state: state["x"])
    assert chain.invoke({"x": 1}) == 2
    schemas = (graph.builder.state_schema, graph.builder.input_schema, graph.builder.output_schema)
    assert schemas == (State, State, State)
