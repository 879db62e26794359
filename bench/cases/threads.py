"""Ten thousand threads in one file: the page of those that belong to one user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.context import Case, Context
from bench.graphs import loop, on_thread
from bench.libraries import Library
from bench.measure import Watch
from bench.records import OURS, Record, Target, timed

OWNERS = 50
PAGE = 20


@contextmanager
def many_threads(library: Library, path: Path, count: int) -> Iterator[Any]:
    """A saver on a file with so many threads; ours have owners."""
    with library.sqlite(path) as saver:
        # Making them is not what is measured, so here commits need not wait for the disk.
        saver.conn.execute("PRAGMA synchronous=OFF")
        graph = loop(library, saver)
        for number in range(count):
            thread = f"{number:06}"
            graph.invoke({"n": 0, "last": 1}, on_thread(thread), durability="exit")
            if library.name == OURS:
                saver.set_thread_metadata(thread, {"owner": f"user {number % OWNERS}"})
    with library.sqlite(path) as saver:
        yield saver


def _pages(library: Library, watch: Watch, file: Path, count: int, rounds: int) -> None:
    """One page for each of 20 users, round after round."""
    with many_threads(library, file, count) as saver:
        for _ in range(rounds):
            with watch.over(20):
                found = [
                    len(saver.list_threads(metadata={"owner": f"user {number}"}, limit=PAGE))
                    for number in range(20)
                ]
            owned = [len(range(number, count, OWNERS)) for number in range(20)]
            assert found == [min(PAGE, threads) for threads in owned]


def _page(context: Context) -> list[Record]:
    count = context.plan.threads
    taken = {OURS: context.ours.readings(_pages, context.file(), count, context.plan.rounds)}
    title = f"{count:,} threads: a page of {PAGE} for one user"
    target = Target("ms", 5, at_least=False)
    return [timed("threads.page", title, "ms", 1e3, taken, target)]


CASES = (Case("threads.page", "many threads: one page for one user", _page),)
