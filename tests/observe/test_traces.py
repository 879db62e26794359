"""What spans there are, where, and what they say."""

import asyncio

import pytest
from opentelemetry import context, trace
from opentelemetry.trace import StatusCode
from traced_graphs import AT_ONCE, State

from milepost.cache.memory import InMemoryCache
from milepost.checkpoint.memory import InMemorySaver
from milepost.errors import NodeError
from milepost.func import entrypoint, task
from milepost.graph import START, StateGraph
from milepost.types import CachePolicy, Command, interrupt


def one_node(node, **options):
    return StateGraph(State).add_node("node", node, **options).add_edge(START, "node")


def two_nodes(first, second):
    builder = StateGraph(State).add_node("first", first).add_node("second", second)
    return builder.add_edge(START, "first").add_edge(START, "second")


# -- errors and interrupts


def test_a_failing_node_is_an_error_all_the_way_up(run, recorded):
    def node(state):
        raise LookupError("gone")

    with pytest.raises(LookupError):
        run.invoke(one_node(node).compile(name="graph"), {"log": []})

    assert recorded.tree() == [
        "invoke_workflow graph",
        "  super_step 1",
        "    task node",
    ]
    for span in recorded.spans():
        assert span.status.status_code is StatusCode.ERROR
        assert span.attributes["error.type"] == "LookupError"
        (event,) = span.events
        assert event.name == "exception"
        assert event.attributes["exception.type"] == "LookupError"
        assert "raise LookupError" in event.attributes["exception.stacktrace"]
    assert recorded.one("invoke_workflow graph").attributes["milepost.outcome"] == "error"


def test_a_retry_that_succeeds_leaves_an_error_in_the_first_attempt_alone(run, recorded):
    failures = [ValueError()]

    def node(state):
        if failures:
            raise failures.pop()
        return {"log": [1]}

    run.invoke(one_node(node, retry_policy=AT_ONCE).compile(), {"log": []})

    failed = [span.name for span in recorded.spans() if not span.status.is_ok]
    assert failed == ["attempt 1"]
    assert recorded.one("attempt 2").attributes["milepost.attempt"] == 2


def test_spans_of_a_node_that_may_be_retried_are_inside_their_attempts(run, recorded):
    failures = [ValueError()]

    def node(state):
        with recorded.tracer.start_as_current_span("mine"):
            if failures:
                raise failures.pop()

    run.invoke(one_node(node, retry_policy=AT_ONCE).compile(name="graph"), {"log": []})

    paths = [recorded.path(span)[2:] for span in recorded.named("mine")]
    assert paths == [["task node", f"attempt {n}", "mine"] for n in (1, 2)]


def test_an_error_handler_has_a_span_of_its_own(run, recorded):
    def node(state):
        raise LookupError

    def handler(state, error: NodeError):
        return {"log": ["handled"]}

    run.invoke(one_node(node, error_handler=handler).compile(name="graph"), {"log": []})

    assert recorded.path(recorded.one("error_handler")) == [
        "invoke_workflow graph",
        "super_step 1",
        "task node",
        "error_handler",
    ]
    assert recorded.one("attempt 1").status.status_code is StatusCode.ERROR
    assert recorded.one("task node").status.is_ok


def test_an_interrupt_is_an_event_and_no_error(run, config, recorded):
    graph = one_node(lambda state: {"log": [interrupt("sure?")]})
    result = run.invoke(graph.compile(checkpointer=InMemorySaver()), {"log": []}, config)

    waiting = [span for span in recorded.spans() if span.attributes.get("milepost.interrupts")]
    names = {span.name.partition(" ")[0] for span in waiting}
    assert names == {"invoke_workflow", "super_step", "task"}
    assert all(span.status.is_ok for span in recorded.spans())
    for span in waiting:
        (event,) = span.events
        assert event.name == "interrupt"
        assert event.attributes["milepost.interrupt.id"] == result["__interrupt__"][0].id


def test_a_stream_that_is_closed_is_cancelled_and_no_error(recorded):
    builder = one_node(lambda s: {"log": [1]}).add_node("next", lambda s: {"log": [2]})
    graph = builder.add_edge("node", "next").compile(name="graph")
    stream = graph.stream({"log": []}, stream_mode="updates")
    next(stream)
    stream.close()

    span = recorded.one("invoke_workflow graph")
    assert span.attributes["milepost.outcome"] == "cancelled"
    assert span.status.is_ok
    assert all(span.end_time for span in recorded.spans())


def test_a_cancelled_run_ends_all_of_its_spans(recorded):
    async def node(state):
        await asyncio.Event().wait()

    async def main():
        graph = two_nodes(node, node).compile(name="graph")
        running = asyncio.create_task(graph.ainvoke({"log": []}))
        await asyncio.sleep(0.05)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert [len(recorded.named(f"task {name}")) for name in ("first", "second")] == [1, 1]
    assert len(recorded.named("super_step 1")) == 1
    assert recorded.one("invoke_workflow graph").attributes["milepost.outcome"] == "cancelled"


# -- which span is current


def test_spans_of_a_sync_node_are_inside_its_task(run, recorded):
    def node(state):
        with recorded.tracer.start_as_current_span("mine"):
            return {"log": [1]}

    run.invoke(two_nodes(node, node).compile(name="graph"), {"log": []})

    paths = sorted(recorded.path(span) for span in recorded.named("mine"))
    assert paths == [
        ["invoke_workflow graph", "super_step 1", f"task {name}", "mine"]
        for name in ("first", "second")
    ]


def test_spans_of_an_async_node_are_inside_its_task(run, recorded):
    async def node(state):
        with recorded.tracer.start_as_current_span("mine"):
            await asyncio.sleep(0)
            return {"log": [1]}

    run.invoke(two_nodes(node, node).compile(name="graph"), {"log": []})

    paths = sorted(recorded.path(span) for span in recorded.named("mine"))
    assert paths == [
        ["invoke_workflow graph", "super_step 1", f"task {name}", "mine"]
        for name in ("first", "second")
    ]


def test_spans_of_a_branch_are_inside_the_task_of_its_node(run, recorded):
    def route(state):
        with recorded.tracer.start_as_current_span("mine"):
            return "__end__"

    builder = one_node(lambda state: {"log": [1]}).add_conditional_edges("node", route)
    run.invoke(builder.compile(name="graph"), {"log": []})

    assert recorded.path(recorded.one("mine"))[2:] == ["task node", "mine"]


def test_a_run_is_inside_the_span_of_its_caller_and_leaves_it_current(run, recorded):
    graph = one_node(lambda state: {"log": [1]}).compile(name="graph")
    with recorded.tracer.start_as_current_span("request") as request:
        run.invoke(graph, {"log": []})
        assert trace.get_current_span() is request
    assert not trace.get_current_span(context.get_current()).get_span_context().is_valid

    assert recorded.path(recorded.one("invoke_workflow graph"))[0] == "request"


# -- tasks that are called


def test_a_called_task_is_inside_the_span_that_calls_it(run, config, recorded):
    @task
    def double(number):
        with recorded.tracer.start_as_current_span("inside"):
            return 2 * number

    @entrypoint(checkpointer=InMemorySaver())
    def program(number):
        with recorded.tracer.start_as_current_span("mine"):
            return double(number).result()

    assert run.invoke(program, 2, config) == 4
    assert recorded.path(recorded.one("inside"))[1:] == [
        "super_step 0",
        "task program",
        "mine",
        "task double",
        "inside",
    ]


def test_a_tool_call_is_named_after_its_tool(run, recorded):
    messages = pytest.importorskip("langchain_core.messages")
    from milepost.graph import MessagesState
    from milepost.prebuilt import ToolNode

    def lookup(word: str) -> str:
        """Look a word up."""
        with recorded.tracer.start_as_current_span("mine"):
            return f"{word}!"

    builder = StateGraph(MessagesState).add_node("tools", ToolNode([lookup]))
    graph = builder.add_edge(START, "tools").compile(name="graph")
    calls = [{"name": "lookup", "args": {"word": "one"}, "id": "c-1", "type": "tool_call"}]
    run.invoke(graph, {"messages": [messages.AIMessage("", tool_calls=calls)]})

    call = recorded.one("execute_tool lookup")
    assert call.attributes["gen_ai.operation.name"] == "execute_tool"
    assert call.attributes["gen_ai.tool.name"] == "lookup"
    assert call.attributes["gen_ai.tool.call.id"] == "c-1"
    assert recorded.path(recorded.one("mine"))[2:] == [
        "task tools",
        "execute_tool lookup",
        "mine",
    ]


# -- results that were there already


def test_a_result_from_the_cache_is_marked(run, recorded):
    graph = one_node(lambda state: {"log": [1]}, cache_policy=CachePolicy())
    compiled = graph.compile(cache=InMemoryCache())
    run.invoke(compiled, {"log": []})
    assert "milepost.cached" not in recorded.one("task node").attributes
    recorded.clear()
    run.invoke(compiled, {"log": []})

    assert recorded.one("task node").attributes["milepost.cached"]


def test_a_result_of_an_earlier_run_of_the_step_is_marked(run, saver, config, recorded):
    builder = two_nodes(lambda s: {"log": [1]}, lambda s: {"log": [interrupt("sure?")]})
    graph = builder.compile(checkpointer=saver)
    run.invoke(graph, {"log": []}, config)
    recorded.clear()
    run.invoke(graph, Command(resume=2), config)

    assert recorded.one("task first").attributes["milepost.recalled"]
    assert "milepost.recalled" not in recorded.one("task second").attributes
    assert recorded.one("task second").attributes["milepost.writes"] == 1
