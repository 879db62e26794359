"""The long form: `PYTHONPATH=tests python -m attack --place postgres --minutes 60 --seed 7`."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from attack.campaign import (
    Campaign,
    OwnRedis,
    Report,
    Settings,
    new_database,
    own_server,
    replayed,
)
from attack.faults import FAULTS
from attack.places import PLACES
from attack.workloads import WORKLOADS

MOST = 6
"""How many violations of one promise are shown."""


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="attack", description=__doc__)
    parser.add_argument("--place", choices=[*PLACES], default="sqlite")
    parser.add_argument("--workload", choices=["threads", "store", "both"], default="threads")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument(
        "--count", type=int, default=100_000, help="operations of an actor in a round"
    )
    parser.add_argument("--limit", type=float, default=10.0, help="seconds of a round")
    parser.add_argument("--faults", default="all", help="names with commas, all, or none")
    parser.add_argument("--only", default="", help="names of operations, with commas")
    parser.add_argument("--no-forks", action="store_true", help="no children by fork()")
    parser.add_argument("--plant", help="a known bug that is put back")
    parser.add_argument(
        "--older",
        default="",
        metavar="DIR",
        help="run an older milepost in every second process (pip install --no-deps --target DIR)",
    )
    parser.add_argument("--replay", type=Path, help="check the history of an earlier attack again")
    return parser.parse_args()


def attacked(given: argparse.Namespace) -> tuple[Report, Path]:
    directory = Path(tempfile.mkdtemp(prefix="attack-"))
    faults = list(FAULTS) if given.faults == "all" else given.faults.split(",")
    workloads = [*WORKLOADS] if given.workload == "both" else [given.workload]
    with contextlib.ExitStack() as stack:
        server: Any = None
        address = str(directory / "attacked.db")
        if given.place.startswith("postgres"):
            home = stack.enter_context(tempfile.TemporaryDirectory(prefix="attack-pg-"))
            server = stack.enter_context(own_server(Path(home)))
            address = new_database(server, "attacked")
        elif given.place.startswith("redis"):
            server = stack.enter_context(contextlib.closing(OwnRedis()))
            address = server.url
        settings = Settings(
            place=given.place,
            address=address,
            directory=str(directory),
            seed=given.seed,
            workloads=workloads,
            workers=given.workers,
            seconds=given.minutes * 60,
            count=given.count,
            limit=given.limit,
            faults=[name for name in faults if name in FAULTS],
            forks=not given.no_forks,
            plant=given.plant,
            older=given.older,
            only=[name for name in given.only.split(",") if name],
        )
        return Campaign(settings, server).run(), directory


def show(report: Report) -> None:
    by_name: dict[str, Counter[str]] = defaultdict(Counter)
    for (name, outcome), number in sorted(report.operations.items()):
        by_name[name][outcome] += number
    print(f"{sum(report.operations.values())} operations in {report.rounds} rounds:")
    for name, outcomes in sorted(by_name.items()):
        print(f"  {name:16}", ", ".join(f"{number} {kind}" for kind, number in outcomes.items()))
    print("faults:", dict(report.faults) or "none")
    print("checks:")
    for name, number in sorted(report.checks.items()):
        print(f"  {number:8} {name}")
    print(f"violations: {len(report.violations)} in {report.seconds:.1f} s")
    shown: Counter[str] = Counter()
    for violation in report.violations:
        shown[violation.promise] += 1
        if shown[violation.promise] <= MOST:
            print(f"- {violation.promise}\n  {violation.what}")


def main() -> int:
    given = parsed()
    if given.replay:
        report = replayed(given.replay)
        show(report)
    else:
        print(f"place {given.place}, seed {given.seed}, plant {given.plant}", flush=True)
        report, directory = attacked(given)
        show(report)
        print(f"history: {directory}; check it again with --replay {directory}")
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
