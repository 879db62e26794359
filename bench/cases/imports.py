"""The import of the graph API in a fresh process."""

from __future__ import annotations

import subprocess
import sys

from bench.context import Case, Context
from bench.measure import Reading
from bench.records import Record, faster, timed

_PROGRAM = (
    "import time; w, c = time.perf_counter(), time.process_time(); "
    "from {root}.graph import StateGraph, START, END; "
    "print(time.perf_counter() - w, time.process_time() - c)"
)


def _import(root: str) -> Reading:
    program = _PROGRAM.format(root=root)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    wall, cpu = done.stdout.split()
    return Reading(float(wall), float(cpu))


def _cold(context: Context) -> list[Record]:
    taken: dict[str, list[Reading]] = {library.name: [] for library in context.libraries}
    for _ in range(context.plan.imports):
        for library in context.libraries:
            taken[library.name].append(_import(library.root))
    return [timed("imports.graph", _TITLE, "ms", 1e3, taken, faster(15))]


_TITLE = "cold import of the graph API"

CASES = (Case("imports.graph", _TITLE, _cold),)
