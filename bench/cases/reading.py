"""Reading a long conversation back, and going on with one that waits for a person.

Unless it says otherwise, the saver is a new one, so that it remembers nothing of the thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bench.context import Case, Context
from bench.graphs import ASK, chat, on_thread
from bench.growth import THREAD, Grown, kept
from bench.libraries import Library
from bench.measure import Contender, Watch, alternate
from bench.places import POSTGRES, SQLITE, Database
from bench.records import Record, Target, faster, timed
from bench.seats import Seat

TIMES = 5
"""Calls in a round."""

Work = Callable[[Any], None]


Part = Callable[[Library, Watch, Database, Grown], None]
"""What is measured of a conversation, in the library's process."""


def _cold(library: Library, watch: Watch, database: Database, grown: Grown, work: Work) -> None:
    """Each call on a new saver, whose connection has been used once."""
    for _ in range(TIMES):
        with database.open(library, grown.where) as saver:
            graph = chat(library, saver)
            graph.get_state(on_thread("nobody"))
            with watch.over(1):
                work(graph)


def _warm(library: Library, watch: Watch, database: Database, grown: Grown, work: Work) -> None:
    """All calls on one saver, after the first."""
    with database.open(library, grown.where) as saver:
        graph = chat(library, saver)
        work(graph)
        with watch.over(TIMES):
            for _ in range(TIMES):
                work(graph)


def _whole(library: Library, watch: Watch, database: Database, grown: Grown, *, read: bool) -> None:
    """The whole thread, once; with `read` every checkpoint's messages are looked at.

    Ours are decoded only then, LangGraph's in any case.
    """
    with database.open(library, grown.where) as saver, watch.over(1):
        count = 0
        for found in saver.list(on_thread(THREAD)):
            count += 1
            if read:
                found.checkpoint["channel_values"].get("messages")
    assert count >= 3 * len(grown.turns)


def _resume(library: Library, watch: Watch, database: Database, grown: Grown) -> None:
    """An answer to a thread that waits, from a process that has just come up."""
    config = on_thread(THREAD)
    for _ in range(TIMES):
        with database.open(library, grown.where) as saver:
            asked = {"messages": [{"role": "user", "content": ASK}]}
            result = chat(library, saver).invoke(asked, config, durability="sync")
            assert "__interrupt__" in result
        with database.open(library, grown.where) as saver:
            graph = chat(library, saver)
            graph.get_state(on_thread("nobody"))
            with watch.over(1):
                answer = library.Command(resume="yes")
                last = graph.invoke(answer, config, durability="sync")["messages"][-1]
            assert last["content"] == "yes"


def _state(graph: Any) -> None:
    assert graph.get_state(on_thread(THREAD)).values["messages"]


def _newest(graph: Any) -> None:
    history = graph.get_state_history(on_thread(THREAD), limit=10)
    assert sum(bool(snapshot.values["messages"]) for snapshot in history) == 10


def _to_go_back(graph: Any) -> None:
    """As the documentation looks for a state to go back to."""
    history = graph.get_state_history(on_thread(THREAD), limit=10)
    found = {state.config["configurable"]["checkpoint_id"]: state.next for state in history}
    assert len(found) == 10


def _case(database: Database, name: str, title: str, part: Part, *targets: Target) -> Case:
    name = f"reading.{database.name.lower()}-{name}"
    title = f"{title}, {database.name}"

    def contender(context: Context, seat: Seat) -> Contender:
        grown = kept(database, context, seat)
        return lambda: seat.measure(part, database, grown)

    def run(context: Context) -> list[Record]:
        contenders = {seat.name: contender(context, seat) for seat in context.seats}
        told = f"{title}, after {context.plan.turns} turns"
        taken = alternate(contenders, context.plan.rounds)
        return [timed(name, told, "ms", 1e3, taken, *targets)]

    return Case(name, title, run)


def _cases(database: Database, state: float) -> tuple[Case, ...]:
    return (
        _case(database, "state", "`get_state`", partial(_cold, work=_state), faster(state)),
        _case(database, "state-warm", "`get_state`, same saver", partial(_warm, work=_state)),
        _case(database, "newest", "ten newest", partial(_cold, work=_newest), faster(5)),
        _case(database, "back", "ten newest, `next` and id", partial(_cold, work=_to_go_back)),
        _case(database, "list", "`list`, not looked at", partial(_whole, read=False), faster(50)),
        _case(database, "list-read", "`list`, all read", partial(_whole, read=True)),
        _case(database, "resume", "resume of an interrupt", _resume, faster(3)),
    )


CASES = (*_cases(SQLITE, 1), *_cases(POSTGRES, 3))
