"""What programs see of failures, questions and resumes is the same on both libraries."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
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


def a_question_in_an_event_has_its_schema(lib: Any) -> Any:
    schema = {"type": "string"}
    graph = side_by_side(lib, asks=lambda _: {"log": [lib.interrupt("q", response_schema=schema)]})
    told = list(graph.stream({"log": []}, T, stream_mode="tasks"))
    again = next(graph.stream(None, T, stream_mode="checkpoints"))
    asked = [*told[-1]["interrupts"], *again["tasks"][0]["interrupts"]]
    return [(one["value"], one["response_schema"]) for one in asked]


def a_resume_tells_of_every_task_of_the_step(lib: Any) -> Any:
    graph = side_by_side(lib, asks=lambda _: {"log": [lib.interrupt("q")]}, works=says("x"))
    list(graph.stream({"log": []}, T))
    told = list(graph.stream(lib.Command(resume="a"), T, stream_mode=["tasks", "checkpoints"]))
    tasks = [(task["name"], "result" in task) for mode, task in told if mode == "tasks"]
    return sorted(tasks), [event["next"] for mode, event in told if mode == "checkpoints"]


def a_resume_tells_of_the_calls_that_it_recalls(lib: Any) -> Any:
    @lib.task
    def double(number: int) -> int:
        return 2 * number

    @lib.entrypoint(checkpointer=lib.InMemorySaver())
    def flow(number: int) -> Any:
        return double(number).result(), lib.interrupt("q")

    flow.invoke(1, T)
    told = flow.stream(lib.Command(resume="a"), T, stream_mode="tasks")
    return [(task["name"], task.get("result")) for task in told]


def a_hidden_run_tells_of_no_task(lib: Any) -> Any:
    graph = side_by_side(lib, works=says("x"))
    modes = ["tasks", "updates", "values"]
    hidden = {**T, "tags": ["langsmith:hidden"]}
    return list(graph.stream({"log": []}, hidden, stream_mode=modes))


def tags_of_a_sequence_are_not_told(lib: Any) -> Any:
    graph = side_by_side(lib, works=says("x"))
    told = graph.stream({"log": []}, {**T, "tags": ["seq:step:1", "mine"]}, stream_mode="tasks")
    return [task.get("metadata") for task in told]


def events_of_checkpoints_have_no_metadata_of_the_caller(lib: Any) -> Any:
    graph = side_by_side(lib, works=says("x"))
    given = {**T, "metadata": {"mine": 1, "source": "me"}}
    told = [e["metadata"] for e in graph.stream({"log": []}, given, stream_mode="checkpoints")]
    return told, graph.get_state(T).metadata


def a_key_that_no_config_has_belongs_to_the_configurable(lib: Any) -> Any:
    def user(_: Any, config: RunnableConfig) -> Any:
        return {"log": [config["configurable"]["user"]]}

    graph = side_by_side(lib, works=user)
    bare: Any = {"thread_id": "t", "user": "u"}
    found = [graph.invoke({"log": []}, bare), *graph.batch([{"log": []}], bare)]
    return found, graph.get_state(T).values, len(list(graph.get_state_history(bare)))


def a_key_that_is_bound_counts_less_than_that_of_a_call(lib: Any) -> Any:
    graph = side_by_side(lib, works=says("x"))
    graph.with_config({"thread_id": "bound"}).invoke({"log": []}, T)
    bound: Any = {"configurable": {"thread_id": "bound"}}
    return graph.get_state(T).values, graph.get_state(bound).values


def called_with(lib: Any, saver: Any, config: Any) -> Any:
    """A graph without a saver whose node calls one with a saver."""
    inner = side_by_side(lib, saver, inside=says("in"))
    given = config

    def calls(state: Any, config: RunnableConfig) -> Any:
        return inner.invoke(state, given or config)

    return lib.StateGraph(State).add_node("calls", calls).add_edge(lib.START, "calls").compile()


def a_graph_in_a_thread_of_its_own_is_no_part_of_the_stream(lib: Any) -> Any:
    graph = called_with(lib, lib.InMemorySaver(), {"configurable": {"thread_id": "its own"}})
    told = [[ns for ns, _ in graph.stream({"log": []}, T, subgraphs=True)] for _ in range(2)]
    return told, graph.invoke({"log": []}, T)


def a_graph_that_is_given_the_config_of_a_node_is_a_part_of_the_run(lib: Any) -> Any:
    inner = side_by_side(lib, inside=says("in")).with_config(configurable={"thread_id": "bound"})

    def calls(state: Any, config: RunnableConfig) -> Any:
        own = {**config, "configurable": {**config["configurable"], "thread_id": "its own"}}
        inner.invoke({"log": []}, config)
        return inner.invoke({"log": []}, own)

    graph = side_by_side(lib, calls=calls)
    told = [len(ns) for ns, _ in graph.stream({"log": []}, T, subgraphs=True)]
    return told, graph.get_state(T).values


def a_node_has_the_config_of_its_run_before_what_is_bound_to_it(lib: Any) -> Any:
    def user(_: Any, config: RunnableConfig) -> Any:
        return {"log": [config["configurable"].get(key) for key in ("user", "other")]}

    inner = side_by_side(lib, works=user)
    bound = inner.with_config(configurable={"thread_id": "bound", "user": "bound", "other": 1})
    graph = side_by_side(lib, inner=bound)
    given = {"configurable": {"thread_id": "t", "user": "u"}}
    told = [len(ns) for ns, _ in graph.stream({"log": []}, given, subgraphs=True)]
    return told, graph.get_state(T).values


def a_graph_with_a_saver_in_one_without_starts_over(lib: Any) -> Any:
    graph = called_with(lib, lib.InMemorySaver(), None)
    told = [[len(ns) for ns, _ in graph.stream({"log": []}, T, subgraphs=True)] for _ in range(2)]
    return told, graph.invoke({"log": []}, T)


def a_graph_that_a_tool_calls_is_in_the_namespace_of_the_node(lib: Any) -> Any:
    inside: list[Any] = []

    def note(_: Any, config: RunnableConfig) -> None:
        inside.append(config["metadata"]["langgraph_checkpoint_ns"].count("|"))

    inner = lib.StateGraph(State).add_node(note).add_edge(lib.START, "note").compile()

    @tool
    def call(x: int) -> str:
        """Call a graph."""
        return str(inner.invoke({"log": [x]})["log"])

    calls = AIMessage("", tool_calls=[{"name": "call", "args": {"x": 1}, "id": "1"}])
    tools = importlib.import_module(f"{lib.name}.prebuilt").ToolNode([call])
    messages = importlib.import_module(f"{lib.name}.graph").MessagesState
    builder = lib.StateGraph(messages).add_node("tools", tools).add_edge(lib.START, "tools")
    told = builder.compile().stream({"messages": [calls]}, subgraphs=True)
    return [len(ns) for ns, _ in told], inside


PROGRAMS = [
    a_graph_that_a_tool_calls_is_in_the_namespace_of_the_node,
    a_question_in_an_event_has_its_schema,
    a_resume_tells_of_every_task_of_the_step,
    a_resume_tells_of_the_calls_that_it_recalls,
    a_hidden_run_tells_of_no_task,
    tags_of_a_sequence_are_not_told,
    events_of_checkpoints_have_no_metadata_of_the_caller,
    a_key_that_no_config_has_belongs_to_the_configurable,
    a_key_that_is_bound_counts_less_than_that_of_a_call,
    a_graph_in_a_thread_of_its_own_is_no_part_of_the_stream,
    a_graph_that_is_given_the_config_of_a_node_is_a_part_of_the_run,
    a_node_has_the_config_of_its_run_before_what_is_bound_to_it,
    a_graph_with_a_saver_in_one_without_starts_over,
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
