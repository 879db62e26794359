"""The same work as a workflow of DBOS: durable steps in a loop, many at once, and after a kill.

DBOS has one database for a process, so it is only launched in processes of its own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy
from dbos import DBOS, DBOSConfig, SetWorkflowID

from bench.limits import use_sqlite
from bench.measure import Watch

POOL = 20
"""Connections, as DBOS has them by default."""
SETTINGS = (
    f"pool of {POOL}, no ping before a connection is used, log_level ERROR, no admin server and no"
    " Conductor; on SQLite journal_mode=WAL and synchronous=FULL"
)
KILLED = "killed"
"""The id of the workflow that is killed."""

die_at = 0
"""The step in which this process kills itself; 0 if in none."""


@DBOS.step()
def count(n: int) -> int:
    """One durable step."""
    if n + 1 == die_at:
        os.kill(os.getpid(), signal.SIGKILL)
    return n + 1


@DBOS.workflow()
def counting(last: int) -> int:
    """A loop of durable steps."""
    n = 0
    while n < last:
        n = count(n)
    return n


@DBOS.step()
async def acount(n: int) -> int:
    """One durable step on an event loop."""
    return n + 1


@DBOS.workflow()
async def acounting(last: int) -> int:
    """A loop of those."""
    n = 0
    while n < last:
        n = await acount(n)
    return n


@contextmanager
def launched(where: Path | str) -> Iterator[None]:
    """DBOS on a file, or on a schema of its own of a Postgres server, as fast as it is documented.

    Its tables on SQLite are in a file that keeps a log: DBOS leaves the mode as it finds it.
    """
    config = DBOSConfig(
        name="bench",
        sys_db_pool_size=POOL,
        db_engine_kwargs={"pool_pre_ping": False},
        log_level="ERROR",
    )
    if isinstance(where, Path):
        with closing(sqlite3.connect(where)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        config["system_database_url"] = f"sqlite:///{where}"
    else:
        base, _, schema = where.partition("options=-csearch_path%3D")
        config["system_database_url"] = base.rstrip("?&")
        config["dbos_system_schema"] = schema
    dbos = DBOS(config=config)
    DBOS.launch()
    try:
        if isinstance(where, Path):
            _check(dbos)
        yield
    finally:
        DBOS.destroy()


def _check(dbos: Any) -> None:
    """What DBOS's own connections have, asked before the clock starts."""
    with dbos._sys_db.engine.connect() as connection:
        found = [
            connection.execute(sqlalchemy.text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous")
        ]
    if found != ["wal", 2]:
        raise RuntimeError(f"DBOS has {found} on SQLite, not WAL and FULL")


def steps(_: Any, watch: Watch, where: Path | str, steps: int, repeats: int) -> None:
    """Steps of one workflow after the other."""
    with launched(where):
        _use(where)
        counting(3)
        with watch.over(steps * repeats):
            for _ in range(repeats):
                assert counting(steps) == steps


def at_once(_: Any, watch: Watch, where: Path | str, runs: int, steps: int) -> None:
    """Many workflows at once, on the threads that DBOS has for them."""
    with launched(where):
        _use(where)
        counting(3)
        with watch.over(runs * steps):
            handles = [DBOS.start_workflow(counting, steps) for _ in range(runs)]
            assert [handle.get_result() for handle in handles] == [steps] * runs


def at_once_async(_: Any, watch: Watch, where: Path | str, runs: int, steps: int) -> None:
    """Many workflows at once on one event loop."""

    async def go() -> None:
        await acounting(3)
        with watch.over(runs * steps):
            found = await asyncio.gather(*(acounting(steps) for _ in range(runs)))
        assert found == [steps] * runs

    with launched(where):
        _use(where)
        asyncio.run(go())


def _use(where: Path | str) -> None:
    if isinstance(where, Path):
        use_sqlite(where)


def start(last: int) -> None:
    """The workflow that is going to be killed."""
    with SetWorkflowID(KILLED):
        counting(last)


def recovered() -> int:
    """The result of the workflow that was killed: launching DBOS has begun to recover it."""
    found: int = DBOS.retrieve_workflow(KILLED).get_result(polling_interval_sec=0.005)
    return found
