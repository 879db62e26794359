"""The import of the graph API in a fresh process."""

from __future__ import annotations

import os
from pathlib import Path

from bench.context import Case, Context
from bench.measure import Reading, in_process, turns
from bench.records import Record, faster, timed

_IMPORT = "from {root}.graph import StateGraph, START, END\n"
_COMPILE = (
    f"{_IMPORT}builder = StateGraph(dict).add_node('n', lambda state: state)\n"
    "builder.add_edge(START, 'n').add_edge('n', END).compile()\n"
)
_PROGRAM = (
    "import time\nw, c = time.perf_counter(), time.process_time()\n"
    "{work}"
    "print(time.perf_counter() - w, time.process_time() - c)"
)


def _run(work: str, root: str, folder: Path) -> Reading:
    program = _PROGRAM.format(work=work.format(root=root))
    # Byte code is kept, as it is once a package was installed or used.
    keeping = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return Reading(*in_process("-c", program, env={**keeping, "PYTHONPYCACHEPREFIX": str(folder)}))


def _cold(context: Context, work: str) -> dict[str, list[Reading]]:
    taken: dict[str, list[Reading]] = {seat.name: [] for seat in context.seats}
    folder = context.folder / "bytecode"
    for seat in context.seats:
        _run(work, seat.root, folder)
    for seat in turns(context.seats, context.plan.rounds):
        taken[seat.name].append(_run(work, seat.root, folder))
    return taken


def _imported(context: Context) -> list[Record]:
    taken = _cold(context, _IMPORT)
    return [timed("imports.graph", _TITLE, "ms", 1e3, taken, faster(15))]


def _compiled(context: Context) -> list[Record]:
    taken = _cold(context, _COMPILE)
    return [timed("imports.compiled", _COMPILED, "ms", 1e3, taken)]


_TITLE = "cold import of the graph API"
_COMPILED = "the same, and a graph compiled"

CASES = (
    Case("imports.graph", _TITLE, _imported),
    Case("imports.compiled", _COMPILED, _compiled),
)
