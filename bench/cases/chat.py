"""A conversation that grows: the bytes that it leaves, and what its turns take."""

from __future__ import annotations

from collections.abc import Sequence

from bench.context import Case, Context
from bench.graphs import payload
from bench.growth import POSTGRES, SQLITE, Backend, Grown, grow
from bench.measure import ratio, summary
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


def _grow(backend: Backend, context: Context) -> dict[str, list[Grown]]:
    grown: dict[str, list[Grown]] = {library.name: [] for library in context.libraries}
    for _ in range(context.plan.long_rounds):
        for library in context.libraries:
            done = grow(backend, context, library)
            grown[library.name].append(done)
            context.kept["grown", backend.name, library.name] = done
    return grown


def _time(name: str, title: str, grown: dict[str, list[Grown]], *targets: Target) -> Record:
    taken = {side: [one.total() for one in all] for side, all in grown.items()}
    record = timed(f"{name}.time", f"{title}: time", "s", 1, taken, *targets)
    for side, all in grown.items():
        points = [(n + 1, turn.wall * 1e3) for n, turn in enumerate(all[-1].turns)]
        record.curves.append(Curve(side, _smoothed(points)))
    return record


def _bytes(name: str, title: str, grown: dict[str, list[Grown]], turns: int, most: float) -> Record:
    record = Record(f"{name}.bytes", f"{title}: bytes after closing", "MB")
    for side, all in grown.items():
        record.sides[side] = summary([one.bytes * MEGA for one in all])
        record.curves.append(Curve(side, [(n, size * MEGA) for n, size in all[-1].sizes]))
    record.sides[LIMIT] = summary([payload(turns) * MEGA])
    steps = [n for n, _ in grown[OURS][-1].sizes]
    record.curves.append(Curve("payload", [(n, payload(n) * MEGA) for n in steps]))
    ours = [one.bytes for one in grown[OURS]]
    record.checks.append(Check(within(most, "payload"), ratio(ours, [payload(turns)] * len(ours))))
    return record


def _slowing(name: str, title: str, grown: dict[str, list[Grown]], turns: int) -> Record:
    span = max(1, turns // 8)
    told = f"{title}: last {span} turns against first {span}"
    record = Record(f"{name}.slowing", told, TIMES)
    for side, all in grown.items():
        first, last = [g.part(None, span) for g in all], [g.part(-span, None) for g in all]
        record.sides[side] = ratio([r.wall for r in last], [r.wall for r in first])
        record.cpu[side] = ratio([r.cpu for r in last], [r.cpu for r in first])
    target = within(3, "first turns")
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
    turns = context.plan.turns
    name, title = "chat.sqlite", f"{turns}-turn chat, SQLite `sync`"
    grown = _grow(SQLITE, context)
    return [
        _bytes(name, title, grown, turns, 3),
        _time(name, title, grown, faster(10)),
        _slowing(name, title, grown, turns),
    ]


def _postgres(context: Context) -> list[Record]:
    turns = context.plan.turns
    name, title = "chat.postgres", f"{turns}-turn chat, Postgres `sync`"
    grown = _grow(POSTGRES, context)
    return [
        _bytes(name, title, grown, turns, 5),
        _time(name, title, grown, faster(10)),
        _slowing(name, title, grown, turns),
    ]


def _memory(context: Context) -> list[Record]:
    turns = context.plan.turns
    found = {
        library.name: [measured(library.root, turns) for _ in range(context.plan.long_rounds)]
        for library in context.libraries
    }
    title = f"{turns}-turn chat, InMemorySaver"
    size = Record("chat.memory.bytes", f"{title}: resident growth", "MB")
    time = Record("chat.memory.time", f"{title}: time", "s")
    for side, rounds in found.items():
        size.sides[side] = summary([bytes_ * MEGA for bytes_, _ in rounds])
        time.sides[side] = summary([seconds for _, seconds in rounds])
    size.sides[LIMIT] = summary([payload(turns) * MEGA])
    ours = [bytes_ for bytes_, _ in found[OURS]]
    size.checks.append(Check(within(10, "payload"), ratio(ours, [payload(turns)] * len(ours))))
    time.notes.append(f"{time.sides[THEIRS].median / time.sides[OURS].median:.1f}{TIMES} faster")
    return [size, time]


CASES = (
    Case("chat.sqlite", "a growing chat on SQLite, `sync`", _sqlite),
    Case("chat.memory", "a growing chat in memory", _memory),
    Case("chat.postgres", "a growing chat on Postgres, `sync`", _postgres),
)
