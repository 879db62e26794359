"""What programs see of failures, questions and resumes is the same on both libraries."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage
from typing_extensions import TypedDict

from both import names_of

T: Any = {"configurable": {"thread_id": "t"}}

pytestmark = pytest.mark.filterwarnings("ignore::milepost.warnings.MilepostWarning")


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def side_by_side(lib: Any, saver: Any = None, **nodes: Callable[[Any], Any]) -> Any:
    builder = lib.StateGraph(State)
    for name, node in nodes.items():
        builder.add_node(name, node).add_edge(lib.START, name)
    return builder.compile(checkpointer=saver or lib.InMemorySaver())


def fails(_: Any) -> Any:
    raise ValueError("boom")


def says(text: Any) -> Callable[[Any], Any]:
    return lambda _: {"log": [text]}


def the_error_of_a_task_is_text(lib: Any) -> Any:
    graph = side_by_side(lib, fails=fails, works=says("x"))
    with pytest.raises(ValueError, match="boom"):
        graph.invoke({"log": []}, T)
    tasks = graph.get_state(T).tasks
    error = next(task.error for task in tasks if task.name == "fails")
    return "boom" in error, error, isinstance(error, str), error.startswith("ValueError")


def the_event_of_a_failed_task_has_the_exception(lib: Any) -> Any:
    graph = side_by_side(lib, fails=fails)
    told: list[Any] = []
    with pytest.raises(ValueError, match="boom"):
        told.extend(graph.stream({"log": []}, T, stream_mode="tasks"))
    return repr(told[-1]["error"]), type(told[-1]["error"])


def what_had_finished_is_streamed_again_on_a_resume(lib: Any) -> Any:
    graph = side_by_side(lib, asks=lambda _: {"log": [lib.interrupt("q")]}, works=says("x"))
    list(graph.stream({"log": []}, T))
    return list(graph.stream(lib.Command(resume="answer"), T))


def each_task_that_asks_has_an_event(lib: Any) -> Any:
    graph = side_by_side(
        lib, a=lambda _: {"log": [lib.interrupt("a")]}, b=lambda _: {"log": [lib.interrupt("b")]}
    )
    events = list(graph.stream({"log": []}, T))
    return sorted([i.value for i in event["__interrupt__"]] for event in events)


def a_breakpoint_inside_shows_what_the_others_wrote(lib: Any) -> Any:
    inner = lib.StateGraph(State).add_node("one", says("1")).add_node("two", says("2"))
    inner.add_edge(lib.START, "one").add_edge("one", "two")
    stopped = inner.compile(interrupt_before=["two"])
    graph = side_by_side(lib, inner=stopped, works=says("x"))
    return list(graph.stream({"log": []}, T, stream_mode="values"))


def a_command_for_a_parent_that_is_not_there_can_be_looked_at(lib: Any) -> Any:
    up = lib.Command(graph=lib.Command.PARENT, goto="next", update={"log": ["up"]})
    graph = side_by_side(lib, leaves=lambda _: up)
    with pytest.raises(lib.ParentCommand) as caught:
        graph.invoke({"log": []}, T)
    command = caught.value.args[0]
    return command.goto, command.update


def a_saver_may_raise_what_it_likes(lib: Any) -> Any:
    class Full(lib.InMemorySaver):  # type: ignore[name-defined,misc]
        def put(self, *args: Any, **kwargs: Any) -> Any:
            raise PermissionError("read only")

    graph = side_by_side(lib, Full(), works=says("x"))
    with pytest.raises(PermissionError, match="read only") as caught:
        graph.invoke({"log": []}, T)
    return type(caught.value)


def a_put_writes_without_a_path_is_called_without_one(lib: Any) -> Any:
    class Older(lib.InMemorySaver):  # type: ignore[name-defined,misc]
        def put_writes(self, config: Any, writes: Any, task_id: Any) -> Any:
            return super().put_writes(config, writes, task_id)

    graph = side_by_side(lib, Older(), a=says("a"), b=says("b"))
    return graph.invoke({"log": []}, T)


def the_messages_of_a_hand_over_are_not_streamed(lib: Any) -> Any:
    def leave(_: Any) -> Any:
        update = {"log": [AIMessage("over to you")]}
        return lib.Command(graph=lib.Command.PARENT, goto="next", update=update)

    inner = lib.StateGraph(State).add_node("leave", leave).add_edge(lib.START, "leave").compile()
    outer = lib.StateGraph(State).add_node("inner", inner)
    outer.add_node("next", says(AIMessage("here I am"))).add_edge(lib.START, "inner")
    streamed = outer.compile().stream({"log": []}, stream_mode="messages", subgraphs=True)
    return [(message.content, metadata["langgraph_node"]) for _, (message, metadata) in streamed]


PROGRAMS = [
    the_messages_of_a_hand_over_are_not_streamed,
    the_error_of_a_task_is_text,
    the_event_of_a_failed_task_has_the_exception,
    what_had_finished_is_streamed_again_on_a_resume,
    each_task_that_asks_has_an_event,
    a_breakpoint_inside_shows_what_the_others_wrote,
    a_command_for_a_parent_that_is_not_there_can_be_looked_at,
    a_saver_may_raise_what_it_likes,
    a_put_writes_without_a_path_is_called_without_one,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_both_libraries_show_the_same_outcome(program):
    assert program(names_of("milepost")) == program(names_of("langgraph"))


def test_the_text_of_an_error_has_the_exception_beside_it():
    graph = side_by_side(names_of("milepost"), fails=fails)
    with pytest.raises(ValueError, match="boom"):
        graph.invoke({"log": []}, T)
    (task,) = graph.get_state(T).tasks
    assert isinstance(task.error.exception, ValueError)
    assert task.error.exception.args == ("boom",)
