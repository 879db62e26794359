"""What a step costs against the size of what it does not change.

CPU time of a step, saved to SQLite with `sync`: the fsync is the same at every size and would hide
the rest. The lowest of the rounds counts, for both sides. Wall time is kept beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

from bench.cases.threads import many_threads
from bench.context import Case, Context
from bench.graphs import loop, on_thread
from bench.libraries import Library
from bench.measure import Reading, Watch, cpus, summary, turns, walls
from bench.records import Curve, Record, law

Measured = Callable[[Library, Watch, Path, int, int], None]
"""Takes the file, the size of what is not changed, and how many steps to measure."""


def _go(
    graph: Any, watch: Watch, steps: int, thread: str, extra: dict[str, Any] | None = None
) -> None:
    config = on_thread(thread, steps)
    # What is large is stored beforehand: here the cost of not touching it is asked for.
    graph.invoke({"n": 0, "last": 1, **(extra or {})}, config, output_keys=["n"])
    with watch.over(steps):
        graph.invoke({"n": 0, "last": steps}, config, durability="sync", output_keys=["n"])


def _nodes(library: Library, watch: Watch, file: Path, size: int, steps: int) -> None:
    """Nodes that could run, and do not."""
    with library.sqlite(file) as saver:
        _go(loop(library, saver, idle=size), watch, steps, "t")


def _channels(library: Library, watch: Watch, file: Path, size: int, steps: int) -> None:
    """Keys of the state that nobody reads or writes."""
    keys = {f"key{number}": int for number in range(size)}
    wide: Any = TypedDict("wide", {"n": int, "last": int, **keys})  # type: ignore[misc]
    with library.sqlite(file) as saver:
        _go(loop(library, saver, schema=wide), watch, steps, "t", dict.fromkeys(keys, 1))


def _state(library: Library, watch: Watch, file: Path, size: int, steps: int) -> None:
    """Kilobytes in a key that nobody reads or writes."""
    large: Any = TypedDict("large", {"n": int, "last": int, "text": str})
    with library.sqlite(file) as saver:
        _go(loop(library, saver, schema=large), watch, steps, "t", {"text": "x" * (1000 * size)})


def _length(library: Library, watch: Watch, file: Path, size: int, steps: int) -> None:
    """Checkpoints that the thread has already."""
    with library.sqlite(file) as saver:
        graph = loop(library, saver)
        graph.invoke({"n": 0, "last": size}, on_thread("t", size), durability="async")
        _go(graph, watch, steps, "t")


def _threads(library: Library, watch: Watch, file: Path, size: int, steps: int) -> None:
    """Other threads in the file."""
    with many_threads(library, file, size) as saver:
        _go(loop(library, saver), watch, steps, "new")


def _case(name: str, what: str, first: int, measured: Measured) -> Case:
    name = f"scaling.{name}"

    def run(context: Context) -> list[Record]:
        sizes = [first * 10**power for power in range(context.plan.sizes)]
        record = Record(name, f"CPU time of a step against {what}", "µs a step")
        found = {size: _lowest(context, size, measured) for size in sizes}
        for side in (seat.name for seat in context.seats):
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
    taken: dict[str, list[Reading]] = {seat.name: [] for seat in context.seats}
    for seat in turns(context.seats, context.plan.long_rounds):
        taken[seat.name].append(seat.measure(measured, context.file(), size, context.plan.steps))
    return {name: Reading(min(walls(all)), min(cpus(all))) for name, all in taken.items()}


CASES = (
    _case("nodes", "nodes in the graph", 3, _nodes),
    _case("channels", "keys in the state", 3, _channels),
    _case("state", "kilobytes in the state", 1, _state),
    _case("length", "checkpoints in the thread", 10, _length),
    _case("threads", "threads in the file", 10, _threads),
)
