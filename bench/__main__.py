"""The command: `python -m bench`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.cases import ALL, chosen
from bench.context import FULL, QUICK, TINY, Case, Context, Plan, Skipped, told
from bench.libraries import NEEDED
from bench.pictures import GROWTH, pictures
from bench.records import Record
from bench.table import table, verdict
from milepost._internal.progress import Progress, shown


@dataclass(slots=True)
class Found:
    """What came of the cases of a run."""

    records: list[Record] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Cases that cannot run here, and why."""
    failed: dict[str, str] = field(default_factory=dict)
    """Cases that went wrong, and how."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write what was asked for."""
    options = _options(arguments)
    if options.list:
        for case in ALL:
            print(f"{case.name:28}{case.title}")
        return 0
    try:
        cases = chosen(options.case)
        _try_out(options)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    plan = TINY if options.tiny else QUICK if options.quick else FULL
    if options.rounds:
        plan = replace(plan, rounds=options.rounds, long_rounds=options.rounds)
    with Context(plan) as context:
        try:
            context.load(*NEEDED)
            import_module("psutil")
        except ImportError as error:
            print(f"{error}: pip install -e '.[test]'", file=sys.stderr)
            return 2
        with shown("bench", "cases", quiet=options.quiet) as progress:
            found = measure(cases, context, progress)
        measured_on = machine(context.folder.parent)
    print(f"\n{measured_on}\n\n{summed_up(found, plan)}")
    if options.json:
        plain = as_json(found, plan, measured_on)
        options.json.write_text(json.dumps(plain, indent=1, ensure_ascii=False), "utf-8")
    if options.svg:
        drawn = pictures(found.records, options.svg)
        print("\n".join(f"drew {path}" for path in drawn) or "drew nothing: no case had curves")
    return 1 if found.failed else 0


def measure(
    cases: Sequence[Case], context: Context, progress: Progress = lambda _done, _total: None
) -> Found:
    """Run cases one after the other; one that fails does not keep the others from running."""
    found = Found()
    for done, case in enumerate(cases):
        progress(done, len(cases))
        start = time.perf_counter()
        try:
            context.renew()
            found.records += case.run(context)
        except KeyboardInterrupt:
            found.skipped[f"{case.name} and what comes after it"] = "interrupted"
            break
        except Skipped as reason:
            found.skipped[case.name] = str(reason)
            _say(f"{case.name:28}skipped: {reason}")
        except Exception as error:
            found.failed[case.name] = told(error)
            traceback.print_exc()
            _say(f"{case.name:28}failed: {told(error)}")
        else:
            _say(f"{case.name:28}{time.perf_counter() - start:6.1f} s")
    return found


def _say(text: str) -> None:
    """A line in the place of a progress bar."""
    print(f"\r\x1b[K{text}" if sys.stderr.isatty() else text, file=sys.stderr)


def summed_up(found: Found, plan: Plan) -> str:
    """The table, the targets, and what is not in them."""
    lines = [table(found.records), "", verdict(found.records)]
    if plan.name != FULL.name:
        lines.append(f"The targets are meant for the full run; this was a {plan.name} one.")
    lines += [f"skipped {name}: {reason}" for name, reason in found.skipped.items()]
    lines += [f"failed {name}: {error}" for name, error in found.failed.items()]
    return "\n".join(lines)


def as_json(found: Found, plan: Plan, measured_on: str) -> dict[str, Any]:
    """Everything about a run, as plain data."""
    return {
        "machine": measured_on,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "plan": asdict(plan),
        "records": [record.as_json() for record in found.records],
        "skipped": found.skipped,
        "failed": found.failed,
    }


def machine(folder: Path) -> str:
    """What it was measured on, as far as it matters; the databases lie in the folder."""
    from milepost._internal.native import AVAILABLE

    kind = file_system(folder)
    return (
        f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, milepost {_version('milepost')} "
        f"{'with' if AVAILABLE else 'without'} its accelerator in C, "
        f"LangGraph {_version('langgraph')}; databases in {folder}{f' ({kind})' if kind else ''}; "
        f"load {', '.join(f'{load:.1f}' for load in os.getloadavg())}"
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"  # but found on the path


def file_system(folder: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """The kind of file system that a folder is on; empty where that cannot be found out."""
    try:
        lines = [line.split() for line in mounts.read_text("utf-8").splitlines()]
    except OSError:
        return ""
    # A blank in a name is written as its octal number. Of two mounts in one place the last counts.
    kinds = {Path(line[1].replace("\\040", " ")): line[2] for line in lines}
    folder = folder.resolve()
    return next((kinds[at] for at in (folder, *folder.parents) if at in kinds), "")


def _try_out(options: argparse.Namespace) -> None:
    """What cannot be written is found out now, not after minutes of measuring."""
    if folder := os.environ.get("TMPDIR"):
        # From one that is no use tempfile turns to another, and to another disk, without a word.
        try:
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise ValueError(f"TMPDIR cannot be used: {folder}: {error.strerror}") from error
    if options.json:
        _try_to_write(options.json)
    if options.svg:
        options.svg.mkdir(parents=True, exist_ok=True)
        _try_to_write(options.svg / GROWTH)


def _try_to_write(file: Path) -> None:
    new = not os.path.lexists(file)
    file.open("ab").close()
    if new:
        file.unlink()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("case", nargs="*", help="a case or a group of cases; default: all")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    parser.add_argument("--quick", action="store_true", help="measure less of everything")
    parser.add_argument("--tiny", action="store_true", help="only see whether everything runs")
    parser.add_argument("--rounds", type=_rounds, metavar="N", help="rounds of every case")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the records")
    parser.add_argument("--quiet", action="store_true", help="do not show progress")
    parser.add_argument("--svg", type=Path, metavar="FOLDER", help="draw the curves")
    return parser.parse_args(arguments)


def _rounds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
