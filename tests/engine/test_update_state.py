"""Editing the state of a thread: update_state and bulk_update_state."""

from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from graphs import Doc, Log, appends, id_of, line, steps, two_nodes
from milepost.channels import DeltaChannel
from milepost.errors import InvalidUpdateError
from milepost.graph import END, START, StateGraph
from milepost.runtime import Runtime
from milepost.types import Command, Overwrite, StateUpdate, interrupt


@dataclass
class User:
    name: str


@pytest.fixture
def graph(run, saver, config):
    """START -> a -> b -> c, stopped before b."""
    graph = line("a", "b", "c").compile(checkpointer=saver, interrupt_before=["b"])
    run.invoke(graph, {}, config)
    return graph


# -- values


def test_an_update_passes_through_the_reducers_as_a_nodes_would(run, saver, config):
    """The documents' example: foo is replaced, bar is extended."""

    def node(state: Doc) -> dict[str, Any]:
        return {"foo": 1, "bar": ["a"]}

    builder = StateGraph(Doc).add_node(node).add_edge(START, "node")
    graph = builder.compile(checkpointer=saver)
    run.invoke(graph, {}, config)
    run.update_state(graph, config, {"foo": 2, "bar": ["b"]})
    assert run.get_state(graph, config).values == {"foo": 2, "bar": ["a", "b"]}


def test_an_update_makes_a_new_checkpoint_and_returns_its_config(run, graph, config):
    before = run.history(graph, config)
    returned = run.update_state(graph, config, {"log": ["edit"]})
    history = run.history(graph, config)
    assert history[0].config == returned
    assert history[1:] == before
    assert history[0].parent_config == before[0].config
    assert steps(history)[0] == (2, "update", ("b",))


def test_the_writes_of_an_update_are_shown_under_its_node(run, graph, config):
    run.update_state(graph, config, {"log": ["edit"]}, as_node="a")
    assert run.get_state(graph, config).metadata["writes"] == {"a": {"log": ["edit"]}}


def test_a_run_goes_on_from_the_updated_state(run, graph, config, durability):
    run.update_state(graph, config, {"log": ["edit"]})
    result = run.invoke(graph, None, config, durability=durability)
    assert result["log"] == ["a", "edit", "b", "c"]


def test_an_overwrite_in_an_update_replaces_the_value(run, graph, config):
    run.update_state(graph, config, {"log": Overwrite(["only"])})
    assert run.get_state(graph, config).values == {"log": ["only"]}


def test_an_update_without_values_only_moves_on(run, graph, config):
    run.update_state(graph, config, None, as_node="b")
    state = run.get_state(graph, config)
    assert (state.values, state.next) == ({"log": ["a"]}, ("c",))


@pytest.mark.usefixtures("strictly")
def test_a_wrong_key_in_an_update_is_refused_by_name_and_changes_nothing(run, graph, config):
    before = run.history(graph, config)
    with pytest.raises(InvalidUpdateError, match="lgo"):
        run.update_state(graph, config, {"lgo": ["edit"]})
    assert run.history(graph, config) == before


def test_an_update_that_is_no_mapping_is_refused(run, graph, config):
    with pytest.raises(InvalidUpdateError):
        run.update_state(graph, config, "text")


def test_an_update_may_be_a_command_that_says_where_to_go(run, graph, config):
    run.update_state(graph, config, Command(update={"log": ["edit"]}, goto="c"), as_node="c")
    state = run.get_state(graph, config)
    assert (state.values["log"], state.next) == (["a", "edit"], ("c",))


# -- as_node


def test_as_node_decides_what_runs_next(run, graph, config):
    for as_node, following in (("a", ("b",)), ("b", ("c",)), ("c", ())):
        run.update_state(graph, config, {"log": []}, as_node=as_node)
        assert run.get_state(graph, config).next == following


def test_without_as_node_the_update_comes_from_the_node_that_wrote_last(run, saver, config):
    graph = line("a", "b").compile(checkpointer=saver)
    run.invoke(graph, {}, config)
    run.update_state(graph, config, {"log": ["edit"]})
    state = run.get_state(graph, config)
    assert (state.values["log"], state.next) == (["a", "b", "edit"], ())
    stopped = line("a", "b").compile(checkpointer=saver, interrupt_before=["b"])
    run.invoke(stopped, {}, config)
    run.update_state(stopped, config, {"log": ["edit"]})
    assert run.get_state(stopped, config).next == ("b",)


def test_an_update_that_could_come_from_several_nodes_is_ambiguous(run, saver, config):
    builder = StateGraph(Log)
    for name in ("a", "b"):
        builder.add_node(name, appends(name)).add_edge(START, name)
    graph = builder.compile(checkpointer=saver)
    run.invoke(graph, {}, config)
    with pytest.raises(InvalidUpdateError, match="as_node"):
        run.update_state(graph, config, {"log": ["edit"]})
    run.update_state(graph, config, {"log": ["edit"]}, as_node="a")
    assert run.get_state(graph, config).values["log"] == ["a", "b", "edit"]


def test_an_update_as_an_unknown_node_is_refused_by_name(run, graph, config):
    with pytest.raises(InvalidUpdateError, match="nobody"):
        run.update_state(graph, config, {"log": []}, as_node="nobody")


def test_an_update_of_an_empty_thread_is_its_input(run, saver, config):
    graph = line("a", "b").compile(checkpointer=saver)
    run.update_state(graph, config, {"log": ["edit"]})
    history = run.history(graph, config)
    assert steps(history) == [(0, "update", ("a",))]
    assert history[0].parent_config is None
    assert run.invoke(graph, None, config)["log"] == ["edit", "a", "b"]


def test_an_empty_thread_can_start_in_the_middle(run, saver, config):
    graph = line("a", "b", "c").compile(checkpointer=saver)
    run.update_state(graph, config, {"log": ["edit"]}, as_node="a")
    assert run.invoke(graph, None, config)["log"] == ["edit", "b", "c"]


def test_an_update_as_end_finishes_the_thread(run, graph, config):
    run.update_state(graph, config, None, as_node=END)
    state = run.get_state(graph, config)
    assert (state.values, state.next) == ({"log": ["a"]}, ())
    with pytest.raises(InvalidUpdateError):
        run.update_state(graph, config, {"log": ["x"]}, as_node=END)


@pytest.mark.parametrize("as_node", [END, "asks"])
def test_an_update_keeps_what_a_finished_task_wrote_to_a_delta_channel(run, saver, config, as_node):
    class Deltas(TypedDict, total=False):
        log: Annotated[list[str], DeltaChannel(lambda old, new: [*old, *chain.from_iterable(new)])]

    builder = StateGraph(Deltas).add_node("asks", lambda _: {"log": [interrupt("?")]})
    builder.add_node("ends", lambda _: {"log": ["ends"]})
    graph = builder.add_edge(START, "asks").add_edge(START, "ends").compile(checkpointer=saver)
    run.invoke(graph, {"log": ["in"]}, config)
    update = None if as_node is END else {"log": ["asked"]}
    run.update_state(graph, config, update, as_node=as_node)
    expected = ["in", "ends"] if as_node is END else ["in", "asked", "ends"]
    assert sorted(run.get_state(graph, config).values["log"]) == sorted(expected)


def test_an_update_as_start_begins_again(run, graph, config):
    run.update_state(graph, config, {"log": ["edit"]}, as_node=START)
    state = run.get_state(graph, config)
    assert state.values["log"] == ["a", "edit"]
    assert "a" in state.next


def test_conditional_edges_of_the_node_see_the_updated_state(run, saver, config):
    asked: list[Any] = []

    def route(state: Doc) -> str:
        asked.append(state["foo"])
        return "b" if state["foo"] == "edited" else END

    builder = StateGraph(Doc).add_node("a", lambda state: {"foo": "plain"})
    builder.add_node("b", lambda state: {"foo": "b"}).add_edge(START, "a")
    graph = builder.add_conditional_edges("a", route).compile(checkpointer=saver)
    run.invoke(graph, {}, config)
    assert run.get_state(graph, config).next == ()
    run.update_state(graph, config, {"foo": "edited"}, as_node="a")
    assert run.get_state(graph, config).next == ("b",)
    assert asked == ["plain", "edited"]


@pytest.mark.parametrize("given", [User("ada"), {"name": "ada"}])
def test_conditional_edges_of_the_node_see_the_context_of_an_update(run, saver, config, given):
    def route(state: Log, runtime: Runtime[User]) -> str:
        return "b" if runtime.context == User("ada") else END

    builder = StateGraph(Log, User).add_node("a", appends("a")).add_node("b", appends("b"))
    builder.add_edge(START, "a").add_conditional_edges("a", route, ["b", END])
    graph = builder.compile(checkpointer=saver)
    run.invoke(graph, {}, config, context=User("eve"))
    run.update_state(graph, config, {"log": ["edit"]}, as_node="a", context=given)
    assert run.get_state(graph, config).next == ("b",)
    steps = [[StateUpdate({"log": ["bulk"]}, "a")]]
    run.bulk_update_state(graph, config, steps)
    assert run.get_state(graph, config).next == ()
    run.bulk_update_state(graph, config, steps, context=given)
    assert run.get_state(graph, config).next == ("b",)


# -- old checkpoints


def test_an_update_at_an_old_checkpoint_forks_and_leaves_the_original_untouched(
    run, saver, config, durability
):
    graph = two_nodes().compile(checkpointer=saver)
    run.invoke(graph, {"foo": ""}, config)
    original = run.history(graph, config)
    old = original[1]
    forked = run.update_state(graph, old.config, {"bar": ["fork"]})
    assert run.get_state(graph, forked).values == {"foo": "a", "bar": ["a", "fork"]}
    assert run.get_state(graph, forked).parent_config == old.config
    result = run.invoke(graph, None, forked, durability=durability)
    assert result == {"foo": "b", "bar": ["a", "fork", "b"]}
    for snapshot in original:
        again = run.get_state(graph, snapshot.config)
        assert (again.values, again.next, again.metadata) == (
            snapshot.values,
            snapshot.next,
            snapshot.metadata,
        )
    assert run.get_state(graph, config).values == {"foo": "b", "bar": ["a", "fork", "b"]}


def test_several_forks_of_one_checkpoint_do_not_mix(run, saver, config):
    graph = two_nodes().compile(checkpointer=saver)
    run.invoke(graph, {"foo": ""}, config)
    old = run.history(graph, config)[1].config
    forks = [run.update_state(graph, old, {"bar": [str(n)]}) for n in range(3)]
    assert [run.get_state(graph, fork).values["bar"] for fork in forks] == [
        ["a", "0"],
        ["a", "1"],
        ["a", "2"],
    ]
    results = [run.invoke(graph, None, fork)["bar"] for fork in forks]
    assert results == [["a", "0", "b"], ["a", "1", "b"], ["a", "2", "b"]]
    assert run.get_state(graph, old).values["bar"] == ["a"]


# -- bulk_update_state


def test_a_bulk_update_makes_one_checkpoint_for_each_superstep(run, saver, config):
    graph = line("a", "b", "c").compile(checkpointer=saver)
    returned = run.bulk_update_state(
        graph,
        config,
        [
            [StateUpdate({"log": ["1"]}, "a")],
            [StateUpdate({"log": ["2"]}, "b"), StateUpdate({"log": ["3"]}, "c")],
        ],
    )
    history = run.history(graph, config)
    assert [s.values["log"] for s in history] == [["1", "2", "3"], ["1"]]
    assert [s.metadata["source"] for s in history] == ["update", "update"]
    assert history[0].parent_config == history[1].config
    assert id_of(returned) == id_of(history[0].config)


def test_a_bulk_update_of_nothing_is_refused(run, graph, config):
    for nothing in ([], [[]]):
        with pytest.raises(ValueError):
            run.bulk_update_state(graph, config, nothing)


def test_several_updates_in_one_superstep_must_say_as_which_nodes(run, graph, config):
    with pytest.raises(InvalidUpdateError, match="as_node"):
        run.bulk_update_state(
            graph, config, [[StateUpdate({"log": ["1"]}), StateUpdate({"log": ["2"]})]]
        )


def test_an_update_of_a_new_thread_sets_delta_channels(run, saver, config):
    class Delta(TypedDict):
        log: Annotated[list[str], DeltaChannel(lambda old, new: old + [x for w in new for x in w])]

    builder = StateGraph(Delta).add_node("a", lambda _: {"log": ["a"]}).add_edge(START, "a")
    graph = builder.compile(checkpointer=saver)
    for word in ("first", "second"):
        run.update_state(graph, config, {"log": [word]}, as_node="a")
    assert run.get_state(graph, config).values == {"log": ["first", "second"]}


def test_what_a_node_stores_of_its_own_thread_stays_the_latest(run, saver, config):
    """Under `exit` the run's own checkpoint has its id before the update, and is stored after."""

    def node(state: Log) -> dict[str, Any]:
        graph.update_state(config, {"log": ["from inside"]}, as_node="a")
        return {"log": [interrupt("go on?")]}

    builder = StateGraph(Log).add_node("a", appends("a")).add_node("b", node)
    graph = builder.add_edge(START, "a").add_edge("a", "b").compile(checkpointer=saver)
    graph.update_state(config, {"log": ["first"]}, as_node="b")
    run.stream(graph, {"log": ["in"]}, config, stream_mode="checkpoints", durability="exit")
    newest = run.history(graph, config)[0]
    assert run.get_state(graph, config).config == newest.config
    assert newest.values["log"] == ["first", "from inside"]
