"""Reading a long conversation back, and going on with one that waits for a person.

Unless it says otherwise, the saver is a new one, so that it remembers nothing of the thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bench.context import Case, Context
from bench.graphs import ASK, chat, on_thread
from bench.growth import POSTGRES, SQLITE, THREAD, Backend, kept
from bench.libraries import Library
from bench.measure import Contender, Watch, alternate
from bench.records import Record, Target, faster, timed

TIMES = 5
"""Calls in a round."""

Work = Callable[[Library, Any], None]


def _cold(backend: Backend, context: Context, library: Library, work: Work) -> Contender:
    """Each call on a new saver, whose connection has been used once."""
    where = kept(backend, context, library)

    def contend(watch: Watch) -> None:
        for _ in range(TIMES):
            with backend.open(library, where) as saver:
                graph = chat(library, saver)
                graph.get_state(on_thread("nobody"))
                with watch.over(1):
                    work(library, graph)

    return contend


def _warm(backend: Backend, context: Context, library: Library, work: Work) -> Contender:
    """All calls on one saver, after the first."""
    where = kept(backend, context, library)

    def contend(watch: Watch) -> None:
        with backend.open(library, where) as saver:
            graph = chat(library, saver)
            work(library, graph)
            with watch.over(TIMES):
                for _ in range(TIMES):
                    work(library, graph)

    return contend


def _whole(backend: Backend, context: Context, library: Library, *, read: bool) -> Contender:
    """The whole thread, once; with `read` every checkpoint's messages are looked at.

    Ours are decoded only then, LangGraph's in any case.
    """
    where = kept(backend, context, library)

    def contend(watch: Watch) -> None:
        with backend.open(library, where) as saver, watch.over(1):
            count = 0
            for found in saver.list(on_thread(THREAD)):
                count += 1
                if read:
                    found.checkpoint["channel_values"].get("messages")
        assert count >= 3 * context.plan.turns

    return contend


def _resume(backend: Backend, context: Context, library: Library) -> Contender:
    """An answer to a thread that waits, from a process that has just come up."""
    where = kept(backend, context, library)
    config = on_thread(THREAD)

    def contend(watch: Watch) -> None:
        for _ in range(TIMES):
            with backend.open(library, where) as saver:
                asked = {"messages": [{"role": "user", "content": ASK}]}
                result = chat(library, saver).invoke(asked, config, durability="sync")
                assert "__interrupt__" in result
            with backend.open(library, where) as saver:
                graph = chat(library, saver)
                graph.get_state(on_thread("nobody"))
                with watch.over(1):
                    answer = library.Command(resume="yes")
                    last = graph.invoke(answer, config, durability="sync")["messages"][-1]
                assert last["content"] == "yes"

    return contend


def _state(_: Library, graph: Any) -> None:
    assert graph.get_state(on_thread(THREAD)).values["messages"]


def _newest(_: Library, graph: Any) -> None:
    history = graph.get_state_history(on_thread(THREAD), limit=10)
    assert sum(bool(snapshot.values["messages"]) for snapshot in history) == 10


def _to_go_back(_: Library, graph: Any) -> None:
    """As the documentation looks for a state to go back to."""
    history = graph.get_state_history(on_thread(THREAD), limit=10)
    found = {state.config["configurable"]["checkpoint_id"]: state.next for state in history}
    assert len(found) == 10


def _case(
    backend: Backend,
    name: str,
    title: str,
    make: Callable[[Backend, Context, Library], Contender],
    *targets: Target,
) -> Case:
    name = f"reading.{backend.name.lower()}-{name}"
    title = f"{title}, {backend.name}"

    def run(context: Context) -> list[Record]:
        contenders = {lib.name: make(backend, context, lib) for lib in context.libraries}
        told = f"{title}, after {context.plan.turns} turns"
        taken = alternate(contenders, context.plan.rounds)
        return [timed(name, told, "ms", 1e3, taken, *targets)]

    return Case(name, title, run)


def _cases(backend: Backend, state: float) -> tuple[Case, ...]:
    return (
        _case(backend, "state", "`get_state`", partial(_cold, work=_state), faster(state)),
        _case(backend, "state-warm", "`get_state`, same saver", partial(_warm, work=_state)),
        _case(backend, "newest", "ten newest", partial(_cold, work=_newest), faster(5)),
        _case(backend, "back", "ten newest, `next` and id", partial(_cold, work=_to_go_back)),
        _case(backend, "list", "`list`, not looked at", partial(_whole, read=False), faster(50)),
        _case(backend, "list-read", "`list`, all read", partial(_whole, read=True)),
        _case(backend, "resume", "resume of an interrupt", _resume, faster(3)),
    )


CASES = (*_cases(SQLITE, 1), *_cases(POSTGRES, 3))
