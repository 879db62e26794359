"""Names that both libraries have mean the same: one program, run on each of them."""

from __future__ import annotations

import asyncio
import importlib
import operator
import pickle
import warnings
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

LIBRARIES = ["langgraph", "milepost"]


class Library:
    """`Library("milepost")("types.Send")`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, path: str) -> Any:
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(f"{self.name}.{module}"), name)


@pytest.fixture(params=LIBRARIES)
def lib(request) -> Library:
    return Library(request.param)


class State(TypedDict, total=False):
    x: Any
    log: Annotated[list[Any], operator.add]


THREAD: Any = {"configurable": {"thread_id": "1"}}


def compiled(lib: Library, node: Any, **more: Any) -> Any:
    builder = lib("graph.StateGraph")(State)
    builder.add_node("node", node).add_edge(lib("graph.START"), "node")
    return builder.compile(checkpointer=lib("checkpoint.memory.InMemorySaver")(), **more)


# -- errors


def test_errors_carry_what_programs_read(lib):
    unknown = lib("errors.UnknownInterruptError")(
        "no", reason="not_pending", interrupt_ids=["a"], pending_ids=["b"]
    )
    assert (unknown.reason, unknown.interrupt_ids, unknown.pending_ids) == (
        "not_pending",
        ("a",),
        ("b",),
    )
    assert lib("errors.NodeCancelledError")("n").node == "n"
    assert lib("errors.GraphDrained")().reason == "shutdown"
    assert lib("errors.NodeError")("n", ValueError("v")).node == "n"
    code = lib("errors.ErrorCode").INVALID_CHAT_HISTORY
    text = lib("errors.create_error_message")(message="Broken.", error_code=code)
    assert text.startswith("Broken.\n")
    assert text.endswith("INVALID_CHAT_HISTORY")
    assert not lib("errors.is_invalid_resume")(ValueError())


def test_our_errors_can_be_pickled():
    from milepost import errors

    for error in (
        errors.UnknownInterruptError("no", reason="ambiguous", pending_ids=["b"]),
        errors.NodeCancelledError("n"),
        errors.GraphDrained("later"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_a_drained_run_says_why(lib):
    control = lib("runtime.RunControl")()

    def node(state: Any) -> Any:
        control.request_drain("deploy")
        return {"x": 1}

    builder = lib("graph.StateGraph")(State)
    builder.add_node("a", node).add_node("b", node)
    builder.add_edge(lib("graph.START"), "a").add_edge("a", "b")
    graph = builder.compile(checkpointer=lib("checkpoint.memory.InMemorySaver")())
    with pytest.raises(lib("errors.GraphDrained")) as caught:
        graph.invoke({}, THREAD, control=control)
    assert caught.value.reason == "deploy"


def test_a_node_interrupt_pauses_and_the_node_runs_again(lib):
    warned = lib("warnings.LangGraphDeprecatedSinceV10")
    raised = lib("errors.NodeInterrupt")

    def node(state: Any) -> Any:
        if state.get("x") != "ready":
            raise raised("not yet")
        return {"log": ["done"]}

    graph = compiled(lib, node)
    with pytest.warns(warned, match="NodeInterrupt is deprecated"):
        result = graph.invoke({"x": 1}, THREAD)
    (asked,) = result["__interrupt__"]
    assert asked.value == "not yet"
    assert graph.get_state(THREAD).next == ("node",)
    graph.update_state(THREAD, {"x": "ready"})
    assert graph.invoke(None, THREAD)["log"] == ["done"]


def test_deprecations_name_the_versions(lib):
    warning = lib("warnings.LangGraphDeprecatedSinceV11")("Old.")
    assert isinstance(warning, lib("warnings.LangGraphDeprecationWarning"))
    assert isinstance(warning, DeprecationWarning)
    assert (warning.message, warning.since, warning.expected_removal) == ("Old", (1, 1), (3, 0))
    assert "1.1" in str(warning)


# -- interrupts with a schema


@dataclass
class Decision:
    approve: bool
    note: str = ""


SCHEMA = {"type": "object", "properties": {"approve": {"type": "boolean"}}}


def test_a_question_says_what_its_answer_has_to_be(lib):
    ask = lib("types.interrupt")
    for schema, shown in ((SCHEMA, SCHEMA), (Decision, {"approve", "note"})):
        graph = compiled(lib, lambda state, s=schema: {"x": ask("?", response_schema=s)})
        (asked,) = graph.invoke({}, THREAD)["__interrupt__"]
        found = asked.response_schema
        assert (found if isinstance(shown, dict) else set(found["properties"])) == shown
        (stored,) = graph.get_state(THREAD).interrupts
        assert stored.response_schema == found


def test_an_answer_is_validated_and_one_that_does_not_fit_can_be_given_again(lib):
    ask, is_invalid = lib("types.interrupt"), lib("errors.is_invalid_resume")
    command = lib("types.Command")

    def node(state: Any) -> Any:
        answer = ask("?", response_schema=Decision)
        return {"log": [(type(answer).__name__, answer.approve)]}

    graph = compiled(lib, node)
    (asked,) = graph.invoke({}, THREAD)["__interrupt__"]
    with pytest.raises(ValueError, match="approve") as caught:
        graph.invoke(command(resume={"approve": "perhaps"}), THREAD)
    assert is_invalid(caught.value)
    assert [i.id for i in graph.get_state(THREAD).interrupts] == [asked.id]
    assert graph.invoke(command(resume={"approve": True}), THREAD)["log"] == [("Decision", True)]


def test_an_invalid_answer_inside_a_subgraph_can_be_given_again(lib):
    ask, command = lib("types.interrupt"), lib("types.Command")
    builder = lib("graph.StateGraph")(State)
    builder.add_node("ask", lambda state: {"x": ask("?", response_schema=Decision).approve})
    inner = builder.add_edge(lib("graph.START"), "ask").compile()
    graph = compiled(lib, inner)
    (asked,) = graph.invoke({}, THREAD)["__interrupt__"]
    with pytest.raises(ValueError, match="approve"):
        graph.invoke(command(resume={asked.id: {"approve": "perhaps"}}), THREAD)
    assert graph.invoke(command(resume={asked.id: {"approve": False}}), THREAD) == {
        "x": False,
        "log": [],
    }


def test_an_invalid_answer_inside_a_task_is_an_error_and_can_be_given_again(lib):
    ask, command = lib("types.interrupt"), lib("types.Command")
    asks = lib("func.task")(lambda: ask("?", response_schema=Decision).approve, name="asks")

    @lib("func.entrypoint")(checkpointer=lib("checkpoint.memory.InMemorySaver")())
    def flow(_: Any) -> Any:
        return asks().result()

    flow.invoke(1, THREAD)
    with pytest.raises(ValueError, match="approve") as caught:
        flow.invoke(command(resume={"approve": "perhaps"}), THREAD)
    assert lib("errors.is_invalid_resume")(caught.value)
    assert flow.invoke(command(resume={"approve": True}), THREAD) is True


def test_the_question_of_a_task_can_be_answered_after_another_task_has_failed(lib):
    ask, command = lib("types.interrupt"), lib("types.Command")
    failures = [ValueError("once")]

    @lib("func.task")
    def fails() -> str:
        if failures:
            raise failures.pop()
        return "done"

    asks = lib("func.task")(lambda: ask("?"), name="asks")

    @lib("func.entrypoint")(checkpointer=lib("checkpoint.memory.InMemorySaver")())
    def flow(_: Any) -> Any:
        asked, failed = asks(), fails()
        return [failed.result(), asked.result()]

    with pytest.raises(ValueError, match="once"):
        flow.invoke(1, THREAD)
    assert flow.invoke(command(resume="yes"), THREAD) == ["done", "yes"]


def test_after_an_invalid_answer_the_question_is_asked_again():
    """LangGraph gives the node the invalid answer once more."""
    lib = Library("milepost")
    ask, command = lib("types.interrupt"), lib("types.Command")
    graph = compiled(lib, lambda state: {"x": ask("?", response_schema=Decision)})
    graph.invoke({}, THREAD)
    with pytest.raises(ValueError, match="Decision"):
        graph.invoke(command(resume="nonsense"), THREAD)
    assert graph.invoke(None, THREAD)["__interrupt__"][0].value == "?"


def test_an_interrupt_knows_its_older_name(lib):
    made = lib("types.Interrupt").from_ns("v", "node:1")
    assert made == lib("types.Interrupt").from_ns("v", "node:1")
    assert made.id != lib("types.Interrupt").from_ns("v", "node:2").id
    with pytest.warns(lib("warnings.LangGraphDeprecatedSinceV10")):
        assert made.interrupt_id == made.id


# -- runtime, types, constants


def test_runtimes_are_merged_and_patched(lib):
    runtime, info = lib("runtime.Runtime"), lib("runtime.ExecutionInfo")
    default = lib("runtime.DEFAULT_RUNTIME")
    assert default == runtime()
    with pytest.raises(RuntimeError):
        default.patch_execution_info(task_id="t")
    said: list[Any] = []
    one = runtime(context="c", previous=1, stream_writer=said.append)
    two = runtime(previous=0, execution_info=info("cp", "ns", "task"))
    merged = one.merge(two)
    assert (merged.context, merged.previous, merged.execution_info.task_id) == ("c", 0, "task")
    merged.stream_writer("x")
    assert said == ["x"]
    assert merged.patch_execution_info(node_attempt=2).execution_info.node_attempt == 2
    assert merged.override(context="d").context == "d"


def test_a_server_tells_nodes_who_calls(lib):
    class User(dict):
        identity = "me"
        is_authenticated = True
        display_name = "Me"
        permissions = ()

    found = []
    graph = compiled(lib, lambda state: found.append(lib("runtime.get_runtime")().server_info))
    graph.invoke({"x": 1}, THREAD)
    assert found == [None]
    config = {"assistant_id": "a", "graph_id": "g", "langgraph_auth_user": User()}
    graph.invoke({"x": 1}, {"configurable": {"thread_id": "2", **config}})
    assert (found[1].assistant_id, found[1].graph_id, found[1].user.identity) == ("a", "g", "me")
    assert isinstance(found[1], lib("runtime.ServerInfo"))
    assert isinstance(User(), lib("runtime.BaseUser"))


def test_a_timeout_is_made_a_policy(lib):
    from datetime import timedelta

    policy = lib("types.TimeoutPolicy")
    assert policy.coerce(None) is None
    assert policy.coerce(policy()) is None
    assert policy.coerce(2) == policy(run_timeout=2.0)
    given = policy(idle_timeout=timedelta(seconds=3), refresh_on="heartbeat")
    assert policy.coerce(given) == policy(idle_timeout=3.0, refresh_on="heartbeat")
    for wrong in (0, -1):
        with pytest.raises(ValueError):
            policy.coerce(wrong)


def test_constants_are_the_same():
    theirs, ours = Library("langgraph"), Library("milepost")
    for name in ("CONF", "CONFIG_KEY_CHECKPOINTER", "TASKS", "TAG_HIDDEN", "TAG_NOSTREAM"):
        assert theirs(f"constants.{name}") == ours(f"constants.{name}")


@pytest.mark.parametrize("name", ["Send", "Interrupt"])
def test_send_is_still_found_among_the_constants_with_a_warning(lib, name):
    with pytest.warns(lib("warnings.LangGraphDeprecatedSinceV10")):
        assert lib(f"constants.{name}") is lib(f"types.{name}")


def test_a_saver_in_the_config_is_that_of_the_call(lib):
    saver = lib("checkpoint.memory.InMemorySaver")()
    seen: list[Any] = []
    inner = lib("graph.StateGraph")(State)
    inner.add_node("in", lambda state, config: seen.append(config["configurable"]) or {"x": 2})
    builder = lib("graph.StateGraph")(State)
    builder.add_node("node", inner.add_edge(lib("graph.START"), "in").compile())
    graph = builder.add_edge(lib("graph.START"), "node").compile()
    config = {"configurable": {"thread_id": "1", lib("constants.CONFIG_KEY_CHECKPOINTER"): saver}}
    assert graph.invoke({"x": 1}, config)["x"] == 2
    assert graph.get_state(config).values["x"] == 2
    assert saver.get_tuple(THREAD) is not None


# -- graphs


def test_a_message_graph_is_a_conversation(lib):
    with pytest.warns(lib("warnings.LangGraphDeprecatedSinceV10"), match="MessageGraph"):
        builder = lib("graph.MessageGraph")()
    builder.add_node("bot", lambda messages: ("assistant", f"{len(messages)}"))
    builder.set_entry_point("bot")
    builder.set_finish_point("bot")
    said = builder.compile().invoke([("user", "hi"), ("user", "there")])
    assert [message.content for message in said] == ["hi", "there", "2"]


def test_defaults_of_nodes_have_a_timeout_and_add_up(lib):
    async def slow(state: Any) -> Any:
        await asyncio.sleep(30)

    builder = lib("graph.StateGraph")(State)
    builder.add_node("slow", slow).add_edge(lib("graph.START"), "slow")
    builder.set_node_defaults(timeout=0.01)
    builder.set_node_defaults(
        retry_policy=lib("types.RetryPolicy")(max_attempts=2, jitter=False, initial_interval=0.0)
    )
    with pytest.raises(lib("errors.NodeTimeoutError")) as caught:
        asyncio.run(builder.compile().ainvoke({"x": 1}))
    assert (caught.value.node, caught.value.timeout) == ("slow", 0.01)


@pytest.mark.parametrize("is_async", [False, True])
def test_the_default_of_retries_is_for_error_handlers_too(lib, is_async):
    attempts = []

    def broken(state: Any) -> Any:
        attempts.append("node")
        raise ValueError("broken")

    def handler(state: Any, error: Any) -> Any:
        attempts.append("handler")
        if len(attempts) < 6:
            raise ValueError("not yet")
        return {"x": 7}

    handler.__annotations__["error"] = lib("errors.NodeError")
    builder = lib("graph.StateGraph")(State)
    builder.add_node("broken", broken, error_handler=handler)
    builder.add_edge(lib("graph.START"), "broken")
    policy = lib("types.RetryPolicy")(
        max_attempts=3, jitter=False, initial_interval=0.0, retry_on=ValueError
    )
    graph = builder.set_node_defaults(retry_policy=policy).compile()
    found = asyncio.run(graph.ainvoke({"x": 1})) if is_async else graph.invoke({"x": 1})
    assert found["x"] == 7
    assert attempts == ["node"] * 3 + ["handler"] * 3


def test_a_question_of_a_graph_with_a_saver_of_its_own_is_kept_where_its_thread_is(lib, tmp_path):
    """As of an agent that is also used alone, in the memory of the process, which ends here."""
    ran = []

    def prepare(state: Any) -> Any:
        ran.append("prepare")
        return {"log": ["prepared"]}

    def ask(state: Any) -> Any:
        return {"log": [lib("types.interrupt")("go on?")]}

    def graph(saver: Any) -> Any:
        inner = lib("graph.StateGraph")(State).add_sequence([prepare, ask])
        inner.add_edge(lib("graph.START"), "prepare")
        agent = inner.compile(checkpointer=lib("checkpoint.memory.InMemorySaver")())
        outer = lib("graph.StateGraph")(State).add_node("agent", agent)
        return outer.add_edge(lib("graph.START"), "agent").compile(checkpointer=saver)

    path = str(tmp_path / "threads.db")
    with lib("checkpoint.sqlite.SqliteSaver").from_conn_string(path) as saver:
        graph(saver).invoke({"log": ["hello"]}, THREAD)
    with lib("checkpoint.sqlite.SqliteSaver").from_conn_string(path) as saver:
        again = graph(saver)
        [task] = again.get_state(THREAD, subgraphs=True).tasks
        assert task.state.values["log"] == ["hello", "prepared"]
        found = again.invoke(lib("types.Command")(resume="yes"), THREAD)
    assert found["log"][-2:] == ["prepared", "yes"]
    assert ran == ["prepare"]


def test_a_graph_with_a_store_of_its_own_uses_the_one_of_the_graph_around_it(lib):
    def remember(state: Any, store: Any) -> Any:
        store.put(("facts",), "sky", {"is": "blue"})

    remember.__annotations__["store"] = lib("store.base.BaseStore")
    stores = [lib("store.memory.InMemoryStore")() for _ in range(2)]
    inner = lib("graph.StateGraph")(State).add_node("remember", remember)
    inner.add_edge(lib("graph.START"), "remember")
    outer = lib("graph.StateGraph")(State).add_node("inner", inner.compile(store=stores[0]))
    outer.add_edge(lib("graph.START"), "inner").compile(store=stores[1]).invoke({"x": 1})
    assert [len(store.search(("facts",))) for store in stores] == [0, 1]


def test_a_graph_that_is_called_on_a_thread_of_its_own_keeps_its_store(lib):
    def remember(state: Any, store: Any) -> Any:
        store.put(("facts",), "sky", {"is": "blue"})

    remember.__annotations__["store"] = lib("store.base.BaseStore")
    stores = [lib("store.memory.InMemoryStore")() for _ in range(2)]
    savers = [lib("checkpoint.memory.InMemorySaver")() for _ in range(2)]
    inner = lib("graph.StateGraph")(State).add_node("remember", remember)
    inner = inner.add_edge(lib("graph.START"), "remember")
    inner = inner.compile(store=stores[0], checkpointer=savers[0])

    def call(state: Any) -> Any:
        inner.invoke({"x": 1}, {"configurable": {"thread_id": "its own"}})

    outer = lib("graph.StateGraph")(State).add_node("call", call)
    outer = outer.add_edge(lib("graph.START"), "call")
    outer.compile(store=stores[1], checkpointer=savers[1]).invoke({"x": 1}, THREAD)
    assert [len(store.search(("facts",))) for store in stores] == [1, 0]


def test_an_update_in_a_node_says_more_of_its_thread_than_the_run_around_it(lib):
    saver = lib("checkpoint.memory.InMemorySaver")()
    inner = lib("graph.StateGraph")(State).add_node("a", lambda state: {})
    inner = inner.add_edge(lib("graph.START"), "a").compile(checkpointer=saver)
    other: Any = {"configurable": {"thread_id": "2", "user": "bob"}}

    def update(state: Any) -> Any:
        inner.update_state(other, {"x": 1})

    outer = lib("graph.StateGraph")(State).add_node("update", update)
    outer = outer.add_edge(lib("graph.START"), "update").compile(checkpointer=saver)
    outer.invoke({"x": 1}, {"configurable": {"thread_id": "1", "user": "ada"}})
    assert saver.get_tuple(other).metadata["user"] == "bob"


@pytest.mark.parametrize("handles", [False, True])
def test_a_heartbeat_of_the_runtime_that_a_node_is_given_counts(lib, handles):
    async def slow(state: Any, runtime: Any) -> Any:
        for _ in range(5):
            await asyncio.sleep(0.25)
            runtime.heartbeat()
        return {"x": runtime.execution_info.node_attempt}

    slow.__annotations__["runtime"] = lib("runtime.Runtime")

    async def broken(state: Any) -> Any:
        raise ValueError("broken")

    policy = lib("types.TimeoutPolicy")(idle_timeout=1.0)
    builder = lib("graph.StateGraph")(State).set_node_defaults(timeout=policy)
    if handles:
        builder.add_node("slow", broken, error_handler=slow)
    else:
        builder.add_node("slow", slow)
    graph = builder.add_edge(lib("graph.START"), "slow").compile()
    assert asyncio.run(graph.ainvoke({"x": 0}))["x"] == 1


def test_an_entrypoint_has_a_timeout(lib):
    @lib("func.entrypoint")(timeout=0.01)
    async def program(value: int) -> int:
        await asyncio.sleep(30)
        return value

    with pytest.raises(lib("errors.NodeTimeoutError")):
        asyncio.run(program.ainvoke(1))


def test_a_sync_entrypoint_cannot_have_a_timeout(lib):
    with pytest.raises(ValueError, match="sync"):

        @lib("func.entrypoint")(timeout=1)
        def program(value: int) -> int:
            return value


def test_the_settings_of_an_entrypoint_have_their_places(lib):
    saver, store = lib("checkpoint.memory.InMemorySaver")(), lib("store.memory.InMemoryStore")()

    @lib("func.entrypoint")(saver, store)
    def program(value: int) -> Any:
        return lib("config.get_store")() is store

    assert program.invoke(1, THREAD) is True


def test_invoke_gives_events_of_inner_graphs_too(lib):
    inner = lib("graph.StateGraph")(State).add_node("in", lambda state: {"x": 2})
    graph = compiled(lib, inner.add_edge(lib("graph.START"), "in").compile())
    assert graph.invoke({"x": 1}, THREAD, subgraphs=True)["x"] == 2
    events = graph.invoke({"x": 1}, THREAD, stream_mode="updates", subgraphs=True)
    assert [(len(ns), update) for ns, update in events] == [
        (1, {"in": {"x": 2}}),
        (0, {"node": {"x": 2, "log": []}}),
    ]


def test_a_builder_knows_its_schemas_and_whether_it_was_compiled(lib):
    builder = lib("graph.StateGraph")(State)
    assert not builder.compiled
    assert set(builder.schemas[State]) == {"x", "log"}
    builder.add_node("a", lambda state: None).add_edge(lib("graph.START"), "a").compile()
    assert builder.compiled


def test_managed_values_have_their_modules(lib):
    last, left = lib("managed.is_last_step.IsLastStep"), lib("managed.RemainingSteps")
    is_managed = lib("managed.base.is_managed_value")
    assert is_managed(last.__metadata__[0])
    assert not is_managed(int)
    schema = TypedDict("Near", {"x": int, "left": left, "last": last})  # noqa: UP013
    builder = lib("graph.StateGraph")(schema)
    builder.add_node("a", lambda state: {"x": (state["left"], state["last"])})
    builder.add_edge(lib("graph.START"), "a")
    assert builder.compile().invoke({"x": 0}, {"recursion_limit": 5})["x"] == (4, False)


# -- parts of a user interface


def test_parts_of_a_user_interface_are_pushed_merged_and_removed(lib):
    push, delete = lib("graph.ui.push_ui_message"), lib("graph.ui.delete_ui_message")
    reducer = lib("graph.ui.ui_message_reducer")
    schema = TypedDict("Shown", {"ui": Annotated[list, reducer]})  # noqa: UP013

    def node(state: Any) -> Any:
        push("chart", {"a": 1}, id="c")
        push("chart", {"b": 2}, id="c", merge=True, message={"id": "m"})
        push("text", {}, id="t")
        delete("t")
        push("gone", {}, state_key=None)

    builder = lib("graph.StateGraph")(schema)
    graph = builder.add_node("node", node).add_edge(lib("graph.START"), "node").compile()
    (part,) = graph.invoke({"ui": []})["ui"]
    assert (part["name"], part["props"]) == ("chart", {"a": 1, "b": 2})
    assert (part["metadata"]["merge"], part["metadata"]["message_id"]) == (True, "m")
    sent = list(graph.stream({"ui": []}, stream_mode="custom"))
    assert [(one["type"], one["id"]) for one in sent[:4]] == [
        ("ui", "c"),
        ("ui", "c"),
        ("ui", "t"),
        ("remove-ui", "t"),
    ]
    with pytest.raises(ValueError, match="nothing"):
        lib("graph.ui.ui_message_reducer")([], {"type": "remove-ui", "id": "nothing"})


# -- helpers of savers


def test_helpers_of_savers_give_the_same():
    theirs, ours = Library("langgraph"), Library("milepost")
    config = {
        "metadata": {"a": "x\0", "b": {"no": 1}, "step": 9},
        "configurable": {"thread_id": "1", "__c": 1, "user": "u", "n": 1.5, "o": object()},
    }
    for name in ("get_checkpoint_metadata", "get_serializable_checkpoint_metadata"):
        given = {"source": "loop", "step": 1, "writes": {}}
        found = [lib(f"checkpoint.base.{name}")(config, given) for lib in (theirs, ours)]
        assert found[0] == found[1]
    excluded = "checkpoint.base.EXCLUDED_METADATA_KEYS"
    assert theirs(excluded) == ours(excluded)
    key = "checkpoint.base.writes_sort_key"
    assert theirs(key)("p", "t", 3) == ours(key)("p", "t", 3) == ("p", "t", 3)


def test_a_checkpoint_is_made_of_channels(lib):
    empty = lib("checkpoint.base.empty_checkpoint")()
    empty["channel_versions"] = {"a": 1, "b": 1}
    full, void = lib("channels.LastValue")(int), lib("channels.LastValue")(int)
    full.update([5])
    made = lib("checkpoint.base.create_checkpoint")(empty, {"a": full, "b": void, "c": full}, 1)
    # LangGraph puts its mark for "no value" under the key of an empty channel.
    values = {k: v for k, v in made["channel_values"].items() if type(v) is not object}
    assert values == {"a": 5}
    assert made["v"] == lib("checkpoint.base.LATEST_VERSION") == 2
    assert made["id"] > empty["id"]
    assert made["channel_versions"] == empty["channel_versions"]
    assert lib("checkpoint.base.create_checkpoint")(empty, None, 1, id="x")["id"] == "x"


def test_uuids_are_in_order(lib):
    uuid6 = lib("checkpoint.base.id.uuid6")
    made = [uuid6(node=7, clock_seq=n % 3) for n in range(50)]
    assert [str(one) for one in made] == sorted(str(one) for one in made)
    assert {(one.version, one.node, one.clock_seq) for one in made} == {(6, 7, n) for n in range(3)}
    assert made[0].time < made[-1].time


def test_a_saver_with_a_longer_allowlist_shares_the_storage(lib):
    saver = lib("checkpoint.memory.InMemorySaver")()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = saver.with_allowlist([("some.module", "Name")])
    assert other.storage is saver.storage


def test_savers_in_postgres_have_a_common_base(lib):
    pytest.importorskip("psycopg")
    base = lib("checkpoint.postgres.base.BasePostgresSaver")
    for path in ("postgres.PostgresSaver", "postgres.aio.AsyncPostgresSaver"):
        assert issubclass(lib(f"checkpoint.{path}"), base)
    for path in ("postgres.ShallowPostgresSaver", "postgres.aio.AsyncShallowPostgresSaver"):
        assert issubclass(lib(f"checkpoint.{path}"), base)
    assert not isinstance(lib("checkpoint.memory.InMemorySaver")(), base)
