"""Operations at the ends of what is promised: graphs deep inside graphs, many checkpoints, two runs
that do the same step."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from typing_extensions import TypedDict

from attack.mishaps import PATIENCE, State, at, private, wrong
from attack.operation import Context, Operation, Steps, ask, plain
from milepost.checkpoint.memory import InMemorySaver
from milepost.errors import MilepostError, ThreadConflict
from milepost.graph import END, START, StateGraph
from milepost.types import interrupt

DEEP = "graphs can be nested deeper than Python's stack"
MANY = "a prune opens each checkpoint a few times, whatever is before it"
NODES = "what it takes to compile a graph grows with the number of nodes, not faster"
PRINTED = "a state is printed as what it is"
BESIDE = "a run is refused beside which another has stored writes of the same step"


# -- graphs inside graphs

DEPTH = 300
_deep: dict[bool, Any] = {}


def nested(is_async: bool) -> Any:
    """A graph inside a graph, and so on, without a saver; made once for each colour."""

    async def aleaf(_: State) -> dict[str, list[str]]:
        return {"log": ["leaf"]}

    def leaf(_: State) -> dict[str, list[str]]:
        return {"log": ["leaf"]}

    if is_async not in _deep:
        graph: Any = aleaf if is_async else leaf
        for _ in range(DEPTH):
            graph = StateGraph(State).add_node("in", graph).add_edge(START, "in").compile()
        _deep[is_async] = graph
    return _deep[is_async]


def deep(context: Context) -> Steps:
    graph = nested(context.is_async)
    with context.recorder.call("look", how="deep"):
        try:
            found = yield ask(graph, "invoke", {"log": []})
        except RecursionError as error:
            wrong(context, DEEP, f"{DEPTH} graphs inside each other: {error!r}")
        else:
            if "leaf" not in found["log"]:
                wrong(context, DEEP, f"{DEPTH} graphs inside each other came to {found}")


# -- many checkpoints

LONG = 300
"""Checkpoints of a thread."""
MOST_CALLS = 120
"""Calls for each of them. It takes 41; to open all that each builds on took 230."""


class Number(TypedDict):
    n: int


class Counting:
    """Counts the functions that a call runs in its thread."""

    @staticmethod
    def calls(run: Callable[[], Any]) -> int:
        calls = 0

        def count(_frame: Any, event: str, _what: Any) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            run()
        finally:
            sys.setprofile(before)
        return calls


def many(context: Context) -> Steps:
    """A long thread of a saver in memory is pruned: each manifest is opened a few times."""
    saver = InMemorySaver()
    # Many keys: only then is a long row of manifests stored as changes.
    keys = {f"key_{at}": int for at in range(64)}
    builder = StateGraph(TypedDict("Wide", {"n": int, **keys}))  # type: ignore[misc]
    builder.add_node("step", lambda state: {"n": state["n"] + 1}).add_edge(START, "step")
    builder.add_conditional_edges("step", lambda state: END if state["n"] >= LONG else "step")
    graph = builder.compile(checkpointer=saver)
    where = {**at("long"), "recursion_limit": 2 * LONG}
    with context.recorder.call("look", how="many"):
        begin = dict.fromkeys(("n", *keys), 0)
        yield plain(graph, "invoke", begin, where, durability="sync")
        calls = yield plain(Counting, "calls", partial(saver.prune, ["long"]))
        if calls > MOST_CALLS * LONG:
            wrong(context, MANY, f"to prune {LONG} checkpoints took {calls} calls")


def many_nodes(context: Context) -> Steps:
    """Graphs in which any node may lead to any other are compiled."""
    numbers, calls = (40, 160), []
    with context.recorder.call("look", how="many nodes"):
        for number in numbers:
            builder = StateGraph(Number).add_edge(START, "n0")
            for which in range(number):
                builder.add_node(f"n{which}", lambda state: state)
                builder.add_conditional_edges(f"n{which}", lambda _: END)
            calls.append((yield plain(Counting, "calls", builder.compile)))
        if calls[1] > 8 * calls[0]:
            wrong(context, NODES, f"to compile {numbers} nodes took {calls} calls")


# -- what is read


def printed(context: Context) -> Steps:
    """A state that nobody has looked at yet is printed, and after that looked at."""
    thread_id = context.some_thread()
    with context.recorder.call("look", thread=thread_id, how="printed"):
        state = yield ask(context.graph, "get_state", at(thread_id))
        if issubclass(type(state), tuple):
            return  # there is nothing, and a plain tuple says so
        text = "%s" % state  # noqa: UP031
        if text != repr(state._replace()):
            wrong(context, PRINTED, f"{text[:300]} is {state._replace()!r}"[:800])


# -- two runs of one step


def beside(context: Context) -> Steps:
    """A rival stores what one of two tasks wrote, and stops; the head is as the run has loaded it.

    What the rival's task wrote counts. So this run, which made something else of the same task,
    must not be stored on top of that.
    """
    rng, name = context.random, private(context)
    ending, durability = rng.choice(("fails", "waits")), rng.choice(("sync", "async", "exit"))
    is_done = threading.Event()
    stopped: list[str] = []
    """How the rival ended, if no fault and no sweep was in its way."""

    @contextmanager
    def stopping() -> Iterator[None]:
        with suppress(MilepostError):
            with suppress(ZeroDivisionError):
                yield
            stopped.append(ending)

    def compiled(a: Any, b: Any) -> Any:
        builder = StateGraph(State).add_node("start", lambda _: {"log": ["start"]})
        builder.add_node("a", a).add_node("b", b).add_edge(START, "start")
        builder.add_edge("start", "a").add_edge("start", "b")
        return builder.compile(checkpointer=context.saver, interrupt_after=["start"])

    def stops(_: State) -> Any:
        return {"log": [1 / 0 if ending == "fails" else interrupt("?")]}

    async def astops(state: State) -> Any:
        return stops(state)

    rival = compiled(lambda _: {"log": ["rival"]}, astops if context.is_async else stops)

    def runs_beside() -> None:
        with stopping():
            rival.invoke(None, at(name), durability="sync")

    async def aruns_beside() -> None:
        with stopping():
            await rival.ainvoke(None, at(name), durability="sync")

    def a(_: State) -> Any:
        other = threading.Thread(target=runs_beside)  # which is not inside of this run
        other.start()
        other.join()
        is_done.set()
        return {"log": ["mine"]}

    async def aa(_: State) -> Any:
        await asyncio.create_task(aruns_beside(), context=contextvars.Context())
        is_done.set()
        return {"log": ["mine"]}

    def b(_: State) -> Any:
        is_done.wait(PATIENCE)
        return {"log": ["mine too"]}

    async def ab(_: State) -> Any:
        for _turn in range(int(PATIENCE / 0.002)):
            if is_done.is_set():
                break
            await asyncio.sleep(0.002)
        return {"log": ["mine too"]}

    graph = compiled(aa, ab) if context.is_async else compiled(a, b)
    told = {"thread": name, "how": "beside", "ending": ending, "durability": durability}
    with context.recorder.call("look", **told):
        yield ask(graph, "invoke", {"log": ["in"]}, at(name), durability="sync")
        try:
            found = yield ask(graph, "invoke", None, at(name), durability=durability)
        except ThreadConflict:
            found = None
        if not stopped:
            return
        if found is not None:
            wrong(context, BESIDE, f"a run came to {found} beside a rival: {told}")
        state = yield ask(graph, "get_state", at(name))
        if state.values and state.values["log"] != ["in", "start", "rival"]:
            wrong(context, BESIDE, f"beside a rival a thread came to {state.values}: {told}")
    yield ask(context.saver, "delete_thread", name)


OPERATIONS = [
    Operation("deep", deep, ("graph.invoke",), 0.2),
    Operation("many", many, ("saver.prune",), 0.2),
    Operation("many nodes", many_nodes, ("graph.invoke",), 0.2),
    Operation("printed", printed, ("graph.get_state",), 0.4),
    Operation("beside", beside, ("graph.invoke",), 0.4),
]
