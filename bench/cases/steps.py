"""A loop of one node: what one step costs, with each saver and each durability."""

from __future__ import annotations

import asyncio
from typing import Any

from bench.context import Case, Context
from bench.graphs import loop, on_thread
from bench.libraries import Library
from bench.limits import AT_BEST, postgres_commits, sqlite_commits
from bench.measure import Contender, Watch, alternate
from bench.places import MEMORY, NOWHERE, POSTGRES, SQLITE, USED_SQLITE, Opener, Place
from bench.records import LIMIT, Record, Target, faster, timed, within
from bench.seats import Seat

MICRO = 1e6
BEST = within(None, AT_BEST)


def run_loop(
    library: Library,
    watch: Watch,
    opener: Opener,
    where: Any,
    steps: int,
    repeats: int,
    durability: str | None,
) -> None:
    """Steps of the loop in sync code; each repeat is a thread of its own."""
    with opener(library, where) as saver:
        graph = loop(library, saver)
        settings = {"durability": durability} if durability else {}
        graph.invoke({"n": 0, "last": 3}, on_thread("warm"), **settings)
        with watch.over(steps * repeats):
            for number in range(repeats):
                config = on_thread(str(number), steps)
                graph.invoke({"n": 0, "last": steps}, config, **settings)


def _run_async(library: Library, watch: Watch, colour: str, steps: int, repeats: int) -> None:
    """Steps of the loop on an event loop, without a saver."""

    async def go() -> None:
        graph = loop(library, colour=colour)
        await graph.ainvoke({"n": 0, "last": 3}, on_thread("warm"))
        with watch.over(steps * repeats):
            for _ in range(repeats):
                await graph.ainvoke({"n": 0, "last": steps}, on_thread("", steps))

    asyncio.run(go())


def _limits(context: Context, place: Place) -> dict[str, Contender]:
    count = 2 * context.plan.steps
    if place is USED_SQLITE:
        return {LIMIT: lambda: sqlite_commits(context.file(), count)}
    return {
        LIMIT: lambda: postgres_commits(context.schema(), count),
        AT_BEST: lambda: postgres_commits(context.schema(), count, cursor=False),
    }


def _case(name: str, title: str, place: Place, durability: str | None, *targets: Target) -> Case:
    def contender(context: Context, seat: Seat) -> Contender:
        steps, repeats = context.plan.steps, context.repeats(seat, waits=durability == "sync")
        return lambda: seat.measure(
            run_loop, place.open, place.empty(context), steps, repeats, durability
        )

    def run(context: Context) -> list[Record]:
        contenders = {seat.name: contender(context, seat) for seat in context.seats}
        if durability == "sync":
            contenders |= _limits(context, place)
        taken = alternate(contenders, context.plan.rounds)
        return [timed(name, title, "µs a step", MICRO, taken, *targets)]

    return Case(name, title, run)


def _async_case(name: str, title: str, colour: str, *targets: Target) -> Case:
    def contender(context: Context, seat: Seat) -> Contender:
        steps, repeats = context.plan.steps, context.repeats(seat)
        return lambda: seat.measure(_run_async, colour, steps, repeats)

    def run(context: Context) -> list[Record]:
        contenders = {seat.name: contender(context, seat) for seat in context.seats}
        taken = alternate(contenders, context.plan.rounds)
        return [timed(name, title, "µs a step", MICRO, taken, *targets)]

    return Case(name, title, run)


CASES = (
    _case("steps.plain", "one-node loop, no saver", NOWHERE, None, faster(10)),
    _async_case("steps.async", "the same, async", "async", faster(10)),
    _async_case("steps.mixed", "the same, async node and sync router", "mixed"),
    _case("steps.memory", "InMemorySaver", MEMORY, None, faster(8)),
    _case("steps.sqlite-sync", "SQLite, `sync`", USED_SQLITE, "sync", faster(3.5), within(1.35)),
    _case("steps.sqlite-async", "SQLite, `async`", SQLITE, "async", faster(12)),
    _case("steps.sqlite-exit", "SQLite, `exit`", SQLITE, "exit", faster(10)),
    _case(
        "steps.postgres-sync", "Postgres, `sync`", POSTGRES, "sync", faster(3), within(1.5), BEST
    ),
    _case("steps.postgres-async", "Postgres, `async`", POSTGRES, "async", faster(10)),
)
