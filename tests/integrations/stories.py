"""Small programs that use a saver in every way there is, and tell what they saw.

A story is a function of a library, a saver and a harness. What it returns is the same for every
saver that is right: it leaves out ids and times.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

STORIES: dict[str, Callable[[Any, Any, Any], Any]] = {}


def story(tell: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    STORIES[tell.__name__] = tell
    return tell


def thread(name: str = "t") -> Any:
    return {"configurable": {"thread_id": name}}


class Log(TypedDict, total=False):
    log: Annotated[list, operator.add]
    x: Any


def squares(lib: Any, saver: Any, ran: list[int]) -> Any:
    """A map over four numbers; the worker of the third one asks."""

    def square(arg: Any) -> Any:
        ran.append(arg["n"])
        if arg["n"] == 2:
            lib.interrupt("two?")
        return {"log": [arg["n"] ** 2]}

    builder = lib.StateGraph(Log)
    builder.add_node("square", square)
    builder.add_conditional_edges(
        lib.START, lambda s: [lib.Send("square", {"n": n}) for n in range(4)], ["square"]
    )
    return builder.compile(checkpointer=saver)


def says(word: str) -> Callable[[Any], Any]:
    def node(state: Any) -> Any:
        return {"log": [word]}

    node.__name__ = word
    return node


def line(lib: Any, *nodes: Any, schema: Any = Log) -> Any:
    """Nodes one after the other."""
    builder = lib.StateGraph(schema)
    before = lib.START
    for node in nodes:
        name, action = node if isinstance(node, tuple) else (node.__name__, node)
        builder.add_node(name, action)
        builder.add_edge(before, name)
        before = name
    return builder


def seen(snapshot: Any) -> Any:
    """What a snapshot says, without ids and times."""
    return {
        "values": snapshot.values,
        "next": snapshot.next,
        "source": (snapshot.metadata or {}).get("source"),
        "step": (snapshot.metadata or {}).get("step"),
        "tasks": [
            (task.name, _error(task.error), [i.value for i in task.interrupts])
            for task in snapshot.tasks
        ],
        "interrupts": [i.value for i in snapshot.interrupts],
        "has_parent": snapshot.parent_config is not None,
    }


def _error(error: Any) -> Any:
    return repr(error) if isinstance(error, BaseException) else error


def history(run: Any, graph: Any, config: Any) -> Any:
    return [seen(snapshot) for snapshot in run.history(graph, config)]


def asked(result: Any) -> Any:
    return {**result, "__interrupt__": sorted(str(i.value) for i in result["__interrupt__"])}


@story
def two_runs_on_one_thread(lib: Any, saver: Any, run: Any) -> Any:
    graph = line(lib, says("a"), says("b")).compile(checkpointer=saver)
    first = run.invoke(graph, {"log": ["in"]}, thread())
    second = run.invoke(graph, {"log": ["more"], "x": {"deep": [1, 2.5, None]}}, thread())
    other = run.invoke(graph, {"log": []}, thread("u"))
    run.saver(saver, "delete_thread", "u")
    gone = run.get_state(graph, thread("u"))
    return first, second, other, gone.values, history(run, graph, thread())


@story
def metadata_is_kept_and_found(lib: Any, saver: Any, run: Any) -> Any:
    graph = line(lib, says("a")).compile(checkpointer=saver)
    run.invoke(graph, {"log": []}, {**thread(), "metadata": {"who": "ann"}})
    run.invoke(graph, {"log": []}, {**thread(), "metadata": {"who": "bob"}})
    found = run.history(graph, thread(), filter={"who": "ann"})
    return [seen(snapshot) for snapshot in found], [s.metadata["who"] for s in found]


@story
def questions_one_after_the_other(lib: Any, saver: Any, run: Any) -> Any:
    def ask(state: Any) -> Any:
        return {"log": [lib.interrupt("name?"), lib.interrupt({"more": ["age?"]})]}

    graph = line(lib, says("a"), ask, says("z")).compile(checkpointer=saver)
    told = [asked(run.invoke(graph, {"log": []}, thread()))]
    told.append(seen(run.get_state(graph, thread())))
    told.append(asked(run.invoke(graph, lib.Command(resume="Ann"), thread())))
    told.append(run.invoke(graph, lib.Command(resume=7), thread()))
    told.append(run.get_state(graph, thread()).next)
    return told


@story
def questions_side_by_side(lib: Any, saver: Any, run: Any) -> Any:
    def asks(question: str) -> Any:
        return lambda state: {"log": [lib.interrupt(question)]}

    builder = lib.StateGraph(Log)
    for name in ("a", "b", "free"):
        builder.add_node(name, says(name) if name == "free" else asks(name))
        builder.add_edge(lib.START, name)
    graph = builder.compile(checkpointer=saver)
    first = run.invoke(graph, {"log": []}, thread())
    answers = {i.id: f"{i.value}!" for i in first["__interrupt__"]}
    return asked(first), run.invoke(graph, lib.Command(resume=answers), thread())


@story
def a_question_in_a_subgraph(lib: Any, saver: Any, run: Any) -> Any:
    def ask(state: Any) -> Any:
        return {"log": [lib.interrupt("inside?")]}

    child = line(lib, says("c1"), ask, says("c3")).compile()
    graph = line(lib, says("a"), ("sub", child), says("z")).compile(checkpointer=saver)
    told = [asked(run.invoke(graph, {"log": ["in"]}, thread()))]
    inner = run.get_state(graph, thread(), subgraphs=True).tasks[0].state
    told.append((inner.values, inner.next, inner.metadata["step"]))
    told.append(run.invoke(graph, lib.Command(resume="yes"), thread()))
    return told


@story
def a_subgraph_with_memory_of_its_own(lib: Any, saver: Any, run: Any) -> Any:
    child = line(lib, says("c")).compile(checkpointer=True)
    graph = line(lib, ("sub", lambda state: {"x": child.invoke({"log": ["in"]})["log"]})).compile(
        checkpointer=saver
    )
    return [run.invoke(graph, {"log": []}, thread())["x"] for _ in range(3)]


@story
def replay_and_fork(lib: Any, saver: Any, run: Any) -> Any:
    graph = line(lib, says("a"), says("b"), says("c")).compile(checkpointer=saver)
    run.invoke(graph, {"log": ["in"]}, thread())
    past = next(s for s in run.history(graph, thread()) if s.next == ("b",))
    told = [run.invoke(graph, None, past.config)]
    forked = run.update_state(graph, past.config, {"log": ["forked"]})
    told.append(run.get_state(graph, forked).values)
    told.append(run.invoke(graph, None, forked))
    told.append(run.get_state(graph, past.config).values)
    told.append(run.update_state(graph, thread(), {"log": ["end"]}, "c")["configurable"].keys())
    told[-1] = sorted(told[-1])
    told.append(run.get_state(graph, thread()).values)
    return told


@story
def a_failure_and_what_its_siblings_wrote(lib: Any, saver: Any, run: Any) -> Any:
    tries: list[str] = []

    def work(name: str) -> Any:
        def node(state: Any) -> Any:
            tries.append(name)
            if name == "bad" and tries.count("bad") == 1:
                raise RuntimeError("once")
            return {"log": [name]}

        return node

    builder = lib.StateGraph(Log)
    builder.add_node("good", work("good"))
    builder.add_node("bad", work("bad"))
    builder.add_edge(lib.START, "good")
    builder.add_edge("good", "bad")
    graph = builder.compile(checkpointer=saver)
    try:
        run.invoke(graph, {"log": []}, thread())
    except RuntimeError as error:
        told = [str(error)]
    told.append(seen(run.get_state(graph, thread())))
    told.append(run.invoke(graph, None, thread()))
    return told, tries


@story
def a_map_and_a_reduce(lib: Any, saver: Any, run: Any) -> Any:
    def square(arg: Any) -> Any:
        if arg["n"] == 3:
            lib.interrupt("three?")
        return {"log": [arg["n"] ** 2]}

    builder = lib.StateGraph(Log)
    builder.add_node("square", square)
    builder.add_node("done", says("done"))
    builder.add_conditional_edges(
        lib.START, lambda s: [lib.Send("square", {"n": n}) for n in range(5)], ["square"]
    )
    builder.add_edge("square", "done")
    graph = builder.compile(checkpointer=saver)
    first = asked(run.invoke(graph, {"log": []}, thread()))
    return first, run.invoke(graph, lib.Command(resume="yes"), thread())


@story
def a_delta_channel(lib: Any, saver: Any, run: Any) -> Any:
    def joined(value: list, writes: Any) -> list:
        return [*value, *(one for write in writes for one in write)]

    class Delta(TypedDict, total=False):
        log: Annotated[list, lib.DeltaChannel(joined, snapshot_frequency=3)]
        x: Any

    graph = line(lib, says("a"), says("b"), schema=Delta).compile(checkpointer=saver)
    told = [run.invoke(graph, {"log": [n]}, thread()) for n in range(4)]
    told.append([s.values for s in run.history(graph, thread())])
    return told


@dataclass
class Order:
    item: str
    count: int = 1


class Colour(Enum):
    RED = "red"


class Customer(BaseModel):
    name: str
    orders: list[Order] = []


class Shelf(BaseModel):
    label: str = Field(alias="theLabel")
    count: int = Field(0, alias="theCount")


class Shop(TypedDict, total=False):
    log: Annotated[list, operator.add]
    order: Order
    customer: Customer
    colour: Colour


@story
def types_of_the_program(lib: Any, saver: Any, run: Any) -> Any:
    def buy(state: Any) -> Any:
        return {"order": Order("pen", 2), "customer": Customer(name="Ann"), "colour": Colour.RED}

    def check(state: Any) -> Any:
        return {"log": [type(state["order"]).__name__, state["customer"].name]}

    graph = line(lib, buy, check, schema=Shop).compile(checkpointer=saver)
    result = run.invoke(graph, {"log": []}, thread())
    stored = run.get_state(graph, thread()).values
    return result, stored, type(stored["order"]), type(stored["colour"])


@story
def a_chat(lib: Any, saver: Any, run: Any) -> Any:
    from langchain_core.messages import AIMessage, HumanMessage

    def answer(state: Any) -> Any:
        return {"messages": [AIMessage(f"{len(state['messages'])} so far", id="fixed")]}

    graph = line(lib, answer, schema=lib.MessagesState).compile(checkpointer=saver)
    run.invoke(graph, {"messages": [HumanMessage("hi", id="1")]}, thread())
    run.invoke(graph, {"messages": [HumanMessage("again", id="2")]}, thread())
    return [(m.type, m.content, m.id) for m in run.get_state(graph, thread()).values["messages"]]


@story
def functions_as_programs(lib: Any, saver: Any, run: Any) -> Any:
    ran = []

    @lib.task
    def double(n: int) -> int:
        ran.append(n)
        return 2 * n

    @lib.entrypoint(checkpointer=saver)
    def flow(n: int, *, previous: Any = None) -> Any:
        doubled = double(n).result()
        return {"sum": doubled + lib.interrupt("plus?"), "before": previous}

    run.invoke(flow, 4, thread())
    told = [run.invoke(flow, lib.Command(resume=1), thread())]
    run.invoke(flow, 5, thread())
    told.append(run.invoke(flow, lib.Command(resume=2), thread()))
    return told, ran
