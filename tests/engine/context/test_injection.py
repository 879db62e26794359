"""What a node is given besides the state, and what it can fetch for itself."""

import time
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from langchain_core.runnables import RunnableConfig as LangChainConfig
from langchain_core.runnables import RunnableLambda
from typing_extensions import TypedDict

from hitl_graphs import State, chain, step
from milepost.config import get_config, get_store, get_stream_writer
from milepost.func import entrypoint, task
from milepost.graph import START, StateGraph
from milepost.runtime import Runtime, get_runtime
from milepost.store.base import BaseStore
from milepost.store.memory import InMemoryStore
from milepost.types import RetryPolicy, RunnableConfig, StreamWriter


@dataclass
class Context:
    user: str
    limit: int = 3


class ContextDict(TypedDict):
    user: str


@pytest.fixture
def seen() -> dict[str, Any]:
    return {}


@pytest.fixture
def store():
    store = InMemoryStore()
    store.put(("users",), "u1", {"name": "Ada"})
    return store


def graph_of(node: Any, context_schema: Any = None, **compile_with: Any) -> Any:
    builder = StateGraph(State, context_schema=context_schema)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile(**compile_with)


class TestConfig:
    def test_is_given_by_name(self, run, saver, seen):
        def node(state: State, config):
            seen.update(config)

        config = {"configurable": {"thread_id": "t", "mine": 1}, "metadata": {"who": "me"}}
        run.invoke(graph_of(node, checkpointer=saver), {"log": []}, config)
        assert seen["configurable"]["mine"] == 1
        assert seen["configurable"]["thread_id"] == "t"
        assert seen["metadata"]["who"] == "me"

    @pytest.mark.parametrize(
        "kind", [RunnableConfig, RunnableConfig | None, LangChainConfig, LangChainConfig | None]
    )
    def test_is_given_under_the_name_config_with_any_usual_annotation(self, run, seen, kind):
        def node(state: State, config: kind = None):
            seen.update(config)

        run.invoke(graph_of(node), {"log": []}, {"configurable": {"mine": 1}})
        assert seen["configurable"]["mine"] == 1

    def test_is_fetched_with_get_config(self, run, seen):
        def node(state: State):
            seen.update(get_config())

        run.invoke(graph_of(node), {"log": []}, {"configurable": {"mine": 1}, "tags": ["x"]})
        assert seen["configurable"]["mine"] == 1
        assert "x" in seen["tags"]

    def test_says_where_the_node_is(self, run, saver, config, seen):
        def node(state: State, config: RunnableConfig):
            seen.update(config)

        run.invoke(graph_of(node, checkpointer=saver), {"log": []}, config)
        metadata = seen["metadata"]
        assert metadata["langgraph_node"] == "node"
        assert metadata["langgraph_step"] == 1
        assert metadata["langgraph_path"] == ("__pregel_pull", "node")
        assert metadata["langgraph_triggers"] == ("branch:to:node",)
        assert seen["configurable"]["checkpoint_ns"] == ""
        assert metadata["langgraph_checkpoint_ns"].startswith("node:")

    def test_of_the_caller_is_not_changed(self, run, saver):
        config = {"configurable": {"thread_id": "t"}, "metadata": {"a": 1}, "tags": ["x"]}
        given = {"configurable": {"thread_id": "t"}, "metadata": {"a": 1}, "tags": ["x"]}
        run.invoke(graph_of(lambda state: None, checkpointer=saver), {"log": []}, config)
        assert config == given

    def test_of_with_config_is_bound_to_the_graph(self, run, seen):
        def node(state: State, config: RunnableConfig):
            seen.update(config["configurable"])

        graph = graph_of(node).with_config({"configurable": {"bound": 1, "both": "graph"}})
        run.invoke(graph, {"log": []}, {"configurable": {"both": "call"}})
        assert (seen["bound"], seen["both"]) == (1, "call")

    def test_outside_a_run_is_refused(self):
        with pytest.raises(RuntimeError):
            get_config()


class TestStore:
    def test_is_given_by_name(self, run, store, seen):
        def node(state: State, *, store: BaseStore):
            seen["name"] = store.get(("users",), "u1").value["name"]

        run.invoke(graph_of(node, store=store), {"log": []})
        assert seen == {"name": "Ada"}

    def test_is_in_the_runtime(self, run, store, seen):
        def node(state: State, runtime: Runtime):
            seen["store"] = runtime.store

        run.invoke(graph_of(node, store=store), {"log": []})
        assert seen["store"].get(("users",), "u1").value == {"name": "Ada"}

    def test_is_fetched_with_get_store(self, run, store, seen):
        def node(state: State):
            seen["item"] = get_store().get(("users",), "u1")

        run.invoke(graph_of(node, store=store), {"log": []})
        assert seen["item"].value == {"name": "Ada"}

    def test_reaches_subgraphs(self, run, store, seen):
        def node(state: State, runtime: Runtime):
            seen["name"] = runtime.store.get(("users",), "u1").value["name"]

        run.invoke(chain(("child", graph_of(node)), store=store), {"log": []})
        assert seen == {"name": "Ada"}

    def test_lasts_across_threads(self, run, store, saver):
        def node(state: State, *, store: BaseStore):
            known = [item.key for item in store.search(("threads",))]
            name = f"t{len(known)}"
            store.put(("threads",), name, {})
            return {"log": [*known, name]}

        graph = graph_of(node, store=store, checkpointer=saver)
        for thread in ("one", "two"):
            result = run.invoke(graph, {"log": []}, {"configurable": {"thread_id": thread}})
        assert result == {"log": ["t0", "t1"]}

    def test_is_none_in_the_runtime_of_a_graph_without_one(self, run, seen):
        def node(state: State, runtime: Runtime):
            seen["store"] = runtime.store

        run.invoke(graph_of(node), {"log": []})
        assert seen == {"store": None}


class TestWriter:
    def test_is_given_by_name_and_annotation(self, run):
        def node(state: State, writer: StreamWriter):
            writer("hello")

        assert run.stream(graph_of(node), {"log": []}, stream_mode="custom") == ["hello"]

    def test_is_given_by_name_alone(self, run):
        def node(state: State, writer):
            writer("hello")

        assert run.stream(graph_of(node), {"log": []}, stream_mode="custom") == ["hello"]

    def test_is_fetched_with_get_stream_writer(self, run):
        def node(state: State):
            get_stream_writer()("hello")

        assert run.stream(graph_of(node), {"log": []}, stream_mode="custom") == ["hello"]


class TestRuntime:
    def test_is_given_by_name(self, run, seen):
        def node(state: State, runtime):
            seen["runtime"] = runtime

        run.invoke(graph_of(node), {"log": []})
        assert isinstance(seen["runtime"], Runtime)

    @pytest.mark.parametrize("kind", [Runtime, Runtime[Context]])
    def test_is_given_by_annotation(self, run, seen, kind):
        def node(state: State, runtime: kind):
            seen["runtime"] = runtime

        run.invoke(graph_of(node, Context), {"log": []}, context=Context("u1"))
        assert isinstance(seen["runtime"], Runtime)

    def test_is_fetched_with_get_runtime(self, run, seen):
        def node(state: State):
            seen["context"] = get_runtime(Context).context

        run.invoke(graph_of(node, Context), {"log": []}, context=Context("u1"))
        assert seen == {"context": Context("u1")}

    def test_has_what_there_is_to_have(self, run, store, saver, config, seen):
        def node(state: State, runtime: Runtime):
            seen["runtime"] = runtime
            runtime.stream_writer("hello")

        graph = graph_of(node, Context, store=store, checkpointer=saver)
        events = run.stream(graph, {"log": []}, config, context=Context("u1"), stream_mode="custom")
        runtime = seen["runtime"]
        assert runtime.context == Context("u1")
        assert runtime.store is not None
        assert runtime.previous is None
        assert events == ["hello"]
        assert runtime.execution_info.thread_id == "t"

    def test_outside_a_run_is_refused(self):
        with pytest.raises(RuntimeError):
            get_runtime()

    def test_can_be_made_by_hand_for_a_unit_test_of_a_node(self, store):
        runtime = Runtime(context=Context("u1"), store=store)
        runtime.stream_writer("nobody listens")
        assert runtime.context.user == "u1"
        assert runtime.override(context=Context("u2")).context.user == "u2"

    def test_has_the_previous_value_of_a_function(self, run, saver, config):
        @entrypoint(checkpointer=saver)
        def flow(n, runtime: Runtime):
            return [n, runtime.previous]

        run.invoke(flow, 1, config)
        assert run.invoke(flow, 2, config) == [2, [1, None]]

    def test_reaches_tasks(self, run, seen):
        @task
        def work():
            return get_runtime(Context).context.user

        @entrypoint(context_schema=Context)
        def flow(n):
            return work().result()

        assert run.invoke(flow, 1, context=Context("u1")) == "u1"


class TestExecutionInfo:
    def test_says_which_thread_run_task_and_attempt_it_is(self, run, saver, seen):
        def node(state: State, runtime: Runtime, config: RunnableConfig):
            seen["info"], seen["config"] = runtime.execution_info, config

        run_id = "01890a5d-ac96-774b-bcce-b302099a8057"
        config = {"configurable": {"thread_id": "t"}, "run_id": run_id}
        run.invoke(graph_of(node, checkpointer=saver), {"log": []}, config)
        info = seen["info"]
        assert info.thread_id == "t"
        assert str(info.run_id) == run_id
        assert info.node_attempt == 1
        assert seen["config"]["configurable"]["checkpoint_ns"] == ""
        assert info.checkpoint_ns == f"node:{info.task_id}"

    def test_names_the_checkpoint_that_the_step_started_from(self, run, saver, config, seen):
        def node(state: State, runtime: Runtime):
            seen["id"] = runtime.execution_info.checkpoint_id

        graph = graph_of(node, checkpointer=saver)
        run.invoke(graph, {"log": []}, config)
        before = next(s for s in run.history(graph, config) if s.next == ("node",))
        assert seen["id"] == before.config["configurable"]["checkpoint_id"]

    def test_counts_the_attempts(self, run):
        attempts = []

        def node(state: State, runtime: Runtime):
            attempts.append(runtime.execution_info.node_attempt)
            if len(attempts) < 3:
                raise ValueError("again")

        builder = StateGraph(State)
        retry = RetryPolicy(initial_interval=0, jitter=False, retry_on=ValueError)
        builder.add_node("node", node, retry_policy=retry)
        builder.add_edge(START, "node")
        run.invoke(builder.compile(), {"log": []})
        assert attempts == [1, 2, 3]


class TestContext:
    def test_is_passed_with_the_call(self, run, seen):
        def node(state: State, runtime: Runtime[Context]):
            seen["context"] = runtime.context

        run.invoke(graph_of(node, Context), {"log": []}, context=Context("u1", limit=9))
        assert seen == {"context": Context("u1", limit=9)}

    def test_given_as_a_dict_becomes_the_schemas_class(self, run, seen):
        def node(state: State, runtime: Runtime[Context]):
            seen["context"] = runtime.context

        run.invoke(graph_of(node, Context), {"log": []}, context={"user": "u1"})
        assert seen == {"context": Context("u1")}

    def test_may_be_a_typed_dict(self, run, seen):
        def node(state: State, runtime: Runtime[ContextDict]):
            seen["user"] = runtime.context["user"]

        run.invoke(graph_of(node, ContextDict), {"log": []}, context={"user": "u1"})
        assert seen == {"user": "u1"}

    def test_is_none_when_there_is_none(self, run, seen):
        def node(state: State, runtime: Runtime):
            seen["context"] = runtime.context

        run.invoke(graph_of(node), {"log": []})
        assert seen == {"context": None}

    def test_reaches_subgraphs(self, run, seen):
        def node(state: State, runtime: Runtime[Context]):
            seen["user"] = runtime.context.user

        child = graph_of(node, Context)
        builder = StateGraph(State, context_schema=Context)
        builder.add_node("child", child)
        builder.add_edge(START, "child")
        run.invoke(builder.compile(), {"log": []}, context=Context("u1"))
        assert seen == {"user": "u1"}

    def test_reaches_a_graph_called_inside_a_function(self, run, seen):
        def node(state: State, runtime: Runtime[Context]):
            seen["user"] = runtime.context.user

        child = graph_of(node, Context)

        def call(state: State):
            child.invoke({"log": []})

        async def acall(state: State):
            await child.ainvoke({"log": []})

        graph = graph_of(acall if run.colour == "async" else call, Context)
        run.invoke(graph, {"log": []}, context=Context("u1"))
        assert seen == {"user": "u1"}

    def test_reaches_streamed_runs(self, run, seen):
        def node(state: State, runtime: Runtime[Context]):
            return {"log": [runtime.context.user]}

        graph = graph_of(node, Context)
        events = run.stream(graph, {"log": []}, context=Context("u1"), stream_mode="updates")
        assert events == [{"node": {"log": ["u1"]}}]

    def test_is_not_saved(self, run, saver, config, seen):
        def node(state: State, runtime: Runtime[Context]):
            seen.setdefault("users", []).append(runtime.context and runtime.context.user)

        graph = graph_of(node, Context, checkpointer=saver)
        run.invoke(graph, {"log": []}, config, context=Context("u1"))
        run.invoke(graph, {"log": []}, config, context=Context("u2"))
        assert seen["users"] == ["u1", "u2"]


class TestAllTogether:
    def test_are_injected_in_any_order_of_parameters(self, run, store, saver, config, seen):
        def node(
            state: State,
            runtime: Runtime[Context],
            *,
            writer: StreamWriter,
            store: BaseStore,
            config: RunnableConfig,
        ):
            seen.update(
                user=runtime.context.user,
                name=store.get(("users",), "u1").value["name"],
                thread=config["configurable"]["thread_id"],
            )
            writer("hello")

        graph = graph_of(node, Context, store=store, checkpointer=saver)
        events = run.stream(graph, {"log": []}, config, context=Context("u1"), stream_mode="custom")
        assert events == ["hello"]
        assert seen == {"user": "u1", "name": "Ada", "thread": "t"}

    def test_are_injected_in_an_async_node(self, run, store, saver, config, seen):
        if run.colour == "sync":
            pytest.skip("async nodes are driven by the async face here")

        async def node(state: State, config: RunnableConfig, store: BaseStore, runtime: Runtime):
            item = await store.aget(("users",), "u1")
            seen.update(
                name=item.value["name"],
                thread=get_config()["configurable"]["thread_id"],
                same=get_store() is store,
            )

        run.invoke(graph_of(node, store=store, checkpointer=saver), {"log": []}, config)
        assert seen == {"name": "Ada", "thread": "t", "same": True}

    def test_are_injected_in_a_method_and_in_a_callable_object(self, run, seen):
        class Worker:
            def method(self, state: State, config: RunnableConfig):
                seen["method"] = config["configurable"]["mine"]

            def __call__(self, state: State, runtime: Runtime):
                seen["call"] = isinstance(runtime, Runtime)

        worker = Worker()
        graph = chain(("method", worker.method), ("call", worker))
        run.invoke(graph, {"log": []}, {"configurable": {"mine": 1}})
        assert seen == {"method": 1, "call": True}

    def test_are_injected_in_a_conditional_edge(self, run, seen):
        def route(state: State, config: RunnableConfig):
            return config["configurable"]["where"]

        builder = StateGraph(State)
        trace: list[str] = []
        for name in ("left", "right"):
            builder.add_node(name, step(trace, name))
        builder.add_conditional_edges(START, route, ["left", "right"])
        run.invoke(builder.compile(), {"log": []}, {"configurable": {"where": "right"}})
        assert trace == ["right"]


class TestRunnables:
    def test_may_be_nodes(self, run, saver, config, durability):
        node = RunnableLambda(lambda state: {"log": [len(state["log"])]})
        graph = graph_of(node, checkpointer=saver)
        result = run.invoke(graph, {"log": ["x"]}, config, durability=durability)
        assert result == {"log": ["x", 1]}

    def test_may_be_a_sequence_of_runnables(self, run):
        node = RunnableLambda(lambda state: state["log"]) | RunnableLambda(
            lambda log: {"log": [len(log)]}
        )
        assert run.invoke(graph_of(node), {"log": ["x"]}) == {"log": ["x", 1]}

    def test_are_given_the_config(self, run, seen):
        def inner(state, config: LangChainConfig):
            seen["mine"] = config["configurable"]["mine"]
            return {"log": []}

        run.invoke(graph_of(RunnableLambda(inner)), {"log": []}, {"configurable": {"mine": 1}})
        assert seen == {"mine": 1}

    def test_are_called_in_the_colour_of_the_run(self, run):
        async def asynchronous(state):
            return {"log": ["async"]}

        node = RunnableLambda(lambda state: {"log": ["sync"]}, afunc=asynchronous)
        assert run.invoke(graph_of(node), {"log": []}) == {"log": [run.colour]}

    def test_may_decide_an_edge(self, run):
        trace: list[str] = []

        def route(state):
            return "left"

        builder = StateGraph(State)
        for name in ("left", "right"):
            builder.add_node(name, step(trace, name))
        builder.add_conditional_edges(START, RunnableLambda(route, name="route"), ["left"])
        builder.add_edge("left", "right")
        run.invoke(builder.compile(), {"log": []})
        assert trace == ["left", "right"]


def test_a_runnable_may_be_a_reducer_of_the_pair_of_both_values(run):
    class Total(TypedDict):
        total: Annotated[int, RunnableLambda(lambda pair: pair[0] + pair[1])]

    def add(state: Total):
        return {"total": 2}

    graph = StateGraph(Total).add_node(add).add_edge(START, "add").compile()
    assert run.invoke(graph, {"total": 3}) == {"total": 5}


def test_the_time_of_the_first_attempt_is_the_same_in_every_attempt(run):
    times = []

    def node(state: State, runtime: Runtime):
        times.append(runtime.execution_info.node_first_attempt_time)
        if len(times) < 3:
            raise ValueError("again")

    retry = RetryPolicy(initial_interval=0, jitter=False, retry_on=ValueError)
    builder = StateGraph(State).add_node("node", node, retry_policy=retry)
    before = time.time()
    run.invoke(builder.add_edge(START, "node").compile(), {"log": []})
    assert len(times) == 3
    assert len(set(times)) == 1
    assert before <= times[0] <= time.time()
