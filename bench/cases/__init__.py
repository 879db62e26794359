"""The cases, in the order in which they run."""

from __future__ import annotations

from bench.cases import (
    chat,
    concurrency,
    dbos,
    fanout,
    imports,
    memory,
    reading,
    redis,
    runs,
    scaling,
    service,
    short,
    steps,
    threads,
)
from bench.context import Case

ALL: tuple[Case, ...] = (
    *short.CASES,
    *service.CASES,
    *runs.CASES,
    *steps.CASES,
    *fanout.CASES,
    *concurrency.CASES,
    *dbos.CASES,
    *chat.CASES,
    *reading.CASES,
    *redis.CASES,
    *memory.CASES,
    *threads.CASES,
    *imports.CASES,
    *scaling.CASES,
)


def chosen(names: list[str]) -> list[Case]:
    """The cases with these names, or of these groups; all if no name is given."""
    if not names:
        return list(ALL)
    unknown = [name for name in names if not any(name in (c.name, c.group) for c in ALL)]
    if unknown:
        raise ValueError(f"no case or group is called {', '.join(unknown)}; see --list")
    return [case for case in ALL if case.name in names or case.group in names]
