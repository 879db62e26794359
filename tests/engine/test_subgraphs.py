"""Graphs inside graphs: where their state is kept, and how it is read and changed from outside."""

import asyncio
import re
from typing import Any

import pytest
from typing_extensions import TypedDict

from hitl_graphs import Both, Inner, Mixed, State, calling, chain, questions, step
from milepost.checkpoint.memory import InMemorySaver
from milepost.config import get_config
from milepost.errors import InvalidIdError, InvalidUpdateError, ParentCommand
from milepost.graph import END, START, StateGraph
from milepost.types import Command, Send, StateSnapshot, interrupt

UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def namespaces(run: Any, saver: Any, thread: str = "t") -> set[str]:
    """The namespaces of the checkpoints that a thread has."""
    found = run.saver(saver, "list", {"configurable": {"thread_id": thread}})
    return {one.config["configurable"]["checkpoint_ns"] for one in found}


def child_config(snapshot: Any, task: int = 0) -> Any:
    """The config of the subgraph that a task of the snapshot runs."""
    state = snapshot.tasks[task].state
    return state.config if isinstance(state, StateSnapshot) else state


def counting(**compile_with: Any) -> Any:
    """A graph that adds one word to what it has."""

    def add(state: Inner):
        return {"inner": [f"call {len(state['inner'])}"]}

    return chain(("add", add), schema=Inner, **compile_with)


class TestASubgraphAsANode:
    def test_shares_the_keys_that_both_schemas_have(self, run, trace, saver, config, durability):
        child = chain(("c1", step(trace, "c1", key="inner")), schema=Mixed)
        graph = chain(
            ("a", step(trace, "a")),
            ("child", child),
            schema=Both,
            checkpointer=saver,
        )
        result = run.invoke(graph, {"log": ["in"]}, config, durability=durability)
        assert result["inner"] == ["c1"]
        assert trace == ["a", "c1"]

    def test_is_given_only_the_keys_that_it_has(self, run, saver, config, durability):
        seen = []

        def look(state: Inner):
            seen.append(dict(state))

        graph = chain(
            ("child", chain(("look", look), schema=Inner)), schema=Both, checkpointer=saver
        )
        run.invoke(graph, {"log": ["x"], "inner": ["y"]}, config, durability=durability)
        assert seen == [{"inner": ["y"]}]

    def test_keeps_its_private_keys_out_of_the_parent(self, run, trace, saver, config, durability):
        child = chain(("c1", step(trace, "c1", key="inner")), schema=Mixed)
        graph = chain(("child", child), checkpointer=saver)
        result = run.invoke(graph, {"log": ["in"]}, config, durability=durability)
        assert "inner" not in result

    def test_gives_back_its_whole_state_as_the_update(self, run, saver, config, durability):
        def add(state: State):
            return {"log": ["child"]}

        graph = chain(("child", chain(("add", add))), checkpointer=saver)
        events = run.stream(
            graph, {"log": ["in"]}, config, stream_mode="updates", durability=durability
        )
        assert events == [{"child": {"log": ["in", "child"]}}]

    def test_works_without_any_checkpointer(self, run, trace):
        child = chain(("c1", step(trace, "c1", key="inner")), schema=Inner)
        graph = chain(("child", child), schema=Both)
        assert run.invoke(graph, {"log": ["in"]}) == {"log": ["in"], "inner": ["c1"]}

    def test_in_a_loop_starts_afresh_each_time(self, run, saver, config, durability):
        builder = StateGraph(Both)

        def note(state: Both):
            return {"log": [len(state["inner"])]}

        def add(state: Inner):
            return {"inner": ["c"]}

        builder.add_node("child", chain(("add", add), schema=Inner))
        builder.add_node("note", note)
        builder.add_edge(START, "child")
        builder.add_edge("child", "note")
        builder.add_conditional_edges("note", lambda s: END if len(s["log"]) > 1 else "child")
        graph = builder.compile(checkpointer=saver)
        result = run.invoke(graph, {"log": [], "inner": []}, config, durability=durability)
        # The child is given what the parent has, adds one, and the parent's reducer adds it all.
        assert result["log"] == [1, 3]

    def test_in_send_tasks_keeps_one_state_for_each(self, run, trace, saver, config, durability):
        def ask(state: Inner):
            return {"inner": [interrupt(state["inner"][0])]}

        builder = StateGraph(Both)
        builder.add_node("child", chain(("ask", ask), schema=Inner))
        builder.add_conditional_edges(
            START, lambda state: [Send("child", {"inner": [n]}) for n in range(2)], ["child"]
        )
        graph = builder.compile(checkpointer=saver)
        opened = run.invoke(graph, {"log": []}, config, durability=durability)
        assert sorted(questions(opened)) == [0, 1]
        states = run.get_state(graph, config, subgraphs=True).tasks
        assert [task.state.values for task in states] == [{"inner": [0]}, {"inner": [1]}]
        answers = {one.id: f"answer {one.value}" for one in opened["__interrupt__"]}
        result = run.invoke(graph, Command(resume=answers), config, durability=durability)
        assert result["inner"] == [0, "answer 0", 1, "answer 1"]


class TestAGraphCalledInsideAFunction:
    def test_maps_one_schema_to_another(self, run, trace, saver, config, durability):
        child = chain(("c1", step(trace, "c1", key="inner")), schema=Inner)
        graph = chain(
            ("call", calling(run, trace, "call", child, {"inner": ["given"]})), checkpointer=saver
        )
        result = run.invoke(graph, {"log": []}, config, durability=durability)
        assert result == {"log": ["call", ["given", "c1"]]}

    def test_continues_where_it_was_when_the_function_runs_again(
        self, run, trace, saver, config, durability
    ):
        child = chain(
            ("c1", step(trace, "c1", key="inner")),
            ("c2", step(trace, "c2", "child?", key="inner")),
            schema=Inner,
        )
        graph = chain(
            ("call", calling(run, trace, "call", child, {"inner": []})), checkpointer=saver
        )
        run.invoke(graph, {"log": []}, config, durability=durability)
        run.invoke(graph, Command(resume="yes"), config, durability=durability)
        assert trace == ["call", "c1", "c2", "call", "c2"]

    def test_starts_afresh_in_every_run_of_the_parent(self, run, trace, saver, config, durability):
        graph = chain(
            ("call", calling(run, trace, "call", counting(), {"inner": []})), checkpointer=saver
        )
        for _ in range(2):
            result = run.invoke(graph, {"log": []}, config, durability=durability)
        assert result["log"] == ["call", ["call 0"]] * 2

    def test_inside_a_subgraph_inside_a_function(self, run, trace, saver, config, durability):
        deep = chain(("deep", step(trace, "deep", "deep?", key="inner")), schema=Inner)
        middle = chain(("m", calling(run, trace, "m", deep, {"inner": []})))
        graph = chain(
            ("top", calling(run, trace, "top", middle, {"log": []}, kept="log")),
            checkpointer=saver,
        )
        assert questions(run.invoke(graph, {"log": []}, config, durability=durability)) == ["deep?"]
        result = run.invoke(graph, Command(resume="yes"), config, durability=durability)
        assert result == {"log": ["top", ["m", ["deep", "yes"]]]}
        assert trace == ["top", "m", "deep"] * 2


class TestNamespaces:
    def test_of_the_root_is_empty(self, run, trace, saver, config, durability):
        run.invoke(
            chain(("a", step(trace, "a")), checkpointer=saver),
            {"log": []},
            config,
            durability=durability,
        )
        assert namespaces(run, saver) == {""}

    @pytest.mark.parametrize("called", [False, True], ids=["node", "function"])
    @pytest.mark.parametrize("durability", ["sync", "async"])
    def test_of_a_child_is_the_node_and_its_task(
        self, run, trace, saver, config, durability, called
    ):
        child = chain(("c1", step(trace, "c1", key="inner")), schema=Inner)
        node = calling(run, trace, "child", child, {"inner": []}) if called else child
        graph = chain(("child", node), schema=Both, checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        (own,) = namespaces(run, saver) - {""}
        assert re.fullmatch(f"child:{UUID}", own)

    @pytest.mark.parametrize("durability", ["sync", "async"])
    def test_of_deeper_levels_are_joined(self, run, trace, saver, config, durability):
        deep = chain(("d", step(trace, "d")))
        middle = chain(("inner", deep))
        graph = chain(("outer", middle), checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        outer, inner = sorted(namespaces(run, saver) - {""}, key=len)
        assert re.fullmatch(f"outer:{UUID}", outer)
        assert re.fullmatch(re.escape(outer) + rf"\|inner:{UUID}", inner)

    def test_are_the_ids_of_the_tasks(self, run, trace, saver, config, durability):
        child = chain(("ask", step(trace, "ask", "child?")))
        graph = chain(("child", child), checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        (task,) = run.get_state(graph, config).tasks
        assert namespaces(run, saver) == {"", f"child:{task.id}"}

    def test_a_node_reads_its_graphs_in_the_config(self, run, saver, config, durability):
        seen = {}

        def look(state: State):
            seen[get_config()["metadata"]["langgraph_node"]] = get_config()["configurable"]

        graph = chain(("a", look), ("child", chain(("b", look))), checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        assert seen["a"]["checkpoint_ns"] == ""
        assert re.fullmatch(f"child:{UUID}", seen["b"]["checkpoint_ns"])

    @pytest.mark.parametrize("durability", ["sync", "async"])
    def test_of_two_runs_differ(self, run, trace, saver, config, durability):
        child = chain(("c1", step(trace, "c1")))
        graph = chain(("child", child), checkpointer=saver)
        for _ in range(2):
            run.invoke(graph, {"log": []}, config, durability=durability)
        assert len(namespaces(run, saver)) == 3

    def test_name_the_parent_in_the_metadata(self, run, trace, saver, config):
        deep = chain(("d", step(trace, "d", "deep?")))
        graph = chain(("outer", chain(("inner", deep))), checkpointer=saver)
        run.invoke(graph, {"log": []}, config)
        top = run.get_state(graph, config, subgraphs=True)
        middle = top.tasks[0].state
        lowest = middle.tasks[0].state
        ids = [
            (
                snap.config["configurable"]["checkpoint_ns"],
                snap.config["configurable"]["checkpoint_id"],
            )
            for snap in (top, middle)
        ]
        assert top.metadata["parents"] == {}
        assert middle.metadata["parents"] == dict(ids[:1])
        assert lowest.metadata["parents"] == dict(ids)


class TestTheCheckpointerOfASubgraph:
    @pytest.mark.parametrize("called", [False, True], ids=["node", "function"])
    @pytest.mark.parametrize("durability", ["sync", "async"])
    def test_none_inherits_and_forgets_between_runs(
        self, run, trace, saver, config, durability, called
    ):
        child = counting(checkpointer=None)
        node = calling(run, trace, "child", child, {"inner": []}) if called else child
        graph = chain(("child", node), checkpointer=saver)
        for _ in range(2):
            run.invoke(graph, {"log": []}, config, durability=durability)
        kept = [ns for ns in namespaces(run, saver) if ns]
        assert len(kept) == 2

    def test_true_keeps_its_own_memory_across_calls(self, run, trace, saver, config, durability):
        child = counting(checkpointer=True)
        node = calling(run, trace, "child", child, {"inner": []})
        graph = chain(("child", node), checkpointer=saver)
        for _ in range(3):
            result = run.invoke(graph, {"log": []}, config, durability=durability)
        assert result["log"][-1] == ["call 0", "call 1", "call 2"]
        assert namespaces(run, saver) == {"", "child"}

    def test_true_as_a_node_has_a_namespace_without_uuid(self, run, saver, config, durability):
        seen = []

        def add(state: Inner):
            seen.append(len(state["inner"]))
            return {"inner": ["more"]}

        child = chain(("add", add), schema=Inner, checkpointer=True)
        graph = chain(("child", child), checkpointer=saver)
        for _ in range(3):
            run.invoke(graph, {"log": ["x"]}, config, durability=durability)
        assert namespaces(run, saver) == {"", "child"}
        assert seen == [0, 1, 2]

    def test_true_keeps_threads_apart(self, run, trace, saver, durability):
        node = calling(run, trace, "child", counting(checkpointer=True), {"inner": []})
        graph = chain(("child", node), checkpointer=saver)
        for thread in ("one", "two"):
            result = run.invoke(
                graph, {"log": []}, {"configurable": {"thread_id": thread}}, durability=durability
            )
            assert result["log"] == ["child", ["call 0"]]

    def test_true_resumes_after_an_interrupt(self, run, trace, saver, config, durability):
        child = chain(
            ("c1", step(trace, "c1", key="inner")),
            ("c2", step(trace, "c2", "child?", key="inner")),
            schema=Inner,
            checkpointer=True,
        )
        graph = chain(
            ("child", calling(run, trace, "child", child, {"inner": []})), checkpointer=saver
        )
        for answer in ("one", "two"):
            run.invoke(graph, {"log": []}, config, durability=durability)
            result = run.invoke(graph, Command(resume=answer), config, durability=durability)
        assert result["log"][-1] == ["c1", "c2", "one", "c1", "c2", "two"]
        assert trace == ["child", "c1", "c2", "child", "c2"] * 2

    @pytest.mark.parametrize("called", [False, True], ids=["node", "function"])
    def test_false_saves_nothing(self, run, trace, saver, config, durability, called):
        child = counting(checkpointer=False)
        node = calling(run, trace, "child", child, {"inner": []}) if called else child
        graph = chain(("child", node), checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        assert namespaces(run, saver) == {""}

    @pytest.mark.parametrize("durability", ["sync", "async"])
    def test_an_instance_gives_way_to_the_saver_of_the_thread(
        self, run, trace, saver, config, durability
    ):
        with InMemorySaver() as own:
            child = counting(checkpointer=own)
            node = calling(run, trace, "child", child, {"inner": []})
            graph = chain(("child", node), checkpointer=saver)
            run.invoke(graph, {"log": []}, config, durability=durability)
            assert len(namespaces(run, saver)) == 2
            assert namespaces(run, own) == set()

    def test_true_on_a_root_graph_is_refused(self, run, config):
        with pytest.raises(RuntimeError):
            run.invoke(counting(checkpointer=True), {"inner": []}, config)

    def test_its_thread_cannot_be_read_or_changed_without_a_parent(self, run, config):
        graph = counting(checkpointer=True)
        with pytest.raises(RuntimeError, match="checkpointer=True"):
            run.get_state(graph, config)
        with pytest.raises(RuntimeError, match="checkpointer=True"):
            run.history(graph, config)
        with pytest.raises(RuntimeError, match="checkpointer=True"):
            run.update_state(graph, config, {"inner": []})


class TestReadingASubgraphsState:
    @pytest.fixture
    def nested(self, trace, saver):
        """top: t1, middle, t3; middle: m1, deep; deep: d1, d2 which asks."""
        deep = chain(
            ("d1", step(trace, "d1", key="inner")),
            ("d2", step(trace, "d2", "deep?", key="inner")),
            schema=Inner,
        )
        middle = chain(("m1", step(trace, "m1")), ("deep", deep), schema=Both)
        return chain(
            ("t1", step(trace, "t1")),
            ("middle", middle),
            ("t3", step(trace, "t3")),
            schema=Both,
            checkpointer=saver,
        )

    def test_without_subgraphs_gives_their_config(self, run, nested, config, durability):
        run.invoke(nested, {"log": []}, config, durability=durability)
        (task,) = run.get_state(nested, config).tasks
        assert task.state["configurable"]["thread_id"] == "t"
        assert task.state["configurable"]["checkpoint_ns"] == f"middle:{task.id}"

    def test_with_subgraphs_gives_the_states_of_all_levels(self, run, nested, config, durability):
        run.invoke(nested, {"log": []}, config, durability=durability)
        top = run.get_state(nested, config, subgraphs=True)
        middle = top.tasks[0].state
        deep = middle.tasks[0].state
        assert [snap.next for snap in (top, middle, deep)] == [("middle",), ("deep",), ("d2",)]
        assert top.values == {"log": ["t1"], "inner": []}
        assert middle.values == {"log": ["t1", "m1"], "inner": []}
        assert deep.values == {"inner": ["d1"]}
        assert all(
            [one.value for one in snap.interrupts] == ["deep?"] for snap in (top, middle, deep)
        )

    def test_at_a_childs_config_gives_the_childs_state(self, run, nested, config, durability):
        run.invoke(nested, {"log": []}, config, durability=durability)
        at = child_config(run.get_state(nested, config))
        middle = run.get_state(nested, at)
        assert middle.next == ("deep",)
        assert middle.values == {"log": ["t1", "m1"], "inner": []}
        deep = run.get_state(nested, child_config(middle))
        assert deep.values == {"inner": ["d1"]}

    def test_has_a_history_at_the_childs_config(self, run, nested, config):
        run.invoke(nested, {"log": []}, config)
        run.invoke(nested, Command(resume="yes"), config)
        parent = next(s for s in run.history(nested, config) if s.next == ("middle",))
        middle = run.history(nested, child_config(parent))
        assert [snap.next for snap in middle] == [(), ("deep",), ("m1",), ("__start__",)]
        deep = run.history(nested, child_config(middle[1]))
        assert [snap.next for snap in deep] == [(), ("d2",), ("d1",), ("__start__",)]
        assert deep[0].values == {"inner": ["d1", "d2", "yes"]}

    def test_of_a_childs_checkpoint_stays_what_it_was(self, run, nested, config):
        run.invoke(nested, {"log": []}, config)
        before = run.get_state(nested, config, subgraphs=True).tasks[0].state
        run.invoke(nested, Command(resume="yes"), config)
        after = run.get_state(nested, before.config)
        assert (after.values, after.next) == (before.values, before.next)

    def test_when_it_has_ended_is_no_longer_in_the_tasks(self, run, nested, config, durability):
        run.invoke(nested, {"log": []}, config, durability=durability)
        run.invoke(nested, Command(resume="yes"), config, durability=durability)
        assert run.get_state(nested, config, subgraphs=True).tasks == ()

    @pytest.mark.parametrize("hidden", [False, True], ids=["in sight", "hidden"])
    def test_of_a_graph_called_in_a_function(self, run, trace, saver, config, durability, hidden):
        child = chain(
            ("c1", step(trace, "c1", key="inner")),
            ("c2", step(trace, "c2", "child?", key="inner")),
            schema=Inner,
        )
        graph = chain(
            ("call", calling(run, trace, "call", child, {"inner": []}, hidden=hidden)),
            checkpointer=saver,
        )
        run.invoke(graph, {"log": []}, config, durability=durability)
        (task,) = run.get_state(graph, config, subgraphs=True).tasks
        assert task.state.values == {"inner": ["c1"]}
        assert task.state.next == ("c2",)

    @pytest.mark.parametrize("hidden", [False, True], ids=["in sight", "hidden"])
    def test_of_a_graph_called_in_a_function_is_readable_after_a_restart(
        self, run, trace, saver, config, hidden
    ):
        def build():
            child = chain(
                ("c1", step(trace, "c1", key="inner")),
                ("c2", step(trace, "c2", "child?", key="inner")),
                schema=Inner,
            )
            node = calling(run, trace, "call", child, {"inner": []}, hidden=hidden)
            return chain(("call", node), checkpointer=saver)

        before = build()
        run.invoke(before, {"log": []}, config)
        run.invoke(before, Command(resume="yes"), config)
        restarted = build()
        parent = next(s for s in run.history(restarted, config) if s.next == ("call",))
        history = run.history(restarted, child_config(parent))
        assert [snap.values.get("inner") for snap in history] == [
            ["c1", "c2", "yes"],
            ["c1"],
            [],
            [],
        ]

    def test_of_a_child_with_no_checkpointer_is_none(self, run, trace, saver, config):
        child = chain(("ask", step(trace, "ask", "child?")), checkpointer=False)
        graph = chain(("child", child), checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability="async")
        assert run.get_state(graph, config, subgraphs=True).tasks[0].state is None

    def test_of_a_child_that_has_saved_nothing_is_empty(self, run, trace, saver, config):
        child = chain(("ask", step(trace, "ask", "child?")))
        graph = chain(("child", child), checkpointer=saver)
        run.invoke(graph, {"log": []}, config, interrupt_before=["child"])
        [task] = run.get_state(graph, config, subgraphs=True).tasks
        place = run.get_state(graph, config).tasks[0].state
        assert task.state == StateSnapshot({}, (), place, None, None, None, (), ())

    def test_of_a_child_with_memory_of_its_own_is_under_its_name(
        self, run, trace, saver, config, durability
    ):
        child = chain(("ask", step(trace, "ask", "child?")), checkpointer=True)
        graph = chain(("child", child), checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        state = run.get_state(graph, config, subgraphs=True).tasks[0].state
        assert state.config["configurable"]["checkpoint_ns"] == "child"
        assert state.next == ("ask",)

    def test_of_an_unknown_subgraph_is_refused(self, run, nested, config):
        run.invoke(nested, {"log": []}, config)
        nowhere = {"configurable": {"thread_id": "t", "checkpoint_ns": "nowhere:1"}}
        with pytest.raises(ValueError, match="nowhere"):
            run.get_state(nested, nowhere)


class TestChangingASubgraphsState:
    def test_at_its_config_changes_the_child_and_not_the_parent(
        self, run, trace, saver, config, durability
    ):
        child = chain(
            ("c1", step(trace, "c1", key="inner")),
            ("c2", step(trace, "c2", key="inner")),
            schema=Inner,
            interrupt_before=["c2"],
        )
        graph = chain(("child", child), ("z", step(trace, "z")), schema=Both, checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        at = child_config(run.get_state(graph, config))
        run.update_state(graph, at, {"inner": ["edited"]})
        snapshot = run.get_state(graph, config, subgraphs=True)
        assert snapshot.values == {"log": [], "inner": []}
        assert snapshot.tasks[0].state.values == {"inner": ["c1", "edited"]}
        result = run.invoke(graph, None, config, durability=durability)
        assert result == {"log": ["z"], "inner": ["c1", "edited", "c2"]}
        assert trace == ["c1", "c2", "z"]

    def test_as_one_of_its_nodes_skips_that_node(self, run, trace, saver, config, durability):
        child = chain(
            *[(name, step(trace, name, key="inner")) for name in ("c1", "c2", "c3")],
            schema=Inner,
            interrupt_before=["c2"],
        )
        graph = chain(("child", child), schema=Both, checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        at = child_config(run.get_state(graph, config))
        run.update_state(graph, at, {"inner": ["instead"]}, as_node="c2")
        result = run.invoke(graph, None, config, durability=durability)
        assert result["inner"] == ["c1", "instead", "c3"]
        assert trace == ["c1", "c3"]

    def test_two_levels_down(self, run, trace, saver, config, durability):
        deep = chain(
            *[(name, step(trace, name, key="inner")) for name in ("d1", "d2")],
            schema=Inner,
            interrupt_before=["d2"],
        )
        middle = chain(("deep", deep), schema=Inner)
        graph = chain(("middle", middle), schema=Both, checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        state = run.get_state(graph, config, subgraphs=True).tasks[0].state.tasks[0].state
        run.update_state(graph, state.config, {"inner": ["edited"]})
        result = run.invoke(graph, None, config, durability=durability)
        assert result["inner"] == ["d1", "edited", "d2"]

    def test_of_a_graph_called_in_a_function(self, run, trace, saver, config, durability):
        child = chain(
            ("c1", step(trace, "c1", key="inner")),
            ("c2", step(trace, "c2", "child?", key="inner")),
            schema=Inner,
        )
        graph = chain(
            ("call", calling(run, trace, "call", child, {"inner": []})), checkpointer=saver
        )
        run.invoke(graph, {"log": []}, config, durability=durability)
        at = child_config(run.get_state(graph, config))
        run.update_state(graph, at, {"inner": ["edited"]})
        run.invoke(graph, None, config, durability=durability)
        result = run.invoke(graph, Command(resume="yes"), config, durability=durability)
        assert result == {"log": ["call", ["c1", "edited", "c2", "yes"]]}

    def test_as_the_subgraphs_node_ends_the_subgraph(self, run, trace, saver, config, durability):
        child = chain(("ask", step(trace, "ask", "child?", key="inner")), schema=Inner)
        graph = chain(("child", child), ("z", step(trace, "z")), schema=Both, checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        run.update_state(graph, config, {"inner": ["decided"]}, as_node="child")
        result = run.invoke(graph, None, config, durability=durability)
        assert result == {"log": ["z"], "inner": ["decided"]}
        assert trace == ["ask", "z"]


class TestGetSubgraphs:
    @pytest.fixture
    def nested(self, trace):
        deep = chain(("d", step(trace, "d")))
        middle = chain(("deep", deep), ("m", step(trace, "m")))
        return chain(("middle", middle), ("t", step(trace, "t"))), middle, deep

    def test_names_the_nodes_that_are_graphs(self, nested):
        graph, middle, _ = nested
        assert list(graph.get_subgraphs()) == [("middle", middle)]

    def test_recurses_when_asked(self, nested):
        graph, middle, deep = nested
        assert list(graph.get_subgraphs(recurse=True)) == [
            ("middle", middle),
            ("middle|deep", deep),
        ]

    def test_of_one_namespace(self, nested):
        graph, middle, deep = nested
        assert list(graph.get_subgraphs(namespace="middle")) == [("middle", middle)]
        found = list(graph.get_subgraphs(namespace="middle|deep", recurse=True))
        assert found[-1] == ("middle|deep", deep)

    @pytest.mark.parametrize("recurse", [True, False])
    def test_of_one_namespace_leaves_out_those_of_other_nodes(self, trace, recurse):
        left, right = (chain(("deep", chain(("d", step(trace, "d"))))) for _ in range(2))
        graph = chain(("aa", left), ("bb", right))
        found = graph.get_subgraphs(namespace="aa|deep", recurse=recurse)
        assert [name for name, _ in found] == ["aa|deep"]


class TestCommandsToTheParent:
    def test_route_in_the_parent(self, run, trace, saver, config, durability):
        def leave(state: State):
            trace.append("leave")
            return Command(graph=Command.PARENT, goto="other", update={"log": ["left"]})

        builder = StateGraph(State)
        builder.add_node("child", chain(("leave", leave), ("unseen", step(trace, "unseen"))))
        builder.add_node("other", step(trace, "other"))
        builder.add_node("next", step(trace, "next"))
        builder.add_edge(START, "child")
        graph = builder.compile(checkpointer=saver)
        result = run.invoke(graph, {"log": ["in"]}, config, durability=durability)
        assert result == {"log": ["in", "left", "other"]}
        assert trace == ["leave", "other"]

    def test_drop_what_the_child_had_gathered(self, run, trace, saver, config, durability):
        def leave(state: State):
            return Command(graph=Command.PARENT, update={"log": ["left"]})

        child = chain(("c1", step(trace, "c1")), ("leave", leave))
        graph = chain(("child", child), checkpointer=saver)
        result = run.invoke(graph, {"log": []}, config, durability=durability)
        assert result == {"log": ["left"]}

    @pytest.mark.parametrize("levels", [2, 3])
    def test_go_up_one_level_each(self, run, trace, saver, config, durability, levels):
        def leave(state: State):
            return Command(graph=Command.PARENT, goto="after", update={"log": ["left"]})

        graph = chain(("leave", leave))
        for level in range(levels - 1):
            top = level == levels - 2
            builder = StateGraph(State)
            builder.add_node("child", graph)
            builder.add_node("after", step(trace, f"after {level}"))
            builder.add_edge(START, "child")
            graph = builder.compile(checkpointer=saver if top else None)
        run.invoke(graph, {"log": []}, config, durability=durability)
        assert trace == ["after 0"]

    def test_pass_through_several_levels_when_each_hands_them_on(
        self, run, trace, saver, config, durability
    ):
        def leave(state: State):
            return Command(graph=Command.PARENT, goto="relay")

        def relay(state: State):
            trace.append("relay")
            return Command(graph=Command.PARENT, goto="goal", update={"log": ["relayed"]})

        builder = StateGraph(State)
        builder.add_node("deep", chain(("leave", leave)))
        builder.add_node("relay", relay)
        builder.add_edge(START, "deep")
        middle = builder.compile()
        builder = StateGraph(State)
        builder.add_node("middle", middle)
        builder.add_node("goal", step(trace, "goal"))
        builder.add_edge(START, "middle")
        graph = builder.compile(checkpointer=saver)
        result = run.invoke(graph, {"log": []}, config, durability=durability)
        assert trace == ["relay", "goal"]
        assert result == {"log": ["relayed", "goal"]}

    def test_from_a_graph_called_in_a_function(self, run, trace, saver, config, durability):
        def leave(state: Inner):
            return Command(graph=Command.PARENT, goto="other", update={"log": ["left"]})

        child = chain(("leave", leave), schema=Inner)
        builder = StateGraph(State)
        builder.add_node("call", calling(run, trace, "call", child, {"inner": []}))
        builder.add_node("other", step(trace, "other"))
        builder.add_edge(START, "call")
        graph = builder.compile(checkpointer=saver)
        result = run.invoke(graph, {"log": []}, config, durability=durability)
        assert result == {"log": ["left", "other"]}

    @pytest.mark.parametrize("inside", ["nodes of a step", "a list of a node"])
    def test_all_count(self, run, trace, saver, config, durability, inside):
        class Handed(State):
            agent: str

        def to(name: str) -> Any:
            update = {"log": [f"to {name}"], "agent": name}
            return Command(graph=Command.PARENT, goto=name, update=update)

        child = StateGraph(Handed)
        if inside == "a list of a node":
            child.add_node("leave", lambda state: [to("one"), to("two")])
            child.add_edge(START, "leave")
        else:
            for name in ("one", "two"):
                child.add_node(f"leave to {name}", lambda state, name=name: to(name))
                child.add_edge(START, f"leave to {name}")
        builder = StateGraph(Handed).add_node("child", child.compile()).add_edge(START, "child")
        for name in ("one", "two"):
            builder.add_node(name, step(trace, name))
        graph = builder.compile(checkpointer=saver)
        result = run.invoke(graph, {"log": []}, config, durability=durability)
        # A key without a reducer takes one value: the last.
        assert result == {"log": ["to one", "to two", "one", "two"], "agent": "two"}
        assert sorted(trace) == ["one", "two"]

    def test_may_send_work_to_nodes_of_the_parent(self, run, saver, config, durability):
        class Work(TypedDict):
            n: int

        def worker(state: Work):
            return {"log": [state["n"]]}

        def leave(state: State):
            return Command(graph=Command.PARENT, goto=[Send("worker", {"n": n}) for n in (1, 2)])

        builder = StateGraph(State)
        builder.add_node("child", chain(("leave", leave)))
        builder.add_node("worker", worker)
        builder.add_edge(START, "child")
        graph = builder.compile(checkpointer=saver)
        assert run.invoke(graph, {"log": []}, config, durability=durability) == {"log": [1, 2]}

    def test_after_an_interrupt(self, run, trace, saver, config, durability):
        def decide(state: State):
            return Command(graph=Command.PARENT, goto=interrupt("where?"))

        builder = StateGraph(State)
        builder.add_node("child", chain(("decide", decide)))
        for name in ("left", "right"):
            builder.add_node(name, step(trace, name))
        builder.add_edge(START, "child")
        graph = builder.compile(checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        result = run.invoke(graph, Command(resume="left"), config, durability=durability)
        assert result == {"log": ["left"]}

    def test_without_a_parent_are_refused(self, run, saver, config):
        def leave(state: State):
            return Command(graph=Command.PARENT, goto="nowhere")

        with pytest.raises((InvalidUpdateError, ParentCommand)):
            run.invoke(chain(("leave", leave), checkpointer=saver), {"log": []}, config)


class TestErrorsInASubgraph:
    def test_reach_the_caller_and_leave_a_thread_that_resumes(
        self, run, trace, saver, config, durability
    ):
        failing = [True]

        def flaky(state: Inner):
            trace.append("flaky")
            if failing:
                raise ValueError(failing.pop())
            return {"inner": ["flaky"]}

        child = chain(("c1", step(trace, "c1", key="inner")), ("flaky", flaky), schema=Inner)
        graph = chain(("child", child), ("z", step(trace, "z")), schema=Both, checkpointer=saver)
        with pytest.raises(ValueError, match="True"):
            run.invoke(graph, {"log": []}, config, durability=durability)
        assert run.get_state(graph, config).next == ("child",)
        result = run.invoke(graph, None, config, durability=durability)
        assert result == {"log": ["z"], "inner": ["c1", "flaky"]}
        assert trace == ["c1", "flaky", "flaky", "z"]


class TestGraphsInsideGraphs:
    """However deep they are nested, Python's limit on the depth of calls is not in the way."""

    def nested(self, depth: int, leaf: Any, name: str = "in", **compile_with: Any) -> Any:
        graph = StateGraph(State).add_node(name, leaf).add_edge(START, name).compile()
        for at in range(depth):
            builder = StateGraph(State).add_node(name, graph).add_edge(START, name)
            graph = builder.compile(**(compile_with if at == depth - 1 else {}))
        return graph

    @pytest.mark.parametrize("depth", [50, 300])
    def test_run_to_their_end(self, run, depth):
        graph = self.nested(depth, lambda _: {"log": ["leaf"]})
        assert run.invoke(graph, {"log": []})["log"].count("leaf") >= 1

    def test_tell_what_failed_inside(self, run):
        def leaf(state: State) -> Any:
            raise ValueError("leaf")

        with pytest.raises(ValueError, match="leaf"):
            run.invoke(self.nested(300, leaf), {"log": []})

    def test_let_an_exit_through(self, run):
        def leaf(state: State) -> Any:
            raise SystemExit(3)

        with pytest.raises(SystemExit):
            run.invoke(self.nested(60, leaf), {"log": []})

    def test_end_when_they_are_cancelled(self):
        saw: list[str] = []

        async def main() -> None:
            began = asyncio.Event()

            async def leaf(state: State) -> Any:
                began.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    saw.append("cancelled")

            running = asyncio.create_task(self.nested(60, leaf).ainvoke({"log": []}))
            await began.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

        asyncio.run(main())
        assert saw == ["cancelled"]

    def test_are_refused_by_name_where_their_place_is_too_long_to_be_stored(
        self, run, saver, config
    ):
        graph = self.nested(40, lambda _: {"log": ["leaf"]}, checkpointer=saver)
        with pytest.raises(
            InvalidIdError, match=r"nested 2\d graphs deep.*'in\|in\|in.*at most 1024"
        ):
            run.invoke(graph, {"log": []}, config)

    def test_may_be_deeper_where_inner_ones_are_not_stored(self, run, saver, config):
        inner = self.nested(300, lambda _: {"log": ["leaf"]}, checkpointer=False)
        graph = StateGraph(State).add_node("in", inner).add_edge(START, "in")
        found = run.invoke(graph.compile(checkpointer=saver), {"log": []}, config)
        assert "leaf" in found["log"]
