"""LangChain's handlers hear the same of a program on milepost as on LangGraph."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import Any
from uuid import uuid4

import pytest
from callback_stories import STORIES, AsyncRecorder, Recorder, config
from langchain_core.callbacks import (
    BaseCallbackHandler,
    CallbackManager,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers.base import BaseTracer
from libraries import LANGGRAPH, MILEPOST, Library
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from stories import Log, says
from typing_extensions import TypedDict

from milepost._engine.observers import WATCHERS, RunObserver
from milepost.checkpoint.memory import InMemorySaver
from milepost.graph import START, StateGraph
from milepost.observe import instrument, uninstrument
from milepost.types import Command, TracePolicy, interrupt, omit_payload


@pytest.mark.parametrize("kind", [Recorder, AsyncRecorder])
@pytest.mark.parametrize("name", STORIES)
def test_handlers_hear_the_same_tree_as_on_langgraph(run: Any, name: str, kind: Any) -> None:
    if run.colour == "sync" and kind is AsyncRecorder:
        pytest.skip("a loop is needed")
    trees = []
    for library in (LANGGRAPH, MILEPOST):
        recorder = kind()
        STORIES[name](library, run, recorder)
        trees.append(recorder.heard.whole())
    theirs, ours = trees
    assert theirs, "the story told nothing"
    assert ours == theirs


@pytest.mark.parametrize("lib", [LANGGRAPH, MILEPOST], ids=["langgraph", "milepost"])
def test_a_streamed_run_ends_with_the_state_that_it_shows(lib: Any) -> None:
    class Output(TypedDict):
        a: int

    class State(Output):
        b: int

    builder = lib.StateGraph(State, output_schema=Output).add_edge(START, "n")
    graph = builder.add_node("n", lambda _: {"a": 1, "b": 2}).compile()
    whole = {"a": 1, "b": 2}

    async def end(**options: Any) -> Any:
        events = [e async for e in graph.astream_events({"a": 0}, version="v2", **options)]
        return events[-1]["data"]["output"]

    assert asyncio.run(end()) == whole
    assert asyncio.run(end(output_keys=["b"])) == {"b": 2}
    ends: list[Any] = []

    class Handler(BaseCallbackHandler):
        def on_chain_end(self, outputs: Any, *, parent_run_id: Any = None, **_: Any) -> None:
            if parent_run_id is None:
                ends.append(outputs)

    heard: Any = {"callbacks": [Handler()]}
    list(graph.stream({"a": 0}, heard))
    graph.invoke({"a": 0}, heard)
    assert ends == [whole, {"a": 1}]


class Tracer(BaseTracer):
    """LangChain's own tracer, which keeps the trees of runs."""

    def __init__(self) -> None:
        super().__init__()
        self.roots: list[Any] = []

    def _persist_run(self, run: Any) -> None:
        self.roots.append(run)


def shape(run: Any) -> Any:
    return (
        run.name,
        run.run_type,
        run.error is not None,
        run.end_time is not None,
        sorted((shape(child) for child in run.child_runs), key=repr),
    )


@pytest.mark.parametrize("name", STORIES)
def test_langchains_tracer_sees_the_same_tree_as_on_langgraph(run: Any, name: str) -> None:
    trees = []
    for library in (LANGGRAPH, MILEPOST):
        tracer = Tracer()
        STORIES[name](library, run, tracer)
        assert not tracer.run_map, "a run was begun and never ended"
        trees.append([shape(root) for root in tracer.roots])
    assert trees[1] == trees[0]


@pytest.mark.parametrize("name", STORIES)
def test_langchains_tracer_sees_the_same_tree_while_opentelemetry_follows(
    run: Any, name: str
) -> None:
    """Both observers are told of the same run, and neither takes anything from the other."""
    theirs, ours = Tracer(), Tracer()
    STORIES[name](LANGGRAPH, run, theirs)
    spans = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    instrument(provider, NoOpMeterProvider())
    try:
        STORIES[name](MILEPOST, run, ours)
    finally:
        uninstrument()
    assert [shape(root) for root in ours.roots] == [shape(root) for root in theirs.roots]
    assert any(span.name.startswith("task ") for span in spans.get_finished_spans())


def one_node(action: Any, **options: Any) -> Any:
    builder = StateGraph(Log)
    builder.add_node("node", action, **options)
    builder.add_edge(START, "node")
    return builder


def test_the_run_id_of_the_config_is_that_of_the_graph_and_of_no_graph_inside(run: Any) -> None:
    recorder, given = Recorder(), uuid4()
    inner = one_node(says("deep")).compile()
    graph = one_node(inner).compile()
    run.invoke(graph, {"log": []}, {"callbacks": [recorder], "run_id": given})
    first, *others = recorder.heard.runs
    assert first == given
    assert given not in others
    assert len(others) == 3


def test_a_manager_in_the_config_gives_the_graph_its_parent(run: Any) -> None:
    recorder, parent = Recorder(), uuid4()
    manager = CallbackManager([recorder], [recorder], parent_run_id=parent)
    run.invoke(one_node(says("a")).compile(), {"log": []}, {"callbacks": manager})
    graph, _ = recorder.heard.runs.values()
    assert graph["parent"] == parent


def test_callbacks_of_the_graph_and_of_the_call_both_hear(run: Any) -> None:
    bound, called = Recorder(), Recorder()
    graph = one_node(says("a")).compile().with_config(callbacks=[bound])
    assert graph.config["callbacks"] == [bound]
    run.invoke(graph, {"log": []}, {"callbacks": [called]})
    assert len(bound.heard.runs) == len(called.heard.runs) == 2


def test_the_nodes_child_manager_is_in_langchains_context_variable(run: Any) -> None:
    recorder, found = Recorder(), []

    def look(state: Any) -> Any:
        found.append(var_child_runnable_config.get()["callbacks"].parent_run_id)
        return {}

    async def alook(state: Any) -> Any:
        return look(state)

    action = alook if run.colour == "async" else look
    run.invoke(one_node(action).compile(), {"log": []}, {"callbacks": [recorder]})
    _, node = recorder.heard.runs
    assert found == [node]


@pytest.mark.parametrize("mode", ["values", "messages"])
def test_a_node_may_dispatch_events_and_pass_callbacks_on_though_nobody_listens(
    run: Any, mode: Any
) -> None:
    def tell(state: Any, config: Any) -> Any:
        dispatch_custom_event("told", {"by": "sync"})
        RunnableLambda(len).invoke("x", {"callbacks": config["callbacks"]})
        return {"log": [isinstance(config["callbacks"], CallbackManager)]}

    async def atell(state: Any, config: Any) -> Any:
        await adispatch_custom_event("told", {"by": "async"}, config=config)
        return tell(state, config)

    inner = one_node(atell if run.colour == "async" else tell).compile()
    graph = one_node(inner).compile()
    events = run.stream(graph, {"log": []}, stream_mode=["values", mode])
    assert events[-1] == ("values", {"log": [True]})


def test_a_handler_that_fails_is_not_noticed_unless_it_says_so(run: Any) -> None:
    class Failing(BaseCallbackHandler):
        raise_error = False

        def on_chain_start(self, *given: Any, **named: Any) -> None:
            raise ValueError("handler")

    graph = one_node(says("a")).compile()
    assert run.invoke(graph, {"log": []}, {"callbacks": [Failing()]}) == {"log": ["a"]}
    Failing.raise_error = True
    with pytest.raises(ValueError, match="handler"):
        run.invoke(graph, {"log": []}, {"callbacks": [Failing()]})


def test_async_handlers_are_awaited_on_the_loop_of_the_run() -> None:
    loops: list[Any] = []

    class Handler(AsyncRecorder):
        async def on_chain_start(self, *given: Any, **named: Any) -> None:
            await asyncio.sleep(0)
            loops.append((asyncio.get_running_loop(), threading.current_thread()))

    async def main() -> None:
        await one_node(says("a")).compile().ainvoke({"log": []}, {"callbacks": [Handler()]})
        assert loops == [(asyncio.get_running_loop(), threading.current_thread())] * 2

    asyncio.run(main())


def test_a_cancelled_run_leaves_no_chain_open() -> None:
    recorder = Recorder()

    async def main() -> None:
        begun = asyncio.Event()

        async def waits(state: Any) -> Any:
            begun.set()
            await asyncio.Event().wait()

        graph = one_node(waits).compile(checkpointer=InMemorySaver())
        running = asyncio.ensure_future(graph.ainvoke({"log": []}, config(recorder)))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    outcomes = [told["outcome"] for told in recorder.heard.runs.values()]
    assert [(how, what[0]) for how, what in outcomes] == [("error", "CancelledError")] * 2


def test_a_stream_that_is_left_ends_the_graphs_chain() -> None:
    recorder = Recorder()
    builder = StateGraph(Log)
    builder.add_node("a", says("a")).add_node("b", says("b"))
    builder.add_edge(START, "a").add_edge("a", "b")
    events = builder.compile().stream({"log": []}, {"callbacks": [recorder]})
    next(events)
    events.close()
    graph, node = (told["outcome"][0] for told in recorder.heard.runs.values())
    assert (graph, node) == ("error", "end")


def test_tokens_are_streamed_once_while_handlers_listen(run: Any) -> None:
    model = FakeListChatModel(responses=["abc"])

    def talk(state: Any) -> Any:
        return {"log": [model.invoke("hi").content]}

    inner = one_node(talk).compile()
    graph = one_node(inner).compile()
    recorder = Recorder()
    events = run.stream(
        graph, {"log": []}, {"callbacks": [recorder]}, stream_mode="messages", subgraphs=True
    )
    assert [message.content for _, (message, _) in events] == ["a", "b", "c"]
    kinds = [told["kind"] for told in recorder.heard.runs.values()]
    assert kinds == ["chain", "chain", "chain", "chain", "model"]


def test_a_graph_that_a_chain_calls_takes_the_chains_thread(run: Any) -> None:
    graph = one_node(says("a")).compile(checkpointer=InMemorySaver())

    async def acall(given: Any) -> Any:
        return await graph.ainvoke(given)

    chain = RunnableLambda(graph.invoke, acall)
    for count in (1, 2):
        result = run.invoke(chain, {"log": []}, {"configurable": {"thread_id": "mine"}})
        assert result == {"log": ["a"] * count}


# -- what tracers record


@pytest.mark.parametrize("library", ["langgraph", "milepost"])
def test_a_trace_policy_changes_what_tracers_record_alone(run: Any, library: Any) -> None:
    library = Library(library)
    tracer, recorder = Tracer(), Recorder()
    builder = library.StateGraph(Log)
    policy = library.TracePolicy(
        process_inputs=lambda _: {"in": 1}, process_outputs=library.omit_payload
    )
    builder.add_node("node", says("a"), trace_policy=policy)
    builder.add_edge(library.START, "node")
    result = run.invoke(builder.compile(), {"log": []}, {"callbacks": [tracer, recorder]})
    assert result == {"log": ["a"]}
    (node,) = tracer.roots[0].child_runs
    assert (node.inputs, node.outputs) == ({"in": 1}, {})
    _, heard = recorder.heard.runs.values()
    assert (heard["inputs"], heard["outcome"]) == ({"log": []}, ("end", {"log": ["a"]}))


class TappingTracer(Tracer):
    """A tracer whose methods have the names of those that `astream_events` uses."""

    def tap_output_iter(self, run_id: Any, output: Any) -> Any:
        raise AssertionError("no handler of astream_events")

    def tap_output_aiter(self, run_id: Any, output: Any) -> Any:
        raise AssertionError("no handler of astream_events")


@pytest.mark.parametrize("library", ["langgraph", "milepost"])
def test_a_trace_policy_counts_for_a_tracer_that_has_methods_for_streams(
    run: Any, library: str
) -> None:
    lib = Library(library)
    builder = lib.StateGraph(Log)
    policy = lib.TracePolicy(process_inputs=lambda _: {"in": 1}, process_outputs=lib.omit_payload)
    builder.add_node("node", says("a"), trace_policy=policy)
    builder.add_edge(lib.START, "node")
    tracer = TappingTracer()
    run.invoke(builder.compile(), {"log": []}, {"callbacks": [tracer]})
    (node,) = tracer.roots[0].child_runs
    assert (node.inputs, node.outputs) == ({"in": 1}, {})


def test_a_trace_policy_that_fails_records_the_value_itself(run: Any) -> None:
    def fails(value: Any) -> Any:
        raise RuntimeError("policy")

    graph = one_node(says("a"), trace_policy=TracePolicy(process_inputs=fails)).compile()
    tracer = Tracer()
    run.invoke(graph, {"log": []}, {"callbacks": [tracer]})
    assert tracer.roots[0].child_runs[0].inputs == {"log": []}
    assert omit_payload({"much": 1}) == {}


# -- other observers, and none


def test_observers_are_told_of_runs_steps_tasks_and_attempts_in_order(run: Any) -> None:
    told: list[str] = []

    class Listener(RunObserver):
        def _say(self, what: str) -> Any:
            told.append(what)
            return iter(())

        def run_begins(self, input: Any) -> Any:
            return self._say("run")

        def run_ends(self, output: Any, error: Any) -> Any:
            return self._say(f"run ends {output} {error}")

        def step_begins(self, tasks: Any) -> Any:
            return self._say(f"step {[task.name for task in tasks]}")

        def step_ends(self, tasks: Any, error: Any) -> Any:
            return self._say("step ends")

        def task_begins(self, task: Any) -> Any:
            return self._say(f"task {task.name}")

        def task_ends(self, task: Any, crash: Any) -> Any:
            return self._say(f"task ends {task.finished}")

        def attempt_begins(self, context: Any, handler: bool) -> Any:
            return self._say(f"attempt {context.attempt}")

        def attempt_ends(self, context: Any, output: Any, error: Any) -> Any:
            return self._say(f"attempt ends {error or output}")

        def enter(self, variables: Any, context: Any) -> None:
            told.append("enter")

    graph = one_node(says("a")).compile()

    def watch(observed: Any, input: Any) -> RunObserver:
        return Listener()

    WATCHERS.append(watch)
    try:
        run.invoke(graph, {"log": []})
    finally:
        WATCHERS.remove(watch)
    assert told == [
        *("run", "step ['__start__']", "task __start__", "attempt 1"),
        *("attempt ends {'log': []}", "task ends True", "step ends"),
        *("step ['node']", "task node", "attempt 1", "enter"),
        *("attempt ends {'log': ['a']}", "task ends True", "step ends"),
        "run ends {'log': ['a']} None",
    ]


_LIGHT = """
import sys
from typing import TypedDict
from milepost.checkpoint.memory import InMemorySaver
from milepost.graph import START, StateGraph

class State(TypedDict):
    x: int

graph = StateGraph(State).add_node("a", lambda s: {"x": 1}).add_edge(START, "a").compile()
graph.invoke({"x": 0})
found = sorted({name.partition(".")[0] for name in sys.modules})
print([name for name in ("langchain_core", "langsmith", "pydantic") if name in found])
"""


@pytest.mark.parametrize("tracing", [None, "false", "0", "on"])
def test_langchain_is_imported_only_where_tracing_is_switched_on(tracing: str | None) -> None:
    # LangChain takes "on" for a switch that is on; LangSmith sends nothing unless it says "true".
    environment = {} if tracing is None else {"LANGSMITH_TRACING": tracing}
    said = subprocess.run(
        [sys.executable, "-c", _LIGHT], env=environment, capture_output=True, text=True, timeout=120
    )
    assert said.stdout.strip() == str(
        ["langchain_core", "langsmith", "pydantic"] if tracing == "on" else []
    )


# -- interrupts and resumes


def lifecycle(library: Any, run: Any, build: Any) -> Any:
    """What a graph handler hears of an interrupted run and its resume."""
    module = library.callbacks
    heard: list[Any] = []

    class Handler(module.GraphCallbackHandler):
        def on_interrupt(self, event: Any) -> None:
            heard.append(("interrupt", event))

        def on_resume(self, event: Any) -> None:
            heard.append(("resume", event))

    recorder = Recorder()
    graph, answer = build(library)
    given = {"configurable": {"thread_id": "t"}, "callbacks": [recorder, Handler()]}
    run.invoke(graph, {"log": []}, given)
    saved = run.get_state(graph, {"configurable": {"thread_id": "t"}}).config
    run.invoke(graph, answer, given)
    runs = list(recorder.heard.runs)
    at = saved["configurable"]["checkpoint_id"]
    return [
        (
            kind,
            event.status,
            event.checkpoint_id == at,
            [part.partition(":")[0] for part in event.checkpoint_ns],
            [i.value for i in getattr(event, "interrupts", ())],
            event.run_id in runs,
        )
        for kind, event in heard
    ]


def asks(library: Any) -> Any:
    builder = library.StateGraph(Log)
    builder.add_node("ask", lambda s: {"log": [library.interrupt("well?")]})
    builder.add_edge(library.START, "ask")
    return builder


def nested(library: Any) -> Any:
    builder = library.StateGraph(Log)
    builder.add_node("around", asks(library).compile())
    builder.add_edge(library.START, "around")
    return builder.compile(checkpointer=library.InMemorySaver()), library.Command(resume=1)


def single(library: Any) -> Any:
    return asks(library).compile(checkpointer=library.InMemorySaver()), library.Command(resume=1)


def before(library: Any) -> Any:
    builder = library.StateGraph(Log)
    builder.add_node("a", says("a"))
    builder.add_edge(library.START, "a")
    return builder.compile(checkpointer=library.InMemorySaver(), interrupt_before=["a"]), None


def after(library: Any) -> Any:
    builder = library.StateGraph(Log)
    builder.add_node("a", says("a"))
    builder.add_node("b", says("b"))
    builder.add_edge(library.START, "a")
    builder.add_edge("a", "b")
    return builder.compile(checkpointer=library.InMemorySaver(), interrupt_after=["a"]), None


@pytest.mark.parametrize("build", [single, nested, before, after])
def test_graph_handlers_hear_of_interrupts_and_resumes_as_on_langgraph(
    run: Any, build: Any
) -> None:
    theirs = lifecycle(LANGGRAPH, run, build)
    assert [kind for kind, *_ in theirs][:2] == ["interrupt", "resume"]
    assert lifecycle(MILEPOST, run, build) == theirs


def test_a_graph_handler_may_be_async_and_may_refuse() -> None:
    from milepost.callbacks import GraphCallbackHandler

    class Handler(GraphCallbackHandler):
        raise_error = True

        async def on_interrupt(self, event: Any) -> None:
            await asyncio.sleep(0)
            raise ValueError("refused")

    graph = one_node(lambda s: {"log": [interrupt("?")]}).compile(checkpointer=InMemorySaver())
    recorder = Recorder()
    given = {"configurable": {"thread_id": "t"}, "callbacks": [recorder, Handler()]}
    with pytest.raises(ValueError, match="refused"):
        asyncio.run(graph.ainvoke({"log": []}, given))
    (outcome, *_) = (told["outcome"] for told in recorder.heard.runs.values())
    assert outcome == ("error", ("ValueError", ["refused"]))
    quiet = {"configurable": {"thread_id": "t"}}
    assert graph.invoke(Command(resume="yes"), quiet) == {"log": ["yes"]}


def test_managers_take_the_graph_handlers_of_a_config() -> None:
    from milepost import callbacks

    handler, other = callbacks.GraphCallbackHandler(), Recorder()
    for given in ([other, handler], CallbackManager([other, handler])):
        for make in (
            callbacks.get_sync_graph_callback_manager_for_config,
            callbacks.get_async_graph_callback_manager_for_config,
        ):
            manager = make({"callbacks": given}, run_id=(run_id := uuid4()))  # type: ignore[typeddict-item]
            assert manager.handlers == [handler]
            assert manager.copy().run_id == manager.run_id == run_id
    assert callbacks.get_sync_graph_callback_manager_for_config({}).handlers == []
    with pytest.raises(TypeError, match="list of handlers"):
        callbacks.get_sync_graph_callback_manager_for_config({"callbacks": 3})  # type: ignore[typeddict-item]


def test_langsmiths_functions_find_the_nodes_run(run: Any) -> None:
    from langchain_core.tracers import LangChainTracer
    from langsmith.run_helpers import get_current_run_tree

    class Silent(LangChainTracer):
        def _persist_run_single(self, run: Any) -> None: ...
        def _update_run_single(self, run: Any) -> None: ...

    found: list[Any] = []

    def look(state: Any) -> Any:
        tree = get_current_run_tree()
        found.append(None if tree is None else tree.id)
        return {}

    recorder = Recorder()
    tracer = Silent(client=object())  # type: ignore[arg-type]
    run.invoke(one_node(look).compile(), {"log": []}, {"callbacks": [tracer, recorder]})
    _, node = recorder.heard.runs
    assert found == [node]
    assert get_current_run_tree() is None
