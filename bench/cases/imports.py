"""The import of the graph API in a fresh process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.context import Case, Context
from bench.measure import Reading
from bench.records import Record, faster, timed

_PROGRAM = (
    "import time; w, c = time.perf_counter(), time.process_time(); "
    "from {root}.graph import StateGraph, START, END; "
    "print(time.perf_counter() - w, time.process_time() - c)"
)


def _import(root: str, folder: Path) -> Reading:
    program = _PROGRAM.format(root=root)
    # Byte code is kept, as it is once a package was installed or used.
    keeping = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**keeping, "PYTHONPYCACHEPREFIX": str(folder)},
    )
    wall, cpu = done.stdout.split()
    return Reading(float(wall), float(cpu))


def _cold(context: Context) -> list[Record]:
    taken: dict[str, list[Reading]] = {library.name: [] for library in context.libraries}
    folder = context.folder / "bytecode"
    for library in context.libraries:
        _import(library.root, folder)
    for _ in range(context.plan.imports):
        for library in context.libraries:
            taken[library.name].append(_import(library.root, folder))
    return [timed("imports.graph", _TITLE, "ms", 1e3, taken, faster(15))]


_TITLE = "cold import of the graph API"

CASES = (Case("imports.graph", _TITLE, _cold),)
