"""What a caller sees while a graph runs."""

import asyncio
import threading
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, RemoveMessage
from langchain_core.runnables import RunnableLambda
from pydantic import BaseModel

from hitl_graphs import Both, Inner, State, chain, fan, step
from milepost.config import get_stream_writer
from milepost.func import entrypoint, task
from milepost.graph import START, MessagesState, StateGraph
from milepost.graph.message import REMOVE_ALL_MESSAGES
from milepost.runtime import Runtime
from milepost.types import Command, StreamWriter, interrupt

MODES = ["values", "updates", "custom", "messages", "checkpoints", "tasks", "debug"]


class Uncopied(BaseModel):
    text: str

    def __deepcopy__(self, memo: Any = None) -> Any:
        raise TypeError("cannot be copied")


def talking(name: str, key: str = "log") -> Any:
    """A node that says its name on the custom stream, and writes it into the state."""

    def node(state: Any):
        get_stream_writer()({"from": name})
        return {key: [name]}

    return node


@pytest.fixture
def two(saver):
    return chain(("a", talking("a")), ("b", talking("b")), checkpointer=saver)


@pytest.fixture
def nested(saver):
    """a -> child (c1 -> c2)"""
    child = chain(("c1", talking("c1", "inner")), ("c2", talking("c2", "inner")), schema=Inner)
    return chain(("a", talking("a")), ("child", child), schema=Both, checkpointer=saver)


def stable(events: list[Any]) -> list[Any]:
    """Events with what differs from run to run taken out."""
    if isinstance(events, dict):
        left_out = ("id", "timestamp", "config", "parent_config", "state", "checkpoint_id")
        return {key: stable(value) for key, value in events.items() if key not in left_out}
    if isinstance(events, (list, tuple)):
        return type(events)(stable(event) for event in events)
    return events.split(":")[0] if isinstance(events, str) else events


class TestEachMode:
    def test_values_is_the_whole_state_after_the_input_and_each_step(
        self, run, two, config, durability
    ):
        events = run.stream(
            two, {"log": ["in"]}, config, stream_mode="values", durability=durability
        )
        assert events == [{"log": ["in"]}, {"log": ["in", "a"]}, {"log": ["in", "a", "b"]}]

    def test_updates_is_what_each_node_wrote(self, run, two, config, durability):
        events = run.stream(
            two, {"log": ["in"]}, config, stream_mode="updates", durability=durability
        )
        assert events == [{"a": {"log": ["a"]}}, {"b": {"log": ["b"]}}]

    def test_updates_is_what_a_stream_carries_when_nothing_is_said(self, run, two, config):
        assert run.stream(two, {"log": ["in"]}, config) == [
            {"a": {"log": ["a"]}},
            {"b": {"log": ["b"]}},
        ]

    def test_updates_of_a_node_that_wrote_nothing_is_none(self, run, saver, config, durability):
        def quiet(state: State):
            return None

        graph = chain(("quiet", quiet), checkpointer=saver)
        events = run.stream(
            graph, {"log": []}, config, stream_mode="updates", durability=durability
        )
        assert events == [{"quiet": None}]

    def test_updates_of_parallel_nodes_come_one_by_one(self, run, trace, saver, config, durability):
        graph = fan(*[(name, step(trace, name)) for name in "xyz"], checkpointer=saver)
        events = run.stream(
            graph, {"log": []}, config, stream_mode="updates", durability=durability
        )
        assert sorted(events, key=list) == [{name: {"log": [name]}} for name in "xyz"]

    def test_custom_is_what_nodes_send(self, run, two, config, durability):
        events = run.stream(
            two, {"log": ["in"]}, config, stream_mode="custom", durability=durability
        )
        assert events == [{"from": "a"}, {"from": "b"}]

    def test_tasks_is_the_start_and_the_end_of_each_task(self, run, two, config, durability):
        events = run.stream(two, {"log": []}, config, stream_mode="tasks", durability=durability)
        assert [event["id"] for event in events[::2]] == [event["id"] for event in events[1::2]]
        assert stable(events) == [
            {"name": "a", "input": {"log": []}, "triggers": ("branch",)},
            {"name": "a", "error": None, "result": {"log": ["a"]}, "interrupts": []},
            {"name": "b", "input": {"log": ["a"]}, "triggers": ("branch",)},
            {"name": "b", "error": None, "result": {"log": ["b"]}, "interrupts": []},
        ]

    @pytest.mark.parametrize("mode", ["tasks", "checkpoints", "debug"])
    def test_a_question_that_cannot_be_copied_is_shown_and_stored(self, run, saver, config, mode):
        graph = chain(("asks", lambda _: interrupt(Uncopied(text="q"))), checkpointer=saver)
        for given in ({"log": []}, None):
            assert run.stream(graph, given, config, stream_mode=mode)
            (question,) = run.get_state(graph, config).interrupts
            assert question.value == Uncopied(text="q")

    def test_checkpoints_is_every_checkpoint(self, run, two, config):
        events = run.stream(two, {"log": ["in"]}, config, stream_mode="checkpoints")
        assert [(event["metadata"]["step"], event["next"]) for event in events] == [
            (-1, ["__start__"]),
            (0, ["a"]),
            (1, ["b"]),
            (2, []),
        ]
        history = run.history(two, config)[::-1]
        for event, snapshot in zip(events, history, strict=True):
            assert event["config"]["configurable"] == snapshot.config["configurable"]
            assert event["values"] == snapshot.values
            assert event["metadata"] == snapshot.metadata
            assert [one["name"] for one in event["tasks"]] == list(snapshot.next)
        assert events[0]["parent_config"] is None
        assert events[1]["parent_config"]["configurable"] == events[0]["config"]["configurable"]

    def test_debug_is_checkpoints_and_tasks_together(self, run, two, config, durability):
        events = run.stream(two, {"log": []}, config, stream_mode="debug", durability=durability)
        assert [(event["step"], event["type"]) for event in events] == [
            (-1, "checkpoint"),
            (0, "checkpoint"),
            (1, "task"),
            (1, "task_result"),
            (1, "checkpoint"),
            (2, "task"),
            (2, "task_result"),
            (2, "checkpoint"),
        ]
        assert all(set(event) == {"step", "timestamp", "type", "payload"} for event in events)
        assert events[3]["payload"]["result"] == {"log": ["a"]}

    @pytest.mark.parametrize("mode", MODES)
    def test_in_a_list_is_the_same_with_its_name(self, run, two, mode):
        threads = [{"configurable": {"thread_id": name}} for name in ("one", "two")]
        alone = run.stream(two, {"log": ["in"]}, threads[0], stream_mode=mode)
        listed = run.stream(two, {"log": ["in"]}, threads[1], stream_mode=[mode])
        assert stable(listed) == [(mode, event) for event in stable(alone)]

    def test_all_together_carry_what_each_carries_alone(self, run, two):
        together = run.stream(
            two, {"log": []}, {"configurable": {"thread_id": "all"}}, stream_mode=MODES
        )
        for mode in MODES:
            alone = run.stream(
                two, {"log": []}, {"configurable": {"thread_id": mode}}, stream_mode=mode
            )
            assert stable([event for kind, event in together if kind == mode]) == stable(alone)

    def test_an_update_comes_before_the_values_that_it_leads_to(self, run, two, config, durability):
        events = run.stream(
            two, {"log": []}, config, stream_mode=["values", "updates"], durability=durability
        )
        assert events == [
            ("values", {"log": []}),
            ("updates", {"a": {"log": ["a"]}}),
            ("values", {"log": ["a"]}),
            ("updates", {"b": {"log": ["b"]}}),
            ("values", {"log": ["a", "b"]}),
        ]

    @pytest.mark.parametrize("mode", [m for m in MODES if m not in ("checkpoints", "debug")])
    def test_needs_no_checkpointer(self, run, saver, config, mode):
        nodes = [("a", talking("a")), ("b", talking("b"))]
        with_saver, without = chain(*nodes, checkpointer=saver), chain(*nodes)
        saved = run.stream(with_saver, {"log": []}, config, stream_mode=mode)
        assert stable(run.stream(without, {"log": []}, stream_mode=mode)) == stable(saved)


class TestSubgraphs:
    def test_stay_out_of_the_stream_unless_asked_for(self, run, nested, config, durability):
        events = run.stream(
            nested,
            {"log": []},
            config,
            stream_mode=["updates", "custom"],
            durability=durability,
        )
        assert events == [
            ("custom", {"from": "a"}),
            ("updates", {"a": {"log": ["a"]}}),
            ("updates", {"child": {"inner": ["c1", "c2"]}}),
        ]

    def test_come_with_their_namespace(self, run, nested, config, durability):
        events = run.stream(
            nested,
            {"log": []},
            config,
            stream_mode="updates",
            subgraphs=True,
            durability=durability,
        )
        (child,) = {namespace for namespace, _ in events if namespace}
        assert len(child) == 1
        assert child[0].startswith("child:")
        assert events == [
            ((), {"a": {"log": ["a"]}}),
            (child, {"c1": {"inner": ["c1"]}}),
            (child, {"c2": {"inner": ["c2"]}}),
            ((), {"child": {"inner": ["c1", "c2"]}}),
        ]

    def test_come_with_namespace_and_mode_for_a_list(self, run, nested, config, durability):
        events = run.stream(
            nested,
            {"log": []},
            config,
            stream_mode=["custom", "values"],
            subgraphs=True,
            durability=durability,
        )
        assert stable(events) == [
            ((), "values", {"log": [], "inner": []}),
            ((), "custom", {"from": "a"}),
            ((), "values", {"log": ["a"], "inner": []}),
            (("child",), "values", {"inner": []}),
            (("child",), "custom", {"from": "c1"}),
            (("child",), "values", {"inner": ["c1"]}),
            (("child",), "custom", {"from": "c2"}),
            (("child",), "values", {"inner": ["c1", "c2"]}),
            ((), "values", {"log": ["a"], "inner": ["c1", "c2"]}),
        ]

    @pytest.mark.parametrize("mode", MODES)
    def test_every_mode_puts_the_namespace_first(self, run, nested, mode):
        threads = [{"configurable": {"thread_id": name}} for name in ("one", "two")]
        with_them = run.stream(nested, {"log": []}, threads[0], stream_mode=mode, subgraphs=True)
        without = run.stream(nested, {"log": []}, threads[1], stream_mode=mode)
        own = [event for namespace, event in with_them if namespace == ()]
        assert stable(own) == stable(without)

    def test_checkpoints_of_a_child_name_its_parents(self, run, nested, config):
        events = run.stream(nested, {"log": []}, config, stream_mode="checkpoints", subgraphs=True)
        parent = next(event for ns, event in events if not ns and event["next"] == ["child"])
        own = [event for ns, event in events if ns]
        assert [event["next"] for event in own] == [["__start__"], ["c1"], ["c2"], []]
        for event in own:
            assert event["metadata"]["parents"] == {
                "": parent["config"]["configurable"]["checkpoint_id"]
            }

    def test_of_three_levels(self, run, saver, config, durability):
        deep = chain(("d", talking("d")))
        graph = chain(("outer", chain(("inner", deep))), checkpointer=saver)
        events = run.stream(
            graph,
            {"log": []},
            config,
            stream_mode="custom",
            subgraphs=True,
            durability=durability,
        )
        assert stable(events) == [(("outer", "inner"), {"from": "d"})]

    def test_called_inside_a_function(self, run, saver, config, durability):
        child = chain(("c", talking("c", "inner")), schema=Inner)

        def call(state: State):
            child.invoke({"inner": []})

        async def acall(state: State):
            await child.ainvoke({"inner": []})

        graph = chain(("call", acall if run.colour == "async" else call), checkpointer=saver)
        events = run.stream(
            graph,
            {"log": []},
            config,
            stream_mode=["custom", "updates"],
            subgraphs=True,
            durability=durability,
        )
        assert stable(events) == [
            (("call",), "custom", {"from": "c"}),
            (("call",), "updates", {"c": {"inner": ["c"]}}),
            ((), "updates", {"call": None}),
        ]

    def test_that_pause_show_the_interrupt_at_both_levels(
        self, run, trace, saver, config, durability
    ):
        child = chain(("ask", step(trace, "ask", "sure?")))
        graph = chain(("child", child), checkpointer=saver)
        events = run.stream(
            graph,
            {"log": []},
            config,
            stream_mode="updates",
            subgraphs=True,
            durability=durability,
        )
        shown = run.get_state(graph, config).interrupts
        assert ((), {"__interrupt__": shown}) in events
        assert all(event == {"__interrupt__": shown} for _, event in events)


class TestTheWriter:
    def test_is_injected_by_name(self, run, saver, config, durability):
        def node(state: State, writer: StreamWriter):
            writer("one")
            writer({"two": 2})

        graph = chain(("node", node), checkpointer=saver)
        events = run.stream(graph, {"log": []}, config, stream_mode="custom", durability=durability)
        assert events == ["one", {"two": 2}]

    def test_is_in_the_runtime(self, run, saver, config, durability):
        def node(state: State, runtime: Runtime):
            runtime.stream_writer("from the runtime")

        graph = chain(("node", node), checkpointer=saver)
        events = run.stream(graph, {"log": []}, config, stream_mode="custom", durability=durability)
        assert events == ["from the runtime"]

    def test_may_be_called_when_nobody_listens(self, run, two, config, durability):
        result = run.invoke(two, {"log": []}, config, durability=durability)
        assert result == {"log": ["a", "b"]}

    def test_works_in_a_task(self, run, saver, config, durability):
        @task
        def work(n):
            get_stream_writer()(n)
            return n

        @entrypoint(checkpointer=saver)
        def flow(n):
            return work(n).result() + work(n + 1).result()

        events = run.stream(flow, 1, config, stream_mode="custom", durability=durability)
        assert events == [1, 2]

    def test_works_in_an_async_node(self, run, config, saver):
        if run.colour == "sync":
            pytest.skip("async nodes are driven by the async face here")

        async def node(state: State, writer: StreamWriter):
            writer("injected")
            get_stream_writer()("fetched")

        graph = chain(("node", node), checkpointer=saver)
        events = run.stream(graph, {"log": []}, config, stream_mode="custom")
        assert events == ["injected", "fetched"]


class TestOutputKeys:
    @pytest.fixture
    def both(self, saver):
        def node(state: Both):
            return {"log": ["l"], "inner": ["i"]}

        return chain(("node", node), schema=Both, checkpointer=saver)

    def test_one_key_gives_its_bare_value(self, run, both, config, durability):
        events = run.stream(
            both,
            {"log": [], "inner": []},
            config,
            stream_mode="values",
            output_keys="log",
            durability=durability,
        )
        assert events == [[], ["l"]]

    def test_a_list_of_keys_gives_those(self, run, both, config, durability):
        result = run.invoke(
            both, {"log": [], "inner": []}, config, output_keys=["inner"], durability=durability
        )
        assert result == {"inner": ["i"]}

    def test_apply_to_updates_too(self, run, both, config, durability):
        events = run.stream(
            both,
            {"log": [], "inner": []},
            config,
            stream_mode="updates",
            output_keys=["inner"],
            durability=durability,
        )
        assert events == [{"node": {"inner": ["i"]}}]


class TestInvokeWithAStreamMode:
    def test_gives_the_events_of_another_mode_as_a_list(self, run, two, config, durability):
        result = run.invoke(two, {"log": []}, config, stream_mode="updates", durability=durability)
        assert result == [{"a": {"log": ["a"]}}, {"b": {"log": ["b"]}}]


class TestEventsArriveWhileNodesRun:
    """The node goes on only when its event was received: this would wait for ever otherwise."""

    def test_from_a_single_sync_node(self, saver, config):
        received = threading.Event()

        def node(state: State, writer: StreamWriter):
            writer("started")
            assert received.wait(10)
            return {"log": ["done"]}

        graph = chain(("node", node), checkpointer=saver)
        events = []
        for mode, event in graph.stream({"log": []}, config, stream_mode=["custom", "updates"]):
            events.append((mode, event))
            received.set()
        assert events == [("custom", "started"), ("updates", {"node": {"log": ["done"]}})]

    def test_from_a_single_async_node(self, saver, config):
        async def main():
            received = asyncio.Event()

            async def node(state: State, writer: StreamWriter):
                writer("started")
                async with asyncio.timeout(10):
                    await received.wait()
                return {"log": ["done"]}

            graph = chain(("node", node), checkpointer=saver)
            events = []
            async for event in graph.astream(
                {"log": []}, config, stream_mode=["custom", "updates"]
            ):
                events.append(event)
                received.set()
            return events

        assert asyncio.run(main()) == [
            ("custom", "started"),
            ("updates", {"node": {"log": ["done"]}}),
        ]

    def test_from_a_sync_node_under_the_async_face(self, saver, config):
        received = threading.Event()

        def node(state: State, writer: StreamWriter):
            writer("started")
            assert received.wait(10)

        async def main():
            graph = chain(("node", node), checkpointer=saver)
            events = []
            async for event in graph.astream({"log": []}, config, stream_mode="custom"):
                events.append(event)
                received.set()
            return events

        assert asyncio.run(main()) == ["started"]

    def test_from_a_node_of_a_subgraph(self, saver, config):
        received = threading.Event()

        def node(state: State, writer: StreamWriter):
            writer("started")
            assert received.wait(10)

        graph = chain(("child", chain(("node", node))), checkpointer=saver)
        events = []
        for _, event in graph.stream({"log": []}, config, stream_mode="custom", subgraphs=True):
            events.append(event)
            received.set()
        assert events == ["started"]

    def test_a_finished_node_is_seen_while_its_neighbour_still_runs(self, saver, config):
        received = threading.Event()

        def slow(state: State):
            assert received.wait(10)
            return {"log": ["slow"]}

        def quick(state: State):
            return {"log": ["quick"]}

        graph = fan(("slow", slow), ("quick", quick), checkpointer=saver)
        events = []
        for event in graph.stream({"log": []}, config, stream_mode="updates"):
            events.append(event)
            received.set()
        assert events == [{"quick": {"log": ["quick"]}}, {"slow": {"log": ["slow"]}}]

    def test_a_finished_async_node_is_seen_while_its_neighbour_still_runs(self, saver, config):
        async def main():
            received = asyncio.Event()

            async def slow(state: State):
                async with asyncio.timeout(10):
                    await received.wait()
                return {"log": ["slow"]}

            async def quick(state: State):
                return {"log": ["quick"]}

            graph = fan(("slow", slow), ("quick", quick), checkpointer=saver)
            events = []
            async for event in graph.astream({"log": []}, config, stream_mode="updates"):
                events.append(event)
                received.set()
            return events

        assert asyncio.run(main()) == [{"quick": {"log": ["quick"]}}, {"slow": {"log": ["slow"]}}]

    def test_the_start_of_a_task_is_seen_before_its_end(self, saver, config):
        received = threading.Event()

        def node(state: State):
            assert received.wait(10)

        graph = chain(("node", node), checkpointer=saver)
        names = []
        for event in graph.stream({"log": []}, config, stream_mode="tasks"):
            names.append(event["name"])
            received.set()
        assert names == ["node", "node"]


class TestClosingTheStreamEarly:
    def test_keeps_what_is_durable_and_can_be_resumed(self, trace, saver, config):
        graph = chain(*[(name, step(trace, name)) for name in "abc"], checkpointer=saver)
        stream = graph.stream({"log": []}, config, stream_mode="updates", durability="sync")
        assert next(stream) == {"a": {"log": ["a"]}}
        stream.close()
        done = len(trace)
        assert "c" not in trace
        left = graph.get_state(config).next
        assert left
        result = graph.invoke(None, config)
        assert result["log"][:1] == ["a"]
        assert sorted(set(result["log"])) == ["a", "b", "c"]
        assert trace[done:][-1] == "c"

    def test_asynchronously_keeps_what_is_durable_and_can_be_resumed(self, trace, saver, config):
        graph = chain(*[(name, step(trace, name)) for name in "abc"], checkpointer=saver)

        async def main():
            stream = graph.astream({"log": []}, config, stream_mode="updates", durability="sync")
            first = await anext(stream)
            await stream.aclose()
            return first, await graph.ainvoke(None, config)

        first, result = asyncio.run(main())
        assert first == {"a": {"log": ["a"]}}
        assert result == {"log": ["a", "b", "c"]}

    def test_cancels_the_async_node_that_is_running(self, saver, config):
        seen = []

        async def node(state: State, writer: StreamWriter):
            writer("started")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        async def main():
            graph = chain(("node", node), checkpointer=saver)
            stream = graph.astream({"log": []}, config, stream_mode="custom")
            assert await anext(stream) == "started"
            await stream.aclose()
            assert (await graph.aget_state(config)).next == ("node",)

        asyncio.run(main())
        assert seen == ["cancelled"]

    def test_by_leaving_the_loop(self, trace, saver, config):
        graph = chain(*[(name, step(trace, name)) for name in "abc"], checkpointer=saver)
        for event in graph.stream({"log": []}, config, stream_mode="updates"):
            assert event == {"a": {"log": ["a"]}}
            break
        assert sorted(graph.invoke({"log": []}, {"configurable": {"thread_id": "other"}})["log"])


class TestResumedAndFailedRuns:
    def test_values_of_a_resumed_run_start_with_what_there_is(
        self, run, trace, saver, config, durability
    ):
        graph = chain(
            ("ask", step(trace, "ask", "sure?")), ("z", step(trace, "z")), checkpointer=saver
        )
        run.invoke(graph, {"log": []}, config, durability=durability)
        events = run.stream(
            graph, Command(resume="yes"), config, stream_mode="values", durability=durability
        )
        assert events == [{"log": []}, {"log": ["ask", "yes"]}, {"log": ["ask", "yes", "z"]}]

    def test_checkpoints_of_a_resumed_run_start_with_the_one_it_was_at(
        self, run, trace, saver, config
    ):
        graph = chain(("ask", step(trace, "ask", "sure?")), checkpointer=saver)
        run.invoke(graph, {"log": []}, config)
        at = run.get_state(graph, config)
        events = run.stream(graph, Command(resume="yes"), config, stream_mode="checkpoints")
        assert events[0]["config"]["configurable"] == at.config["configurable"]
        assert [event["next"] for event in events] == [["ask"], []]

    def test_events_before_an_error_are_delivered(self, saver, config):
        def bad(state: State):
            raise ValueError("no")

        graph = chain(("a", talking("a")), ("bad", bad), checkpointer=saver)
        events = []

        def consume():
            for event in graph.stream({"log": []}, config, stream_mode=["updates", "tasks"]):
                events.append(event)

        with pytest.raises(ValueError, match="no"):
            consume()
        assert ("updates", {"a": {"log": ["a"]}}) in events
        kind, last = events[-1]
        assert (kind, last["name"]) == ("tasks", "bad")
        assert "no" in str(last["error"])


class TestMessages:
    @pytest.fixture
    def chat(self, run, saver):
        model = GenericFakeChatModel(messages=iter([AIMessage("hello big world")] * 4))

        def call(state: MessagesState):
            return {"messages": [model.invoke(state["messages"])]}

        async def acall(state: MessagesState):
            return {"messages": [await model.ainvoke(state["messages"])]}

        builder = StateGraph(MessagesState)
        builder.add_node("call", acall if run.colour == "async" else call)
        builder.add_edge(START, "call")
        return builder.compile(checkpointer=saver)

    def test_stream_the_tokens_of_a_chat_model(self, run, chat, config, durability):
        events = run.stream(
            chat,
            {"messages": [("user", "hi")]},
            config,
            stream_mode="messages",
            durability=durability,
        )
        tokens = [chunk.content for chunk, _ in events]
        assert "".join(tokens) == "hello big world"
        assert len([token for token in tokens if token]) > 1

    def test_come_with_metadata_that_names_the_node(self, run, chat, config, durability):
        events = run.stream(
            chat,
            {"messages": [("user", "hi")]},
            config,
            stream_mode="messages",
            durability=durability,
        )
        assert len(events) > 1
        for _, metadata in events:
            assert metadata["langgraph_node"] == "call"
            assert metadata["langgraph_step"] == 1
            assert metadata["thread_id"] == "t"

    def test_that_were_streamed_are_not_repeated_when_the_node_ends(
        self, run, chat, config, durability
    ):
        events = run.stream(
            chat,
            {"messages": [("user", "hi")]},
            config,
            stream_mode=["messages", "updates"],
            durability=durability,
        )
        streamed = [event[0] for kind, event in events if kind == "messages"]
        (update,) = [event for kind, event in events if kind == "updates"]
        (message,) = update["call"]["messages"]
        assert {chunk.id for chunk in streamed} == {message.id}
        assert "".join(chunk.content for chunk in streamed) == message.content

    def test_that_a_node_returns_by_itself_come_whole(self, run, saver, config, durability):
        def say(state: MessagesState):
            return {"messages": [AIMessage("by hand", id="1")]}

        builder = StateGraph(MessagesState)
        builder.add_node("say", say)
        builder.add_edge(START, "say")
        graph = builder.compile(checkpointer=saver)
        events = run.stream(
            graph,
            {"messages": [("user", "hi")]},
            config,
            stream_mode="messages",
            durability=durability,
        )
        assert [(message.content, meta["langgraph_node"]) for message, meta in events] == [
            ("by hand", "say")
        ]

    @pytest.mark.parametrize("returned", [False, True])
    def test_of_a_model_tagged_nostream_stay_out(self, run, saver, config, returned):
        model = GenericFakeChatModel(messages=iter([AIMessage("hidden words")])).with_config(
            tags=["nostream"]
        )

        def call(state: MessagesState):
            answer = model.invoke(state["messages"])
            return {"messages": [answer]} if returned else None

        async def acall(state: MessagesState):
            answer = await model.ainvoke(state["messages"])
            return {"messages": [answer]} if returned else None

        builder = StateGraph(MessagesState)
        builder.add_node("call", acall if run.colour == "async" else call)
        builder.add_edge(START, "call")
        graph = builder.compile(checkpointer=saver)
        events = run.stream(graph, {"messages": [("user", "hi")]}, config, stream_mode="messages")
        assert events == []
        assert len(run.get_state(graph, config).values["messages"]) == 1 + returned

    def test_of_a_node_tagged_nostream_come_whole(self, run, saver, config):
        """The tag is for models."""
        node = RunnableLambda(lambda _: {"messages": [AIMessage("words")]}).with_config(
            tags=["nostream"]
        )
        graph = chain(("node", node), schema=MessagesState, checkpointer=saver)
        events = run.stream(graph, {"messages": [("user", "hi")]}, config, stream_mode="messages")
        assert [message.content for message, _ in events] == ["words"]

    def test_that_remove_others_come_too(self, run, saver, config):
        """But for those of messages that were streamed, or that the node has got."""

        def trim(state: MessagesState):
            return {"messages": [RemoveMessage("1"), AIMessage("kept", id="2")]}

        def wipe(state: MessagesState):
            return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), AIMessage("new", id="3")]}

        graph = chain(("trim", trim), ("wipe", wipe), schema=MessagesState, checkpointer=saver)
        given = {"messages": [AIMessage("old", id="1")]}
        events = run.stream(graph, given, config, stream_mode="messages")
        assert [message.id for message, _ in events] == ["2", REMOVE_ALL_MESSAGES, "3"]

    def test_of_a_subgraph_come_with_its_namespace(self, run, saver, config):
        model = GenericFakeChatModel(messages=iter([AIMessage("deep words")]))

        def call(state: MessagesState):
            return {"messages": [model.invoke(state["messages"])]}

        async def acall(state: MessagesState):
            return {"messages": [await model.ainvoke(state["messages"])]}

        child = chain(("call", acall if run.colour == "async" else call), schema=MessagesState)
        graph = chain(("child", child), schema=MessagesState, checkpointer=saver)
        events = run.stream(
            graph,
            {"messages": [("user", "hi")]},
            config,
            stream_mode="messages",
            subgraphs=True,
        )
        inside = [chunk.content for namespace, (chunk, _) in events if namespace]
        assert "".join(inside) == "deep words"
