"""Messages in the state, with langchain-core."""

import subprocess
import sys
from typing import Annotated, Any
from uuid import uuid4

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables.config import var_child_runnable_config
from typing_extensions import TypedDict

from hitl_graphs import chain
from milepost.errors import InvalidUpdateError
from milepost.func import entrypoint, task
from milepost.graph import START, MessagesState, StateGraph, add_messages
from milepost.graph.message import REMOVE_ALL_MESSAGES, push_message
from milepost.messages import _light
from milepost.types import Command, RetryPolicy, RunnableConfig, interrupt


def said(messages: list[BaseMessage]) -> list[tuple[str, Any]]:
    return [(message.type, message.content) for message in messages]


class TestAddMessages:
    def test_appends_a_message_with_a_new_id(self):
        merged = add_messages([HumanMessage("a", id="1")], [AIMessage("b", id="2")])
        assert said(merged) == [("human", "a"), ("ai", "b")]

    def test_takes_one_message_or_a_list_on_either_side(self):
        merged = add_messages(HumanMessage("a", id="1"), AIMessage("b", id="2"))
        assert said(merged) == [("human", "a"), ("ai", "b")]

    def test_gives_an_id_to_those_that_have_none(self):
        merged = add_messages([HumanMessage("a")], [HumanMessage("b")])
        assert all(isinstance(message.id, str) and message.id for message in merged)
        assert merged[0].id != merged[1].id

    def test_replaces_the_message_with_the_same_id_where_it_stands(self):
        before = [HumanMessage("a", id="1"), AIMessage("b", id="2"), HumanMessage("c", id="3")]
        merged = add_messages(before, [AIMessage("B", id="2")])
        assert said(merged) == [("human", "a"), ("ai", "B"), ("human", "c")]

    def test_of_two_new_ones_with_one_id_keeps_the_last(self):
        merged = add_messages([], [HumanMessage("a", id="1"), HumanMessage("b", id="1")])
        assert said(merged) == [("human", "b")]

    def test_removes_by_id(self):
        before = [HumanMessage("a", id="1"), AIMessage("b", id="2")]
        assert said(add_messages(before, RemoveMessage(id="1"))) == [("ai", "b")]

    def test_refuses_to_remove_what_is_not_there(self):
        with pytest.raises(ValueError, match="nowhere"):
            add_messages([HumanMessage("a", id="1")], [RemoveMessage(id="nowhere")])

    def test_a_message_that_was_removed_and_comes_again_is_there(self):
        before = [HumanMessage("a", id="1")]
        merged = add_messages(before, [RemoveMessage(id="1"), HumanMessage("b", id="1")])
        assert said(merged) == [("human", "b")]

    def test_removes_all_and_keeps_what_comes_after(self):
        before = [HumanMessage("a", id="1"), AIMessage("b", id="2")]
        new = [HumanMessage("gone"), RemoveMessage(id=REMOVE_ALL_MESSAGES), AIMessage("c")]
        assert said(add_messages(before, new)) == [("ai", "c")]

    def test_does_not_change_the_lists_it_is_given(self):
        before, new = [HumanMessage("a", id="1")], [HumanMessage("A", id="1")]
        add_messages(before, new)
        assert said(before) == [("human", "a")]
        assert said(new) == [("human", "A")]

    @pytest.mark.parametrize(
        ("given", "kind"),
        [
            ({"role": "user", "content": "x"}, HumanMessage),
            ({"role": "human", "content": "x"}, HumanMessage),
            ({"role": "assistant", "content": "x"}, AIMessage),
            ({"role": "ai", "content": "x"}, AIMessage),
            ({"role": "system", "content": "x"}, SystemMessage),
            ({"role": "tool", "content": "x", "tool_call_id": "c"}, ToolMessage),
            (("user", "x"), HumanMessage),
            (("human", "x"), HumanMessage),
            (("assistant", "x"), AIMessage),
            (("ai", "x"), AIMessage),
            (("system", "x"), SystemMessage),
            ("x", HumanMessage),
        ],
    )
    def test_makes_messages_of_dicts_tuples_and_strings(self, given, kind):
        (message,) = add_messages([], [given])
        assert type(message) is kind
        assert message.content == "x"

    def test_keeps_the_id_of_a_dict(self):
        (message,) = add_messages([], [{"role": "user", "content": "x", "id": "1"}])
        assert message.id == "1"

    def test_keeps_the_tool_calls_of_a_message(self):
        call = {"name": "search", "args": {"q": "x"}, "id": "c", "type": "tool_call"}
        (message,) = add_messages([], [AIMessage("", tool_calls=[call])])
        assert message.tool_calls == [call]

    def test_makes_whole_messages_of_chunks(self):
        (message,) = add_messages([], [AIMessageChunk("x", id="1")])
        assert type(message) is AIMessage

    def test_refuses_what_is_no_message(self):
        with pytest.raises((ValueError, TypeError, NotImplementedError)):
            add_messages([], [object()])

    def test_keeps_ids_in_the_openai_format(self):
        merged = add_messages([HumanMessage("a", id="1")], ["b"], format="langchain-openai")
        again = add_messages(merged, [HumanMessage("A", id="1")], format="langchain-openai")
        assert said(again) == [("human", "A"), ("human", "b")]

    def test_needs_both_sides(self):
        with pytest.raises(ValueError, match="right"):
            add_messages([], None)

    def test_can_give_the_openai_format(self):
        image = {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/jpeg", "data": "1234"},
        }
        content = [{"type": "text", "text": "look:", "cache_control": {"type": "ephemeral"}}, image]
        given = {"role": "user", "content": content}
        (message,) = add_messages([], [given], format="langchain-openai")
        assert message.content == [
            {"type": "text", "text": "look:"},
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,1234"}},
        ]

    def test_refuses_an_unknown_format(self):
        with pytest.raises(ValueError, match="nonsense"):
            add_messages([], [HumanMessage("x")], format="nonsense")

    def test_is_a_reducer_with_a_format_too(self, run):
        class Formatted(TypedDict):
            messages: Annotated[list, add_messages(format="langchain-openai")]

        def say(state: Formatted):
            return {"messages": [{"role": "assistant", "content": "hello"}]}

        result = run.invoke(chain(("say", say), schema=Formatted), {"messages": []})
        assert said(result["messages"]) == [("ai", "hello")]


class TestMessagesState:
    @pytest.fixture
    def graph(self, saver):
        def answer(state: MessagesState):
            return {"messages": {"role": "assistant", "content": f"{len(state['messages'])}"}}

        return chain(("answer", answer), schema=MessagesState, checkpointer=saver)

    def test_gathers_a_conversation_over_runs(self, run, graph, config, durability):
        for word in ("one", "two"):
            result = run.invoke(
                graph, {"messages": [("user", word)]}, config, durability=durability
            )
        assert said(result["messages"]) == [
            ("human", "one"),
            ("ai", "1"),
            ("human", "two"),
            ("ai", "3"),
        ]

    def test_gives_back_langchain_messages(self, run, graph, config, durability):
        run.invoke(graph, {"messages": [("user", "one")]}, config, durability=durability)
        messages = run.get_state(graph, config).values["messages"]
        assert [type(message) for message in messages] == [HumanMessage, AIMessage]

    def test_keeps_ids_over_runs(self, run, graph, config, durability):
        first = run.invoke(graph, {"messages": [("user", "one")]}, config, durability=durability)
        second = run.invoke(graph, {"messages": [("user", "two")]}, config, durability=durability)
        assert [m.id for m in second["messages"][:2]] == [m.id for m in first["messages"]]

    def test_is_edited_by_update_state(self, run, graph, config, durability):
        result = run.invoke(graph, {"messages": [("user", "one")]}, config, durability=durability)
        human, ai = result["messages"]
        edits = [HumanMessage("ONE", id=human.id), RemoveMessage(id=ai.id)]
        run.update_state(graph, config, {"messages": edits})
        assert said(run.get_state(graph, config).values["messages"]) == [("human", "ONE")]

    def test_is_emptied_by_remove_all(self, run, graph, config, durability):
        run.invoke(graph, {"messages": [("user", "one")]}, config, durability=durability)
        run.update_state(graph, config, {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]})
        assert run.get_state(graph, config).values["messages"] == []

    def test_can_be_extended(self, run, saver, config, durability):
        class Extended(MessagesState):
            topic: str

        def say(state: Extended):
            return {"messages": [("ai", state["topic"])]}

        graph = chain(("say", say), schema=Extended, checkpointer=saver)
        given = {"messages": [("user", "hi")], "topic": "ships"}
        result = run.invoke(graph, given, config, durability=durability)
        assert said(result["messages"]) == [("human", "hi"), ("ai", "ships")]

    def test_of_parallel_nodes_are_merged_in_order(self, run, saver, config, durability):
        builder = StateGraph(MessagesState)
        for name in "xyz":
            builder.add_node(name, lambda state, name=name: {"messages": [("ai", name)]})
            builder.add_edge(START, name)
        graph = builder.compile(checkpointer=saver)
        result = run.invoke(graph, {"messages": []}, config, durability=durability)
        assert [message.content for message in result["messages"]] == ["x", "y", "z"]

    def test_carries_questions_and_answers(self, run, saver, config, durability):
        def review(state: MessagesState):
            draft = state["messages"][-1]
            return {"messages": [AIMessage(interrupt(draft.content), id=draft.id)]}

        graph = chain(("review", review), schema=MessagesState, checkpointer=saver)
        given = {"messages": [AIMessage("draft", id="1")]}
        assert run.invoke(graph, given, config, durability=durability)["__interrupt__"][
            0
        ].value == ("draft")
        result = run.invoke(graph, Command(resume="final"), config, durability=durability)
        assert said(result["messages"]) == [("ai", "final")]


class TestPushMessage:
    def test_streams_the_message_and_writes_it_to_the_state(self, run, saver, config, durability):
        def node(state: MessagesState):
            push_message(AIMessage("pushed", id="1"))
            return {"messages": [AIMessage("returned", id="2")]}

        graph = chain(("node", node), schema=MessagesState, checkpointer=saver)
        events = run.stream(
            graph,
            {"messages": []},
            config,
            stream_mode=["messages", "values"],
            durability=durability,
        )
        streamed = [event[0].content for kind, event in events if kind == "messages"]
        assert streamed == ["pushed", "returned"]
        assert said(events[-1][1]["messages"]) == [("ai", "pushed"), ("ai", "returned")]

    def test_with_no_key_only_streams_it(self, run, saver, config, durability):
        def node(state: MessagesState):
            push_message(AIMessage("pushed", id="1"), state_key=None)
            return {"messages": []}

        graph = chain(("node", node), schema=MessagesState, checkpointer=saver)
        events = run.stream(
            graph,
            {"messages": []},
            config,
            stream_mode=["messages", "values"],
            durability=durability,
        )
        assert [event[0].content for kind, event in events if kind == "messages"] == ["pushed"]
        assert events[-1][1]["messages"] == []

    def test_refuses_a_key_that_the_state_does_not_have(self, run):
        def node(state: MessagesState):
            push_message(AIMessage("pushed", id="1"), state_key="nowhere")

        graph = chain(("node", node), schema=MessagesState)
        with pytest.raises(InvalidUpdateError, match="nowhere"):
            run.invoke(graph, {"messages": []})

    def test_of_an_attempt_that_failed_is_not_written(self, run):
        attempts = []

        def node(state: MessagesState):
            attempts.append(1)
            push_message(AIMessage(f"{len(attempts)}", id=f"{len(attempts)}"))
            if len(attempts) < 2:
                raise ValueError("again")

        builder = StateGraph(MessagesState)
        retry = RetryPolicy(initial_interval=0, jitter=False, retry_on=ValueError)
        builder.add_node("node", node, retry_policy=retry)
        builder.add_edge(START, "node")
        result = run.invoke(builder.compile(), {"messages": []})
        assert said(result["messages"]) == [("ai", "2")]

    def test_needs_an_id(self, run, saver, config):
        def node(state: MessagesState):
            push_message(AIMessage("pushed"))

        graph = chain(("node", node), schema=MessagesState, checkpointer=saver)
        with pytest.raises(ValueError, match=r"(?i)id"):
            run.invoke(graph, {"messages": []}, config)

    def test_may_be_called_when_nobody_listens(self, run, saver, config, durability):
        def node(state: MessagesState):
            push_message(AIMessage("pushed", id="1"))

        graph = chain(("node", node), schema=MessagesState, checkpointer=saver)
        result = run.invoke(graph, {"messages": []}, config, durability=durability)
        assert said(result["messages"]) == [("ai", "pushed")]


class TestTheMessagesStream:
    """What `stream_mode="messages"` shows besides the tokens of models (see test_streaming.py)."""

    @staticmethod
    def told(run, graph, given=(), config=None) -> list[tuple[Any, Any]]:
        events = run.stream(graph, {"messages": list(given)}, config, stream_mode="messages")
        return [(message.content, metadata["langgraph_node"]) for message, metadata in events]

    def test_says_which_task_a_model_speaks_in(self, run, lib, config):
        model = GenericFakeChatModel(messages=iter([AIMessage("hi", id=str(n)) for n in range(3)]))

        def speak(state: MessagesState):
            return {"messages": [model.invoke("go")]}

        def graph(node: Any, **compile_with: Any) -> Any:
            builder = lib.StateGraph(MessagesState).add_node("node", node)
            return builder.add_edge(lib.START, "node").compile(**compile_with)

        for runs in (graph(speak), graph(graph(speak)), graph(graph(graph(speak)))):
            events = run.stream(
                runs, {"messages": []}, config, stream_mode="messages", subgraphs=True
            )
            (ns, (_, metadata)), *_ = events
            *around, task = metadata["langgraph_checkpoint_ns"].split("|")
            assert (ns, task[:5]) == (tuple(around), "node:")
            assert metadata["checkpoint_ns"] == [*around, task][0]

    def test_has_neither_the_input_nor_what_a_node_passes_on(self, run):
        def node(state: MessagesState):
            return {"messages": [*state["messages"], AIMessage("new", id="2")]}

        graph = chain(("node", node), schema=MessagesState)
        assert self.told(run, graph, [HumanMessage("hi", id="1")]) == [("new", "node")]

    def test_has_a_message_once_whoever_returns_it(self, run):
        def node(state: MessagesState):
            return {"messages": [AIMessage("same", id="1")]}

        graph = chain(("a", node), ("b", node), schema=MessagesState)
        assert self.told(run, graph) == [("same", "a")]

    def test_has_what_a_command_writes_and_what_other_keys_hold(self, run):
        class Wide(MessagesState):
            other: Any

        def node(state: Wide):
            return Command(update={"other": AIMessage("kept", id="1"), "messages": [("ai", "x")]})

        assert self.told(run, chain(("node", node), schema=Wide)) == [("kept", "node")]

    def test_has_no_removals(self, run):
        def node(state: MessagesState):
            return {"messages": [RemoveMessage(id="1")]}

        graph = chain(("node", node), schema=MessagesState)
        assert self.told(run, graph, [HumanMessage("hi", id="1")]) == []

    def test_has_the_id_that_the_state_gives_to_a_message_without_one(self, run):
        def node(state: MessagesState):
            return {"messages": [AIMessage("x")]}

        graph = chain(("node", node), schema=MessagesState)
        events = run.stream(graph, {"messages": []}, stream_mode=["messages", "values"])
        (streamed,) = [event[0] for kind, event in events if kind == "messages"]
        assert events[-1][1]["messages"][0].id == streamed.id

    def test_of_a_child_is_shown_once_too(self, run):
        def node(state: MessagesState):
            return {"messages": [AIMessage("deep", id="1")]}

        child = chain(("inner", node), schema=MessagesState)
        graph = chain(("child", child), schema=MessagesState)
        assert self.told(run, graph) == [("deep", "child")]
        events = run.stream(graph, {"messages": []}, stream_mode="messages", subgraphs=True)
        assert [(bool(ns), meta["langgraph_node"]) for ns, (_, meta) in events] == [(True, "inner")]

    def test_keeps_the_order_of_tasks_that_follow_each_other(self, run):
        @task
        def first():
            return AIMessage("first", id="1")

        @task
        def second(after):
            push_message(AIMessage("second", id="2"))

        @entrypoint()
        def flow(n):
            second(first().result()).result()

        @entrypoint()
        async def aflow(n):
            await second(await first())

        flow = aflow if run.colour == "async" else flow
        for _ in range(5):
            events = run.stream(flow, 1, stream_mode="messages")
            assert [message.content for message, _ in events] == ["first", "second"]


class TestLangchainInsideANode:
    """Models and runnables that a node calls without passing its config on."""

    @pytest.fixture
    def model(self):
        return GenericFakeChatModel(messages=(AIMessage("big words") for _ in range(9)))

    @staticmethod
    def calling(run, *models: Any, **keywords: Any) -> Any:
        def call(state: MessagesState):
            return {"messages": [model.invoke("x", **keywords) for model in models]}

        async def acall(state: MessagesState):
            return {"messages": [await model.ainvoke("x", **keywords) for model in models]}

        node = acall if run.colour == "async" else call
        return chain(("node", node), schema=MessagesState)

    def test_are_heard_by_the_callers_callbacks(self, run, model):
        heard = []

        class Listener(BaseCallbackHandler):
            def on_chat_model_start(self, serialized, messages, *, tags, metadata, **rest):
                heard.append((tags, metadata["langgraph_node"], metadata["mine"]))

        config = {"callbacks": [Listener()], "tags": ["t"], "metadata": {"mine": 1}}
        run.invoke(self.calling(run, model), {"messages": []}, config)
        assert heard == [(["seq:step:1", "t"], "node", 1)]

    def test_with_tags_and_metadata_of_their_own_still_name_the_node(self, run, model):
        own = model.with_config(tags=["own"], metadata={"own": 1})
        config = {"tags": ["t"], "metadata": {"mine": 1}}
        events = run.stream(
            self.calling(run, own), {"messages": []}, config, stream_mode="messages"
        )
        assert len(events) > 1
        for _, metadata in events:
            assert (metadata["langgraph_node"], metadata["mine"], metadata["own"]) == ("node", 1, 1)
            assert set(metadata["tags"]) == {"t", "own"}

    def test_do_not_take_the_runs_id_for_their_own(self, run, model):
        config = {"run_id": uuid4(), "run_name": "mine"}
        result = run.invoke(self.calling(run, model, model), {"messages": []}, config)
        assert [message.content for message in result["messages"]] == ["big words"] * 2

    def test_that_do_not_stream_come_whole(self, run):
        whole = GenericFakeChatModel(
            messages=iter([AIMessage("big words")]), disable_streaming=True
        )
        events = run.stream(self.calling(run, whole), {"messages": []}, stream_mode="messages")
        assert [message.content for message, _ in events] == ["big words"]

    def test_are_told_apart_from_those_of_a_child_that_got_the_config(self, run, model):
        child = self.calling(run, model)

        def call(state: MessagesState, config: RunnableConfig):
            return child.invoke({"messages": []}, config)

        async def acall(state: MessagesState, config: RunnableConfig):
            return await child.ainvoke({"messages": []}, config)

        node = acall if run.colour == "async" else call
        graph = chain(("outer", node), schema=MessagesState)
        events = run.stream(graph, {"messages": []}, stream_mode="messages", subgraphs=True)
        assert [chunk.content for _, (chunk, _) in events if chunk.content] == ["big", " ", "words"]
        assert {metadata["langgraph_node"] for _, (_, metadata) in events} == {"node"}

    @pytest.mark.parametrize(
        "look",
        [
            dict,
            lambda config: {**config},
            lambda config: dict(config.items()),
            lambda config: config.copy(),
            lambda config: {} | config,
            lambda config: config | {},
            lambda config: {key: config[key] for key in config},
            lambda config: {key: config.get(key) for key in list(config.keys())},
        ],
    )
    def test_find_the_nodes_config_however_they_look(self, look):
        seen = []

        def node(state: MessagesState, config: RunnableConfig):
            seen.append((look(var_child_runnable_config.get()), config))

        chain(("node", node), schema=MessagesState).invoke({"messages": []}, {"tags": ["t"]})
        ((found, config),) = seen
        assert found == config
        assert found["tags"] == ["t"]

    def test_find_no_config_when_the_run_is_over(self, run, model):
        run.invoke(self.calling(run, model), {"messages": []})
        assert var_child_runnable_config.get() is None


class TestTheMessageClasses:
    def test_are_langchains_where_langchain_is_installed(self):
        from milepost import messages

        for kind in (HumanMessage, AIMessage, SystemMessage, ToolMessage, RemoveMessage):
            assert getattr(messages, kind.__name__) is kind

    def test_of_ours_become_langchains_when_a_conversation_goes_on_with_langchain(self):
        call = {"name": "search", "args": {"q": 1}, "id": "c", "type": "tool_call"}
        kept = [
            _light.HumanMessage("a", id="1", name="ada"),
            _light.AIMessage("b", id="2", tool_calls=[call]),
            _light.ToolMessage("c", id="3", tool_call_id="c"),
        ]
        assert add_messages(kept, [_light.RemoveMessage(id="1")]) == [
            AIMessage("b", id="2", tool_calls=[call]),
            ToolMessage("c", id="3", tool_call_id="c"),
        ]

    def test_are_not_looked_for_when_milepost_is_imported(self):
        program = (
            "import sys, milepost, milepost.graph, milepost.messages, milepost.func\n"
            "assert not [name for name in sys.modules if name.startswith('lang')]"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
