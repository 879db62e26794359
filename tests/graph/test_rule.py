"""A program that runs on LangGraph without an error runs here without one, with a warning where
something was passed over; `strict=True` refuses it."""

from __future__ import annotations

import asyncio
import copy
import functools
import json
import operator
import re
import warnings
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from both import names_of
from milepost._internal.warn import REMEMBERED, Strictness
from milepost.errors import (
    CheckpointNotFoundError,
    EmptyInputError,
    GraphBuildError,
    InvalidUpdateError,
    MilepostError,
    OutsideRunError,
    UnknownInterruptError,
)
from milepost.graph import START, StateGraph
from milepost.warnings import MilepostWarning

T: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    a: int
    log: Annotated[list[Any], operator.add]


class Model(BaseModel):
    a: int = 0
    extra: int = 0


class Hidden(TypedDict):
    log: Annotated[list[Any], operator.add] | None


def checked(value: Any) -> Any:
    return value


class Validated(BaseModel):
    """Functions in a union that are no reducers."""

    checked: Annotated[int, checked] | None = None
    short: Annotated[str, Field(max_length=3)] | None = None


@dataclass
class Record:
    a: int = 0
    extra: int = 0


class Plain:
    a: int
    extra: int

    def __init__(self) -> None:
        self.a, self.extra = 7, 8


class Other(BaseModel):
    a: int
    extra: int


def one(lib: Any, node: Any, **options: Any) -> Any:
    """A graph of one node."""
    return lib.StateGraph(State).add_node("n", node).add_edge(lib.START, "n").compile(**options)


def of(lib: Any, schema: Any, node: Any, given: Any = None) -> Any:
    """What a graph of one node and another state returns."""
    builder = lib.StateGraph(schema).add_node("n", node).add_edge(lib.START, "n")
    return builder.compile().invoke(given or {})


def two(lib: Any, node: Any, **options: Any) -> Any:
    """A graph of one node, and another that it may go to."""
    builder = lib.StateGraph(State).add_node("n", node)
    builder.add_node("m", lambda state: {"log": ["m", state.get("a")]})
    return builder.add_edge(lib.START, "n").compile(**options)


def routed(lib: Any, route: Any, path_map: Any = None) -> Any:
    builder = lib.StateGraph(State).add_node("n", lambda _: {"a": 1})
    builder.add_node("m", lambda state: {"log": ["m", state.get("a")]})
    return (
        builder.add_edge(lib.START, "n")
        .add_conditional_edges("n", route, path_map)
        .compile()
        .invoke({})
    )


def saved(lib: Any, node: Any, then: Any) -> Any:
    """What a second call says to a thread that has had a first."""
    graph = two(lib, node, checkpointer=lib.InMemorySaver())
    graph.invoke({"a": 1}, T)
    return graph.invoke(then, T)


def ask(lib: Any) -> Callable[[Any], Any]:
    return lambda _: {"log": [lib.interrupt("?")]}


def said(_: Any) -> Any:
    return {"log": ["x"]}


def annotated(a: int) -> Any: ...


def reads(lib: Any, schema: Any) -> Any:
    """What a node gets that is given this input schema."""
    seen: list[Any] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Invalid state_schema")  # LangGraph's
        builder = lib.StateGraph(State).add_node("n", seen.append, input_schema=schema)
    builder.add_edge(lib.START, "n").compile().invoke({"a": 1})
    return seen


def counted(_: Any) -> Any:
    yield {"a": 1}
    yield {"a": 2}


async def counted_async(_: Any) -> Any:
    yield {"a": 1}
    yield {"a": 2}


def with_lambda(lib: Any) -> Any:
    builder = lib.StateGraph(State).add_node(lambda _: {"a": 1})
    return builder.add_edge(lib.START, "<lambda>").compile().invoke({})


def updated(lib: Any, values: Any) -> Any:
    graph = one(lib, said, checkpointer=lib.InMemorySaver())
    graph.invoke({"a": 1}, T)
    graph.update_state(T, values)
    return graph.get_state(T).values


def asked_again(lib: Any) -> Any:
    graph = one(lib, ask(lib), checkpointer=lib.InMemorySaver())
    graph.invoke({}, T)
    result = graph.invoke(lib.Command(resume={"0" * 32: "late"}), T)
    return [one.value for one in result["__interrupt__"]]


def copied(lib: Any) -> Any:
    graph = one(lib, said, checkpointer=lib.InMemorySaver())
    graph.invoke({}, T)
    graph.update_state(T, {"a": 1}, as_node="__copy__")
    return graph.get_state(T).values


def entered(lib: Any) -> Any:
    @lib.entrypoint(checkpointer=lib.InMemorySaver())
    def program(given: int) -> int:
        return given

    program.invoke(1, T)
    return program.invoke(lib.Command(goto="x"), T)


def catches(lib: Any) -> Any:
    def node(_: Any) -> Any:
        try:
            return {"log": [lib.interrupt("?")]}
        except Exception:
            return {"log": ["went on"]}

    return node


def started_over(lib: Any) -> Any:
    builder = lib.StateGraph(State).add_node("n", said).add_node("m", ask(lib))
    builder.add_edge(lib.START, "n").add_edge(lib.START, "m")
    graph = builder.compile(checkpointer=lib.InMemorySaver())
    graph.invoke({"log": ["one"]}, T)
    graph.invoke({"log": ["two"]}, T)
    return graph.invoke(lib.Command(resume="yes"), T)["log"]


class Case(NamedTuple):
    name: str
    program: Callable[[Any], Any]
    warning: str
    refusal: type[Exception] = InvalidUpdateError


CASES = [
    Case("key", lambda lib: one(lib, lambda _: {"a": 1, "z": 2}).invoke({}), "'n' wrote the key"),
    Case("only key", lambda lib: one(lib, lambda _: {"z": 2}).invoke({"a": 3}), "wrote the key"),
    Case(
        "streamed key", lambda lib: list(one(lib, lambda _: {"z": 2}).stream({})), "wrote the key"
    ),
    Case(
        "key of a command",
        lambda lib: one(lib, lambda _: lib.Command(update={"a": 1, "z": 2})).invoke({}),
        "'n' wrote the key 'z'",
    ),
    Case(
        "key of pairs",
        lambda lib: one(lib, lambda _: lib.Command(update=[("a", 1), ("z", 2)])).invoke({}),
        "'n' wrote the key 'z'",
    ),
    Case(
        "key of an input",
        lambda lib: one(lib, said).invoke({"a": 1, "z": 2}),
        "The input has the key 'z'",
    ),
    Case(
        "key of an input command",
        lambda lib: saved(lib, ask(lib), lib.Command(update={"a": 4, "z": 1}, resume="r")),
        "The command that is the input wrote the key 'z'",
    ),
    Case("key of an update", lambda lib: updated(lib, {"a": 2, "z": 3}), "'n' wrote the key 'z'"),
    Case("model", lambda lib: one(lib, lambda _: Model(a=4, extra=1)).invoke({}), "key 'extra'"),
    Case("record", lambda lib: one(lib, lambda _: Record(a=4)).invoke({}), "key 'extra'"),
    Case("annotated object", lambda lib: one(lib, lambda _: Plain()).invoke({}), "key 'extra'"),
    Case(
        "result of a graph",
        lambda lib: one(
            lib,
            functools.partial(
                lambda graph, _: graph.invoke({"a": 1, "extra": 1}),
                lib.StateGraph(Other)
                .add_node("i", lambda _: {"a": 2})
                .add_edge(lib.START, "i")
                .compile(),
            ),
        ).invoke({}),
        "'n' wrote the key 'extra'",
    ),
    Case(
        "update of a command",
        lambda lib: one(lib, lambda _: lib.Command(update=[3])).invoke({"a": 9}),
        "has the update",
    ),
    Case(
        "update of an input command",
        lambda lib: saved(lib, ask(lib), lib.Command(update="text", resume="r")),
        "has the update 'text'",
    ),
    *(
        Case(
            f"goto {name}",
            lambda lib, target=target: two(
                lib, lambda _: lib.Command(update={"a": 1}, goto=target(lib))
            ).invoke({}),
            warning,
        )
        for name, target, warning in [
            ("an unknown node", lambda _: "z", "'n' goes to 'z', which is not a node"),
            ("two, one unknown", lambda _: ["z", "m"], "goes to 'z'"),
            ("START", lambda lib: lib.START, "goes to '__start__'"),
            ("a number", lambda _: [3], "goes to 3"),
            ("Send", lambda lib: lib.Send("z", 1), "sent to 'z'"),
            ("Send to END", lambda lib: lib.Send("__end__", 1), "sent to '__end__'"),
        ]
    ),
    Case("route", lambda lib: routed(lib, lambda _: "z"), "conditional edge of 'n' goes to 'z'"),
    Case("routes", lambda lib: routed(lib, lambda _: ["z", "m"]), "goes to 'z'"),
    Case("route to a number", lambda lib: routed(lib, lambda _: 3), "goes to 3"),
    Case(
        "routed Send",
        lambda lib: routed(lib, lambda _: [lib.Send("z", 1), lib.Send("m", {"a": 4})]),
        "sent to 'z'",
    ),
    Case(
        "goto of an input command",
        lambda lib: saved(lib, said, lib.Command(goto="z", update={"a": 5})),
        "The command goes to 'z'",
    ),
    Case(
        "END of an input command",
        lambda lib: saved(lib, said, lib.Command(goto="__end__", update={"a": 5})),
        "cannot go to END",
    ),
    Case(
        "goto of a first command",
        lambda lib: two(lib, said, checkpointer=lib.InMemorySaver()).invoke(
            lib.Command(goto="z"), T
        ),
        "The command goes to 'z'",
    ),
    Case("goto of an entrypoint", entered, "An entrypoint has no nodes"),
    Case(
        "graph of a command",
        lambda lib: one(lib, lambda _: lib.Command(graph="g", update={"a": 1})).invoke({}),
        "Command for graph 'g'",
    ),
    Case("lambda", with_lambda, "has no name", GraphBuildError),
    Case(
        "function as an input schema",
        lambda lib: [reads(lib, schema) for schema in (lambda s: {"a": s["a"]}, annotated)],
        "a function where its input schema belongs",
        GraphBuildError,
    ),
    Case("generator", lambda lib: one(lib, counted).invoke({}), "is a generator", GraphBuildError),
    Case(
        "async generator",
        lambda lib: asyncio.run(one(lib, counted_async).ainvoke({})),
        "is a generator",
        GraphBuildError,
    ),
    Case(
        "resume of a new thread",
        lambda lib: one(lib, said, checkpointer=lib.InMemorySaver()).invoke(
            lib.Command(resume="r"), T
        ),
        "nothing saved to resume",
        EmptyInputError,
    ),
    Case(
        "superfluous answer",
        lambda lib: saved(lib, said, lib.Command(resume="r")),
        "has no open interrupt",
        UnknownInterruptError,
    ),
    Case("answer to none", asked_again, "No interrupt of thread 't'", UnknownInterruptError),
    Case("values of a copy", copied, "has the values of the original"),
    Case(
        "get_store",
        lambda lib: one(lib, lambda _: {"log": [lib.get_store()]}).invoke({}),
        "has no store",
        OutsideRunError,
    ),
    Case(
        "durability",
        lambda lib: one(lib, said, checkpointer=lib.InMemorySaver()).invoke(
            {}, T, durability="other"
        ),
        "Unknown durability 'other'",
        ValueError,
    ),
    Case(
        "stream_mode",
        lambda lib: list(one(lib, said).stream({}, stream_mode=["other", "values"])),
        "Unknown stream_mode 'other'",
        ValueError,
    ),
    Case(
        "option",
        lambda lib: one(lib, said).invoke({}, other=1),
        "Unknown option 'other'",
        TypeError,
    ),
    Case(
        "limit in configurable",
        lambda lib: one(lib, said).invoke({}, {"configurable": {"max_concurrency": 1}}),
        "'max_concurrency' limits nothing inside `configurable`",
        ValueError,
    ),
    Case(
        "steps in configurable",
        lambda lib: one(lib, said).invoke({}, {"configurable": {"recursion_limit": 50}}),
        "'recursion_limit' limits nothing inside `configurable`",
        ValueError,
    ),
    Case(
        "reducer in a union",
        lambda lib: of(lib, Hidden, lambda s: {"log": [2]}, {"log": [1]}),
        "The reducer of 'log' is inside a union",
        GraphBuildError,
    ),
    Case(
        "list added to itself",
        lambda lib: one(lib, lambda state: {"log": state["log"]}).invoke({"log": [1]}),
        "Node 'n' of graph 'graph' returned for key 'log' the list that it was given",
    ),
    Case(
        "question that is caught",
        lambda lib: one(lib, catches(lib), checkpointer=lib.InMemorySaver()).invoke({}, T),
        "Node 'n' of thread 't' called interrupt() and went on without an answer",
    ),
    Case("result that is dropped", started_over, "in which 'n' has ended, and a new input starts"),
    Case(
        "interrupt_before",
        lambda lib: one(lib, said, checkpointer=lib.InMemorySaver()).invoke(
            {}, T, interrupt_before=["z"]
        ),
        "Interrupt node 'z'",
        GraphBuildError,
    ),
]


def library(root: str) -> Any:
    names = names_of(root)
    names.get_store = __import__(f"{root}.config", fromlist=["get_store"]).get_store
    return names


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_langgraph_lets_pass_ends_alike_here_with_a_warning(case: Case) -> None:
    with pytest.warns(MilepostWarning) as warned:
        ours = case.program(library("milepost"))
    assert any(case.warning in str(one.message) for one in warned)
    assert all(one.filename == __file__ for one in warned)
    assert ours == case.program(library("langgraph"))


@pytest.mark.usefixtures("strictly")
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_strict_graph_refuses_it(case: Case) -> None:
    with pytest.raises(case.refusal, match=re.escape(case.warning)):
        case.program(library("milepost"))


SILENT: dict[str, Callable[[Any], Any]] = {
    "equal texts": lambda lib: one(lib, said).invoke({"log": ["x"]}),
    "validators in a union": lambda lib: list(lib.StateGraph(Validated).channels),
    "partial": lambda lib: list(
        lib.StateGraph(State).add_node(functools.partial(lambda x, _: {"a": x}, 3)).nodes
    ),
    "graph as a node": lambda lib: one(
        lib,
        lib.StateGraph(Inner)
        .add_node("i", lambda _: {"a": 2, "extra": 3})
        .add_edge(lib.START, "i")
        .compile(),
    ).invoke({"a": 1, "log": ["x"]}),
    "graphs in nodes": lambda lib: found(lib),
    "own limits": lambda lib: own_limits(lib),
    "dict of runnables": lambda lib: one(lib, {"a": lambda _: 3, "log": lambda _: ["q"]}).invoke(
        {"a": 4}
    ),
    "returned runnable": lambda lib: one(lib, lambda _: runnable()).invoke({"a": 4}),
    "deep copy of a saver": lambda lib: copies(lib),
    "metadata": lambda lib: metadata(lib),
    "snapshot as JSON": lambda lib: len(json.loads(json.dumps(metadata(lib, whole=True)))),
    "max_concurrency 0": lambda lib: asyncio.run(
        one(lib, said).ainvoke({}, {"max_concurrency": 0})
    ),
    "state of one value that gets keys": lambda lib: with_more_keys(lib),
    "or a text": lambda lib: routed(lib, or_text),
    "or nothing": lambda lib: routed(lib, or_nothing),
    "a list or one": lambda lib: routed(lib, list_or_one),
    "goto a set": lambda lib: two(lib, lambda _: lib.Command(goto={"m"})).invoke({"a": 1}),
    "goto an iterator": lambda lib: two(lib, lambda _: lib.Command(goto=iter(["m"]))).invoke({}),
    "goto a generator of Sends": lambda lib: two(
        lib, lambda _: lib.Command(update={"a": 1}, goto=(lib.Send("m", {"a": n}) for n in "xy"))
    ).invoke({}),
    "empty path map": lambda lib: routed(lib, or_text, {}),
    "key of an Iterable": lambda lib: of_iterable(lib),
    "a list of a name that is no node": lambda lib: routed(lib, lists_more),
    "recursion_limit as a float": lambda lib: one(lib, said).invoke({}, {"recursion_limit": 5.0}),
}


def or_text(_: State) -> Literal["n"] | str:
    return "m"


def or_nothing(_: State) -> Literal["m"] | None:
    return "__end__"  # type: ignore[return-value]


def list_or_one(_: State) -> list[str] | Literal["n"]:
    return ["m"]


def lists_more(_: State) -> list[Literal["m", "gone"]]:
    return ["m"]


class Inner(TypedDict):
    a: int
    extra: int


class Several(TypedDict):
    several: Annotated[Iterable[int], lambda before, new: [*before, *new]]
    every: Annotated[Collection[int], lambda before, new: [*before, *new]]
    log: list[Any]


def of_iterable(lib: Any) -> Any:
    """What a node sees of keys that are not in the input, and what becomes of what it writes."""
    builder = lib.StateGraph(Several)
    builder.add_node("n", lambda state: {"log": sorted(state), "several": range(2)})
    return builder.add_edge(lib.START, "n").compile().invoke({"log": []})


class Grown(TypedDict):
    __root__: Annotated[list[Any], operator.add]
    note: str


class Owner:
    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def __call__(self, state: Any) -> Any:
        return self.graph.invoke(state)


def found(lib: Any) -> Any:
    """The nodes in which a graph is found: an attribute in a closure, a closure, a runnable."""
    from langchain_core.runnables import RunnableLambda

    inner = one(lib, said)
    owner = Owner(inner)
    builder = lib.StateGraph(State)
    builder.add_node("attribute", lambda state: owner.graph.invoke(state))
    builder.add_node("closure", lambda state: inner.invoke(state))
    builder.add_node("runnable", RunnableLambda(lambda state: inner.invoke(state)))
    graph = builder.add_edge(lib.START, "closure").compile()
    return [name for name, _ in graph.get_subgraphs()]


def runnable() -> Any:
    from langchain_core.runnables import RunnableLambda

    return RunnableLambda(lambda state: {"a": state["a"] + 1})


def copies(lib: Any) -> Any:
    saver = lib.InMemorySaver()
    graph = one(lib, said, checkpointer=saver)
    graph.invoke({"log": ["long " * 100]}, T)
    twin = one(lib, said, checkpointer=copy.deepcopy(saver))
    twin.invoke({"log": ["there"]}, T)
    graph.invoke({"log": ["here"]}, T)
    return [list(graph.get_state(T).values["log"]), list(twin.get_state(T).values["log"])]


def with_more_keys(lib: Any) -> Any:
    """A thread of a state without keys, and then of one in which that value is one of two."""
    saver = lib.InMemorySaver()
    builder = lib.StateGraph(Annotated[list[Any], operator.add]).add_node("n", lambda s: [len(s)])
    builder.add_edge(lib.START, "n").compile(checkpointer=saver).invoke([5], T)
    builder = lib.StateGraph(Grown).add_node("n", lambda s: {"__root__": [len(s)], "note": "x"})
    keys = builder.add_edge(lib.START, "n").compile(checkpointer=saver)
    before = keys.get_state(T).values
    streamed = list(keys.stream({"__root__": [7]}, T, stream_mode=["values", "updates"]))
    keys.update_state(T, {"note": "y"})
    return before, streamed, keys.get_state(T).values


class Limited(TypedDict):
    max_concurrency: int


def own_limits(lib: Any) -> Any:
    """Programs with keys of these names, and one that says the same in both places."""
    builder = lib.StateGraph(State, context_schema=Limited)
    builder.add_node("n", lambda _, config: {"a": config["configurable"]["max_concurrency"]})
    graph = builder.add_edge(lib.START, "n").compile()
    inside = {"configurable": {"max_concurrency": 3}}
    twice = one(lib, said).invoke({}, {**inside, "max_concurrency": 3})
    return graph.invoke({}, inside), twice


def metadata(lib: Any, *, whole: bool = False) -> Any:
    graph = one(lib, said, checkpointer=lib.InMemorySaver())
    given = {"thread_id": "t", "user": "u", "n": 3, "some": [1], "__x": 1}
    graph.invoke({}, {"configurable": given})
    snapshot = graph.get_state(T)
    return snapshot if whole else snapshot.metadata


@pytest.mark.parametrize("name", SILENT)
def test_what_is_no_mistake_ends_alike_without_a_warning(name: str) -> None:
    assert SILENT[name](library("milepost")) == SILENT[name](library("langgraph"))


# -- what stays refused


@pytest.mark.parametrize("is_begun", [True, False])
def test_a_checkpoint_that_is_named_and_not_there_is_refused(is_begun: bool) -> None:
    """It may have been removed: an empty state is not what was written there."""
    lib = library("milepost")
    graph = one(lib, said, checkpointer=lib.InMemorySaver())
    if is_begun:
        graph.invoke({}, T)
    wrong = {"configurable": {"thread_id": "t", "checkpoint_id": "1"}}
    for call in (
        lambda: graph.get_state(wrong),
        lambda: graph.invoke({}, wrong),
        lambda: graph.update_state(wrong, {"a": 1}),
    ):
        with pytest.raises(CheckpointNotFoundError, match="without a checkpoint_id"):
            call()
    assert graph.get_state(T).values == ({"log": ["x"]} if is_begun else {})


# -- warnings


def build(strict: bool | None = None) -> Any:
    builder = StateGraph(State, strict=strict).add_node("n", lambda _: {"z": 1})
    return builder.add_edge(START, "n").compile()


def test_a_place_is_reported_once_and_points_to_the_nodes_function() -> None:
    graph = build()
    with pytest.warns(MilepostWarning) as warned:
        graph.batch([{}, {}], {"max_concurrency": 1})
    assert [one.filename for one in warned] == [__file__]
    assert warned[0].lineno == build.__code__.co_firstlineno + 1


def test_a_filter_that_makes_errors_of_warnings_does_so_each_time() -> None:
    graph = build()
    for _ in range(2):
        with pytest.raises(MilepostWarning):
            graph.invoke({})


@pytest.mark.usefixtures("strictly")
def test_a_graph_that_says_so_is_not_strict_whatever_the_environment_says() -> None:
    with pytest.warns(MilepostWarning):
        assert build(strict=False).invoke({"a": 1}) == {"a": 1, "log": []}


def test_strict_as_an_argument_refuses() -> None:
    with pytest.raises(InvalidUpdateError, match="'z'"):
        build(strict=True).invoke({})


@pytest.mark.filterwarnings("ignore::milepost.warnings.MilepostWarning")
def test_what_is_remembered_of_warnings_has_a_bound() -> None:
    strictness = Strictness()
    for place in range(REMEMBERED + 10):
        strictness.check(place, lambda: MilepostError("wrong."), "Done.")
    assert len(strictness._reported) == REMEMBERED
