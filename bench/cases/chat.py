"""A conversation that grows: the bytes that it leaves, and what its turns take."""

from __future__ import annotations

from collections.abc import Sequence

from bench.context import Case, Context
from bench.graphs import payload
from bench.growth import Grown, grow
from bench.measure import ratio, summary, turns
from bench.places import POSTGRES, SQLITE, Database
from bench.records import (
    LIMIT,
    OURS,
    THEIRS,
    TIMES,
    Check,
    Curve,
    Record,
    Target,
    faster,
    timed,
    within,
)
from bench.resident import measured

MEGA = 1e-6


def _grow(database: Database, context: Context) -> dict[str, list[Grown]]:
    grown: dict[str, list[Grown]] = {seat.name: [] for seat in context.seats}
    for seat in turns(context.seats, context.plan.long_rounds):
        done = grow(database, context, seat)
        grown[seat.name].append(done)
        context.kept["grown", database.name, seat.name] = done
    return grown


def _time(name: str, title: str, grown: dict[str, list[Grown]], *targets: Target) -> Record:
    taken = {side: [one.total() for one in all] for side, all in grown.items()}
    record = timed(f"{name}.time", f"{title}: time", "s", 1, taken, *targets)
    for side, all in grown.items():
        points = [(n + 1, turn.wall * 1e3) for n, turn in enumerate(all[-1].turns)]
        record.curves.append(Curve(side, _smoothed(points)))
    return record


def _bytes(name: str, title: str, grown: dict[str, list[Grown]], count: int, most: float) -> Record:
    record = Record(f"{name}.bytes", f"{title}: bytes after closing", "MB")
    for side, all in grown.items():
        record.sides[side] = summary([one.bytes * MEGA for one in all])
        record.curves.append(Curve(side, [(n, size * MEGA) for n, size in all[-1].sizes]))
    record.sides[LIMIT] = summary([payload(count) * MEGA])
    steps = [n for n, _ in grown[OURS][-1].sizes]
    record.curves.append(Curve("payload", [(n, payload(n) * MEGA) for n in steps]))
    ours = [one.bytes for one in grown[OURS]]
    record.checks.append(Check(within(most, "payload"), ratio(ours, [payload(count)] * len(ours))))
    return record


def _slowing(
    name: str, title: str, grown: dict[str, list[Grown]], count: int, most: float | None = None
) -> Record:
    span = max(1, count // 8)
    told = f"{title}: last {span} turns against first {span}"
    record = Record(f"{name}.slowing", told, TIMES)
    for side, all in grown.items():
        first, last = [g.part(None, span) for g in all], [g.part(-span, None) for g in all]
        record.sides[side] = ratio([r.wall for r in last], [r.wall for r in first])
        record.cpu[side] = ratio([r.cpu for r in last], [r.cpu for r in first])
    target = within(most, "first turns")
    record.checks.append(Check(target, record.sides[OURS], record.cpu[OURS]))
    return record


def _smoothed(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Medians of neighbours, so that a curve shows the trend."""
    width = max(1, len(points) // 40)
    found = []
    for at in range(0, len(points) - width + 1, width):
        part = points[at : at + width]
        found.append((part[-1][0], sorted(y for _, y in part)[width // 2]))
    return found


def _sqlite(context: Context) -> list[Record]:
    count = context.plan.turns
    name, title = "chat.sqlite", f"{count}-turn chat, SQLite `sync`"
    grown = _grow(SQLITE, context)
    return [
        _bytes(name, title, grown, count, 3),
        _time(name, title, grown, faster(10)),
        _slowing(name, title, grown, count, 3),
    ]


def _postgres(context: Context) -> list[Record]:
    count = context.plan.turns
    name, title = "chat.postgres", f"{count}-turn chat, Postgres `sync`"
    grown = _grow(POSTGRES, context)
    return [
        _bytes(name, title, grown, count, 5),
        _time(name, title, grown, faster(10)),
        _slowing(name, title, grown, count),
    ]


def _memory(context: Context) -> list[Record]:
    count = context.plan.turns
    sizes: dict[str, list[int]] = {seat.name: [] for seat in context.seats}
    times: dict[str, list[float]] = {seat.name: [] for seat in context.seats}
    for seat in turns(context.seats, context.plan.long_rounds):
        grown, seconds = measured(seat.root, count)
        sizes[seat.name].append(grown)
        times[seat.name].append(seconds)
    title = f"{count}-turn chat, InMemorySaver"
    size = Record("chat.memory.bytes", f"{title}: resident growth", "MB")
    time = Record("chat.memory.time", f"{title}: time", "s")
    for side in sizes:
        size.sides[side] = summary(sizes[side]).scaled(MEGA)
        time.sides[side] = summary(times[side])
    size.sides[LIMIT] = summary([payload(count) * MEGA])
    ours = sizes[OURS]
    size.checks.append(Check(within(10, "payload"), ratio(ours, [payload(count)] * len(ours))))
    time.checks.append(Check(Target(THEIRS), ratio(times[THEIRS], times[OURS])))
    return [size, time]


CASES = (
    Case("chat.sqlite", "a growing chat on SQLite, `sync`", _sqlite),
    Case("chat.memory", "a growing chat in memory", _memory),
    Case("chat.postgres", "a growing chat on Postgres, `sync`", _postgres),
)
