"""DBOS, which a user might take instead: durable steps, many workflows at once, and after a kill.

A step of a workflow is durable when it returns, as a step of a graph is under `sync`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.cases.concurrency import POOL, AsyncOpener, run_at_once
from bench.cases.steps import run_loop
from bench.context import Case, Context, Skipped
from bench.libraries import Library
from bench.measure import Contender, alternate, turns
from bench.places import POSTGRES, USED_SQLITE, Place
from bench.records import DBOS, OURS, THEIRS, Record, faster, figures, timed
from bench.recovery import killed, recovered
from bench.seats import Seat

ASYNC = f"{DBOS} with asyncio"
INSTALL = "pip install -e '.[test,bench]'"


def _installed() -> str:
    try:
        return version("dbos")
    except PackageNotFoundError:
        raise Skipped(f"DBOS is not installed: {INSTALL}") from None


def _noted(record: Record, number: str) -> Record:
    from bench.durable import SETTINGS

    record.notes.append(f"{DBOS} {number}: {SETTINGS}")
    return record


def _steps(place: Place, name: str, title: str) -> Case:
    name, told = f"dbos.{name}-steps", f"a durable step, {title}"

    def run(context: Context) -> list[Record]:
        number, steps = _installed(), context.plan.steps
        from bench import durable

        def graph(seat: Seat) -> Contender:
            repeats = context.repeats(seat, waits=True)
            return lambda: seat.measure(
                run_loop, place.open, place.empty(context), steps, repeats, "sync"
            )

        contenders = {seat.name: graph(seat) for seat in context.seats}
        with context.another(DBOS) as seat:
            contenders[DBOS] = lambda: seat.measure(durable.steps, place.empty(context), steps, 1)
            taken = alternate(contenders, context.plan.rounds)
        targets = faster(None, DBOS), faster(None)
        return [_noted(timed(name, told, "µs a step", 1e6, taken, *targets), number)]

    return Case(name, told, run)


def _at_once(empty: Callable[[Context], Any], opener: AsyncOpener, name: str, title: str) -> Case:
    name = f"dbos.{name}-at-once"

    def run(context: Context) -> list[Record]:
        number, runs, steps = _installed(), context.plan.runs, context.plan.run_steps
        from bench import durable

        def graph(seat: Seat) -> Contender:
            repeats = context.repeats(seat, waits=True)
            return lambda: seat.measure(run_at_once, opener, empty(context), runs, steps, repeats)

        contenders = {seat.name: graph(seat) for seat in context.seats}
        with context.another(DBOS) as seat:
            for side, work in ((DBOS, durable.at_once), (ASYNC, durable.at_once_async)):
                contenders[side] = partial(_measured, seat, work, empty, context)
            taken = alternate(contenders, context.plan.rounds)
        told = f"{runs} workflows at once, {title}"
        targets = faster(None, DBOS), faster(None, ASYNC), faster(None)
        return [_noted(timed(name, told, "µs a step", 1e6, taken, *targets), number)]

    return Case(name, f"many workflows at once, {title}", run)


def _measured(seat: Seat, work: Any, empty: Callable[[Context], Any], context: Context) -> Any:
    return seat.measure(work, empty(context), context.plan.runs, context.plan.run_steps)


def _recovery(empty: Callable[[Context], Path | str], name: str, title: str) -> Case:
    name = f"dbos.{name}-recovery"

    def run(context: Context) -> list[Record]:
        number, steps = _installed(), context.plan.recovered
        roots = {OURS: "milepost", THEIRS: "langgraph", DBOS: "dbos"}
        whole: dict[str, list[float]] = {side: [] for side in roots}
        after: dict[str, list[float]] = {side: [] for side in roots}
        for side in turns(list(roots), context.plan.rounds):
            where = empty(context)
            killed(roots[side], where, steps)
            first, second = recovered(roots[side], where, steps)
            whole[side].append(first)
            after[side].append(second)
        told = f"recovery of {steps} steps killed halfway, {title}"
        targets = faster(None, DBOS), faster(None)
        return [
            _noted(
                figures(f"{name}.process", f"{told}: new process", "s", whole, *targets), number
            ),
            figures(f"{name}.run", f"{told}: without imports", "s", after, *targets),
        ]

    return Case(name, f"recovery after a kill, {title}", run)


_SQLITE, _POSTGRES = ("sqlite", "SQLite"), ("postgres", "Postgres")

CASES = (
    _steps(USED_SQLITE, *_SQLITE),
    _steps(POSTGRES, *_POSTGRES),
    _at_once(Context.file, Library.async_sqlite, *_SQLITE),
    _at_once(Context.schema, partial(Library.async_postgres, size=POOL), *_POSTGRES),
    _recovery(Context.file, *_SQLITE),
    _recovery(Context.schema, *_POSTGRES),
)
