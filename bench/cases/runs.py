"""What programs do with runs: tokens of a model, graphs inside graphs, answers of people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.context import Case, Context
from bench.graphs import asking, nested, on_thread, spoken
from bench.libraries import Library
from bench.measure import Contender, Reading, Watch, alternate
from bench.places import SQLITE
from bench.records import Record, faster, timed
from bench.seats import Seat

TIMES = 5
"""Streams in a round: of what two readings differ in, noise is a large part."""


def _own(library: Library, watch: Watch, tokens: int) -> None:
    """What the model takes by itself."""
    model, _ = spoken(library, tokens)
    _count(model.stream("hello"))
    with watch.over(TIMES * tokens):
        for _ in range(TIMES):
            _count(model.stream("hello"))


def _streamed(library: Library, watch: Watch, tokens: int) -> None:
    """The same model in a graph whose messages are streamed."""
    _, graph = spoken(library, tokens)
    given = {"messages": ["hello"]}
    _count(graph.stream(given, stream_mode="messages"))
    with watch.over(TIMES * tokens):
        for _ in range(TIMES):
            found = _count(graph.stream(given, stream_mode="messages"))
    assert found >= tokens - 1


def _count(parts: Any) -> int:
    return sum(1 for _ in parts)


def _added(seat: Seat, tokens: int) -> Contender:
    """What the graph adds to the model's stream."""

    def reading() -> Reading:
        own, through = seat.measure(_own, tokens), seat.measure(_streamed, tokens)
        return Reading(max(through.wall - own.wall, 1e-9), max(through.cpu - own.cpu, 1e-9))

    return reading


def _nested(library: Library, watch: Watch, where: Any, times: int) -> None:
    with SQLITE.open(library, where) as saver:
        graph = nested(library, saver)
        graph.invoke({"n": 0, "last": 2}, on_thread("warm"), durability="sync")
        with watch.over(times):
            found = graph.invoke({"n": 0, "last": times}, on_thread("1", times), durability="sync")
        assert found["n"] == times


def _answered(library: Library, watch: Watch, where: Any, times: int) -> None:
    with SQLITE.open(library, where) as saver:
        graph = asking(library, saver)
        for thread, last in (("warm", 2), ("1", times)):
            config = on_thread(thread, times)
            with watch.over(last):
                graph.invoke({"n": 0, "last": last}, config, durability="sync")
                for _ in range(last):
                    answer = library.Command(resume=1)
                    found = graph.invoke(answer, config, durability="sync")
            assert found["n"] == last
    del watch.readings[0]  # of the first calls


def _case(
    name: str, title: str, unit: str, factor: float, bound: float, contender: Callable[..., Any]
) -> Case:
    def run(context: Context) -> list[Record]:
        contenders = {seat.name: contender(context, seat) for seat in context.seats}
        taken = alternate(contenders, context.plan.rounds)
        return [timed(name, title, unit, factor, taken, faster(bound))]

    return Case(name, title, run)


def _tokens(context: Context, seat: Seat) -> Contender:
    return _added(seat, context.plan.tokens)


def _inner(context: Context, seat: Seat) -> Contender:
    return lambda: seat.measure(_nested, context.file(), context.plan.inner)


def _asked(context: Context, seat: Seat) -> Contender:
    return lambda: seat.measure(_answered, context.file(), context.plan.inner)


CASES = (
    _case(
        "runs.tokens",
        'a token through `stream_mode="messages"`, beside the model\'s own stream',
        "µs",
        1e6,
        4,
        _tokens,
    ),
    _case("runs.nested", "a node that is a graph of three, SQLite `sync`", "ms", 1e3, 4, _inner),
    _case(
        "runs.interrupts",
        "an interrupt and the call that answers it, SQLite `sync`",
        "ms",
        1e3,
        6,
        _asked,
    ),
)
