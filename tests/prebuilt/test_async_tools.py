"""Tools that are async only, as those of MCP servers are, run in sync code as async nodes do."""

import asyncio
from typing import Any

import pytest
from fake_models import ScriptedModel, calling
from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool, Tool, tool

from milepost.checkpoint.memory import InMemorySaver
from milepost.errors import ColourError
from milepost.graph import START, MessagesState, StateGraph
from milepost.prebuilt import ToolNode, ToolRuntime, create_react_agent
from milepost.types import Command, interrupt

INPUT: Any = {"messages": [("user", "go")]}


@tool
async def fetch(page: str) -> str:
    """Fetch."""
    await asyncio.sleep(0)
    return f"got {page}"


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


TWO = [("fetch", {"page": "a"}, "1"), ("fetch", {"page": "b"}, "2")]


def as_node(node: ToolNode, calls: Any, saver: Any = None) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [calling(*calls)]})
    builder.add_node("tools", node)
    return builder.add_edge(START, "model").add_edge("model", "tools").compile(saver)


def as_agent(version: Any) -> Any:
    def make(node: ToolNode, calls: Any, saver: Any = None) -> Any:
        model = ScriptedModel(script=[calls, "done"])
        return create_react_agent(model, node, checkpointer=saver, version=version)

    return make


@pytest.fixture(params=[as_node, as_agent("v1"), as_agent("v2")], ids=["node", "v1", "v2"])
def make(request: pytest.FixtureRequest) -> Any:
    """The ways in which a graph comes to call tools."""
    return request.param


def results(state: Any) -> list[str]:
    messages = state["messages"] if isinstance(state, dict) else state
    return [m.content for m in messages if isinstance(m, ToolMessage)]


@pytest.mark.parametrize("calls", [TWO[:1], TWO, [*TWO, ("add", {"a": 1, "b": 2}, "3")]])
def test_an_async_tool_runs_in_a_sync_run(run, make, calls):
    wanted = ["got a", "got b", "3"][: len(calls)]
    assert results(run.invoke(make(ToolNode([fetch, add]), calls), INPUT)) == wanted


def test_it_gets_what_a_tool_of_the_run_gets_and_may_ask(run, saver, make, config):
    @tool
    async def ask(what: str, runtime: ToolRuntime) -> str:
        """Ask."""
        await asyncio.sleep(0)
        told = runtime.state["messages"][0].content
        return f"{told} {runtime.config['configurable']['thread_id']} {interrupt(what)}"

    graph = make(ToolNode([ask]), [("ask", {"what": "a"}, "1"), ("ask", {"what": "b"}, "2")], saver)
    asked = run.invoke(graph, INPUT, config)["__interrupt__"]
    assert sorted(one.value for one in asked) == ["a", "b"]
    answers = {one.id: one.value * 2 for one in asked}
    done = run.invoke(graph, Command(resume=answers), config)
    assert results(done) == [f"go {config['configurable']['thread_id']} {x}" for x in ("aa", "bb")]


def test_the_calls_of_a_run_share_a_loop_so_that_a_client_can_be_used_again(run):
    loops = set()

    @tool
    async def note() -> str:
        """Note."""
        loops.add(asyncio.get_running_loop())
        return "noted"

    calls = [("note", {}, "1"), ("note", {}, "2")]
    agent = create_react_agent(ScriptedModel(script=[calls, calls, "done"]), [note])
    run.invoke(agent, INPUT)
    assert len(loops) == 1


def test_a_sync_wrapper_can_call_it(run, make):
    def loud(request: Any, execute: Any) -> Any:
        answer = execute(request)
        return answer.model_copy(update={"content": answer.content.upper()})

    graph = make(ToolNode([fetch], wrap_tool_call=loud), TWO)
    assert results(run.invoke(graph, INPUT)) == ["GOT A", "GOT B"]


def test_what_it_raises_is_handled_as_of_any_tool(run, make):
    @tool
    async def fail() -> str:
        """Fail."""
        raise ConnectionError("no line")

    calls = [("fail", {}, "1")]
    with pytest.raises(ConnectionError):
        run.invoke(make(ToolNode([fail]), calls), INPUT)
    (told,) = results(run.invoke(make(ToolNode([fail], handle_tool_errors=True), calls), INPUT))
    assert "no line" in told


@pytest.mark.parametrize("calls", [TWO[:1], TWO])
def test_outside_a_run_it_runs_too(calls):
    node = ToolNode([fetch])
    assert results(node.invoke([calling(*calls)])) == ["got a", "got b"][: len(calls)]


def test_on_an_event_loop_a_sync_call_is_told_to_await():
    async def main() -> Any:
        return ToolNode([fetch]).invoke([calling(*TWO[:1])])

    with pytest.raises(ColourError, match="tool 'fetch' is async"):
        asyncio.run(main())


def test_only_what_langchain_cannot_call_is_awaited():
    class Own(StructuredTool):
        def _run(self, *args: Any, **kwargs: Any) -> str:
            return "sync"

    async def coroutine(text: str) -> str:
        """Run."""
        return "async"

    named: Any = {"name": "one", "description": "Run."}
    tools = {
        "sync": Own.from_function(coroutine=coroutine, **named),
        "async": Tool(func=None, coroutine=coroutine, **named),
        "both": StructuredTool.from_function(lambda text: "both", coroutine, **named),
    }
    call = calling(("one", {"text": "x"}, "1"))
    found = {name: results(ToolNode([one]).invoke([call])) for name, one in tools.items()}
    assert found == {"sync": ["sync"], "async": ["async"], "both": ["both"]}


def test_calls_that_ended_are_not_repeated():
    made: list[str] = []
    broken = True

    @tool
    async def work(name: str) -> str:
        """Work."""
        made.append(name)
        if broken and name == "b":
            raise ConnectionError(name)
        return name

    calls = [("work", {"name": "a"}, "1"), ("work", {"name": "b"}, "2")]
    graph = as_node(ToolNode([work]), calls, InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    with pytest.raises(ConnectionError):
        graph.invoke(INPUT, config)
    broken = False
    assert results(graph.invoke(None, config)) == ["a", "b"]
    assert sorted(made) == ["a", "b", "b"]
