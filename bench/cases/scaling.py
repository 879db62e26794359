"""What a step costs against the size of what it does not change.

CPU time of a step, saved to SQLite with `sync`: the fsync is the same at every size and would hide
the rest. The lowest of the rounds counts, for both sides. Wall time is kept beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from bench.cases.threads import many_threads
from bench.context import Case, Context
from bench.graphs import loop, on_thread
from bench.libraries import Library
from bench.measure import Reading, Watch, cpus, summary, turns, walls
from bench.records import Curve, Record, law

Measured = Callable[[Context, Library, int, Watch], None]


def _go(
    context: Context, graph: Any, thread: str, watch: Watch, extra: dict[str, Any] | None = None
) -> None:
    steps, config = context.plan.steps, on_thread(thread, context.plan.steps)
    # What is large is stored beforehand: here the cost of not touching it is asked for.
    graph.invoke({"n": 0, "last": 1, **(extra or {})}, config, output_keys=["n"])
    with watch.over(steps):
        graph.invoke({"n": 0, "last": steps}, config, durability="sync", output_keys=["n"])


def _nodes(context: Context, library: Library, size: int, watch: Watch) -> None:
    """Nodes that could run, and do not."""
    with library.sqlite(context.file()) as saver:
        _go(context, loop(library, saver, idle=size), "t", watch)


def _channels(context: Context, library: Library, size: int, watch: Watch) -> None:
    """Keys of the state that nobody reads or writes."""
    keys = {f"key{number}": int for number in range(size)}
    wide: Any = TypedDict("wide", {"n": int, "last": int, **keys})  # type: ignore[misc]
    with library.sqlite(context.file()) as saver:
        _go(context, loop(library, saver, schema=wide), "t", watch, dict.fromkeys(keys, 1))


def _state(context: Context, library: Library, size: int, watch: Watch) -> None:
    """Kilobytes in a key that nobody reads or writes."""
    large: Any = TypedDict("large", {"n": int, "last": int, "text": str})
    with library.sqlite(context.file()) as saver:
        _go(context, loop(library, saver, schema=large), "t", watch, {"text": "x" * (1000 * size)})


def _length(context: Context, library: Library, size: int, watch: Watch) -> None:
    """Checkpoints that the thread has already."""
    with library.sqlite(context.file()) as saver:
        graph = loop(library, saver)
        graph.invoke({"n": 0, "last": size}, on_thread("t", size), durability="async")
        _go(context, graph, "t", watch)


def _threads(context: Context, library: Library, size: int, watch: Watch) -> None:
    """Other threads in the file."""
    with many_threads(context, library, size) as saver:
        _go(context, loop(library, saver), "new", watch)


def _case(name: str, what: str, first: int, measured: Measured) -> Case:
    name = f"scaling.{name}"

    def run(context: Context) -> list[Record]:
        sizes = [first * 10**power for power in range(context.plan.sizes)]
        record = Record(name, f"CPU time of a step against {what}", "µs a step")
        found = {size: _lowest(context, size, measured) for size in sizes}
        for side in (library.name for library in context.libraries):
            points = [(size, at[side].cpu * 1e6) for size, at in found.items()]
            record.curves.append(Curve(side, points, law(points)))
            wall = [(size, at[side].wall * 1e6) for size, at in found.items()]
            record.walls.append(Curve(side, wall))
            record.sides[side] = summary([points[-1][1]])
            record.notes.append(f"{side}: {record.curves[-1].law}")
        return [record]

    return Case(name, f"cost against {what}", run)


def _lowest(context: Context, size: int, measured: Measured) -> dict[str, Reading]:
    """Of each library at one size."""
    watches = {library.name: Watch() for library in context.libraries}
    for library in turns(context.libraries, context.plan.long_rounds):
        measured(context, library, size, watches[library.name])
    return {
        name: Reading(min(walls(watch.readings)), min(cpus(watch.readings)))
        for name, watch in watches.items()
    }


CASES = (
    _case("nodes", "nodes in the graph", 3, _nodes),
    _case("channels", "keys in the state", 3, _channels),
    _case("state", "kilobytes in the state", 1, _state),
    _case("length", "checkpoints in the thread", 10, _length),
    _case("threads", "threads in the file", 10, _threads),
)
