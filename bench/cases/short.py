"""Short threads of LangChain's messages: what a web service does all day.

A request comes to a process that has seen its thread before, or to one that has not. In the latter
case the saver is a new one, whose connection has been used once, and each thread is met once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.context import Case, Context
from bench.graphs import on_thread, spoken_turn, talk, text
from bench.libraries import Library
from bench.measure import Contender, Watch, alternate
from bench.places import POSTGRES, SQLITE, Database
from bench.records import Record, faster, timed
from bench.seats import Seat

TURNS = 5

Work = Callable[[Any, dict[str, Any]], None]
"""What is done with a graph and the config of a thread."""


def _grown(graph: Any, threads: int) -> None:
    """Threads of five turns."""
    for thread in range(threads):
        for number in range(TURNS):
            graph.invoke(spoken_turn(number), on_thread(str(thread)), durability="sync")


def warm(
    library: Library, watch: Watch, database: Database, where: Any, threads: int, work: Work
) -> None:
    """All threads on the saver that they were made with."""
    _made_before()
    with database.open(library, where) as saver:
        graph = talk(library, saver)
        _grown(graph, threads)
        with watch.over(threads):
            for thread in range(threads):
                work(graph, on_thread(str(thread)))


def cold(
    library: Library, watch: Watch, database: Database, where: Any, threads: int, work: Work
) -> None:
    """All threads on a saver that has not seen them."""
    _made_before()
    with database.open(library, where) as saver:
        _grown(talk(library, saver), threads)
    with database.open(library, where) as saver:
        graph = talk(library, saver)
        graph.invoke(spoken_turn(0), on_thread("another"), durability="sync")
        graph.get_state(on_thread("another"))
        with watch.over(threads):
            for thread in range(threads):
                work(graph, on_thread(str(thread)))


def _made_before() -> None:
    """Texts are made once, and not while the clock runs."""
    for number in range(2 * TURNS + 2):
        text(number)


def turn(graph: Any, config: dict[str, Any]) -> None:
    result = graph.invoke(spoken_turn(TURNS), config, durability="sync")
    assert len(result["messages"]) == 2 * TURNS + 2


def state(graph: Any, config: dict[str, Any]) -> None:
    assert len(graph.get_state(config).values["messages"]) == 2 * TURNS


def _newest(graph: Any, config: dict[str, Any]) -> None:
    history = graph.get_state_history(config, limit=10)
    assert sum(bool(snapshot.values["messages"]) for snapshot in history) == 10


def _case(
    database: Database, name: str, title: str, part: Callable[..., None], work: Work, bound: float
) -> Case:
    name = f"short.{database.name.lower()}-{name}"
    title = f"{title}, {database.name}"

    def contender(context: Context, seat: Seat) -> Contender:
        count = context.plan.short
        return lambda: seat.measure(part, database, database.empty(context), count, work)

    def run(context: Context) -> list[Record]:
        contenders = {seat.name: contender(context, seat) for seat in context.seats}
        taken = alternate(contenders, context.plan.rounds)
        return [timed(name, title, "ms", 1e3, taken, faster(bound))]

    return Case(name, title, run)


def _cases(database: Database) -> tuple[Case, ...]:
    return (
        _case(database, "turn", "a turn of a short thread, `sync`", warm, turn, 4),
        _case(database, "state", "`get_state` of a thread not seen", cold, state, 2),
        _case(database, "cold-turn", "a turn on a thread not seen, `sync`", cold, turn, 3),
        _case(database, "newest", "ten newest of a thread not seen", cold, _newest, 2),
    )


CASES = (*_cases(SQLITE), *_cases(POSTGRES))
