"""Small graphs that the tests of interrupts, subgraphs, time travel and streaming share.

Every node that `step` makes puts its name into a trace when it runs, and `[name, *answers]` into
the state when it ends, so that a test can tell what ran from what was kept.
"""

import operator
from collections.abc import Callable, Iterable
from typing import Annotated, Any

from typing_extensions import TypedDict

from milepost.graph import START, StateGraph
from milepost.types import interrupt


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


class Inner(TypedDict, total=False):
    """Shares no key with `State`."""

    inner: Annotated[list[Any], operator.add]


class Both(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    inner: Annotated[list[Any], operator.add]


class Mixed(TypedDict, total=False):
    """Shares `log` with `State`, as a plain value, and keeps `inner` to itself."""

    log: list[Any]
    inner: Annotated[list[Any], operator.add]


def step(trace: list[str], name: str, *questions: Any, key: str = "log") -> Callable[..., Any]:
    """A node that asks its questions one after the other."""

    def node(state: Any) -> dict[str, Any]:
        trace.append(name)
        return {key: [name, *[interrupt(question) for question in questions]]}

    node.__name__ = name
    return node


def chain(*nodes: tuple[str, Any], schema: Any = State, **compile_with: Any) -> Any:
    """A compiled graph whose nodes follow one another."""
    builder = StateGraph(schema)
    before = START
    for name, node in nodes:
        builder.add_node(name, node)
        builder.add_edge(before, name)
        before = name
    return builder.compile(**compile_with)


def fan(*nodes: tuple[str, Any], last: tuple[str, Any] | None = None, **compile_with: Any) -> Any:
    """A compiled graph whose nodes run side by side, and `last` after all of them."""
    builder = StateGraph(State)
    for name, node in nodes:
        builder.add_node(name, node)
        builder.add_edge(START, name)
    if last is not None:
        builder.add_node(*last)
        builder.add_edge([name for name, _ in nodes], last[0])
    return builder.compile(**compile_with)


def calling(
    run: Any,
    trace: list[str],
    name: str,
    graph: Any,
    given: Any,
    kept: str = "inner",
    hidden: bool = False,
) -> Callable[..., Any]:
    """A function node, in the colour of `run`, that calls `graph` with `given`.

    `hidden` keeps the graph where no look at the function's closure can find it.
    """
    if hidden:
        holder = {"graph": graph}
        graph = None

    def called(state: Any) -> dict[str, Any]:
        trace.append(name)
        result = (holder["graph"] if hidden else graph).invoke(given)
        return {"log": [name, result[kept]]}

    async def acalled(state: Any) -> dict[str, Any]:
        trace.append(name)
        result = await (holder["graph"] if hidden else graph).ainvoke(given)
        return {"log": [name, result[kept]]}

    node = acalled if run.colour == "async" else called
    node.__name__ = name
    return node


def questions(result: Any) -> list[Any]:
    """What the interrupts in a run's result ask, in order."""
    return [one.value for one in result.get("__interrupt__", ())]


def ids(result: Any) -> dict[Any, str]:
    """Interrupt ids by question."""
    return {one.value: one.id for one in result.get("__interrupt__", ())}


def at_step(history: Iterable[Any], number: int) -> Any:
    """The one snapshot of this step."""
    (found,) = [snapshot for snapshot in history if snapshot.metadata["step"] == number]
    return found


def before_node(history: Iterable[Any], *names: str) -> Any:
    """The newest snapshot whose next nodes are these."""
    return next(snapshot for snapshot in history if snapshot.next == names)
