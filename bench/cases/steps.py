"""A loop of one node: what one step costs, with each saver and each durability."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from bench.context import Case, Context
from bench.graphs import loop, on_thread
from bench.libraries import Library
from bench.limits import AT_BEST, postgres_commits, sqlite_commits
from bench.measure import Contender, Watch, alternate
from bench.records import LIMIT, Record, Target, faster, timed, within

Opener = Callable[[Context, Library], AbstractContextManager[Any]]

MICRO = 1e6
BEST = within(None, AT_BEST)


def _run(context: Context, library: Library, opener: Opener, durability: str | None) -> Contender:
    """Steps of the loop in sync code; each repeat is a thread of its own."""
    steps = context.plan.steps
    repeats = context.repeats(library, waits=durability == "sync")

    def contend(watch: Watch) -> None:
        with opener(context, library) as saver:
            graph = loop(library, saver)
            settings = {"durability": durability} if durability else {}
            graph.invoke({"n": 0, "last": 3}, on_thread("warm"), **settings)
            with watch.over(steps * repeats):
                for number in range(repeats):
                    config = on_thread(str(number), steps)
                    graph.invoke({"n": 0, "last": steps}, config, **settings)

    return contend


def _run_async(context: Context, library: Library, colour: str) -> Contender:
    """Steps of the loop on an event loop, without a saver."""
    steps, repeats = context.plan.steps, context.repeats(library)

    async def go(watch: Watch) -> None:
        graph = loop(library, colour=colour)
        await graph.ainvoke({"n": 0, "last": 3}, on_thread("warm"))
        with watch.over(steps * repeats):
            for _ in range(repeats):
                await graph.ainvoke({"n": 0, "last": steps}, on_thread("", steps))

    return lambda watch: asyncio.run(go(watch))


def _nothing(context: Context, library: Library) -> AbstractContextManager[Any]:  # noqa: ARG001
    return nullcontext(None)


def _memory(context: Context, library: Library) -> AbstractContextManager[Any]:  # noqa: ARG001
    return nullcontext(library.memory())


def _sqlite(context: Context, library: Library) -> AbstractContextManager[Any]:
    return library.sqlite(context.file())


def _postgres(context: Context, library: Library) -> AbstractContextManager[Any]:
    return library.postgres(context.schema())


def _case(name: str, title: str, opener: Opener, durability: str | None, *targets: Target) -> Case:
    def run(context: Context) -> list[Record]:
        contenders = {
            library.name: _run(context, library, opener, durability)
            for library in context.libraries
        }
        count = 2 * context.plan.steps
        if durability == "sync" and opener is _sqlite:
            contenders[LIMIT] = lambda watch: sqlite_commits(watch, context.file(), count)
            contenders[AT_BEST] = lambda watch: sqlite_commits(
                watch, context.file(), count, room=True
            )
        if durability == "sync" and opener is _postgres:
            contenders[LIMIT] = lambda watch: postgres_commits(watch, context.schema(), count)
            contenders[AT_BEST] = lambda watch: postgres_commits(
                watch, context.schema(), count, cursor=False
            )
        taken = alternate(contenders, context.plan.rounds)
        record = timed(name, title, "µs a step", MICRO, taken, *targets)
        if (best := record.sides.get(AT_BEST)) is not None:
            record.notes.append(f"{AT_BEST}: {best.median:.0f} µs")
        return [record]

    return Case(name, title, run)


def _async_case(name: str, title: str, colour: str, *targets: Target) -> Case:
    def run(context: Context) -> list[Record]:
        contenders = {lib.name: _run_async(context, lib, colour) for lib in context.libraries}
        taken = alternate(contenders, context.plan.rounds)
        return [timed(name, title, "µs a step", MICRO, taken, *targets)]

    return Case(name, title, run)


CASES = (
    _case("steps.plain", "one-node loop, no saver", _nothing, None, faster(10)),
    _async_case("steps.async", "the same, async", "async", faster(10)),
    _async_case("steps.mixed", "the same, async node and sync router", "mixed"),
    _case("steps.memory", "InMemorySaver", _memory, None, faster(8)),
    _case("steps.sqlite-sync", "SQLite, `sync`", _sqlite, "sync", faster(3.5), within(1.35), BEST),
    _case("steps.sqlite-async", "SQLite, `async`", _sqlite, "async", faster(12)),
    _case("steps.sqlite-exit", "SQLite, `exit`", _sqlite, "exit", faster(10)),
    _case(
        "steps.postgres-sync", "Postgres, `sync`", _postgres, "sync", faster(3), within(1.5), BEST
    ),
    _case("steps.postgres-async", "Postgres, `async`", _postgres, "async", faster(10)),
)
