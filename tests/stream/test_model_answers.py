"""`run.messages`: answers of chat models, block by block, as LangGraph gives them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("langchain_core.language_models.chat_model_stream")

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool

# LangGraph and LangChain warn that this is experimental.
pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")


def chat(lib: Any, node: Any) -> Any:
    import importlib

    messages = importlib.import_module(f"{lib.name}.graph.message")
    builder = lib.StateGraph(messages.MessagesState)
    builder.add_node("node", node)
    builder.add_edge(lib.START, "node")
    return builder.compile()


def model(*answers: str) -> GenericFakeChatModel:
    return GenericFakeChatModel(messages=iter(map(AIMessage, answers)))


class TestAnswers:
    def test_come_in_pieces_while_the_model_speaks(self, lib: Any) -> None:
        speaker = model("hello big world")

        def node(state: Any) -> Any:
            return {"messages": [speaker.invoke(state["messages"])]}

        run = chat(lib, node).stream_events({"messages": "hi"}, version="v3")
        said = [(list(answer.text), answer.output.text) for answer in run.messages]
        assert said == [(["hello", " ", "big", " ", "world"], "hello big world")]

    def test_come_in_pieces_on_a_loop(self, lib: Any) -> None:
        speaker = model("hello world")

        async def node(state: Any) -> Any:
            return {"messages": [await speaker.ainvoke(state["messages"])]}

        async def work() -> list[Any]:
            run = await chat(lib, node).astream_events({"messages": "hi"}, version="v3")
            return [[piece async for piece in answer.text] async for answer in run.messages]

        assert asyncio.run(work()) == [["hello", " ", "world"]]

    def test_that_a_node_makes_itself_come_whole(self, lib: Any) -> None:
        def node(state: Any) -> Any:
            return {"messages": [AIMessage("made", id="1"), ToolMessage("no", tool_call_id="t")]}

        run = chat(lib, node).stream_events({"messages": "hi"}, version="v3")
        assert [str(answer.text) for answer in run.messages] == ["made"]

    def test_of_a_model_tagged_nostream_stay_out(self, lib: Any) -> None:
        speaker = model("hidden").with_config(tags=["nostream"])

        def node(state: Any) -> Any:
            return {"messages": [speaker.invoke(state["messages"])]}

        run = chat(lib, node).stream_events({"messages": "hi"}, version="v3")
        said = [str(answer.text) for answer in run.messages]
        assert said == ([] if lib.name == "milepost" else ["hidden"])

    def test_removals_are_among_them(self, lib: Any) -> None:
        def node(state: Any) -> Any:
            return {"messages": [RemoveMessage("__remove_all__"), AIMessage("made", id="1")]}

        run = chat(lib, node).stream_events({"messages": "hi"}, version="v3")
        assert [str(answer.text) for answer in run.messages] == ["", "made"]

    def test_end_with_the_error_of_the_run(self, lib: Any) -> None:
        def node(state: Any) -> Any:
            raise ValueError("boom")

        run = chat(lib, node).stream_events({"messages": "hi"}, version="v3")
        with pytest.raises(ValueError, match="boom"):
            list(run.messages)

    def test_a_plain_stream_inside_stays_one_of_tokens(self, lib: Any) -> None:
        speaker = model("one two")

        def speak(state: Any) -> Any:
            return {"messages": [speaker.invoke(state["messages"])]}

        inner = chat(lib, speak)
        kinds: set[str] = set()

        def node(state: Any, config: RunnableConfig) -> None:
            for piece, _metadata in inner.stream(
                {"messages": "hi"}, config, stream_mode="messages"
            ):
                kinds.add(type(piece).__name__)

        run = chat(lib, node).stream_events({"messages": "hi"}, version="v3")
        assert run.output is not None
        assert kinds == {"AIMessageChunk"}


@tool
def double(x: int) -> int:
    """Twice as much."""
    return 2 * x


@tool
def broken(x: int) -> int:
    """Fails."""
    raise ValueError("boom")


def test_the_tools_stream_tells_of_calls(lib: Any, run: Any) -> None:
    def node(state: Any) -> None:
        double.invoke({"x": 3})
        with pytest.raises(ValueError, match="boom"):
            broken.invoke({"x": 3})

    told = run.stream(chat(lib, node), {"messages": "hi"}, stream_mode="tools")
    assert [{k: v for k, v in event.items() if k != "tool_call_id"} for event in told] == [
        {"event": "tool-started", "tool_name": "double", "input": {"x": 3}},
        {"event": "tool-finished", "output": 6},
        {"event": "tool-started", "tool_name": "broken", "input": {"x": 3}},
        {"event": "tool-error", "message": "boom"},
    ]
    assert len({event["tool_call_id"] for event in told}) == 2
