"""Many tasks in one step, and one that waits for all of them."""

from __future__ import annotations

from typing import Any

from bench.context import Case, Context
from bench.graphs import fan_out, on_thread
from bench.libraries import Library
from bench.measure import Contender, Watch, alternate
from bench.places import NOWHERE, SQLITE, Opener, Place
from bench.records import Record, faster, timed
from bench.seats import Seat


def _run(
    library: Library, watch: Watch, opener: Opener, where: Any, width: int, times: int
) -> None:
    with opener(library, where) as saver:
        graph = fan_out(library, width, saver)
        settings = {} if saver is None else {"durability": "sync"}
        graph.invoke({"words": ["warm"]}, on_thread("warm"), **settings)
        with watch.over(times):
            for number in range(times):
                result = graph.invoke({"words": ["w"]}, on_thread(str(number)), **settings)
        assert len(result["words"]) == width + 2


def _case(name: str, title: str, place: Place) -> Case:
    def contender(context: Context, seat: Seat) -> Contender:
        width, times = context.plan.width, 2 * context.repeats(seat)
        return lambda: seat.measure(_run, place.open, place.empty(context), width, times)

    def run(context: Context) -> list[Record]:
        contenders = {seat.name: contender(context, seat) for seat in context.seats}
        taken = alternate(contenders, context.plan.rounds)
        told = f"{context.plan.width}-way {title}"
        return [timed(name, told, "ms a run", 1e3, taken, faster(8))]

    return Case(name, title, run)


CASES = (
    _case("fanout.plain", "fan-out and join, no saver", NOWHERE),
    _case("fanout.sqlite-sync", "fan-out and join, SQLite `sync`", SQLITE),
)
