"""Builds the graph of a spec on either library, given its import root."""

from __future__ import annotations

import operator
import threading
from collections import Counter
from importlib import import_module
from typing import Annotated, Any

from spec import Graph, Node, Route
from typing_extensions import TypedDict

WINDOW = 12


class Boom(Exception):
    """What a failing node raises."""


def tail(old: list[Any], new: list[Any]) -> list[Any]:
    """Append, and keep the end: order shows, and a child that echoes its input grows nothing."""
    return (old + new)[-WINDOW:]


def tails(old: list[Any], writes: list[list[Any]]) -> list[Any]:
    """`tail`, as the reducer of a delta channel."""
    for new in writes:
        old = tail(old, new)
    return old


def total(old: int, new: int) -> int:
    """Add, within bounds."""
    return operator.add(old, new) % 1009


class Library:
    """The names that a graph is built from."""

    def __init__(self, root: str) -> None:
        self.root = root
        graph = import_module(f"{root}.graph")
        types = import_module(f"{root}.types")
        self.state_graph: Any = graph.StateGraph
        self.start: str = graph.START
        self.end: str = graph.END
        self.command: Any = types.Command
        self.send: Any = types.Send
        self.interrupt: Any = types.interrupt
        self.get_config: Any = import_module(f"{root}.config").get_config
        self.saver: Any = import_module(f"{root}.checkpoint.memory").InMemorySaver


def bare(ns: str) -> str:
    """A namespace without task ids, which differ between the libraries."""
    return "|".join(part.split(":")[0] for part in ns.split("|"))


class Built:
    """A compiled graph, and what its nodes have done."""

    def __init__(self, root: str, spec: Graph, *, coroutines: int | None, log: Any = tail) -> None:
        self.library = Library(root)
        self.log = log
        """The reducer or channel of the logs."""
        self.coroutines = coroutines
        """Every how many-th node is a coroutine function; None for no node at all."""
        self.trace: list[tuple[str, int, str]] = []
        """(namespace, step, "start" or "end") of every run of a node."""
        self.attempts: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.saver = self.library.saver()
        self.graph = self._compile(spec, self.saver)

    def _compile(self, spec: Graph, checkpointer: Any) -> Any:
        builder = self.library.state_graph(_schema(spec, self.log))
        for number, node in enumerate(spec.nodes):
            builder.add_node(node.name, self._node(spec, node, number), defer=node.defer)
            for target in node.edges:
                builder.add_edge(node.name, target)
            if node.route:
                builder.add_conditional_edges(node.name, self._chooser(node.route))
        for name in spec.entry:
            builder.add_edge(self.library.start, name)
        if spec.entry_route:
            builder.add_conditional_edges(self.library.start, self._chooser(spec.entry_route))
        for sources, target in spec.joins:
            builder.add_edge(list(sources), target)
        return builder.compile(checkpointer=checkpointer)

    def _chooser(self, route: Route) -> Any:
        def choose(state: Any) -> list[Any]:
            return self._destinations(route, state)

        return choose

    def _destinations(self, route: Route, state: Any) -> list[Any]:
        chosen = route[state.get("count", 0) % len(route)]
        return [
            go.node
            if go.arg is None
            else self.library.send(go.node, {"arg": go.arg, "count": go.arg, "log0": [go.arg]})
            for go in chosen
        ]

    def _note(self, phase: str) -> None:
        metadata = self.library.get_config()["metadata"]
        ns = bare(metadata["langgraph_checkpoint_ns"])
        with self.lock:
            self.trace.append((ns, metadata["langgraph_step"], phase))

    def _node(self, spec: Graph, node: Node, number: int) -> Any:
        child = None
        if node.child is not None:
            child = self._compile(node.child, node.memory)
            if not node.called:
                return child
        log, inner = f"log{spec.level}", f"log{spec.level + 1}"

        def begin(state: Any) -> list[Any]:
            self._note("start")
            sent = state.get("arg")
            if node.fails and sent is None:
                with self.lock:
                    self.attempts[node.name] += 1
                    first = self.attempts[node.name] == 1
                if first:
                    raise Boom(node.name)
            return [node.name if sent is None else f"{node.name}({sent})"]

        def given(state: Any) -> list[dict[str, Any]]:
            """What the child is called with, each time."""
            times = 0 if child is None else 2 if node.twice else 1
            return [
                {"count": state.get("count", 0) + at, inner: [f"from {node.name}, {at}"]}
                for at in range(times)
            ]

        def finish(state: Any, words: list[Any], results: list[Any]) -> Any:
            who = f"{words[0]} at {state.get('count', 0)}"
            words += [self.library.interrupt(f"{who}: {at}?") for at in range(node.asks)]
            words += [result[inner][-1] for result in results]
            update: dict[str, Any] = {log: words, "count": 1}
            if node.stray:
                update["stray"] = words
            if state.get("arg") is None:
                update[f"by_{node.name}"] = [state.get("count", 0), len(state.get(log, ()))]
            self._note("end")
            if node.leaves is not None:
                return self.library.command(
                    update={f"log{spec.level - 1}": words, "count": 1}
                    | ({"stray": words} if node.stray else {}),
                    goto=node.leaves,
                    graph=self.library.command.PARENT,
                )
            if node.goto:
                return self.library.command(
                    update=update, goto=self._destinations(node.goto, state)
                )
            return update

        def plain(state: Any) -> Any:
            words = begin(state)
            return finish(state, words, [child.invoke(one) for one in given(state)])

        async def coroutine(state: Any) -> Any:
            words = begin(state)
            return finish(state, words, [await child.ainvoke(one) for one in given(state)])

        if self.coroutines is None:
            return plain
        return coroutine if child is not None or number % self.coroutines == 0 else plain


def _schema(spec: Graph, log: Any) -> Any:
    """A log for this level and each below, a counter, and a plain key for each node."""
    keys: dict[str, Any] = {
        f"log{level}": Annotated[list[Any], log] for level in range(spec.level, 3)
    }
    keys["count"] = Annotated[int, total]
    for node in spec.nodes:
        keys[f"by_{node.name}"] = list[int]
    return TypedDict(f"State{spec.level}", keys, total=False)  # type: ignore[operator]
