"""What a service does: 200 threads in flight over 1,000 of LangChain's messages, at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bench.context import Case, Context
from bench.measure import Reading
from bench.records import OURS, THEIRS, Record, Target, figures, timed
from bench.seats import Seat
from bench.service import POOL, POSTGRES, SQLITE, AsyncOpener, Load, Served, serve

PART = 0.5
"""Of the turns a second that LangGraph manages in a round: those that arrive at both."""


def _case(
    name: str, title: str, empty: Callable[[Context], Any], opener: AsyncOpener, processes: int
) -> Case:
    name = f"service.{name}"

    def run(context: Context) -> list[Record]:
        plan = context.plan
        crowd = Load(plan.service, plan.in_flight, plan.service_turns, processes)
        full: dict[str, list[Served]] = {seat.name: [] for seat in context.seats}
        half: dict[str, list[Served]] = {seat.name: [] for seat in context.seats}
        for number in range(plan.long_rounds):
            order = context.seats if number % 2 == 0 else context.seats[::-1]
            places = {seat.name: empty(context) for seat in order}

            def done(seat: Seat, load: Load, places: dict[str, Any] = places) -> Served:
                return serve(seat.root, opener, places[seat.name], load)

            for seat in order:
                full[seat.name].append(done(seat, crowd))
            theirs = full[THEIRS][-1]
            rate = PART * len(theirs.latencies) / theirs.wall
            calm = replace(crowd, turns=max(1, crowd.turns // 2), rate=rate, fill=False)
            for seat in order:
                half[seat.name].append(done(seat, calm))
        return _records(name, f"{plan.in_flight} of {plan.service:,} threads, {title}", full, half)

    return Case(name, f"a service: {title}", run)


def _records(
    name: str, title: str, full: dict[str, list[Served]], half: dict[str, list[Served]]
) -> list[Record]:
    taken = {
        side: [Reading(one.wall / len(one.latencies), one.cpu / len(one.latencies)) for one in all]
        for side, all in full.items()
    }
    record = timed(f"{name}.throughput", f"{title}: a turn", "ms", 1e3, taken)
    record.notes = [
        f"{side}: {1e3 / figure.median:,.0f} turns/s" for side, figure in record.sides.items()
    ]
    records = [record]
    last = half[OURS][-1]
    loads = (
        ("full", full, "all in flight"),
        ("half", half, f"{len(last.latencies) / last.wall:,.0f} turns/s arrive"),
    )
    for load, served, told in loads:
        for percent in (50, 99):
            found = {
                side: [one.percentile(percent) * 1e3 for one in all] for side, all in served.items()
            }
            records.append(
                figures(
                    f"{name}.{load}-p{percent}",
                    f"{title}: p{percent} of a turn, {told}",
                    "ms",
                    found,
                    Target(THEIRS),
                )
            )
    return records


CASES = (
    _case("sqlite", "SQLite, one process", Context.file, SQLITE, 1),
    _case("postgres", f"Postgres, one process, pool of {POOL}", Context.schema, POSTGRES, 1),
    _case("postgres-4", f"Postgres, four processes, pools of {POOL}", Context.schema, POSTGRES, 4),
)
