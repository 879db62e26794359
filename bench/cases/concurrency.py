"""Many runs at once on one event loop, each on a thread of its own, all on one database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from bench.context import Case, Context
from bench.graphs import loop, on_thread
from bench.libraries import Library
from bench.measure import Contender, Watch, alternate
from bench.records import Record, faster, timed
from bench.seats import Seat

AsyncOpener = Callable[[Library, Any], AbstractAsyncContextManager[Any]]

POOL = 16


def run_at_once(
    library: Library,
    watch: Watch,
    opener: AsyncOpener,
    where: Any,
    runs: int,
    steps: int,
    repeats: int,
) -> None:
    async def go() -> None:
        async with opener(library, where) as saver:
            graph = loop(library, saver, colour="async")
            await graph.ainvoke({"n": 0, "last": 2}, on_thread("warm"), durability="sync")
            with watch.over(runs * steps * repeats):
                for turn in range(repeats):
                    await asyncio.gather(
                        *(
                            graph.ainvoke(
                                {"n": 0, "last": steps},
                                on_thread(f"{turn}-{number}", steps),
                                durability="sync",
                            )
                            for number in range(runs)
                        )
                    )

    asyncio.run(go())


def _case(
    name: str, title: str, empty: Callable[[Context], Any], opener: AsyncOpener, bound: float
) -> Case:
    def contender(context: Context, seat: Seat) -> Contender:
        runs, steps = context.plan.runs, context.plan.run_steps
        repeats = context.repeats(seat, waits=True)
        return lambda: seat.measure(run_at_once, opener, empty(context), runs, steps, repeats)

    def run(context: Context) -> list[Record]:
        contenders = {seat.name: contender(context, seat) for seat in context.seats}
        taken = alternate(contenders, context.plan.rounds)
        told = f"{context.plan.runs} runs at once, {title}"
        record = timed(name, told, "µs a step", 1e6, taken, faster(bound))
        for side, figure in record.sides.items():
            record.notes.append(f"{side}: {1e6 / figure.median:,.0f} steps/s")
        return [record]

    return Case(name, title, run)


CASES = (
    _case("concurrency.sqlite", "one SQLite file, `sync`", Context.file, Library.async_sqlite, 20),
    _case(
        "concurrency.postgres",
        f"Postgres pool of {POOL}, `sync`",
        Context.schema,
        partial(Library.async_postgres, size=POOL),
        15,
    ),
)
