"""Many tasks in one step, and one that waits for all of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from bench.context import Case, Context
from bench.graphs import fan_out, on_thread
from bench.libraries import Library
from bench.measure import Contender, Watch, alternate
from bench.records import Record, faster, timed

Opener = Callable[[Context, Library], AbstractContextManager[Any]]


def _run(context: Context, library: Library, opener: Opener) -> Contender:
    width = context.plan.width
    times = 2 * context.repeats(library)

    def contend(watch: Watch) -> None:
        with opener(context, library) as saver:
            graph = fan_out(library, width, saver)
            settings = {} if saver is None else {"durability": "sync"}
            graph.invoke({"words": ["warm"]}, on_thread("warm"), **settings)
            with watch.over(times):
                for number in range(times):
                    result = graph.invoke({"words": ["w"]}, on_thread(str(number)), **settings)
            assert len(result["words"]) == width + 2

    return contend


def _case(name: str, title: str, opener: Opener) -> Case:
    def run(context: Context) -> list[Record]:
        contenders = {lib.name: _run(context, lib, opener) for lib in context.libraries}
        taken = alternate(contenders, context.plan.rounds)
        told = f"{context.plan.width}-way {title}"
        return [timed(name, told, "ms a run", 1e3, taken, faster(8))]

    return Case(name, title, run)


CASES = (
    _case("fanout.plain", "fan-out and join, no saver", lambda _, __: nullcontext(None)),
    _case(
        "fanout.sqlite-sync",
        "fan-out and join, SQLite `sync`",
        lambda context, library: library.sqlite(context.file()),
    ),
)
