"""Known bugs, put back into a worker, to show that the checks find them.

    PYTHONPATH=tests python -m attack.plants [NAME ...]

puts each of them back in turn, attacks a place where it can be met, and says how long it took.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Plant(NamedTuple):
    """A bug that was repaired."""

    put_back: Callable[[], None]
    places: tuple[str, ...]
    """Where it can be met."""
    workload: str = "threads"


def without(operation: Any, skipped: Callable[[Any], bool], answer: Any) -> Any:
    """An operation on a database that leaves out some of its statements."""

    def changed(*arguments: Any, **options: Any) -> Iterator[Any]:
        steps = operation(*arguments, **options)
        given: Any = None
        while True:
            try:
                statement = steps.send(given)
            except StopIteration as done:
                return done.value
            given = answer if skipped(statement) else (yield statement)

    return changed


# -- what was wrong


def delete_without_lock() -> None:
    """The entry of a thread that is not there yet was no lock: point 1 of the list."""
    from milepost.checkpoint.sql import removing
    from milepost.checkpoint.threads import Removed
    from milepost.sql.operations import Run

    def thread(self: Any, thread_id: str, unused_since: float | None = None) -> Any:
        found = yield Run(self._q.delete_thread, (thread_id,))
        writes = yield Run(self._q.delete_writes, (thread_id,))
        values = yield Run(self._q.delete_blobs, (thread_id,))
        checkpoints = yield Run(self._q.delete_checkpoints, (thread_id,))
        return Removed([thread_id] if found or checkpoints else [], checkpoints, writes, values)

    removing.Remover.thread = thread  # type: ignore[method-assign]


def copy_without_lock() -> None:
    """A copy took four snapshots: point 2."""
    from milepost.checkpoint.sql import retention

    def is_lock(statement: Any) -> bool:
        return "FOR UPDATE" in getattr(statement, "sql", "")

    retention.copy = without(retention.copy, is_lock, [])


def cancelled_task_unreported() -> None:
    """A task whose future was cancelled was never reported as ended: point 3."""
    from milepost.runtime import aio, task

    def outcome_of(one: Any, crash: BaseException | None, ended: Any) -> Any:
        outcome = task.outcome_of(one, crash, ended)
        if one.was_cancelled:
            raise asyncio.InvalidStateError("the future is cancelled")
        return outcome

    aio.outcome_of = outcome_of


def fork_unnoticed() -> None:
    """A saver went on with its parent's connection in a forked process: point 8."""
    from milepost.sql.lite import SqliteEngine
    from milepost.sql.pg_sync import PostgresEngine

    PostgresEngine.renew = SqliteEngine.renew = lambda self: None  # type: ignore[assignment,method-assign]


PLANTS: dict[str, Plant] = {
    "cancelled-task-unreported": Plant(cancelled_task_unreported, ("memory", "sqlite")),
    "fork-unnoticed": Plant(fork_unnoticed, ("postgres",)),
    "delete-without-lock": Plant(delete_without_lock, ("postgres", "postgres-pool")),
    "copy-without-lock": Plant(copy_without_lock, ("postgres", "postgres-pool")),
}


# -- how long it takes to find them


def main() -> int:
    parser = argparse.ArgumentParser(prog="attack.plants", description=__doc__)
    parser.add_argument("names", nargs="*", default=[*PLANTS])
    parser.add_argument("--minutes", type=float, default=5.0, help="for each of them")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    missed = []
    for name in given.names:
        plant = PLANTS[name]
        command = [sys.executable, "-m", "attack", "--plant", name, "--place", plant.places[0]]
        command += ["--minutes", str(given.minutes), "--seed", str(given.seed)]
        command += ["--workload", plant.workload]
        began = time.monotonic()
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        promises = sorted({line[2:] for line in found.stdout.splitlines() if line.startswith("- ")})
        took = time.monotonic() - began
        print(f"{name} on {plant.places[0]}: ", end="")
        print(f"found in {took:.0f} s: {promises}" if found.returncode else f"not in {took:.0f} s")
        if not found.returncode:
            missed.append(name)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
