"""milepost on Redis, beside milepost on SQLite and on Postgres.

LangGraph's saver for Redis needs RedisJSON and RediSearch, which the server here does not have, so
it is not among the sides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bench.cases.concurrency import POOL, AsyncOpener, run_at_once
from bench.cases.short import cold, state, turn, warm
from bench.cases.steps import run_loop
from bench.context import Case, Context, Skipped
from bench.graphs import payload
from bench.growth import grow
from bench.libraries import Library
from bench.measure import Contender, alternate
from bench.places import POSTGRES, REDIS, SQLITE, USED_SQLITE, Database, Place
from bench.records import LIMIT, OURS, Record, faster, figures, timed, within

SIDES = {OURS: REDIS, POSTGRES.name: POSTGRES, SQLITE.name: SQLITE}
"""milepost's own are the figures on Redis; the others are milepost on other databases."""
TARGETS = tuple(faster(None, side) for side in SIDES if side != OURS)
WHY = (
    "Valkey, appendonly yes and appendfsync always; langgraph-checkpoint-redis cannot run on it: it"
    " needs RedisJSON and RediSearch"
)

Measured = Callable[[Context, Database], Contender]


def _case(name: str, title: str, unit: str, factor: float, measured: Measured) -> Case:
    name, title = f"redis.{name}", f"{title}, milepost on Redis"

    def run(context: Context) -> list[Record]:
        contenders = {side: measured(context, place) for side, place in _sides(context).items()}
        taken = alternate(contenders, context.plan.rounds)
        record = timed(name, title, unit, factor, taken, *TARGETS)
        record.notes.append(WHY)
        return [record]

    return Case(name, title, run)


def _sides(context: Context) -> dict[str, Database]:
    """Those that can be had here: without Postgres there is still SQLite to compare with."""
    found = {}
    for side, place in SIDES.items():
        try:
            place.empty(context)
        except Skipped:
            if side == OURS:
                raise
        else:
            found[side] = place
    return found


def _steps(context: Context, database: Database) -> Contender:
    place: Place = USED_SQLITE if database is SQLITE else database
    steps, repeats = context.plan.steps, context.repeats(context.ours, waits=True)
    return lambda: context.ours.measure(
        run_loop, place.open, place.empty(context), steps, repeats, "sync"
    )


def _short(part: Callable[..., None], work: Callable[..., None]) -> Measured:
    def measured(context: Context, database: Database) -> Contender:
        count = context.plan.short
        return lambda: context.ours.measure(part, database, database.empty(context), count, work)

    return measured


OPENERS: dict[str, AsyncOpener] = {
    REDIS.name: Library.async_redis,
    SQLITE.name: Library.async_sqlite,
    POSTGRES.name: partial(Library.async_postgres, size=POOL),
}


def _at_once(context: Context, database: Database) -> Contender:
    runs, steps = context.plan.runs, context.plan.run_steps
    repeats, opener = context.repeats(context.ours, waits=True), OPENERS[database.name]
    return lambda: context.ours.measure(
        run_at_once, opener, database.empty(context), runs, steps, repeats
    )


def _chat(context: Context) -> list[Record]:
    sides = _sides(context)
    found: dict[str, list[Any]] = {side: [] for side in sides}
    for _ in range(context.plan.long_rounds):
        for side, database in sides.items():
            found[side].append(grow(database, context, context.ours))
    count = context.plan.turns
    title = f"{count}-turn chat, milepost on Redis"
    sizes = {side: [one.bytes * 1e-6 for one in all] for side, all in found.items()}
    sizes[LIMIT] = [payload(count) * 1e-6] * context.plan.long_rounds
    targets = within(None, LIMIT), *(within(None, side) for side in SIDES if side != OURS)
    size = figures("redis.chat.bytes", f"{title}: bytes in memory", "MB", sizes, *targets)
    size.notes += ["the others are bytes on the disk after closing", WHY]
    taken = {side: [one.total() for one in all] for side, all in found.items()}
    return [size, timed("redis.chat.time", f"{title}: time", "s", 1, taken, *TARGETS)]


CASES = (
    _case("steps", "a step under `sync`", "µs a step", 1e6, _steps),
    _case("turn", "a turn of a short thread, `sync`", "ms", 1e3, _short(warm, turn)),
    _case("state", "`get_state` of a thread not seen", "ms", 1e3, _short(cold, state)),
    _case("cold-turn", "a turn on a thread not seen, `sync`", "ms", 1e3, _short(cold, turn)),
    _case("at-once", "64 runs at once, `sync`", "µs a step", 1e6, _at_once),
    Case("redis.chat", "a growing chat on Redis: bytes in memory", _chat),
)
