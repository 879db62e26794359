"""What the registry says of a thread after a run of LangGraph's own runtime on our savers."""

import operator
from typing import Annotated, Any, TypedDict

import pytest

from milepost.checkpoint.memory import InMemorySaver as MemorySaver
from milepost.inspect import Database, Ref, resume, run, show

langgraph = pytest.importorskip("langgraph.graph")

from langgraph.checkpoint.base import empty_checkpoint  # noqa: E402
from langgraph.checkpoint.memory import InMemorySaver  # noqa: E402
from langgraph.types import Command, Send, interrupt  # noqa: E402

from milepost.integrations.langgraph import as_langgraph  # noqa: E402
from milepost.integrations.langgraph._adapters import head_fence  # noqa: E402


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def plan(_: State) -> State:
    return {"log": ["planned"]}


def ask(_: State) -> State:
    return {"log": [interrupt("Go on?")]}


def fail(_: State) -> State:
    raise RuntimeError("it fails")


def built(kind: str) -> Any:
    builder = langgraph.StateGraph(State)
    builder.add_node("plan", plan)
    builder.add_edge(langgraph.START, "plan")
    if kind in ("asks next", "stops"):
        builder.add_node("ask", ask)
        builder.add_edge("plan", "ask")
    elif kind in ("asks beside", "fails beside"):
        builder.add_node("other", ask if kind == "asks beside" else fail)
        builder.add_edge(langgraph.START, "other")
    elif kind == "sends":
        builder.add_node("ask", ask)
        builder.add_conditional_edges("plan", lambda s: [Send("ask", s), Send("ask", s)])
    elif kind == "asks inside":
        inner = langgraph.StateGraph(State)
        inner.add_node("plan", plan)
        inner.add_node("ask", ask)
        inner.add_edge(langgraph.START, "plan")
        inner.add_edge(langgraph.START, "ask")
        builder.add_node("inner", inner.compile())
        builder.add_edge("plan", "inner")
    return builder


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def any_saver(request: pytest.FixtureRequest) -> Any:
    """Each kind, by its own fixture."""
    if request.param == "memory":
        from milepost.checkpoint.memory import InMemorySaver

        yield InMemorySaver()
    elif request.param == "sqlite":
        from milepost.checkpoint.sqlite import SqliteSaver

        with SqliteSaver.from_conn_string(":memory:") as saver:
            yield saver
    elif request.param == "postgres":
        from milepost.checkpoint.postgres import PostgresSaver

        uri = request.getfixturevalue("shared_uri")
        with PostgresSaver.from_conn_string(uri) as saver:
            saver.setup()
            yield saver
    else:
        from milepost.checkpoint.redis import RedisSaver

        with RedisSaver.from_conn_string(request.getfixturevalue("redis_url")) as saver:
            yield saver


def at(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


ASKING = ("asks next", "asks beside", "asks inside", "sends")


@pytest.mark.parametrize("fence", [False, True])
def test_a_run_that_asks_or_fails_or_ends_leaves_its_status(any_saver, fence):
    def status(thread: str) -> Any:
        return any_saver.get_thread(thread).status

    for kind in (*ASKING, "fails beside", "ends"):
        graph = built(kind).compile(checkpointer=as_langgraph(any_saver, fence=fence))
        for durability in ("sync", "exit"):
            thread = f"{kind} {durability} {fence}"
            try:
                graph.invoke({"log": []}, at(thread), durability=durability)
            except RuntimeError:
                assert status(thread) == "error", thread
                continue
            if kind == "ends":
                assert status(thread) == "idle", thread
                continue
            assert status(thread) == "interrupted", thread
            answers = {one.id: "yes" for one in graph.get_state(at(thread)).interrupts}
            graph.invoke(Command(resume=answers), at(thread), durability=durability)
            assert graph.get_state(at(thread)).next == ()
            assert status(thread) == "idle", thread


@pytest.mark.parametrize("fence", [False, True])
@pytest.mark.parametrize("turns", [0, 1])
def test_an_error_that_comes_before_its_checkpoint_is_the_threads_status(any_saver, turns, fence):
    """With durability="exit" LangGraph stores both at the same time, in any order."""
    theirs = as_langgraph(any_saver, fence=fence)
    name = f"early {turns} {fence}"
    for _ in range(turns):
        built("ends").compile(checkpointer=theirs).invoke({"log": []}, at(name), durability="sync")
    graph = built("fails beside").compile(checkpointer=InMemorySaver())
    with pytest.raises(RuntimeError):
        graph.invoke({"log": []}, at("model"), durability="exit")
    saved = graph.checkpointer.get_tuple(at("model"))
    failed = next(write for write in saved.pending_writes if write[1] == "__error__")

    found = theirs.get_tuple(at(name))
    parent = found.config["configurable"] if found else {**at(name)["configurable"]}
    config = {"configurable": {"checkpoint_ns": "", **parent}}
    at_new = {"configurable": {**config["configurable"], "checkpoint_id": saved.checkpoint["id"]}}
    theirs.put_writes(at_new, [failed[1:]], failed[0])
    theirs.put(config, saved.checkpoint, saved.metadata, saved.checkpoint["channel_versions"])
    assert any_saver.get_thread(name).status == "error"


@pytest.mark.parametrize("fence", [False, True])
@pytest.mark.parametrize(
    ("channel", "status"), [("__error__", "error"), ("__interrupt__", "interrupted")]
)
def test_a_checkpoint_that_is_put_again_keeps_the_threads_status(any_saver, fence, channel, status):
    theirs, name = as_langgraph(any_saver, fence=fence), f"again {fence} {status}"
    made = waiting_checkpoint("1")
    place = {"configurable": {**at(name)["configurable"], "checkpoint_ns": ""}}
    config = theirs.put(place, made, {}, made["channel_versions"])
    theirs.put_writes(config, [(channel, "x")], "task")
    assert any_saver.get_thread(name).status == status
    theirs.put(config, made, {}, made["channel_versions"])
    assert any_saver.get_thread(name).status == status


@pytest.mark.parametrize("fence", [False, True])
@pytest.mark.parametrize("channel", ["__error__", "__interrupt__"])
def test_what_a_task_wrote_before_its_checkpoint_came_does_not_keep_the_status_of_the_turn_before(
    any_saver, fence, channel
):
    """With durability="async" LangGraph stores both at the same time, in any order."""
    theirs, name = as_langgraph(any_saver, fence=fence), f"turns {fence} {channel}"
    first = waiting_checkpoint("1")
    place = {"configurable": {**at(name)["configurable"], "checkpoint_ns": ""}}
    config = theirs.put(place, first, {}, first["channel_versions"])
    theirs.put_writes(config, [(channel, "x")], "task")
    theirs.get_tuple(at(name))
    second = waiting_checkpoint("2")
    there = {"configurable": {**config["configurable"], "checkpoint_id": second["id"]}}
    theirs.put_writes(there, [("log", ["planned"])], "another")
    theirs.put(config, second, {}, second["channel_versions"])
    assert any_saver.get_thread(name).status == "running"


@pytest.mark.parametrize("channel", ["__error__", "__interrupt__"])
def test_a_checkpoint_that_comes_after_a_newer_one_keeps_the_threads_status(any_saver, channel):
    theirs, name = as_langgraph(any_saver), f"late {channel}"
    late, newer = waiting_checkpoint("1"), waiting_checkpoint("2")
    place = {"configurable": {**at(name)["configurable"], "checkpoint_ns": ""}}
    config = theirs.put(place, newer, {}, newer["channel_versions"])
    theirs.put_writes(config, [(channel, "x")], "task")
    status = any_saver.get_thread(name).status
    assert status in ("error", "interrupted")
    theirs.put(place, late, {}, late["channel_versions"])
    assert any_saver.get_thread(name).status == status


def waiting_checkpoint(version: str) -> Any:
    """A checkpoint at which the node `plan` is to run."""
    made = {**empty_checkpoint(), "channel_versions": {"branch:to:plan": version}}
    return {**made, "channel_values": {"branch:to:plan": None}}


def test_a_run_is_not_said_to_take_its_thread_from_itself(any_saver, caplog):
    graph = built("ends").compile(checkpointer=as_langgraph(any_saver, fence=True))
    with caplog.at_level("INFO", "milepost"):
        for _ in range(2):
            graph.invoke({"log": []}, at("own thread"), durability="sync")
    assert [line for line in caplog.messages if "own thread" in line] == []


def test_both_in_one_transaction_leave_the_status_too(any_saver):
    if isinstance(any_saver, MemorySaver):
        pytest.skip("it has no transactions of several steps")
    as_langgraph(any_saver).put(at("both"), empty_checkpoint(), {}, {})
    first = any_saver.get_tuple(at("both"))
    new = waiting_checkpoint("1")
    new_config = {"configurable": {**first.config["configurable"], "checkpoint_id": new["id"]}}
    given = (first.config, new, {}, new["channel_versions"])
    steps = [
        any_saver._put_writes(new_config, [("__error__", "it fails")], "task", ""),
        head_fence.prepared(any_saver, *given),
    ]
    assert any_saver.commit(steps) == [None, None]
    assert any_saver.get_thread("both").status == "error"


def test_what_a_task_asked_before_its_checkpoint_came_is_not_forgotten(any_saver):
    """With durability="async" LangGraph stores both at the same time, in any order."""
    theirs = as_langgraph(any_saver)
    graph = built("asks next").compile(checkpointer=theirs)
    graph.invoke({"log": []}, at("model"), durability="sync")
    newest, *older = graph.get_state_history(at("model"))
    asked = [write for write in theirs.get_tuple(newest.config).pending_writes if write[2]]
    assert asked
    for snapshot in reversed(older):
        copied(theirs, snapshot)
    task_id = asked[0][0]
    at_newest = {"configurable": {**newest.config["configurable"], "thread_id": "copy"}}
    theirs.put_writes(at_newest, [(channel, value) for _, channel, value in asked], task_id)
    copied(theirs, newest)
    assert any_saver.get_thread("copy").status == "interrupted"


def copied(theirs: Any, snapshot: Any) -> None:
    saved = theirs.get_tuple(snapshot.config)
    parent = (saved.parent_config or {}).get("configurable", {}).get("checkpoint_id")
    place = {"thread_id": "copy", "checkpoint_ns": "", "checkpoint_id": parent}
    versions = saved.checkpoint["channel_versions"]
    theirs.put({"configurable": place}, saved.checkpoint, saved.metadata, versions)


def test_our_faces_tell_that_a_run_has_stopped_at_a_node(any_saver):
    db = Database.of(any_saver)
    graph = built("stops").compile(interrupt_before=["ask"])
    list(run(db, graph, "stopped", {"log": []}))
    assert show(db, Ref("stopped")).status == "interrupted"
    graph = built("stops").compile(interrupt_after=["plan"])
    list(run(db, graph, "stopped after", {"log": []}))
    assert show(db, Ref("stopped after")).status == "interrupted"
    list(resume(db, graph, Ref("stopped after")))
    assert [one.value for one in show(db, Ref("stopped after")).interrupts] == ["Go on?"]
