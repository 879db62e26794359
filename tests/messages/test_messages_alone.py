"""Messages in the state of a program that has no LangChain."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import milepost

WITHOUT_LANGCHAIN = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0].startswith(("langchain", "langgraph", "langsmith")):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import asyncio, warnings
warnings.simplefilter("error")
from milepost.checkpoint.memory import InMemorySaver
from milepost.graph import START, MessagesState, StateGraph, add_messages
from milepost.graph.message import REMOVE_ALL_MESSAGES, push_message
from milepost.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from milepost.types import Command, interrupt

config = {"configurable": {"thread_id": "t"}}

def said(messages):
    return [(message.type, message.content) for message in messages]

def graph_of(node):
    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile(checkpointer=InMemorySaver())
"""


def without_langchain(program: str, tmp_path: Path) -> None:
    """Run a program in a process that cannot import langchain; it fails as the program fails."""
    source = str(Path(milepost.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_LANGCHAIN + textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": source},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


class TestWithoutLangchain:
    def test_messages_have_the_same_attributes(self, tmp_path):
        without_langchain(
            """
            human = HumanMessage("hi", id="1", name="ada")
            assert (human.content, human.type, human.id, human.name) == ("hi", "human", "1", "ada")
            assert human.additional_kwargs == {} and human.response_metadata == {}
            assert HumanMessage(content="hi", id="1", name="ada") == human
            assert HumanMessage("hi").id is None
            call = {"name": "search", "args": {"q": 1}, "id": "c", "type": "tool_call"}
            ai = AIMessage("", tool_calls=[call])
            assert (ai.type, ai.tool_calls) == ("ai", [call])
            assert AIMessage("x").tool_calls == []
            assert SystemMessage("x").type == "system"
            tool = ToolMessage("42", tool_call_id="c")
            assert (tool.type, tool.tool_call_id) == ("tool", "c")
            assert RemoveMessage(id="1").type == "remove"
            """,
            tmp_path,
        )

    def test_add_messages_merges_by_id(self, tmp_path):
        without_langchain(
            """
            before = [HumanMessage("a", id="1"), AIMessage("b", id="2")]
            assert said(add_messages(before, [AIMessage("B", id="2"), HumanMessage("c")])) == [
                ("human", "a"), ("ai", "B"), ("human", "c")]
            assert said(add_messages(before, RemoveMessage(id="1"))) == [("ai", "b")]
            assert said(add_messages(before, [RemoveMessage(id=REMOVE_ALL_MESSAGES), "c"])) == [
                ("human", "c")]
            assert all(message.id for message in add_messages([], ["x", "y"]))
            try:
                add_messages(before, RemoveMessage(id="nowhere"))
            except ValueError as error:
                assert "nowhere" in str(error)
            else:
                raise AssertionError
            assert said(before) == [("human", "a"), ("ai", "b")]
            """,
            tmp_path,
        )

    def test_dicts_tuples_and_strings_become_messages(self, tmp_path):
        without_langchain(
            """
            given = [
                {"role": "user", "content": "1"}, {"role": "assistant", "content": "2"},
                {"role": "system", "content": "3"},
                {"role": "tool", "content": "4", "tool_call_id": "c"},
                ("user", "5"), ("ai", "6"), "7",
            ]
            merged = add_messages([], given)
            assert said(merged) == [
                ("human", "1"), ("ai", "2"), ("system", "3"), ("tool", "4"),
                ("human", "5"), ("ai", "6"), ("human", "7")]
            assert type(merged[0]) is HumanMessage and type(merged[1]) is AIMessage
            assert merged[3].tool_call_id == "c"
            """,
            tmp_path,
        )

    def test_a_conversation_is_saved_and_goes_on(self, tmp_path):
        without_langchain(
            """
            graph = graph_of(lambda state: {"messages": [("ai", str(len(state["messages"])))]})
            graph.invoke({"messages": [("user", "one")]}, config)
            result = asyncio.run(
                graph.ainvoke({"messages": [{"role": "user", "content": "two"}]}, config))
            assert said(result["messages"]) == [
                ("human", "one"), ("ai", "1"), ("human", "two"), ("ai", "3")]
            kept = graph.get_state(config).values["messages"]
            assert kept == result["messages"]
            assert type(kept[0]) is HumanMessage
            """,
            tmp_path,
        )

    def test_a_question_about_a_message_is_answered(self, tmp_path):
        without_langchain(
            """
            def review(state: MessagesState):
                draft = state["messages"][-1]
                return {"messages": [AIMessage(interrupt(draft), id=draft.id)]}

            graph = graph_of(review)
            opened = graph.invoke({"messages": [AIMessage("draft", id="1")]}, config)
            assert opened["__interrupt__"][0].value == AIMessage("draft", id="1")
            result = graph.invoke(Command(resume="final"), config)
            assert said(result["messages"]) == [("ai", "final")]
            """,
            tmp_path,
        )

    def test_messages_are_streamed(self, tmp_path):
        without_langchain(
            """
            def node(state: MessagesState):
                push_message(AIMessage("pushed", id="1"))
                return {"messages": [AIMessage("returned", id="2")]}

            events = list(graph_of(node).stream({"messages": []}, config, stream_mode="messages"))
            assert [message.content for message, _ in events] == ["pushed", "returned"]
            assert all(metadata["langgraph_node"] == "node" for _, metadata in events)
            """,
            tmp_path,
        )

    def test_every_message_is_saved_and_read_back(self, tmp_path):
        without_langchain(
            """
            from milepost.messages import AIMessageChunk
            call = {"name": "search", "args": {"q": 1}, "id": "c", "type": "tool_call"}
            given = [
                HumanMessage([{"type": "text", "text": "x"}], id="1", additional_kwargs={"k": 1}),
                AIMessage("", id="2", tool_calls=[call], usage_metadata={"total_tokens": 3}),
                ToolMessage("4", id="3", tool_call_id="c", artifact=(1, 2), status="error"),
                SystemMessage("s", id="4", name="n"),
                AIMessageChunk("a", id="5") + AIMessageChunk("b"),
            ]
            graph = graph_of(lambda state: None)
            graph.invoke({"messages": given}, config)
            kept = graph.get_state(config).values["messages"]
            assert kept == [*given[:4], AIMessage("ab", id="5")], kept
            """,
            tmp_path,
        )

    def test_pieces_of_tool_calls_are_put_together(self, tmp_path):
        without_langchain(
            """
            from milepost.messages import AIMessageChunk
            pieces = [
                {"name": "search", "args": "{\\"q\\": ", "id": "c", "index": 0},
                {"name": None, "args": "1}", "id": None, "index": 0},
                {"name": "broken", "args": "{", "id": "d", "index": 1},
            ]
            chunk = AIMessageChunk("")
            for piece in pieces:
                chunk = chunk + AIMessageChunk("", tool_call_chunks=[piece])
            (message,) = add_messages([], [chunk])
            assert message.tool_calls == [
                {"name": "search", "args": {"q": 1}, "id": "c", "type": "tool_call"}]
            assert message.invalid_tool_calls[0]["args"] == "{"
            """,
            tmp_path,
        )

    def test_openais_way_to_write_tool_calls_is_understood(self, tmp_path):
        without_langchain(
            """
            function = {"name": "search", "arguments": "{\\"q\\": 1}"}
            given = {"role": "assistant", "content": None,
                     "tool_calls": [{"id": "c", "type": "function", "function": function}]}
            (message,) = add_messages([], [given])
            assert (message.content, message.tool_calls) == (
                "", [{"name": "search", "args": {"q": 1}, "id": "c", "type": "tool_call"}])
            """,
            tmp_path,
        )

    def test_what_is_no_message_is_refused(self, tmp_path):
        without_langchain(
            """
            for given, said in [(object(), "no message"), ({"role": "x", "content": ""}, "role"),
                                ({"role": "user"}, "content"), ((1, 2), "no message")]:
                try:
                    add_messages([], [given])
                except (TypeError, ValueError) as error:
                    assert said in str(error), error
                else:
                    raise AssertionError(given)
            for make in (lambda: ToolMessage("x"), lambda: RemoveMessage()):
                try:
                    make()
                except ValueError as error:
                    assert "needs" in str(error)
                else:
                    raise AssertionError
            """,
            tmp_path,
        )

    def test_what_only_langchain_can_do_says_what_to_install(self, tmp_path):
        without_langchain(
            """
            import milepost.messages
            for do in (lambda: add_messages([], ["x"], format="langchain-openai"),
                       lambda: milepost.messages.trim_messages):
                try:
                    do()
                except (ImportError, AttributeError) as error:
                    assert "pip install langchain-core" in str(error)
                else:
                    raise AssertionError
            """,
            tmp_path,
        )

    def test_nothing_of_langchain_is_imported(self, tmp_path):
        without_langchain(
            """
            import milepost.func, milepost.runtime, milepost.config
            names = [name for name in sys.modules if name.startswith(("langchain", "langgraph"))]
            assert names == [], names
            """,
            tmp_path,
        )
