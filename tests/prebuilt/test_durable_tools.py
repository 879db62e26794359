"""Every tool call of a ToolNode is a durable task: stored as it ends, and not repeated."""

import asyncio
import threading
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from fake_models import ScriptedModel, calling
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool

from milepost.channels import UntrackedValue
from milepost.checkpoint.memory import InMemorySaver
from milepost.graph import END, START, MessagesState, StateGraph
from milepost.prebuilt import (
    InjectedState,
    InjectedStore,
    ToolNode,
    ToolRuntime,
    create_react_agent,
)
from milepost.prebuilt.chat_agent_executor import AgentState
from milepost.runtime import Runtime
from milepost.store.memory import InMemoryStore
from milepost.types import Command, RetryPolicy, Send, interrupt


class Shop:
    """Tools that note what they do; one of them may fail, another ask."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.keys: dict[str, set[str]] = {}
        self.broken = False

    def tools(self) -> list[Any]:
        def note(name: str, runtime: ToolRuntime) -> None:
            self.done.append(name)
            self.keys.setdefault(name, set()).add(runtime.idempotency_key)

        def pay(sum: int, runtime: ToolRuntime) -> str:
            """Pay."""
            note(f"pay {sum}", runtime)
            return f"paid {sum}"

        def ship(to: str, runtime: ToolRuntime) -> str:
            """Ship."""
            note(f"ship {to}", runtime)
            if self.broken:
                raise ConnectionError("no van")
            return f"shipped to {to}"

        def ask(what: str, runtime: ToolRuntime) -> str:
            """Ask."""
            note(f"ask {what}", runtime)
            answer = interrupt({"what": what})
            note(f"heard {what}", runtime)
            return f"{what}: {answer}"

        return [tool(pay), tool(ship), tool(ask)]


@pytest.fixture
def shop() -> Shop:
    return Shop()


def as_node(shop: Shop, calls: list[Any], saver: Any, **options: Any) -> Any:
    """A graph with one ToolNode for all calls."""
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [calling(*calls)]})
    builder.add_node("tools", ToolNode(shop.tools()), **options)
    builder.add_edge(START, "model").add_edge("model", "tools")
    return builder.compile(checkpointer=saver)


def in_function(shop: Shop, calls: list[Any], saver: Any) -> Any:
    """A graph with a function that calls a ToolNode."""
    node = ToolNode(shop.tools())
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [calling(*calls)]})

    def tools(state: MessagesState) -> Any:
        return node.invoke(state)

    builder.add_node("tools", tools)
    builder.add_edge(START, "model").add_edge("model", "tools")
    return builder.compile(checkpointer=saver)


def as_agent(shop: Shop, calls: list[Any], saver: Any, version: str) -> Any:
    model = ScriptedModel(script=[calls, "done"])
    return create_react_agent(model, shop.tools(), checkpointer=saver, version=version)


MAKERS: dict[str, Callable[..., Any]] = {
    "node": as_node,
    "function": in_function,
    "v1": lambda shop, calls, saver: as_agent(shop, calls, saver, "v1"),
    "v2": lambda shop, calls, saver: as_agent(shop, calls, saver, "v2"),
}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """The ways in which a graph comes to call tools."""
    return MAKERS[request.param]


def results(state: Any) -> list[str]:
    return [m.content for m in state["messages"] if isinstance(m, ToolMessage)]


def questions(state: Any) -> dict[str, str]:
    return {one.value["what"]: one.id for one in state["__interrupt__"]}


INPUT = {"messages": [("user", "go")]}
PAY, SHIP = ("pay", {"sum": 5}, "1"), ("ship", {"to": "home"}, "2")


def test_a_call_that_ended_is_not_repeated_when_another_has_failed(run, saver, shop, make, config):
    graph = make(shop, [PAY, SHIP], saver)
    shop.broken = True
    with pytest.raises(ConnectionError):
        run.invoke(graph, INPUT, config)
    shop.broken = False
    assert results(run.invoke(graph, None, config)) == ["paid 5", "shipped to home"]
    assert sorted(shop.done) == ["pay 5", "ship home", "ship home"]
    assert [len(shop.keys[name]) for name in ("pay 5", "ship home")] == [1, 1]
    assert shop.keys["pay 5"] != shop.keys["ship home"]


def test_calls_that_ask_show_their_own_questions_and_are_answered_in_any_order(
    run, saver, shop, make, config
):
    graph = make(shop, [("ask", {"what": "a"}, "1"), PAY, ("ask", {"what": "b"}, "3")], saver)
    asked = questions(run.invoke(graph, INPUT, config))
    assert sorted(asked) == ["a", "b"]
    assert len(set(asked.values())) == 2
    still = questions(run.invoke(graph, Command(resume={asked["b"]: "yes"}), config))
    assert still == {"a": asked["a"]}
    done = run.invoke(graph, Command(resume="no"), config)
    assert results(done) == ["a: no", "paid 5", "b: yes"]
    assert sorted(shop.done) == ["ask a", "ask a", "ask b", "ask b", "heard a", "heard b", "pay 5"]
    assert len(shop.keys["ask a"] | shop.keys["heard a"]) == 1


def test_both_are_answered_at_once(run, saver, shop, make, config):
    graph = make(shop, [("ask", {"what": "a"}, "1"), ("ask", {"what": "b"}, "2")], saver)
    asked = questions(run.invoke(graph, INPUT, config))
    done = run.invoke(graph, Command(resume={asked["a"]: 1, asked["b"]: 2}), config)
    assert results(done) == ["a: 1", "b: 2"]


def test_a_question_beside_a_failure_can_be_answered(run, saver, shop, make, config):
    graph = make(shop, [("ask", {"what": "a"}, "1"), SHIP], saver)
    shop.broken = True
    with pytest.raises(ConnectionError):
        run.invoke(graph, INPUT, config)
    (question,) = run.get_state(graph, config).interrupts
    shop.broken = False
    done = run.invoke(graph, Command(resume={question.id: "x"}), config)
    assert results(done) == ["a: x", "shipped to home"]


def test_a_retry_of_the_node_repeats_only_what_has_failed(run, saver, shop, config):
    policy = RetryPolicy(initial_interval=0, jitter=False, retry_on=ConnectionError)
    graph = as_node(shop, [PAY, SHIP], saver, retry_policy=policy)
    shop.broken = True
    with pytest.raises(ConnectionError):
        run.invoke(graph, INPUT, config)
    assert sorted(shop.done) == ["pay 5", *["ship home"] * 3]
    assert len(shop.keys["ship home"]) == 1


def test_a_call_is_kept_though_the_edge_after_it_fails(run, saver, shop, config):
    routed: list[str] = []

    def route(state: MessagesState) -> str:
        routed.append("route")
        if len(routed) == 1:
            raise ValueError("lost")
        return END

    builder = as_node(shop, [PAY], saver).builder
    builder.add_conditional_edges("tools", route)
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(ValueError, match="lost"):
        run.invoke(graph, INPUT, config)
    assert results(run.invoke(graph, None, config)) == ["paid 5"]
    assert shop.done == ["pay 5"]


@pytest.mark.parametrize("maker", ["node", "v1", "v2"])
def test_streams_tell_of_the_node_and_not_of_its_calls(run, shop, maker, config):
    graph = MAKERS[maker](shop, [PAY, SHIP], InMemorySaver())
    updates = run.stream(graph, INPUT, config, stream_mode="updates")
    names = [name for update in updates for name in update]
    tools = 2 if maker == "v2" else 1
    assert names.count("tools") == tools
    assert set(names) <= {"model", "agent", "tools"}
    told = run.stream(graph, INPUT, {"configurable": {"thread_id": "2"}}, stream_mode="tasks")
    started = [event["name"] for event in told if "input" in event]
    assert started.count("tools") == tools
    said = run.stream(graph, INPUT, {"configurable": {"thread_id": "3"}}, stream_mode="messages")
    answers = [message for message, _ in said if isinstance(message, ToolMessage)]
    # Calls that are tasks of the graph end in any order.
    assert sorted(message.content for message in answers) == ["paid 5", "shipped to home"]


@pytest.mark.parametrize(("limit", "at_once"), [(1, 1), (0, 6)])
def test_no_more_calls_run_at_once_than_the_config_allows(run, config, limit, at_once):
    busy: list[int] = []
    most: list[int] = []

    def work(n: int) -> str:
        """Work."""
        busy.append(n)
        most.append(len(busy))
        busy.remove(n)
        return str(n)

    builder = StateGraph(MessagesState)
    calls = [("work", {"n": n}, str(n)) for n in range(6)]
    builder.add_node("model", lambda state: {"messages": [calling(*calls)]})
    builder.add_node("tools", ToolNode([work]))
    builder.add_edge(START, "model").add_edge("model", "tools")
    graph = builder.compile(checkpointer=InMemorySaver())
    done = run.invoke(graph, INPUT, {**config, "max_concurrency": limit})
    assert results(done) == [str(n) for n in range(6)]
    assert max(most) <= at_once


@pytest.mark.parametrize(("limit", "at_once"), [(1, 1), (2, 2), (None, 6), (0, 6)])
def test_no_more_calls_run_at_once_outside_a_graph_than_the_config_allows(limit, at_once):
    busy: list[int] = []
    most: list[int] = []

    async def work(n: int) -> str:
        """Work."""
        busy.append(n)
        for _ in range(9):
            await asyncio.sleep(0)
            most.append(len(busy))
        busy.remove(n)
        return str(n)

    calls = [("work", {"n": n}, str(n)) for n in range(6)]
    config: Any = {"max_concurrency": limit}
    given = {"messages": [calling(*calls)]}
    done = asyncio.run(ToolNode([tool(work)]).ainvoke(given, config))
    assert results(done) == [str(n) for n in range(6)]
    assert max(most) == at_once


@pytest.mark.parametrize("limit", [1, 0])
def test_sync_calls_outside_a_graph_heed_the_limit_too(limit):
    together = threading.Barrier(1 if limit else 2)

    def work(n: int) -> str:
        """Work."""
        return f"{n} {together.wait(30)}"

    given = {"messages": [calling(("work", {"n": 0}, "0"), ("work", {"n": 1}, "1"))]}
    config: Any = {"max_concurrency": limit}
    done = results(ToolNode([work]).invoke(given, config))
    assert {text.split()[0] for text in done} == {"0", "1"}


def test_a_sync_call_inside_an_async_node_does_not_block_its_own_tools(shop):
    node = ToolNode(shop.tools())

    async def tools(state: MessagesState) -> Any:
        return node.invoke(state)

    builder = StateGraph(MessagesState).add_node("tools", tools).add_edge(START, "tools")
    given = {"messages": [calling(PAY, SHIP)]}

    async def main() -> Any:
        return await asyncio.wait_for(builder.compile().ainvoke(given), 30)

    assert results(asyncio.run(main())) == ["paid 5", "shipped to home"]


def test_a_sync_run_on_a_loop_waits_for_its_tools(shop):
    async def main() -> Any:
        return as_node(shop, [PAY, SHIP], InMemorySaver()).invoke(
            INPUT, {"configurable": {"thread_id": "t"}}
        )

    assert results(asyncio.run(main())) == ["paid 5", "shipped to home"]


def test_the_state_is_not_stored_again_with_each_call(run, saver, shop, config):
    graph = as_agent(shop, [PAY, SHIP], saver, "v2")
    long = {"messages": [("user", "x" * 10_000)]}
    run.invoke(graph, long, config, interrupt_before=["tools"])
    (found,) = [t for t in [run.saver(saver, "get_tuple", config)] if t]
    sends = found.checkpoint["channel_values"]["__pregel_tasks"]
    assert [send.arg[0]["id"] for send in sends] == ["1", "2"]
    assert "x" * 100 not in repr(sends)


def test_tools_see_state_context_and_store_in_all_ways_of_calling(run, config):
    from milepost.store.memory import InMemoryStore

    seen: list[Any] = []

    @tool
    def look(runtime: ToolRuntime) -> str:
        """Look."""
        last = runtime.state["messages"][-1]
        seen.append((last.tool_calls[0]["name"], runtime.context, type(runtime.store).__name__))
        runtime.stream_writer("looking")
        runtime.emit_output_delta("no one listens")
        return "seen"

    for version in ("v1", "v2"):
        model = ScriptedModel(script=[[("look", {}, "1")], "done"])
        agent = create_react_agent(model, [look], store=InMemoryStore(), version=version)
        events = run.stream(agent, INPUT, stream_mode="custom", context={"user": "u"})
        assert events == ["looking"]
    assert seen == [("look", {"user": "u"}, "InMemoryStore")] * 2


def test_a_tool_may_call_a_graph_that_asks(run, saver, config):
    def inner_node(state: MessagesState) -> Any:
        return {"messages": [AIMessage(f"inner {interrupt({'what': 'inner'})}")]}

    inner = StateGraph(MessagesState).add_node("ask", inner_node).add_edge(START, "ask").compile()

    @tool
    def delegate(to: str) -> str:
        """Delegate."""
        return inner.invoke({"messages": [("user", to)]})["messages"][-1].content

    for thread, version in (("1", "v1"), ("2", "v2")):
        config = {"configurable": {"thread_id": thread}}
        script = [[("delegate", {"to": "a"}, "1"), ("delegate", {"to": "b"}, "2")], "done"]
        agent = create_react_agent(
            ScriptedModel(script=script), [delegate], checkpointer=saver, version=version
        )
        first, second = run.invoke(agent, INPUT, config)["__interrupt__"]
        done = run.invoke(agent, Command(resume={first.id: 1, second.id: 2}), config)
        assert results(done) == ["inner 1", "inner 2"]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_wrapper_may_ask_before_it_executes(run, shop, version, config):
    def approve(request: Any, execute: Any) -> Any:
        if request.tool_call["name"] == "pay":
            answer = interrupt({"what": request.tool_call["id"]})
            if answer != "yes":
                return ToolMessage("refused", tool_call_id=request.tool_call["id"])
        return execute(request)

    calls = [("pay", {"sum": 1}, "1"), ("pay", {"sum": 2}, "2"), SHIP]
    model = ScriptedModel(script=[calls, "done"])
    node = ToolNode(shop.tools(), wrap_tool_call=approve)
    agent = create_react_agent(model, node, checkpointer=InMemorySaver(), version=version)
    asked = questions(run.invoke(agent, INPUT, config))
    assert sorted(asked) == ["1", "2"]
    done = run.invoke(agent, Command(resume={asked["1"]: "yes", asked["2"]: "no"}), config)
    assert results(done) == ["paid 1", "refused", "shipped to home"]
    assert sorted(shop.done) == ["pay 1", "ship home"]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_commands_of_tools_are_stored_and_applied(run, saver, shop, version, config):
    @tool
    def hand_over(runtime: ToolRuntime) -> Any:
        """Hand over."""
        shop.done.append("handed over")
        answer = ToolMessage("handed over", tool_call_id=runtime.tool_call_id)
        return Command(update={"messages": [answer]})

    model = ScriptedModel(script=[[("hand_over", {}, "1"), SHIP], "done"])
    tools = [hand_over, *shop.tools()]
    agent = create_react_agent(model, tools, checkpointer=saver, version=version)
    shop.broken = True
    with pytest.raises(ConnectionError):
        run.invoke(agent, INPUT, config)
    shop.broken = False
    assert results(run.invoke(agent, None, config)) == ["handed over", "shipped to home"]
    assert shop.done.count("handed over") == 1


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_tool_may_write_what_is_never_stored(run, saver, version, config):
    class State(AgentState):
        socket: Annotated[Any, UntrackedValue]

    @tool
    def connect(runtime: ToolRuntime) -> Any:
        """Connect."""
        answer = ToolMessage("connected", tool_call_id=runtime.tool_call_id)
        return Command(update={"socket": object(), "messages": [answer]})

    model = ScriptedModel(script=[[("connect", {}, "1")], "done"])
    agent = create_react_agent(
        model, [connect], checkpointer=saver, state_schema=State, version=version
    )
    assert results(run.invoke(agent, INPUT, config)) == ["connected"]


def test_a_tool_that_a_function_calls_may_return_a_command(run):
    @tool
    def go(x: int) -> Any:
        """Go."""
        return Command(update={"messages": [AIMessage(f"went {x}")]})

    def node(state: MessagesState) -> Any:
        return go.invoke({"name": "go", "args": {"x": 1}, "id": "1", "type": "tool_call"})

    graph = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()
    assert run.invoke(graph, INPUT)["messages"][-1].content == "went 1"


def test_a_runtime_outside_a_run_has_no_key():
    runtime = Runtime()
    assert runtime.execution_info is None
    node = ToolNode(Shop().tools())
    assert node.invoke([calling(PAY)])[0].content == "paid 5"


def test_a_call_that_an_older_agent_prepares_gets_the_state_and_the_store_when_it_is_made(run):
    """As langgraph-bigtool sends it."""

    @tool
    def look(
        key: str,
        state: Annotated[dict[str, Any], InjectedState],
        store: Annotated[Any, InjectedStore()],
    ) -> str:
        """Look something up."""
        return f"{len(state['messages'])} {store.get(('facts',), key).value['is']}"

    node, store = ToolNode([look]), InMemoryStore()
    store.put(("facts",), "sky", {"is": "blue"})

    def send(state: MessagesState) -> list[Send]:
        calls = state["messages"][-1].tool_calls
        return [Send("tools", [node.inject_tool_args(call, state, store)]) for call in calls]

    builder = StateGraph(MessagesState).add_node("agent", lambda _: {}).add_node("tools", node)
    builder.add_edge(START, "agent").add_conditional_edges("agent", send, ["tools"])
    graph = builder.compile(checkpointer=InMemorySaver(), store=store)
    config = {"configurable": {"thread_id": "1"}}
    call = {"name": "look", "args": {"key": "sky"}, "id": "1"}
    found = run.invoke(graph, {"messages": [AIMessage("", tool_calls=[call])]}, config)
    assert found["messages"][-1].content == "1 blue"
