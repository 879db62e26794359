"""Messages in delta channels have ids that stay. Every test is one program on both libraries."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

messages = pytest.importorskip("langchain_core.messages")
THREAD = {"configurable": {"thread_id": "1"}}


def flat(state: list[Any], writes: list[Any]) -> list[Any]:
    """A reducer that gives no ids."""
    return [*state, *(m for w in writes for m in (w if isinstance(w, list) else [w]))]


def graph_of(lib: Any, *written: Any) -> Any:
    delta = importlib.import_module(f"{lib.name}.channels").DeltaChannel

    class Chat(TypedDict):
        log: Any

    Chat.__annotations__["log"] = Annotated[list[Any], delta(flat)]
    builder = lib.StateGraph(Chat)
    before = lib.START
    for at, value in enumerate(written):
        builder.add_node(f"node{at}", lambda _, value=value: {"log": value})
        builder.add_edge(before, f"node{at}")
        before = f"node{at}"
    return builder.compile(checkpointer=lib.InMemorySaver())


def of_channels(lib: Any, *, written: Any = None) -> Any:
    """A graph without a state schema, whose input goes to its channels as it is."""
    channels = importlib.import_module(f"{lib.name}.channels")
    pregel = importlib.import_module(f"{lib.name}.pregel")
    node = pregel.NodeBuilder().subscribe_only("go").do(lambda _: written)
    return pregel.Pregel(
        nodes={"node": node.write_to("out" if written is None else "log")},
        channels={
            "log": channels.DeltaChannel(flat),
            "go": channels.LastValue(int),
            "out": channels.LastValue(int),
        },
        input_channels=["log", "go"],
        output_channels=["log"],
        checkpointer=lib.InMemorySaver(),
    )


def ids(run: Any, graph: Any) -> list[Any]:
    log = run.get_state(graph, THREAD).values["log"]
    return [m["id"] if isinstance(m, dict) else m.id for m in log]


@pytest.mark.parametrize(
    "written",
    [
        lambda: messages.HumanMessage("hi"),
        lambda: [messages.HumanMessage("hi")],
        lambda: [{"role": "user", "content": "hi"}],
        lambda: {"role": "user", "content": "hi"},
    ],
    ids=["message", "list", "dict in a list", "dict"],
)
def test_a_message_that_a_node_writes_has_the_same_id_on_every_read(run, lib, written):
    graph = graph_of(lib, written())
    run.invoke(graph, {"log": []}, THREAD)
    [first] = ids(run, graph)
    assert first
    assert ids(run, graph) == [first]


def test_a_message_of_the_input_has_the_same_id_on_every_read(run, lib):
    graph = graph_of(lib, [])
    run.invoke(graph, {"log": [messages.HumanMessage("hi")]}, THREAD)
    [first] = ids(run, graph)
    assert first
    run.invoke(graph, {"log": [messages.HumanMessage("again")]}, THREAD)
    assert ids(run, graph)[0] == first


def test_a_message_of_an_update_has_the_same_id_on_every_read(run, lib):
    graph = graph_of(lib, [])
    run.update_state(graph, THREAD, {"log": [messages.HumanMessage("hi")]}, "node0")
    [first] = ids(run, graph)
    assert first
    assert ids(run, graph) == [first]


def test_a_message_of_an_overwrite_has_the_same_id_on_every_read(run, lib):
    overwrite = importlib.import_module(f"{lib.name}.types").Overwrite
    graph = graph_of(lib, overwrite([messages.HumanMessage("hi")]))
    run.invoke(graph, {"log": []}, THREAD)
    [first] = ids(run, graph)
    assert first
    assert ids(run, graph) == [first]


def test_lists_and_dicts_of_the_caller_stay_as_they_are(run, lib):
    given = [{"role": "user", "content": "hi"}]
    run.invoke(graph_of(lib, []), {"log": given}, THREAD)
    assert given == [{"role": "user", "content": "hi"}]


def test_what_is_no_message_stays_as_it_is(run, lib):
    given = ["text", 1, {"role": 5}, {"role": "boss", "type": "order"}]
    graph = graph_of(lib, given)
    run.invoke(graph, {"log": []}, THREAD)
    assert run.get_state(graph, THREAD).values["log"] == given


def test_a_message_that_has_an_id_keeps_it(run, lib):
    graph = graph_of(lib, [messages.HumanMessage("hi", id="mine")])
    run.invoke(graph, {"log": []}, THREAD)
    assert ids(run, graph) == ["mine"]


@pytest.mark.parametrize(
    "written",
    [
        lambda: messages.HumanMessage("hi"),
        lambda: [{"role": "user", "content": "hi"}],
        lambda: {"role": "user", "content": "hi"},
    ],
    ids=["message", "dict in a list", "dict"],
)
class TestAGraphThatIsMadeFromChannels:
    def test_gives_ids_to_messages_of_the_input(self, run, lib, written):
        graph = of_channels(lib)
        run.invoke(graph, {"log": written(), "go": 1}, THREAD)
        [first] = ids(run, graph)
        assert first

    def test_gives_ids_to_messages_of_a_node(self, run, lib, written):
        graph = of_channels(lib, written=written())
        run.invoke(graph, {"log": [], "go": 1}, THREAD)
        [first] = ids(run, graph)
        assert first

    def test_gives_ids_to_messages_of_an_update(self, run, lib, written):
        graph = of_channels(lib)
        run.invoke(graph, {"log": [], "go": 1}, THREAD)
        run.update_state(graph, THREAD, {"log": written()}, "__input__")
        [first] = ids(run, graph)
        assert first

    def test_gives_ids_to_messages_of_a_command(self, run, lib, written):
        command = importlib.import_module(f"{lib.name}.types").Command
        graph = of_channels(lib)
        run.invoke(graph, {"log": [], "go": 1}, THREAD)
        run.invoke(graph, command(update={"log": written()}), THREAD)
        [first] = ids(run, graph)
        assert first
