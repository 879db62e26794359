"""The Python programs of the reference documents, with the import root changed.

Each test is one program or recipe, completed only where the page leaves something out, and
compared with what the page says about it. Programs that need a database are in the tests of
their savers.
"""

import asyncio
import operator
import os
from typing import Annotated, Any, Literal, get_args

import pytest
from typing_extensions import TypedDict

# -- 002: the checkpoints chapter


def test_the_two_node_graph_has_the_four_checkpoints_of_the_chapter():
    from operator import add

    from milepost.checkpoint.memory import InMemorySaver
    from milepost.graph import END, START, StateGraph

    class State(TypedDict):
        foo: str
        bar: Annotated[list[str], add]

    def node_a(state: State):
        return {"foo": "a", "bar": ["a"]}

    def node_b(state: State):
        return {"foo": "b", "bar": ["b"]}

    workflow = StateGraph(State)
    workflow.add_node(node_a)
    workflow.add_node(node_b)
    workflow.add_edge(START, "node_a")
    workflow.add_edge("node_a", "node_b")
    workflow.add_edge("node_b", END)

    checkpointer = InMemorySaver()
    graph = workflow.compile(checkpointer=checkpointer)

    config = {"configurable": {"thread_id": "1"}}
    graph.invoke({"foo": ""}, config)

    oldest_first = list(graph.get_state_history(config))[::-1]
    assert [(s.values, s.next) for s in oldest_first] == [
        ({"bar": []}, (START,)),
        ({"foo": "", "bar": []}, ("node_a",)),
        ({"foo": "a", "bar": ["a"]}, ("node_b",)),
        ({"foo": "b", "bar": ["a", "b"]}, ()),
    ]


# -- 001: what get_state and the history print


@pytest.fixture
def guide():
    """The graph of the guide, after its one run with `{"foo": "", "bar": []}`."""
    from milepost.checkpoint.memory import InMemorySaver
    from milepost.graph import END, START, StateGraph

    class State(TypedDict):
        foo: str
        bar: Annotated[list[str], operator.add]

    graph = (
        StateGraph(State)
        .add_node("node_a", lambda state: {"foo": "a", "bar": ["a"]})
        .add_node("node_b", lambda state: {"foo": "b", "bar": ["b"]})
        .add_edge(START, "node_a")
        .add_edge("node_a", "node_b")
        .add_edge("node_b", END)
        .compile(checkpointer=InMemorySaver())
    )
    config = {"configurable": {"thread_id": "1"}}
    graph.invoke({"foo": "", "bar": []}, config)
    return graph, config


def test_get_state_looks_as_the_guide_prints_it(guide):
    graph, config = guide
    state = graph.get_state(config)
    assert state.values == {"foo": "b", "bar": ["a", "b"]}
    assert state.next == ()
    assert set(state.config["configurable"]) == {"thread_id", "checkpoint_ns", "checkpoint_id"}
    assert state.config["configurable"]["checkpoint_ns"] == ""
    assert state.metadata["source"] == "loop"
    assert state.metadata["writes"] == {"node_b": {"foo": "b", "bar": ["b"]}}
    assert state.metadata["step"] == 2
    assert state.parent_config["configurable"]["thread_id"] == "1"
    assert state.tasks == ()


def test_the_history_looks_as_the_guide_prints_it(guide):
    graph, config = guide
    seen = [
        (
            s.values,
            s.next,
            {k: s.metadata[k] for k in ("source", "writes", "step")},
            [(t.name, t.error, t.interrupts) for t in s.tasks],
        )
        for s in graph.get_state_history(config)
    ]
    assert seen == [
        (
            {"foo": "b", "bar": ["a", "b"]},
            (),
            {"source": "loop", "writes": {"node_b": {"foo": "b", "bar": ["b"]}}, "step": 2},
            [],
        ),
        (
            {"foo": "a", "bar": ["a"]},
            ("node_b",),
            {"source": "loop", "writes": {"node_a": {"foo": "a", "bar": ["a"]}}, "step": 1},
            [("node_b", None, ())],
        ),
        (
            {"foo": "", "bar": []},
            ("node_a",),
            {"source": "loop", "writes": None, "step": 0},
            [("node_a", None, ())],
        ),
        (
            {"bar": []},
            ("__start__",),
            {"source": "input", "writes": {"foo": "", "bar": []}, "step": -1},
            [("__start__", None, ())],
        ),
    ]


def test_the_guides_ways_to_find_a_checkpoint(guide):
    graph, config = guide
    graph.update_state(config, {"foo": "edited"})
    history = list(graph.get_state_history(config))
    before_node_b = next(s for s in history if "node_b" in s.next)
    step_2 = next(s for s in history if s.metadata["step"] == 2)
    forks = [s for s in history if s.metadata["source"] == "update"]
    interrupted = next((s for s in history if s.tasks and any(t.interrupts for t in s.tasks)), None)
    assert before_node_b.values == {"foo": "a", "bar": ["a"]}
    assert step_2.values == {"foo": "b", "bar": ["a", "b"]}
    assert len(forks) == 1
    assert interrupted is None


def test_the_namespace_inside_a_node_is_empty_in_the_root_graph():
    from milepost.graph import START, StateGraph
    from milepost.types import RunnableConfig

    class State(TypedDict):
        where: str

    def my_node(state: State, config: RunnableConfig):
        return {"where": config["configurable"]["checkpoint_ns"]}

    graph = StateGraph(State).add_node(my_node).add_edge(START, "my_node").compile()
    assert graph.invoke({"where": "?"}) == {"where": ""}


# -- 004: the concept page


def test_update_state_does_what_the_concept_page_walks_through():
    from operator import add

    from milepost.checkpoint.memory import MemorySaver
    from milepost.graph import START, StateGraph

    class State(TypedDict):
        foo: int
        bar: Annotated[list[str], add]

    builder = StateGraph(State).add_node("node", lambda state: {"foo": 1, "bar": ["a"]})
    graph = builder.add_edge(START, "node").compile(checkpointer=MemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    graph.invoke({}, config=config)
    assert graph.get_state(config).values == {"foo": 1, "bar": ["a"]}
    graph.update_state(config, {"foo": 2, "bar": ["b"]})
    assert graph.get_state(config).values == {"foo": 2, "bar": ["a", "b"]}


# -- 003: the API reference


class S(TypedDict):
    count: Annotated[int, operator.add]


def bump(state: S) -> dict:
    return {"count": 1}


def counting(saver: Any) -> Any:
    """The builder of the page's first program."""
    from milepost.graph import END, START, StateGraph

    builder = StateGraph(S).add_node("bump", bump)
    builder.add_edge(START, "bump").add_edge("bump", END)
    return builder.compile(checkpointer=saver)


def test_the_first_program_counts_across_calls(capsys):
    from milepost.checkpoint.memory import InMemorySaver

    graph = counting(InMemorySaver())
    cfg = {"configurable": {"thread_id": "t-1"}}
    print(graph.invoke({"count": 0}, cfg))
    print(graph.invoke({"count": 0}, cfg))
    print(graph.invoke({"count": 0}, cfg))
    assert capsys.readouterr().out == "{'count': 1}\n{'count': 2}\n{'count': 3}\n"


def test_the_saver_is_a_context_manager_with_an_alias():
    from milepost.checkpoint.memory import InMemorySaver, MemorySaver

    with InMemorySaver() as saver:
        cfg = {"configurable": {"thread_id": "1"}}
        assert counting(saver).invoke({"count": 0}, cfg) == {"count": 1}
    assert MemorySaver is InMemorySaver
    assert not hasattr(InMemorySaver, "from_conn_string")


def test_a_subgraph_may_opt_out_of_checkpointing():
    from milepost.checkpoint.memory import InMemorySaver
    from milepost.graph import END, START, StateGraph

    class SubState(TypedDict):
        value: str

    class ParentState(TypedDict):
        value: str

    def my_step(state: SubState):
        return {"value": state["value"] + "!"}

    sub_builder = StateGraph(SubState)
    sub_builder.add_node("step", my_step)
    sub_builder.add_edge(START, "step").add_edge("step", END)
    subgraph = sub_builder.compile(checkpointer=False)

    parent_builder = StateGraph(ParentState)
    parent_builder.add_node("sub", subgraph)
    parent_builder.add_edge(START, "sub")
    saver = InMemorySaver()
    graph = parent_builder.compile(checkpointer=saver)
    assert graph.invoke({"value": "hi"}, {"configurable": {"thread_id": "1"}}) == {"value": "hi!"}
    assert {t.config["configurable"]["checkpoint_ns"] for t in saver.list(None)} == {""}


def test_ensure_valid_checkpointer_raises_if_the_type_is_invalid():
    from milepost.checkpoint.memory import InMemorySaver
    from milepost.types import ensure_valid_checkpointer

    my_checkpointer = InMemorySaver()
    assert ensure_valid_checkpointer(my_checkpointer) is my_checkpointer
    with pytest.raises(TypeError):
        ensure_valid_checkpointer(object())
    with pytest.raises(TypeError, match=r"the class InMemorySaver: pass InMemorySaver\(\.\.\.\)"):
        ensure_valid_checkpointer(InMemorySaver)


def test_a_snapshot_has_all_the_fields_of_the_page():
    from milepost.checkpoint.base import StateSnapshot
    from milepost.checkpoint.memory import InMemorySaver

    graph = counting(InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    graph.invoke({"count": 0}, config)
    snapshot: StateSnapshot = graph.get_state(config)
    assert isinstance(snapshot, StateSnapshot)
    assert snapshot.values == {"count": 1}
    assert snapshot.next == ()
    assert snapshot.config["configurable"]["thread_id"] == "1"
    assert set(snapshot.metadata) >= {"source", "step", "parents"}
    assert snapshot.metadata["writes"] == {"bump": {"count": 1}}
    assert isinstance(snapshot.created_at, str)
    assert snapshot.parent_config is not None
    assert snapshot.tasks == ()
    assert snapshot.interrupts == ()


def test_interrupts_can_be_inspected_without_running_again(capsys):
    from milepost.checkpoint.memory import InMemorySaver
    from milepost.graph import START, StateGraph
    from milepost.types import Command, interrupt

    class State(TypedDict):
        approved: bool

    def approval_node(state):
        answer = interrupt("Approve this action?")
        return {"approved": answer}

    builder = StateGraph(State).add_node(approval_node).add_edge(START, "approval_node")
    graph = builder.compile(checkpointer=InMemorySaver())
    cfg = {"configurable": {"thread_id": "1"}}
    graph.invoke({}, cfg)
    snapshot = graph.get_state(cfg)
    for intr in snapshot.interrupts:
        print(intr.value)
    assert capsys.readouterr().out == "Approve this action?\n"
    assert graph.invoke(Command(resume=True), cfg) == {"approved": True}


def test_the_history_loop_and_update_state_of_the_page():
    from milepost.checkpoint.memory import InMemorySaver
    from milepost.graph import START, StateGraph

    class State(TypedDict):
        counter: int

    builder = StateGraph(State).add_node("my_node", lambda state: {"counter": state["counter"] + 1})
    graph = builder.add_edge(START, "my_node").compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    graph.invoke({"counter": 0}, config)
    seen = []
    for snapshot in graph.get_state_history(config, limit=10):
        seen.append(snapshot.config["configurable"]["checkpoint_id"])
        assert snapshot.created_at
        assert snapshot.metadata
    assert seen == sorted(seen, reverse=True)
    returned = graph.update_state(config, {"counter": 42}, as_node="my_node")
    assert graph.get_state(returned).values == {"counter": 42}


def test_durability_is_a_literal_and_a_per_call_option():
    from milepost.checkpoint.memory import InMemorySaver
    from milepost.types import Durability

    assert Durability == Literal["sync", "async", "exit"]
    assert get_args(Durability) == ("sync", "async", "exit")
    graph = counting(InMemorySaver())
    cfg = {"configurable": {"thread_id": "1"}}
    inputs = {"count": 0}
    graph.invoke(inputs, cfg, durability="async")
    list(graph.stream(inputs, cfg, durability="sync"))
    assert graph.invoke(inputs, cfg, durability="exit") == {"count": 3}


def test_checkpoint_during_still_works_with_a_deprecation_warning():
    from milepost.checkpoint.memory import InMemorySaver

    graph = counting(InMemorySaver())
    cfg = {"configurable": {"thread_id": "1"}}
    with pytest.warns(DeprecationWarning, match="durability"):
        assert graph.invoke({"count": 0}, cfg, checkpoint_during=False) == {"count": 1}
    assert len(list(graph.get_state_history(cfg))) == 1


def test_an_empty_configurable_raises_what_the_page_quotes():
    from milepost.checkpoint.memory import InMemorySaver

    with pytest.raises(ValueError) as caught:
        counting(InMemorySaver()).invoke({"count": 0}, {"configurable": {}})
    assert str(caught.value).startswith(
        "Checkpointer requires one or more of the following 'configurable' keys: "
        "thread_id, checkpoint_ns, checkpoint_id"
    )


def test_the_erasure_program_prints_one_and_one(capsys):
    """The page's comment says two after two calls; its graph adds one to each new input."""
    from milepost.checkpoint.memory import InMemorySaver
    from milepost.graph import END, START, StateGraph

    class S(TypedDict):
        count: int

    builder = StateGraph(S).add_node("bump", lambda s: {"count": s["count"] + 1})
    builder.add_edge(START, "bump").add_edge("bump", END)
    saver = InMemorySaver()
    graph = builder.compile(checkpointer=saver)
    cfg = {"configurable": {"thread_id": "user-42"}}
    graph.invoke({"count": 0}, cfg)
    print(graph.invoke({"count": 0}, cfg)["count"])
    saver.delete_thread("user-42")
    assert len(saver.storage) == len(saver.writes) == len(saver.blobs) == 0
    print(graph.invoke({"count": 0}, cfg)["count"])
    assert capsys.readouterr().out == "1\n1\n"
    graph.delete_thread("user-42")
    assert list(graph.get_state_history(cfg)) == []


def test_the_async_erasure_works_on_the_saver_and_on_the_graph():
    from milepost.checkpoint.memory import InMemorySaver

    async def main() -> None:
        saver = InMemorySaver()
        graph = counting(saver)
        cfg = {"configurable": {"thread_id": "user-42"}}
        await graph.ainvoke({"count": 0}, cfg)
        await saver.adelete_thread("user-42")
        assert await graph.ainvoke({"count": 0}, cfg) == {"count": 1}
        await graph.adelete_thread("user-42")
        assert await graph.ainvoke({"count": 0}, cfg) == {"count": 1}

    asyncio.run(main())


def test_an_encrypted_serializer_hides_what_the_saver_stores():
    from milepost.checkpoint.memory import InMemorySaver
    from milepost.checkpoint.serde.encrypted import EncryptedSerializer
    from milepost.graph import START, StateGraph

    class State(TypedDict):
        secret: str

    key = os.urandom(16)
    encrypted_serde = EncryptedSerializer.from_pycryptodome_aes(key=key)
    saver = InMemorySaver(serde=encrypted_serde)
    builder = StateGraph(State).add_node("node", lambda state: {"secret": "canary-two"})
    graph = builder.add_edge(START, "node").compile(checkpointer=saver)
    cfg = {"configurable": {"thread_id": "1"}}
    assert graph.invoke({"secret": "canary-one"}, cfg) == {"secret": "canary-two"}
    assert graph.get_state(cfg).values == {"secret": "canary-two"}
    assert "canary" not in repr((dict(saver.blobs), dict(saver.writes)))


def test_the_key_may_come_from_the_environment(monkeypatch):
    from milepost.checkpoint.memory import InMemorySaver
    from milepost.checkpoint.serde.encrypted import EncryptedSerializer

    monkeypatch.setenv("LANGGRAPH_AES_KEY", "your-16-char-key")
    encrypted_serde = EncryptedSerializer.from_pycryptodome_aes()
    graph = counting(InMemorySaver(serde=encrypted_serde))
    cfg = {"configurable": {"thread_id": "1"}}
    graph.invoke({"count": 0}, cfg)
    assert graph.invoke({"count": 0}, cfg) == {"count": 2}


def chatting(saver: Any) -> Any:
    """A graph over messages, for the recipes that use one."""
    from langchain_core.messages import AIMessage

    from milepost.graph import START, StateGraph

    class Chat(TypedDict):
        messages: Annotated[list[Any], operator.add]

    def answer(state: Chat):
        return {"messages": [AIMessage(f"I have read {len(state['messages'])}")]}

    return StateGraph(Chat).add_node(answer).add_edge(START, "answer").compile(checkpointer=saver)


def test_recipe_1_the_second_call_sees_the_whole_conversation():
    from langchain_core.messages import HumanMessage

    from milepost.checkpoint.memory import InMemorySaver

    graph = chatting(InMemorySaver())
    cfg = {"configurable": {"thread_id": "alice"}}
    graph.invoke({"messages": [HumanMessage("Hi")]}, cfg)
    result = graph.invoke({"messages": [HumanMessage("What did I say?")]}, cfg)
    assert [m.content for m in result["messages"]] == [
        "Hi",
        "I have read 1",
        "What did I say?",
        "I have read 3",
    ]
    assert isinstance(graph.get_state(cfg).values["messages"][0], HumanMessage)


def planning() -> tuple[Any, list[str]]:
    """A graph with a plan, for the recipes on time travel; and what it did."""
    from milepost.checkpoint.memory import InMemorySaver
    from milepost.graph import START, StateGraph

    class Trip(TypedDict):
        plan: str
        done: Annotated[list[str], operator.add]

    did: list[str] = []

    def walk(state: Trip):
        did.append("walk")
        return {"done": [f"walk {state['plan']}"]}

    def ride(state: Trip):
        did.append("ride")
        return {"done": [f"ride {state['plan']}"]}

    builder = StateGraph(Trip).add_sequence([walk, ride]).add_edge(START, "walk")
    return builder.compile(checkpointer=InMemorySaver()), did


def test_recipe_2_none_replays_from_an_earlier_checkpoint():
    graph, did = planning()
    cfg = {"configurable": {"thread_id": "1"}}
    graph.invoke({"plan": "north"}, cfg)
    did.clear()
    history = list(graph.get_state_history(cfg))
    assert history[-1].metadata["source"] == "input"
    earlier = history[1].config
    assert graph.invoke(None, earlier)["done"] == ["walk north", "ride north"]
    assert did == ["ride"]


def test_recipe_3_an_edited_past_makes_a_new_branch():
    graph, did = planning()
    cfg = {"configurable": {"thread_id": "1"}}
    graph.invoke({"plan": "north"}, cfg)
    did.clear()
    earlier = list(graph.get_state_history(cfg))[1].config
    new_cfg = graph.update_state(earlier, {"plan": "take-a-different-route"})
    result = graph.invoke(None, new_cfg)
    assert result["done"] == ["walk north", "ride take-a-different-route"]
    assert did == ["ride"]
    assert graph.get_state(earlier).values["plan"] == "north"


def test_recipe_4_a_fork_point_is_picked_from_the_snapshots(capsys):
    from milepost.checkpoint.memory import InMemorySaver

    saver = InMemorySaver()
    graph = counting(saver)
    cfg = {"configurable": {"thread_id": "replay-demo"}}

    for _ in range(5):
        graph.invoke({"count": 0}, cfg)

    history = list(graph.get_state_history(cfg))
    assert len(history) == 15
    for snap in history:
        print(snap.created_at, snap.values, snap.metadata["step"])

    old_snapshot = history[2]
    print("Rewinding to step:", old_snapshot.metadata["step"])
    print("State at that point:", old_snapshot.values)
    print("Interrupts at that point:", old_snapshot.interrupts)
    printed = capsys.readouterr().out.splitlines()
    assert printed[-3:] == [
        "Rewinding to step: 11",
        "State at that point: {'count': 4}",
        "Interrupts at that point: ()",
    ]

    forked_config = old_snapshot.config
    assert graph.invoke(None, forked_config) == {"count": 5}

    patched_config = graph.update_state(forked_config, {"count": 99}, as_node="bump")
    assert graph.invoke(None, patched_config) == {"count": 103}


def test_recipe_6_and_7_a_users_threads_are_listed_and_purged():
    from langchain_core.messages import HumanMessage

    from milepost.checkpoint.memory import InMemorySaver

    saver = InMemorySaver()
    graph = chatting(saver)

    def list_user_threads(saver: InMemorySaver, user_prefix: str) -> list[str]:
        return [tid for tid in saver.storage if tid.startswith(user_prefix)]

    def purge_user(saver: InMemorySaver, user_id: str) -> int:
        threads = list_user_threads(saver, f"user:{user_id}:")
        for tid in threads:
            saver.delete_thread(tid)
        return len(threads)

    for user_id, conv_id in (("alice", 1), ("alice", 2), ("bob", 1)):
        cfg = {"configurable": {"thread_id": f"user:{user_id}:conv:{conv_id}"}}
        graph.invoke({"messages": [HumanMessage("hi")]}, cfg)

    assert len(list(saver.list(None))) == 9
    assert purge_user(saver, "alice") == 2
    assert list_user_threads(saver, "user:") == ["user:bob:conv:1"]


def test_recipe_8_list_is_filtered_by_metadata():
    from milepost.checkpoint.memory import InMemorySaver

    saver = InMemorySaver()
    graph = counting(saver)
    cfg = {"configurable": {"thread_id": "1"}}
    for _ in range(3):
        graph.invoke({"count": 0}, cfg)
    checkpoints = list(saver.list(cfg, filter={"source": "loop"}, limit=5))
    assert [c.metadata["step"] for c in checkpoints] == [7, 6, 4, 3, 1]
    checkpoints = list(saver.list(cfg, filter={"step": 2}))
    assert [c.metadata["source"] for c in checkpoints] == ["input"]


def test_the_methods_of_a_saver_have_the_signatures_of_the_page():
    import inspect

    from milepost.checkpoint.base import BaseCheckpointSaver

    expected = {
        "get_tuple": ["config"],
        "list": ["config", "filter", "before", "limit"],
        "put": ["config", "checkpoint", "metadata", "new_versions"],
        "put_writes": ["config", "writes", "task_id", "task_path"],
        "delete_thread": ["thread_id"],
    }
    for method, parameters in expected.items():
        for name in (method, f"a{method}"):
            found = inspect.signature(getattr(BaseCheckpointSaver, name)).parameters
            assert list(found)[1:] == parameters
    listing = inspect.signature(BaseCheckpointSaver.list).parameters
    assert all(
        listing[n].kind is inspect.Parameter.KEYWORD_ONLY for n in ("filter", "before", "limit")
    )


# -- 000: the persistence guide


class Unspeakable:
    """Neither data nor registered: only pickle can store it."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unspeakable) and other.value == self.value

    __hash__ = None  # type: ignore[assignment]


def test_pickle_is_a_fallback_for_those_who_ask_for_it():
    from milepost.checkpoint.memory import InMemorySaver
    from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
    from milepost.graph import START, StateGraph

    class State(TypedDict):
        held: Any

    builder = StateGraph(State).add_node("node", lambda state: {"held": Unspeakable(2)})
    saver = InMemorySaver(serde=JsonPlusSerializer(pickle_fallback=True))
    graph = builder.add_edge(START, "node").compile(checkpointer=saver)
    cfg = {"configurable": {"thread_id": "1"}}
    graph.invoke({"held": Unspeakable(1)}, cfg)
    assert [s.values.get("held") for s in graph.get_state_history(cfg)] == [
        Unspeakable(2),
        Unspeakable(1),
        None,
    ]
