"""Many runs at once on one event loop, each on a thread of its own, all on one database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from bench.context import Case, Context
from bench.graphs import loop, on_thread
from bench.libraries import Library
from bench.measure import Contender, Watch, alternate
from bench.records import Record, faster, timed

Opener = Callable[[Context, Library], AbstractAsyncContextManager[Any]]

POOL = 16


def _run(context: Context, library: Library, opener: Opener) -> Contender:
    runs, steps = context.plan.runs, context.plan.run_steps
    repeats = context.repeats(library, waits=True)

    async def go(watch: Watch) -> None:
        async with opener(context, library) as saver:
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

    return lambda watch: asyncio.run(go(watch))


def _case(name: str, title: str, opener: Opener, bound: float) -> Case:
    def run(context: Context) -> list[Record]:
        contenders = {lib.name: _run(context, lib, opener) for lib in context.libraries}
        taken = alternate(contenders, context.plan.rounds)
        told = f"{context.plan.runs} runs at once, {title}"
        record = timed(name, told, "µs a step", 1e6, taken, faster(bound))
        for side, figure in record.sides.items():
            record.notes.append(f"{side}: {1e6 / figure.median:,.0f} steps/s")
        return [record]

    return Case(name, title, run)


CASES = (
    _case(
        "concurrency.sqlite",
        "one SQLite file, `sync`",
        lambda context, library: library.async_sqlite(context.file()),
        20,
    ),
    _case(
        "concurrency.postgres",
        f"Postgres pool of {POOL}, `sync`",
        lambda context, library: library.async_postgres(context.schema(), POOL),
        15,
    ),
)
