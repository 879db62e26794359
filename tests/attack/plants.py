"""Known bugs, put back into a worker, to show that the checks find them.

    PYTHONPATH=tests python -m attack.plants [NAME ...]

puts each of them back in turn, attacks a place where it can be met, and says how long it took.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from attack import probe_plants, store_plants


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
    """The entry of a thread that is not there yet was no lock."""
    from milepost._db.operations import Execute
    from milepost.checkpoint._contract.threads import Removed
    from milepost.checkpoint._sql.threads import retention

    def thread(self: Any, thread_id: str, unused_since: float | None = None) -> Any:
        found = yield Execute(self._q.delete_thread, (thread_id,))
        writes = yield Execute(self._q.delete_writes, (thread_id,))
        values = yield Execute(self._q.delete_blobs, (thread_id,))
        checkpoints = yield Execute(self._q.delete_checkpoints, (thread_id,))
        return Removed([thread_id] if found or checkpoints else [], checkpoints, writes, values)

    retention.Remover.thread = thread  # type: ignore[method-assign]


def copy_without_lock() -> None:
    """A copy took four snapshots."""
    from milepost.checkpoint._sql.threads import retention

    def is_lock(statement: Any) -> bool:
        return "FOR UPDATE" in getattr(statement, "sql", "")

    retention.copy = without(retention.copy, is_lock, [])


def cancelled_task_unreported() -> None:
    """A task whose future was cancelled was never reported as ended."""
    from milepost._engine.drivers import aio
    from milepost._engine.superstep import task

    def outcome_of(one: Any, crash: BaseException | None, ended: Any) -> Any:
        outcome = task.outcome_of(one, crash, ended)
        if one.was_cancelled:
            raise asyncio.InvalidStateError("the future is cancelled")
        return outcome

    aio.outcome_of = outcome_of


def fork_unnoticed() -> None:
    """A saver went on with its parent's connection in a forked process."""
    from milepost._db.postgres.sync import PostgresEngine
    from milepost._db.sqlite.engine import SqliteEngine

    PostgresEngine.renew = SqliteEngine.renew = lambda self: None  # type: ignore[assignment,method-assign]


def delta_of_nothing() -> None:
    """A delta channel of a checkpoint that is gone had no writes, instead of an error."""
    from milepost.checkpoint._contract.records import DeltaChannelHistory
    from milepost.checkpoint._sql import saver
    from milepost.checkpoint.memory import InMemorySaver
    from milepost.errors import CheckpointNotFoundError

    def nothing(channels: Any) -> dict[str, DeltaChannelHistory]:
        return {channel: DeltaChannelHistory(writes=[]) for channel in channels}

    history, walk = saver.history, InMemorySaver.get_delta_channel_history

    def of_rows(reader: Any, place: Any, channels: Any) -> Any:
        try:
            return (yield from history(reader, place, channels))
        except CheckpointNotFoundError:
            return nothing(channels)

    def of_memory(self: Any, *, config: Any, channels: Any) -> Any:
        try:
            return walk(self, config=config, channels=channels)
        except CheckpointNotFoundError:
            return nothing(channels)

    saver.history = of_rows
    InMemorySaver.get_delta_channel_history = of_memory  # type: ignore[method-assign]


def parent_unchecked() -> None:
    """A step was stored though its parent was removed meanwhile."""
    from milepost.checkpoint._sql.write import checked, store

    def check(self: Any, step: Any, id: str | None) -> Any:
        yield from ()

    checked.CheckedSteps._check_parent = check  # type: ignore[method-assign]
    store._is_parent_stored = lambda step, row, epoch: True


def one_queue_served() -> None:
    """The writer of an engine served one of the savers on it, the others waited."""
    from milepost._db.postgres.aio import AsyncPostgresEngine
    from milepost._internal.generators import adrive

    async def write(self: Any) -> None:
        committer = self._waiters[0].committer
        begin = self.settings.begin_write
        while self._waiters:
            await adrive(committer.transactions(), lambda work: self._attempts(work, begin))
            self._wake()
            await asyncio.sleep(0.01)

    AsyncPostgresEngine._write = write  # type: ignore[method-assign]


def open_at_exit() -> None:
    """A stream that was open at exit waited for threads that run no more."""
    from milepost._engine.drivers import sync
    from milepost._internal import threads
    from milepost.graph import _compiled

    class NeverEnding:
        """`sys`, of an interpreter that does not know that it ends."""

        def __getattr__(self, name: str) -> Any:
            return getattr(sys, name)

        def is_finalizing(self) -> bool:
            return False

    _compiled.end_at_exit = lambda stream, driver=None: stream  # type: ignore[assignment]
    threads.sys = sync.sys = NeverEnding()  # type: ignore[assignment,attr-defined]


def sweeper_keeps_its_ttl() -> None:
    """A sweeper that was started again after a failure swept as it was told first."""
    from milepost._db.sweeper import Sweeper

    start = Sweeper.start

    def as_before(self: Any, seconds: float, sweep: Any) -> Any:
        return start(self, seconds, vars(self).setdefault("told_first", sweep))

    Sweeper.start = as_before  # type: ignore[method-assign]


def half_committed() -> None:
    """A StopIteration of a parameter was taken for the end of the operation."""
    from milepost._db.sqlite.transaction import Session

    run = Session.run

    def until_any_stop(self: Any, operation: Any, begin: str) -> Any:
        try:
            return run(self, operation, begin)
        except RuntimeError as error:
            if not isinstance(error.__cause__, StopIteration):
                raise
            if self._cursor.connection.in_transaction:
                self._cursor.execute("COMMIT")
            return None

    Session.run = until_any_stop  # type: ignore[method-assign]


def batch_goes_on() -> None:
    """Ctrl-C in `batch` left its runs to themselves."""
    from concurrent.futures import ThreadPoolExecutor

    from milepost.graph._compiled import Pregel

    def batch(
        self: Any,
        inputs: Any,
        config: Any = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> Any:
        del return_exceptions
        pool = ThreadPoolExecutor(config[0].get("max_concurrency"))
        calls = zip(inputs, config, strict=True)
        futures = [pool.submit(self.invoke, *call, **options) for call in calls]
        return [future.result() for future in futures]

    Pregel.batch = batch  # type: ignore[method-assign]


def busy_pool_is_lost() -> None:
    """A pool whose connections are all in use was told as a lost connection."""
    from milepost._db.postgres import engine, errors

    engine.POOL_IS_BUSY = errors.POOL_IS_BUSY = ()  # type: ignore[assignment]


def memory_takes_any_name() -> None:
    """The memory saver took names that no database can hold."""
    from milepost.checkpoint._contract import thread_admin
    from milepost.checkpoint._contract.names import NameChecker
    from milepost.checkpoint._memory import saver, storage

    class Taking(NameChecker):
        def check(self, place: Any, tasks: Any, new: Any) -> None:
            pass

        def checkpoint(self, place: Any, new: Any) -> None:
            pass

        def writes(self, place: Any, task: Any) -> None:
            pass

    storage.NameChecker = Taking  # type: ignore[misc]
    storage.check_name = saver.check_name = lambda what, name: name  # type: ignore[attr-defined]
    saver.check_place = lambda place: place  # type: ignore[attr-defined]
    thread_admin.thread_id_of = str


def ended_sibling_forgotten() -> None:
    """A task that ended just as a run was broken off ran again on resume."""
    from milepost._engine.drivers.aio import AsyncDriver
    from milepost._engine.drivers.thread_pool import TaskThreadPool

    collect, acollect = TaskThreadPool.collect, AsyncDriver._collect

    def crash_first(self: Any, item: Any) -> Any:
        if item is not None and item[1] is not None:
            raise item[1]
        return collect(self, item)

    def acrash_first(self: Any) -> Any:
        for _, crash in list(self._ended)[:1]:
            if crash is not None:
                self._ended.popleft()
                raise crash
        return acollect(self)

    TaskThreadPool.collect = crash_first  # type: ignore[method-assign]
    TaskThreadPool.ended = lambda self: []  # type: ignore[method-assign]
    AsyncDriver._collect = acrash_first  # type: ignore[method-assign]
    AsyncDriver._ended_now = lambda self: []  # type: ignore[method-assign]


def overtaken_unnoticed() -> None:
    """In memory a replay was stored though something newer had been."""
    from milepost.checkpoint._memory.storage import MemoryStorage

    MemoryStorage._is_overtaken = lambda self, step: False  # type: ignore[method-assign]


def writes_beside_unnoticed() -> None:
    """A run took its thread though another had stored writes of the same step since it loaded."""
    from milepost.checkpoint._contract.step_saver import Fence

    Fence.load = lambda self, *given: None  # type: ignore[method-assign]


def setups_wait_for_each_other() -> None:
    """A setup took the lock of all setups though the tables were there, and waited for ever."""
    from milepost._db import migrations
    from milepost._db.postgres import engine as pg
    from milepost.store._sql import core

    def unseen(dialect: Any, schema: Any) -> Iterator[Any]:
        return False
        yield

    migrations.is_migrated = core.is_migrated = unseen  # type: ignore[assignment,attr-defined]
    pg.SETUP_PATIENCE = 0  # type: ignore[misc]


def no_fence() -> None:
    """A run goes on though another has taken its thread. Nobody has made this mistake yet."""
    from milepost.checkpoint._contract.step_saver import Fence

    Fence.check = lambda self, *given: None  # type: ignore[method-assign]


def lost_steps() -> None:
    """One commit of fifty is acknowledged and not stored. Nobody has made this mistake yet."""
    from milepost.checkpoint._sql.saver import SqlSaver

    commit = SqlSaver.commit

    def sometimes(self: Any, steps: Any) -> Any:
        return [None] * len(steps) if random.random() < 0.02 else commit(self, steps)

    SqlSaver.commit = sometimes  # type: ignore[method-assign]


_DATABASES = ("sqlite", "postgres", "sqlite-encrypted", "postgres-pool")

PLANTS: dict[str, Plant] = {
    "delta-of-nothing": Plant(delta_of_nothing, (*_DATABASES, "memory")),
    "parent-unchecked": Plant(parent_unchecked, _DATABASES),
    "one-queue-served": Plant(one_queue_served, ("postgres", "postgres-pool")),
    "open-at-exit": Plant(open_at_exit, ("sqlite", "postgres")),
    "sweeper-keeps-its-ttl": Plant(sweeper_keeps_its_ttl, ("memory", *_DATABASES)),
    "half-committed": Plant(half_committed, ("sqlite", "sqlite-encrypted")),
    "batch-goes-on": Plant(batch_goes_on, ("memory", *_DATABASES)),
    "busy-pool-is-lost": Plant(busy_pool_is_lost, ("postgres-pool",)),
    "memory-takes-any-name": Plant(memory_takes_any_name, ("memory",)),
    "ended-sibling-forgotten": Plant(ended_sibling_forgotten, ("memory", *_DATABASES)),
    "overtaken-unnoticed": Plant(overtaken_unnoticed, ("memory",)),
    "writes-beside-unnoticed": Plant(writes_beside_unnoticed, ("memory", *_DATABASES)),
    "setups-wait-for-each-other": Plant(
        setups_wait_for_each_other, ("postgres", "postgres-pool"), "both"
    ),
    "no-fence": Plant(no_fence, ("memory", *_DATABASES)),
    "lost-steps": Plant(lost_steps, _DATABASES),
    "cancelled-task-unreported": Plant(cancelled_task_unreported, ("memory", "sqlite")),
    "fork-unnoticed": Plant(fork_unnoticed, ("postgres",)),
    "delete-without-lock": Plant(delete_without_lock, ("postgres", "postgres-pool")),
    "copy-without-lock": Plant(copy_without_lock, ("postgres", "postgres-pool")),
    **{name: Plant(*each) for name, each in probe_plants.PLANTS.items()},
    **{name: Plant(*each, "store") for name, each in store_plants.PLANTS.items()},
}


# -- how long it takes to find them


def main() -> int:
    parser = argparse.ArgumentParser(prog="attack.plants", description=__doc__)
    parser.add_argument("names", nargs="*", default=[*PLANTS])
    parser.add_argument("--minutes", type=float, default=5.0, help="for each of them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--place", help="another one than the first where it can be met")
    given = parser.parse_args()
    missed = []
    for name in given.names:
        plant = PLANTS[name]
        place = given.place or plant.places[0]
        command = [sys.executable, "-m", "attack", "--plant", name, "--place", place]
        command += ["--minutes", str(given.minutes), "--seed", str(given.seed)]
        command += ["--workload", plant.workload]
        began = time.monotonic()
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        promises = sorted({line[2:] for line in found.stdout.splitlines() if line.startswith("- ")})
        took = time.monotonic() - began
        print(f"{name} on {place}: ", end="", flush=True)
        print(f"found in {took:.0f} s: {promises}" if found.returncode else f"not in {took:.0f} s")
        if not found.returncode:
            missed.append(name)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
