"""The command: `python -m bench`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from bench.cases import ALL, chosen
from bench.context import FULL, QUICK, TINY, Case, Context, Skipped
from bench.pictures import pictures
from bench.records import Record
from bench.table import table, verdict


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write what was asked for."""
    options = _options(arguments)
    if options.list:
        for case in ALL:
            print(f"{case.name:28}{case.title}")
        return 0
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"):
        os.environ[name] = "false"
    try:
        cases = chosen(options.case)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    plan = TINY if options.tiny else QUICK if options.quick else FULL
    if options.rounds:
        plan = replace(plan, rounds=options.rounds, long_rounds=options.rounds)
    with Context(plan) as context:
        records, skipped = measure(cases, context)
    print(f"\n{machine()}\n\n{table(records)}\n\n{verdict(records)}")
    for reason in skipped:
        print(f"skipped {reason}")
    if options.json:
        found = {"machine": machine(), "records": [r.as_json() for r in records]}
        options.json.write_text(json.dumps(found, indent=1, ensure_ascii=False), "utf-8")
    if options.svg:
        for path in pictures(records, options.svg):
            print(f"drew {path}")
    return 0


def measure(cases: Sequence[Case], context: Context) -> tuple[list[Record], list[str]]:
    """Run cases one after the other; their records, and why some did not run."""
    records: list[Record] = []
    skipped: list[str] = []
    for case in cases:
        start = time.perf_counter()
        try:
            found = case.run(context)
        except KeyboardInterrupt:
            skipped.append(f"{case.name} and what comes after it: interrupted")
            break
        except Skipped as reason:
            skipped.append(f"{case.name}: {reason}")
            print(f"{case.name:28}skipped: {reason}", file=sys.stderr)
            continue
        records += found
        print(f"{case.name:28}{time.perf_counter() - start:6.1f} s", file=sys.stderr)
    return records, skipped


def machine() -> str:
    """What it was measured on, as far as it matters."""
    return (
        f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, LangGraph {version('langgraph')}"
    )


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("case", nargs="*", help="a case or a group of cases; default: all")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    parser.add_argument("--quick", action="store_true", help="measure less: under two minutes")
    parser.add_argument("--tiny", action="store_true", help="only see whether everything runs")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of every case")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the records")
    parser.add_argument("--svg", type=Path, metavar="FOLDER", help="draw the curves")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
