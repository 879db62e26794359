"""Short threads: what is stored and fetched so that a cold read of one is quick."""

from __future__ import annotations

import operator
import random
import string
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage

from milepost import START, StateGraph
from milepost.channels import LastValue
from milepost.checkpoint._sql.read.values import Resolver
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import MessagesState
from milepost.pregel import ChannelWriteEntry, NodeBuilder, Pregel
from milepost.types import Command, interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIG: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 100}
LARGE = "x" * 3000


class Log(TypedDict):
    lines: Annotated[list[str], operator.add]


def chat(saver: Any) -> Any:
    builder = StateGraph(Log).add_node("reply", lambda s: {"lines": [LARGE]})
    return builder.add_edge(START, "reply").compile(checkpointer=saver)


def complete(saver: Any) -> list[int]:
    """Whether each manifest of a thread is complete, oldest first."""
    sql = "SELECT complete FROM checkpoints ORDER BY checkpoint_id"
    return [row[0] for row in saver.conn.execute(sql).fetchall()]


def test_the_manifests_of_a_short_thread_are_complete(sqlite):
    for _ in range(5):
        chat(sqlite).invoke({"lines": ["hello"]}, CONFIG, durability="sync")
    assert complete(sqlite) == [1] * 15


def test_the_manifests_of_a_long_thread_are_mostly_changes(sqlite):
    for _ in range(20):
        chat(sqlite).invoke({"lines": ["hello"]}, CONFIG, durability="sync")
    found = complete(sqlite)
    assert all(found[:30])
    assert sum(found[40:]) <= 3


def test_the_manifests_of_many_channels_are_changes_from_the_first_on(sqlite):
    keys = {f"key{n}": int for n in range(20)}
    schema: Any = TypedDict("schema", keys)  # type: ignore[operator]
    builder = StateGraph(schema).add_node("count", lambda s: {"key0": s["key0"] + 1})
    builder.add_edge(START, "count")
    graph = builder.compile(checkpointer=sqlite)
    graph.invoke(dict.fromkeys(keys, 0), CONFIG, durability="sync")
    assert 0 in complete(sqlite)


def fetched(saver: Any, read: Callable[[], Any]) -> list[str]:
    """The values whose rows are looked up while something is read."""
    seen: list[str] = []
    saver.conn.set_trace_callback(seen.append)
    try:
        read()
    finally:
        saver.conn.set_trace_callback(None)
    return [sql for sql in seen if "FROM checkpoint_held" in sql]


def test_the_state_of_the_checkpoint_before_the_latest_is_not_fetched(path):
    """Its version of the list is a row of its own, which the latest does not build on."""
    with SqliteSaver.from_conn_string(path) as saver:
        edit = StateGraph(dict).add_node("edit", lambda s: {"text": s["text"][::-1] + LARGE})
        edit.add_edge(START, "edit")
        graph = edit.compile(checkpointer=saver)
        graph.invoke({"text": "".join(map(str, range(2000)))}, CONFIG, durability="sync")
    with SqliteSaver.from_conn_string(path) as saver:
        graph = edit.compile(checkpointer=saver)
        read: list[Any] = []
        versions = fetched(saver, lambda: read.append(graph.get_state(CONFIG)))
        assert len(versions) == 1
        assert read[0].metadata["writes"] == {"edit": read[0].values}


def test_what_made_a_state_is_told_where_large_values_start_tasks(saver, reopen):
    """A node that listens to a channel which it writes itself: the value that started its task
    is another one in the state after it, and must be fetched to find that task."""

    def replace(text: str) -> str | None:
        return None if text.startswith("2") else str(int(text[0]) + 1) + noise(text[0])

    write = ChannelWriteEntry("text", skip_none=True)
    graph = Pregel(
        nodes={"replace": NodeBuilder().subscribe_only("text").do(replace).write_to(write)},
        channels={"text": LastValue(str)},
        input_channels="text",
        output_channels="text",
        checkpointer=saver,
    )
    graph.invoke("0" + noise("input"), CONFIG, durability="sync")
    with reopen() as cold:
        again = graph.copy(update={"checkpointer": cold})
        end = again.get_state(CONFIG)
        state = again.get_state(end.parent_config)
    assert state.values == end.values
    assert state.metadata["writes"] == {"replace": state.values}


def noise(seed: str) -> str:
    """A text that has nothing in common with others."""
    return "".join(random.Random(seed).choices(string.ascii_letters, k=3000))


def decoded(saver: Any, read: Callable[[], Any], monkeypatch: Any) -> set[str]:
    """The channels of which values are decoded while something is read."""
    seen: set[str] = set()
    value = Resolver.value

    def watched(self: Resolver, channel: str, version: str) -> Any:
        seen.add(channel)
        return value(self, channel, version)

    with monkeypatch.context() as patch:
        patch.setattr(Resolver, "value", watched)
        read()
    return seen


def test_the_values_of_the_history_are_decoded_without_what_started_tasks(sqlite, monkeypatch):
    graph = chat(sqlite)
    graph.invoke({"lines": [LARGE]}, CONFIG, durability="sync")
    history = list(graph.get_state_history(CONFIG))
    first, expected = history[-1], [{"lines": [LARGE] * n} for n in (2, 1, 0)]

    def read() -> None:
        assert [snapshot.values for snapshot in history] == expected

    assert decoded(sqlite, read, monkeypatch) == {"lines"}
    assert "__start__" in decoded(sqlite, lambda: first.next, monkeypatch)
    assert first.next == ("__start__",)


def test_models_of_a_history_are_decoded_for_each_version_and_no_more(sqlite, monkeypatch):
    """Versions do not share them: a program may change a message that it was given."""
    graph = StateGraph(MessagesState).add_node("reply", lambda s: {"messages": [AIMessage(LARGE)]})
    graph = graph.add_edge(START, "reply").compile(checkpointer=sqlite)
    for _ in range(3):
        graph.invoke({"messages": [HumanMessage(LARGE)]}, CONFIG, durability="sync")
    history = list(graph.get_state_history(CONFIG, limit=5))
    counts: list[int] = []
    decode = sqlite._codec.decode_elements

    def counted(count: int, pieces: Any) -> Any:
        counts.append(count)
        return decode(count, pieces)

    monkeypatch.setattr(sqlite._codec, "decode_elements", counted)
    found = [snapshot.values["messages"] for snapshot in history]
    assert [len(messages) for messages in found] == [6, 5, 4, 4, 3]
    assert counts == [6, 5, 4, 4, 3]
    found[0][0].content = "changed"
    assert [messages[0].content for messages in found[1:]] == [LARGE] * 4


def test_what_was_written_from_outside_is_shown_in_the_history(sqlite):
    """Such writes are looked for among those of tasks, which are not unpacked."""

    class State(TypedDict):
        lines: Annotated[list[str], operator.add]

    def ask(_: State) -> Any:
        return {"lines": [interrupt("?")]}

    builder = StateGraph(State).add_node("ask", ask).add_edge(START, "ask")
    graph = builder.compile(checkpointer=sqlite, interrupt_before=["ask"])
    graph.invoke({"lines": ["a"]}, CONFIG, durability="sync")
    graph.invoke(Command(update={"lines": ["b"]}), CONFIG, durability="sync")
    shown = [snapshot.values.get("lines") for snapshot in graph.get_state_history(CONFIG)]
    assert shown == [["a", "b"], []]
    assert graph.get_state(CONFIG).values == {"lines": ["a", "b"]}


class Form(TypedDict):
    document: str
    count: Annotated[int, operator.add]


def stored_inputs(saver: Any) -> int:
    """Bytes of what is stored of a thread's inputs."""
    sql = "SELECT sum(length(blob)) FROM checkpoint_blobs WHERE channel = ?"
    [(size,)] = saver.conn.execute(sql, (START,)).fetchall()
    return int(size)


def test_an_input_that_comes_again_and_again_is_stored_once_if_it_is_large(sqlite):
    graph = StateGraph(Form).add_node("count", lambda _: {"count": 1}).add_edge(START, "count")
    saved = graph.compile(checkpointer=sqlite)
    for _ in range(5):
        saved.invoke({"document": LARGE}, CONFIG, durability="sync")
    assert stored_inputs(sqlite) < 2 * len(LARGE)


def test_a_short_input_is_stored_as_a_part_of_where_it_went(sqlite):
    for turn in range(5):
        chat(sqlite).invoke({"lines": [f"{turn}" * 500]}, CONFIG, durability="sync")
    assert stored_inputs(sqlite) < 500
    values = [state.values for state in chat(sqlite).get_state_history(CONFIG)]
    assert values[0]["lines"][::2] == [f"{turn}" * 500 for turn in range(5)]
