"""Building a graph: what may be added, and what is refused with a message that helps."""

import functools
from enum import Enum, StrEnum
from typing import Any, Literal

import pytest

from graphs import Log, appends, line
from milepost.channels import EphemeralValue, LastValue
from milepost.errors import GraphBuildError
from milepost.graph import END, START, StateGraph
from milepost.pregel import NodeBuilder, Pregel
from milepost.types import (
    CachePolicy,
    Command,
    RetryPolicy,
    TimeoutPolicy,
    ensure_valid_checkpointer,
)


def built(*names: str) -> StateGraph:
    """A builder with nodes of these names and no edges."""
    builder = StateGraph(Log)
    for name in names:
        builder.add_node(name, appends(name))
    return builder


def log_of(run: Any, builder: StateGraph) -> list[Any]:
    return run.invoke(builder.compile(), {})["log"]


# -- nodes


def greet(state: Log) -> dict[str, Any]:
    return {"log": ["greet"]}


async def wave(state: Log) -> dict[str, Any]:
    return {"log": ["wave"]}


class Speaker:
    def __call__(self, state: Log) -> dict[str, Any]:
        return {"log": ["called"]}

    def speak(self, state: Log) -> dict[str, Any]:
        return {"log": ["spoken"]}


class Model:
    """Looks like a LangChain runnable without being one."""

    def invoke(self, state: Log, config: Any = None) -> dict[str, Any]:
        return {"log": ["invoked"]}

    async def ainvoke(self, state: Log, config: Any = None) -> dict[str, Any]:
        return {"log": ["invoked"]}


def test_a_function_gives_its_node_the_name(run):
    assert log_of(run, StateGraph(Log).add_node(greet).add_edge(START, "greet")) == ["greet"]


def test_a_node_may_have_a_name_of_its_own(run):
    assert log_of(run, StateGraph(Log).add_node("hi", greet).add_edge(START, "hi")) == ["greet"]


def test_an_async_function_is_a_node(run):
    assert log_of(run, StateGraph(Log).add_node(wave).add_edge(START, "wave")) == ["wave"]


def test_a_bound_method_is_a_node(run):
    builder = StateGraph(Log).add_node(Speaker().speak).add_edge(START, "speak")
    assert log_of(run, builder) == ["spoken"]


def test_a_callable_object_is_a_node_named_after_its_class(run):
    builder = StateGraph(Log).add_node(Speaker()).add_edge(START, "Speaker")
    assert log_of(run, builder) == ["called"]


def test_a_partial_function_is_a_node(run):
    def say(state: Log, *, word: str) -> dict[str, Any]:
        return {"log": [word]}

    builder = StateGraph(Log).add_node("say", functools.partial(say, word="x"))
    assert log_of(run, builder.add_edge(START, "say")) == ["x"]


def test_anything_with_invoke_and_ainvoke_is_a_node(run):
    builder = StateGraph(Log).add_node("model", Model()).add_edge(START, "model")
    assert log_of(run, builder) == ["invoked"]


def test_a_compiled_graph_is_a_node(run):
    builder = StateGraph(Log).add_node("inner", line("x", "y").compile())
    assert log_of(run, builder.add_edge(START, "inner")) == ["x", "y"]


def test_all_options_of_a_node_are_accepted(run):
    builder = StateGraph(Log)
    builder.add_node(
        "node",
        wave,
        defer=True,
        metadata={"k": 1},
        input_schema=Log,
        retry_policy=[RetryPolicy(max_attempts=2)],
        cache_policy=CachePolicy(ttl=60),
        timeout=TimeoutPolicy(run_timeout=60),
        destinations=(END,),
    )
    assert log_of(run, builder.add_edge(START, "node")) == ["wave"]


def test_a_nodes_metadata_reaches_its_config(run):
    def node(state: Log, config) -> dict[str, Any]:
        return {"log": [config["metadata"]["colour"]]}

    builder = StateGraph(Log).add_node("node", node, metadata={"colour": "red"})
    assert log_of(run, builder.add_edge(START, "node")) == ["red"]


def test_a_node_may_have_the_name_of_a_state_key(run):
    assert log_of(run, built("log").add_edge(START, "log")) == ["log"]


def test_two_nodes_of_one_name_are_refused():
    with pytest.raises(ValueError, match="twice"):
        built("twice", "twice")


@pytest.mark.parametrize("name", ["a:b", "a|b", ":", "|"])
def test_node_names_with_separators_are_refused(name):
    with pytest.raises(ValueError, match=r"[:|]"):
        built(name)


@pytest.mark.parametrize("name", [START, END, "__input__", "__error__", "__interrupt__"])
def test_reserved_node_names_are_refused(name):
    with pytest.raises(ValueError, match=name):
        built(name).add_edge(START, name).compile()


@pytest.mark.parametrize("action", [5, "text", None], ids=repr)
def test_a_node_that_cannot_be_called_is_refused(action):
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        StateGraph(Log).add_node("node", action).add_edge(START, "node").compile()


def test_a_timeout_on_a_sync_node_is_refused_when_compiling():
    builder = StateGraph(Log).add_node("slow_one", greet, timeout=1.0)
    with pytest.raises(GraphBuildError, match="slow_one"):
        builder.add_edge(START, "slow_one").compile()
    assert issubclass(GraphBuildError, ValueError)


def test_destinations_must_exist():
    builder = StateGraph(Log).add_node("a", greet, destinations=("nowhere",))
    with pytest.raises(ValueError, match="nowhere"):
        builder.add_edge(START, "a").compile()


def test_the_destinations_of_a_command_are_taken_from_the_return_type(run):
    def choose(state: Log) -> Command[Literal["b"]]:
        return Command(update={"log": ["choose"]}, goto="b")

    builder = built("b").add_node(choose).add_edge(START, "choose")
    assert log_of(run, builder) == ["choose", "b"]


# -- edges


@pytest.mark.parametrize("edge", [(START, greet), (greet, END), ([START, greet], "greet")])
def test_an_edge_takes_names_and_says_so_of_a_function(edge):
    with pytest.raises(GraphBuildError, match="takes the name of a node, 'greet'"):
        StateGraph(Log).add_node(greet).add_edge(*edge)


def test_every_adding_method_returns_the_builder():
    builder = StateGraph(Log)
    assert builder.add_node("a", greet) is builder
    assert builder.add_edge(START, "a") is builder
    assert builder.add_sequence([("b", greet)]) is builder
    assert builder.add_conditional_edges("a", lambda state: END) is builder
    assert builder.set_entry_point("b") is builder
    assert builder.set_finish_point("b") is builder
    assert builder.set_conditional_entry_point(lambda state: "a") is builder


def test_entry_and_finish_points_are_edges_from_start_and_to_end(run):
    builder = built("a", "b").set_entry_point("a").add_edge("a", "b").set_finish_point("b")
    assert log_of(run, builder) == ["a", "b"]
    assert {(START, "a"), ("b", END)} <= builder.edges


def test_a_conditional_entry_point_chooses_the_first_node(run):
    builder = built("a", "b").set_conditional_entry_point(lambda state: "b", ["a", "b"])
    assert log_of(run, builder) == ["b"]


def test_a_sequence_adds_nodes_and_the_edges_between_them(run):
    builder = StateGraph(Log).add_sequence([greet, ("b", appends("b")), wave])
    assert log_of(run, builder.add_edge(START, "greet")) == ["greet", "b", "wave"]


def test_an_empty_sequence_is_refused():
    with pytest.raises(ValueError):
        StateGraph(Log).add_sequence([])


def test_a_sequence_with_a_repeated_name_is_refused():
    with pytest.raises(ValueError, match="greet"):
        StateGraph(Log).add_sequence([greet, greet])


def test_a_join_waits_for_all_of_its_nodes(run):
    builder = built("short", "long", "longer", "join")
    builder.add_edge(START, "short").add_edge(START, "long").add_edge("long", "longer")
    builder.add_edge(["short", "longer"], "join")
    assert log_of(run, builder) == ["long", "short", "longer", "join"]


def test_separate_edges_into_a_node_run_it_each_time(run):
    builder = built("short", "long", "longer", "twice")
    builder.add_edge(START, "short").add_edge(START, "long").add_edge("long", "longer")
    builder.add_edge("short", "twice").add_edge("longer", "twice")
    assert log_of(run, builder) == ["long", "short", "longer", "twice", "twice"]


def test_a_join_of_one_node_is_an_edge(run):
    builder = built("a", "b").add_edge(START, "a").add_edge(["a"], "b")
    assert log_of(run, builder) == ["a", "b"]


def test_a_join_may_fire_again_in_a_loop(run):
    def again(state: Log) -> str:
        return "left" if state["log"].count("join") < 2 else END

    builder = built("left", "right", "join").add_edge(START, "left").add_edge("left", "right")
    builder.add_edge(["left", "right"], "join").add_conditional_edges("join", again)
    assert log_of(run, builder) == ["left", "right", "join"] * 2


def test_a_conditional_edge_may_name_the_node_itself(run):
    builder = built("a", "b", "c").add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: "c")
    assert log_of(run, builder) == ["a", "c"]


def test_a_path_map_translates_what_the_function_returns(run):
    builder = built("a", "yes", "no").add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: True, {True: "yes", False: "no"})
    assert log_of(run, builder) == ["a", "yes"]


def test_a_path_map_may_be_a_list_of_names(run):
    builder = built("a", "b").add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: "b", ["b", END])
    assert log_of(run, builder) == ["a", "b"]


def test_a_literal_return_type_is_a_path_map(run):
    def route(state: Log) -> Literal["b", "__end__"]:
        return "b"

    builder = built("a", "b").add_edge(START, "a").add_conditional_edges("a", route)
    assert log_of(run, builder) == ["a", "b"]


Name = Enum("Name", {"B": "b"}, type=str)
"""Names of nodes; a `StrEnum` would be its text in an f-string too."""


@pytest.mark.parametrize("name", ["b", Name.B])
def test_a_node_is_found_by_its_name_and_by_a_member_of_an_enum_that_is_equal(run, name):
    def route(state: Log) -> Literal[Name.B]:
        return Name.B

    def builder() -> StateGraph:
        return StateGraph(Log).add_node(name, appends("b"))

    assert log_of(run, builder().add_edge(START, Name.B)) == ["b"]
    assert log_of(run, builder().add_edge(START, "b")) == ["b"]
    assert log_of(run, builder().add_conditional_edges(START, route)) == ["b"]
    assert log_of(run, builder().add_conditional_edges(START, lambda state: Name.B)) == ["b"]
    goes = builder().add_node("a", lambda state: Command(goto=Name.B)).add_edge(START, "a")
    assert log_of(run, goes) == ["b"]


class Key(StrEnum):
    LOG = "log"


class Text(str):
    """Neither is it a plain text."""


NAMES = {"A": "a", "B": "b", "C": "c"}


@pytest.mark.parametrize(
    "names",
    [StrEnum("Names", NAMES), Enum("Names", NAMES, type=str), lambda text: Text(text)],
    ids=["StrEnum", "str and Enum", "subclass"],
)
def test_names_and_keys_of_a_class_of_their_own_are_stored_as_texts(run, saver, config, names):
    a, b, c = (names(name) for name in "abc")
    builder = StateGraph(Log).add_node(a, lambda state: {Key.LOG: ["a"]})
    builder.add_node(b, lambda state: Command(update={Key.LOG: ["b"]}))
    builder.add_node(c, appends("c")).add_edge(START, a).add_edge(START, b).add_edge([a, b], c)
    graph = builder.compile(checkpointer=saver, interrupt_before=[c])
    assert run.invoke(graph, {"log": []}, config)["log"] == ["a", "b"]
    assert [type(name) for name in run.get_state(graph, config).next] == [str]
    run.update_state(graph, config, {Key.LOG: ["u"]}, as_node=b)
    assert run.invoke(graph, None, config)["log"] == ["a", "b", "u", "c"]


def test_a_graph_of_channels_may_name_them_by_an_enum(run, saver, config):
    names = StrEnum("Names", NAMES)
    node = NodeBuilder().subscribe_only(names.A).do(lambda x: x + 1).write_to(names.B)
    graph = Pregel(
        nodes={names.C: node},
        channels={names.A: EphemeralValue(int), names.B: LastValue(int)},
        input_channels=names.A,
        output_channels=names.B,
        checkpointer=saver,
    )
    assert run.invoke(graph, 3, config) == 4
    assert run.get_state(graph, config).values == {"b": 4}


def test_a_literal_return_type_is_checked_when_compiling():
    def route(state: Log) -> Literal["nowhere", "__end__"]:
        return END

    builder = built("a").add_edge(START, "a").add_conditional_edges("a", route)
    with pytest.raises(ValueError, match="nowhere"):
        builder.compile()


def test_a_conditional_edge_may_choose_several_nodes_or_none(run):
    builder = built("a", "b", "c").add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: ["c", "b", END])
    assert log_of(run, builder) == ["a", "b", "c"]
    builder = built("a").add_edge(START, "a").add_conditional_edges("a", lambda state: [])
    assert log_of(run, builder) == ["a"]


def test_a_conditional_edge_sees_the_state_after_its_node_wrote(run):
    builder = built("a", "b").add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: "b" if state["log"] == ["a"] else END)
    assert log_of(run, builder) == ["a", "b"]


def test_a_conditional_edge_may_be_async(run):
    async def route(state: Log) -> str:
        return "b"

    builder = built("a", "b").add_edge(START, "a").add_conditional_edges("a", route)
    assert log_of(run, builder) == ["a", "b"]


def test_a_conditional_edge_may_ask_for_the_config(run):
    def route(state: Log, config) -> str:
        return config["configurable"]["way"]

    builder = built("a", "b").add_edge(START, "a").add_conditional_edges("a", route)
    assert run.invoke(builder.compile(), {}, {"configurable": {"way": "b"}})["log"] == ["a", "b"]


def test_several_conditional_edges_leave_one_node(run):
    def first(state: Log) -> str:
        return "b"

    def second(state: Log) -> str:
        return "c"

    builder = built("a", "b", "c").add_edge(START, "a")
    builder.add_conditional_edges("a", first).add_conditional_edges("a", second)
    assert log_of(run, builder) == ["a", "b", "c"]


def test_the_same_conditional_edge_twice_is_refused():
    def route(state: Log) -> str:
        return END

    builder = built("a").add_conditional_edges("a", route)
    with pytest.raises(ValueError, match="route"):
        builder.add_conditional_edges("a", route)


def test_a_branch_that_misses_its_path_map_says_what_it_returned(run):
    builder = built("a", "b").add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: "elsewhere", {"x": "b"})
    with pytest.raises((KeyError, ValueError), match="elsewhere"):
        run.invoke(builder.compile(), {})


@pytest.mark.parametrize("answer", [None, START], ids=repr)
def test_a_branch_that_returns_no_destination_is_refused(run, answer):
    builder = built("a").add_edge(START, "a").add_conditional_edges("a", lambda state: answer)
    with pytest.raises(ValueError):
        run.invoke(builder.compile(), {})


# -- validation


def test_a_graph_without_an_entry_says_to_add_an_edge_from_start():
    with pytest.raises(ValueError, match="START"):
        built("a").compile()
    with pytest.raises(ValueError, match="START"):
        StateGraph(Log).compile()


def test_an_edge_to_an_unknown_node_is_named():
    with pytest.raises(ValueError, match="nowhere"):
        built("a").add_edge(START, "a").add_edge("a", "nowhere").compile()


def test_an_edge_from_an_unknown_node_is_named():
    with pytest.raises(ValueError, match="nowhere"):
        built("a").add_edge(START, "a").add_edge("nowhere", "a").compile()


def test_a_join_of_an_unknown_node_is_named():
    with pytest.raises(ValueError, match="nowhere"):
        built("a", "b").add_edge(START, "a").add_edge(["a", "nowhere"], "b").compile()


def test_a_path_map_to_an_unknown_node_is_named():
    builder = built("a").add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: END, {"x": "nowhere"})
    with pytest.raises(ValueError, match="nowhere"):
        builder.compile()


def test_conditional_edges_of_an_unknown_node_are_named():
    builder = built("a").add_edge(START, "a")
    builder.add_conditional_edges("nowhere", lambda state: "a", ["a"])
    with pytest.raises(ValueError, match="nowhere"):
        builder.compile()


def test_no_edge_leaves_end_and_none_enters_start():
    with pytest.raises(ValueError, match="END"):
        built("a").add_edge(END, "a")
    with pytest.raises(ValueError, match="START"):
        built("a").add_edge("a", START)


@pytest.mark.parametrize("when", ["interrupt_before", "interrupt_after"])
def test_an_interrupt_at_an_unknown_node_is_named(when):
    with pytest.raises(ValueError, match="nowhere"):
        line("a").compile(**{when: ["nowhere"]})


def test_a_node_that_nothing_leads_to_is_allowed(run):
    assert log_of(run, built("a", "idle").add_edge(START, "a")) == ["a"]


def test_a_compiled_graph_does_not_follow_later_changes_of_its_builder(run):
    builder = built("a").add_edge(START, "a")
    before = builder.compile()
    builder.add_node("b", appends("b")).add_edge("a", "b")
    assert run.invoke(before, {})["log"] == ["a"]
    assert log_of(run, builder) == ["a", "b"]


def test_a_compiled_graph_has_a_name():
    assert line("a").compile(name="mine").name == "mine"


@pytest.mark.parametrize("wrong", [5, "memory", object()], ids=["int", "str", "object"])
def test_a_checkpointer_of_the_wrong_type_is_refused_when_compiling(wrong):
    with pytest.raises(TypeError, match=type(wrong).__name__):
        line("a").compile(checkpointer=wrong)


def test_ensure_valid_checkpointer_returns_what_can_be_used_and_refuses_the_rest(saver):
    for fine in (None, True, False, saver):
        assert ensure_valid_checkpointer(fine) is fine
    with pytest.raises(TypeError):
        ensure_valid_checkpointer("saver")
