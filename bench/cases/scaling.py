"""What a turn costs against the size of what is around it.

A turn is an `invoke` on SQLite with `sync`; only that of several processes is on Postgres. What
counts is the CPU time of the program: the fsync is the same at every size and would hide the rest.
The lowest of the rounds counts, for both sides. Wall time is kept beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from bench.cases.threads import many_threads
from bench.context import Case, Context
from bench.graphs import chat, editor, loop, on_thread, user_turn
from bench.libraries import Library
from bench.measure import Reading, Watch, cpus, summary, turns, walls
from bench.records import Curve, Record, exponent, law
from bench.seats import Seat
from bench.service import AsyncOpener, Load, serve

Measured = Callable[[Library, Watch, Path, int, int], None]
"""Takes the file, the size, and how many turns to measure."""

FEW: AsyncOpener = partial(Library.async_postgres, size=4)
"""Connections of each process: eight processes share the 100 that Postgres has."""

At = Callable[[Context, Seat, int], Reading]
"""What a turn of one library costs at one size."""


def _go(
    graph: Any, watch: Watch, count: int, thread: str, extra: dict[str, Any] | None = None
) -> None:
    config = on_thread(thread)
    # What is large is stored beforehand: here the cost of not touching it is asked for.
    for given in ({"n": 0, "last": 1, **(extra or {})}, {"n": 0, "last": 1}):
        graph.invoke(given, config, durability="sync", output_keys=["n"])
    with watch.over(count):
        for _ in range(count):
            graph.invoke({"n": 0, "last": 1}, config, durability="sync", output_keys=["n"])


def _nodes(library: Library, watch: Watch, file: Path, size: int, count: int) -> None:
    """Nodes that could run, and do not."""
    with library.sqlite(file) as saver:
        _go(loop(library, saver, idle=size), watch, count, "t")


def _keys(library: Library, watch: Watch, file: Path, size: int, count: int) -> None:
    """Keys of the state that no node reads or writes."""
    keys = {f"key{number}": int for number in range(size)}
    wide: Any = TypedDict("wide", {"n": int, "last": int, **keys})  # type: ignore[misc]
    with library.sqlite(file) as saver:
        _go(loop(library, saver, schema=wide), watch, count, "t", dict.fromkeys(keys, 1))


def _value(library: Library, watch: Watch, file: Path, size: int, count: int) -> None:
    """Kilobytes in a key that no node reads or writes."""
    large: Any = TypedDict("large", {"n": int, "last": int, "text": str})
    with library.sqlite(file) as saver:
        _go(loop(library, saver, schema=large), watch, count, "t", {"text": "x" * (1000 * size)})


def _edited(library: Library, watch: Watch, file: Path, size: int, count: int) -> None:
    """Kilobytes of a text in the middle of which the turn changes a few characters."""
    with library.sqlite(file) as saver:
        graph, config = editor(library, saver), on_thread("t")
        for given in ({"n": 0, "text": "x" * (1000 * size)}, {"n": 1}):
            graph.invoke(given, config, durability="sync", output_keys=["n"])
        with watch.over(count):
            for number in range(count):
                graph.invoke({"n": number}, config, durability="sync", output_keys=["n"])


def _length(library: Library, watch: Watch, file: Path, size: int, count: int) -> None:
    """Turns that the chat has already; a short one does not become much longer while measured."""
    each = max(2, min(count, size // 5))
    with library.sqlite(file) as saver:
        graph = chat(library, saver)
        threads = [on_thread(str(number)) for number in range(max(1, count // each))]
        for config in threads:
            for number in range(size):
                graph.invoke(user_turn(number), config, durability="async")
        with watch.over(each * len(threads)):
            for config in threads:
                for number in range(each):
                    graph.invoke(user_turn(number), config, durability="sync")


def _threads(library: Library, watch: Watch, file: Path, size: int, count: int) -> None:
    """Other threads in the file."""
    with many_threads(library, file, size) as saver:
        _go(loop(library, saver), watch, count, "new")


def _on_sqlite(measured: Measured) -> At:
    def at(context: Context, seat: Seat, size: int) -> Reading:
        return seat.measure(measured, context.file(), size, max(2, context.plan.steps // 5))

    return at


def _processes(context: Context, seat: Seat, size: int) -> Reading:
    """Processes that work on one Postgres server, each with one turn at a time."""
    each = max(size, context.plan.steps // 5 // size * size)
    load = Load(threads=8 * size, in_flight=size, turns=each * size, processes=size)
    done = serve(seat.root, FEW, context.schema(), load)
    count = len(done.latencies)
    return Reading(done.wall / count, done.cpu / count)


def _case(name: str, what: str, at: At, sizes: Sequence[int]) -> Case:
    name = f"scaling.{name}"

    def run(context: Context) -> list[Record]:
        record = Record(name, f"CPU time of a turn against {what}", "ms")
        found = {size: _lowest(context, size, at) for size in sizes[: context.plan.sizes]}
        for side in (seat.name for seat in context.seats):
            points = [(size, at[side].cpu * 1e3) for size, at in found.items()]
            wall = [(size, at[side].wall * 1e3) for size, at in found.items()]
            told = f"n^{exponent(points):.2f}, {law(points)}"
            record.curves.append(Curve(side, points, told))
            record.walls.append(Curve(side, wall))
            record.sides[side] = summary([points[-1][1]])
            record.notes.append(f"{side}: {told}")
        return [record]

    return Case(name, f"a turn against {what}", run)


def _lowest(context: Context, size: int, at: At) -> dict[str, Reading]:
    """Of each library at one size."""
    taken: dict[str, list[Reading]] = {seat.name: [] for seat in context.seats}
    for seat in turns(context.seats, context.plan.long_rounds):
        taken[seat.name].append(at(context, seat, size))
    return {name: Reading(min(walls(all)), min(cpus(all))) for name, all in taken.items()}


CASES = (
    _case("length", "turns of the chat", _on_sqlite(_length), (1, 10, 100, 1000)),
    _case("value", "kB of a value it leaves", _on_sqlite(_value), (1, 10, 100, 1000)),
    _case("edited", "kB of a text it edits", _on_sqlite(_edited), (1, 10, 100, 1000)),
    _case("keys", "keys in the state", _on_sqlite(_keys), (3, 30, 300, 3000)),
    _case("nodes", "nodes in the graph", _on_sqlite(_nodes), (3, 30, 300, 3000)),
    _case("threads", "threads in the file", _on_sqlite(_threads), (10, 100, 1000, 10_000)),
    _case("processes", "processes on Postgres", _processes, (1, 2, 4, 8)),
)
