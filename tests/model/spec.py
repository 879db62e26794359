"""A random graph and what is done to a thread of it, as plain data.

Both libraries build the same thing from it (build.py). A node puts its name into the log of its
level, so that the state shows what was kept and in which order; where a choice is made, the
counter in the state decides, so that every choice is a function of the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Go:
    """One destination; with an argument it is a Send."""

    node: str
    arg: int | None = None


Route = tuple[tuple[Go, ...], ...]
"""Alternatives; the state's counter picks one."""


@dataclass(frozen=True)
class Node:
    name: str
    edges: tuple[str, ...] = ()
    route: Route = ()
    """A conditional edge."""
    goto: Route = ()
    """The node returns a Command that goes there."""
    asks: int = 0
    """How often it interrupts."""
    fails: bool = False
    """Its first attempt raises."""
    defer: bool = False
    child: Graph | None = None
    memory: bool | None = None
    """The child's `checkpointer=`."""
    called: bool = False
    """The child is called inside a function, instead of being the node itself."""
    twice: bool = False
    """It calls the child a second time."""
    stray: bool = False
    """It also returns a key that the state does not have."""
    leaves: str | None = None
    """It returns a Command for the graph around its own, with this destination there."""


@dataclass(frozen=True)
class Graph:
    level: int
    nodes: tuple[Node, ...]
    entry: tuple[str, ...] = ()
    entry_route: Route = ()
    joins: tuple[tuple[tuple[str, ...], str], ...] = ()

    def everywhere(self) -> Iterator[Node]:
        """The nodes of all levels."""
        for node in self.nodes:
            yield node
            if node.child is not None:
                yield from node.child.everywhere()

    def serial(self) -> bool:
        """Whether no two nodes run side by side, if nobody but the graph writes to its state."""

        def single(edges: tuple[str, ...], *routes: Route) -> bool:
            widest = sum(max(map(len, route), default=0) for route in routes)
            return len(edges) + widest <= 1

        return (
            not self.joins
            and single(self.entry, self.entry_route)
            and not any(node.leaves for node in self.everywhere())
            and all(
                single(node.edges, node.route, node.goto)
                and (node.child is None or node.child.serial())
                for node in self.nodes
            )
        )


@dataclass(frozen=True)
class Op:
    """One thing that is done to the thread. `at` counts checkpoints from the newest, cyclically."""

    kind: str
    """input | go_on | resume | answer | replay | update | fork"""
    number: int = 0
    """The value that is given."""
    at: int | None = None
    as_node: int | None = None
    """Which of the graph's nodes an update comes from, cyclically; -1 is START, None is inferred."""
    limit: int | None = None
    """`recursion_limit`."""
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    """Static interrupts, by node."""
    streamed: bool = False
    """Run with `stream` instead of `invoke`."""
    explicit: bool = False
    """A fork goes on at the config that the update returned, instead of at the thread's head."""


@dataclass(frozen=True)
class Case:
    """A graph and the operations on one thread of it."""

    graph: Graph
    ops: tuple[Op, ...] = field(default=())

    def serial(self) -> bool:
        """Whether no two nodes can ever run side by side: an update may bring a node back while a
        deferred one waits."""
        deferred = any(node.defer for node in self.graph.everywhere())
        updated = any(op.kind in ("update", "fork") for op in self.ops)
        return self.graph.serial() and not (deferred and updated)
