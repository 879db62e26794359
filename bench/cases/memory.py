"""What a process grows by that serves thousands of short threads, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.context import Case, Context
from bench.measure import turns
from bench.records import OURS, THEIRS, Record, Target, figures
from bench.served import measured

LEAST = 4096
"""A page: what a process that has not grown is taken to have grown by."""


def _case(kind: str, title: str, empty: Callable[[Context], Any], *, both: bool = True) -> Case:
    name = f"memory.{kind}"

    def run(context: Context) -> list[Record]:
        count = context.plan.served
        seats = context.seats if both else (context.ours,)
        half: dict[str, list[float]] = {seat.name: [] for seat in seats}
        whole: dict[str, list[float]] = {seat.name: [] for seat in seats}
        for seat in turns(seats, 1):
            found = measured(seat.root, kind, empty(context), count)
            for grown, all in zip(found, (half, whole), strict=True):
                all[seat.name].append(max(grown, LEAST) * 1e-6)
        told = f"{count:,} short threads, {title}: resident growth"
        record = figures(name, told, "MB", whole, Target(THEIRS, 1, at_least=False))
        record.notes += [
            f"{side} after half of them: {all[0]:.1f} MB" for side, all in half.items()
        ]
        if kind != "memory":
            limit = context.ours.do(cache_limit)
            record.notes.append(f"{OURS}'s cache is limited to {limit / 2**20:.0f} MiB")
        return [record]

    return Case(name, f"many short threads, {title}: resident growth", run)


def cache_limit(_: Any) -> int:
    """Bytes that a saver of ours caches."""
    from milepost.checkpoint._sql.cache import CACHE_LIMIT

    return CACHE_LIMIT


CASES = (
    _case("memory", "InMemorySaver", lambda _: "-"),
    _case("sqlite", "SQLite", Context.file),
    _case("postgres", "Postgres", Context.schema),
    _case("redis", "Redis", Context.redis, both=False),
)
