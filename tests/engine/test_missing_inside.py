"""A graph inside a thread waits for a node that was renamed, and no map says so."""

import asyncio
import operator
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import MissingNodeError
from milepost.graph import START, StateGraph
from milepost.types import Command, RetryPolicy, interrupt


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def asks(question: str) -> Callable[[Any], dict[str, Any]]:
    return lambda state: {"log": [interrupt(question)]}


def asking(name: str, **compiled: Any) -> Any:
    builder = StateGraph(State).add_node(name, asks("sure?")).add_edge(START, name)
    return builder.compile(**compiled)


def as_node(inner: Any) -> Any:
    return inner


def called(inner: Any) -> Any:
    async def on_loop(state: Any) -> Any:
        return await inner.ainvoke({"log": []})

    def call(state: Any) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return inner.invoke({"log": []})
        return on_loop(state)

    return call


def called_second(inner: Any) -> Any:
    """Another graph is called first, and ends."""
    first = StateGraph(State).add_node("say", lambda state: {"log": ["said"]})
    before = first.add_edge(START, "say").compile()

    def call(state: Any) -> Any:
        before.invoke({"log": []})
        return inner.invoke({"log": []})

    return call


def two_deep(inner: Any) -> Any:
    return StateGraph(State).add_node("middle", inner).add_edge(START, "middle").compile()


def called_two_deep(inner: Any) -> Any:
    return called(two_deep(inner))


NODES = [as_node, two_deep]
"""The graph is the node: what its checkpoint waits for is known before anything is stored."""
CALLED = [called, called_second, called_two_deep]
"""A function calls the graph, and could call any other."""
PLACES = [*NODES, *CALLED]


def outer(
    place: Callable[[Any], Any], name: str, saver: Any, renamed: Any = None, **options: Any
) -> Any:
    """A graph with another one that asks inside, and a node beside it that asks too."""
    inner = asking(name, renamed_nodes=renamed)
    builder = StateGraph(State).add_node("outer", place(inner), **options)
    builder.add_node("beside", asks("beside?")).add_node("next", lambda state: {"log": ["next"]})
    builder.add_edge(START, "outer").add_edge(START, "beside").add_edge("outer", "next")
    return builder.compile(checkpointer=saver)


def rows(saver: Any, config: Any) -> list[Any]:
    """All that is stored of a thread, and what the registry says of it."""
    thread = {"configurable": {"thread_id": config["configurable"]["thread_id"]}}
    stored = [
        (saved.config, saved.checkpoint, saved.metadata, saved.pending_writes)
        for saved in saver.list(thread)
    ]
    return [*stored, *saver.threads.list()]


def questions(state: Any) -> list[Any]:
    return sorted(question.value for question in state.interrupts)


@pytest.fixture
def waiting(run, saver, config, durability, place) -> Any:
    """A saver with a thread whose inner graph waits."""
    run.invoke(outer(place, "ask", saver), {"log": []}, config, durability=durability)
    return saver


@pytest.fixture
def answers(run, waiting, config, place) -> dict[str, str]:
    state = run.get_state(outer(place, "ask", waiting), config)
    return {question.id: f"to {question.value}" for question in state.interrupts}


@pytest.mark.parametrize("place", NODES)
class TestAnInnerGraphThatIsANodeAndCannotGoOn:
    def test_is_an_error_that_changes_nothing(
        self, run, waiting, config, durability, place, answers
    ):
        new = outer(place, "approve", waiting)
        before = rows(waiting, config)
        for call in (
            lambda: run.invoke(new, Command(resume=answers), config, durability=durability),
            lambda: run.invoke(new, None, config, durability=durability),
            lambda: run.stream(new, None, config, durability=durability),
            lambda: run.invoke(new, Command(update={"log": ["x"]}), config, durability=durability),
            lambda: run.update_state(new, config, {"log": ["x"]}, as_node="outer"),
            lambda: run.update_state(new, config, {"log": ["x"]}, as_node="beside"),
        ):
            with pytest.raises(MissingNodeError, match="Thread 't' waits for 'ask'"):
                call()
            assert rows(waiting, config) == before
        old = outer(place, "ask", waiting)
        assert questions(run.get_state(old, config)) == ["beside?", "sure?"]
        result = run.invoke(old, Command(resume=answers), config, durability=durability)
        assert sorted(result["log"]) == ["next", "to beside?", "to sure?"]


@pytest.mark.parametrize("place", PLACES)
class TestAnInnerGraphThatCannotGoOn:
    @pytest.mark.parametrize(
        "options",
        [
            {"error_handler": lambda state: {"log": ["handled"]}},
            {"retry_policy": RetryPolicy(max_attempts=3, retry_on=Exception, jitter=False)},
        ],
        ids=["handler", "retries"],
    )
    def test_is_neither_handled_nor_tried_again(
        self, run, waiting, config, place, answers, options
    ):
        new = outer(place, "approve", waiting, **options)
        with pytest.raises(MissingNodeError, match="Thread 't' waits for 'ask'"):
            run.invoke(new, Command(resume=answers), config)
        old = outer(place, "ask", waiting)
        assert "sure?" in questions(run.get_state(old, config))

    def test_keeps_the_answer_until_it_can_go_on(
        self, run, waiting, config, durability, place, answers
    ):
        new = outer(place, "approve", waiting)
        with pytest.raises(MissingNodeError, match="Thread 't' waits for 'ask'"):
            run.invoke(new, Command(resume=answers), config, durability=durability)
        mapped = outer(place, "approve", waiting, {"ask": "approve"})
        again = None if place in CALLED else Command(resume=answers)
        result = run.invoke(mapped, again, config, durability=durability)
        assert sorted(result["log"]) == ["next", "to beside?", "to sure?"]

    def test_goes_on_with_a_map(self, run, waiting, config, durability, place, answers):
        new = outer(place, "approve", waiting, {"ask": "approve"})
        result = run.invoke(new, Command(resume=answers), config, durability=durability)
        assert sorted(result["log"]) == ["next", "to beside?", "to sure?"]

    def test_is_dropped_by_a_new_input(self, run, waiting, config, place):
        new = outer(place, "approve", waiting)
        run.invoke(new, {"log": []}, config)
        assert questions(run.get_state(new, config)) == ["beside?", "sure?"]

    def test_starts_over_in_a_replay_of_the_graph_around_it(self, run, waiting, config, place):
        new = outer(place, "approve", waiting)
        latest = run.history(new, config)[0]
        run.invoke(new, None, latest.config)
        assert questions(run.get_state(new, config)) == ["beside?", "sure?"]


def test_a_replay_from_inside_an_inner_graph_leaves_no_fork_behind(run, saver, config):
    run.invoke(outer(as_node, "ask", saver), {"log": []}, config)
    new = outer(as_node, "approve", saver)
    (task,) = [task for task in run.get_state(new, config).tasks if task.name == "outer"]
    inside = run.history(new, task.state)[0]
    before = rows(saver, config)
    with pytest.raises(MissingNodeError, match="'ask'"):
        run.invoke(new, None, inside.config)
    assert rows(saver, config) == before


def test_a_function_may_call_another_graph_than_those_that_it_names(run, saver, config):
    named, hidden = asking("named"), {"graph": asking("hidden")}

    def pick(name: str) -> Any:
        return hidden[name]

    def call(state: Any) -> Any:
        if state.get("never"):
            return named.invoke({"log": []})
        return pick("graph").invoke({"log": []})

    builder = StateGraph(State).add_node("call", call).add_edge(START, "call")
    graph = builder.compile(checkpointer=saver)
    run.invoke(graph, {"log": ["in"]}, config)
    assert questions(run.get_state(graph, config, subgraphs=True)) == ["sure?"]
    assert run.invoke(graph, Command(resume="yes"), config)["log"] == ["in", "yes"]


def test_a_function_may_choose_between_graphs(run, saver, config):
    graphs = {name: asking(name) for name in ("left", "right")}

    def choose(state: Any) -> Any:
        return graphs[state["log"][0]].invoke({"log": []})

    builder = StateGraph(State).add_node("choose", choose).add_edge(START, "choose")
    graph = builder.compile(checkpointer=saver)
    for thread, name in enumerate(graphs):
        config = {"configurable": {"thread_id": str(thread)}}
        run.invoke(graph, {"log": [name]}, config)
        assert run.invoke(graph, Command(resume="yes"), config)["log"] == [name, "yes"]


class TestAGraphThatCannotBeFoundInAdvance:
    """The node makes it when it runs."""

    def making(self, name: str, saver: Any, renamed: Any = None, **options: Any) -> Any:
        def make(state: Any) -> Any:
            return asking(name, renamed_nodes=renamed).invoke({"log": []})

        builder = StateGraph(State).add_node("make", make, **options).add_edge(START, "make")
        return builder.compile(checkpointer=saver)

    @pytest.mark.parametrize("handled", [False, True])
    def test_keeps_its_question_and_the_answer(self, run, saver, config, durability, handled):
        run.invoke(self.making("ask", saver), {"log": []}, config, durability=durability)
        options = {"error_handler": lambda state: {"log": ["handled"]}} if handled else {}
        new = self.making("approve", saver, **options)
        with pytest.raises(MissingNodeError, match="'ask'"):
            run.invoke(new, Command(resume="yes"), config, durability=durability)
        assert questions(run.get_state(self.making("ask", saver), config)) == ["sure?"]
        mapped = self.making("approve", saver, {"ask": "approve"})
        assert run.invoke(mapped, None, config, durability=durability)["log"] == ["yes"]


def test_the_memory_of_another_step_does_not_matter(run, saver, config):
    """A graph with memory waits in it since a step that a new input has dropped."""

    def build(name: str) -> Any:
        builder = StateGraph(State).add_node("outer", asking(name, checkpointer=True))
        builder.add_node("first", asks("first?")).add_edge(START, "first")
        return builder.add_edge("first", "outer").compile(checkpointer=saver)

    old, new = build("ask"), build("approve")
    run.invoke(old, {"log": []}, config)
    run.invoke(old, Command(resume="1"), config)
    with pytest.raises(MissingNodeError):
        run.invoke(new, Command(resume="yes"), config)
    run.invoke(new, {"log": []}, config)
    run.invoke(new, Command(resume="2"), config)
    assert questions(run.get_state(new, config)) == ["sure?"]


def test_savers_of_both_kinds_are_looked_into(run, config, tmp_path):
    """The inner graph has a saver of its own."""
    path = str(tmp_path / "inner.db")
    with SqliteSaver.from_conn_string(path) as own:
        saver = InMemorySaver()

        def build(name: str) -> Any:
            inner = asking(name, checkpointer=own)
            builder = StateGraph(State).add_node("outer", inner).add_edge(START, "outer")
            return builder.compile(checkpointer=saver)

        run.invoke(build("ask"), {"log": []}, config)
        before = rows(saver, config)
        with pytest.raises(MissingNodeError, match="'ask'"):
            run.invoke(build("approve"), Command(resume="yes"), config)
        assert rows(saver, config) == before
