"""Runs operations on an aiosqlite connection.

An aiosqlite connection runs everything in a thread of its own. A whole transaction is called there
as one function, so that nothing else can come between its statements.

aiosqlite documents no method that calls a function in that thread. `_execute` does, which is why
the extra `aiosqlite` in pyproject.toml bounds the version.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from milepost._db.calls import running_loop
from milepost._db.sqlite.engine import IN_CHILD, SqliteEngine
from milepost._internal import fork_guard
from milepost._internal.supported import unsupported
from milepost.errors import ColourError, ConnectionUnusableError, ForkedProcessError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Coroutine

    from milepost._db.group_commit import Committer, Outcome, Waiting
    from milepost._db.migrations import TableSetup
    from milepost._db.operations import Work

R = TypeVar("R")
S = TypeVar("S")


class AiosqliteEngine:
    """One SQLite database, behind an aiosqlite connection."""

    def __init__(
        self,
        connection: Any,
        *,
        owner: str,
        synchronous: str,
        first: TableSetup | None = None,
        equip: Callable[[sqlite3.Connection], None] | None = None,
    ) -> None:
        if not callable(getattr(connection, "_execute", None)):
            if type(connection).__module__.partition(".")[0] == "aiosqlite":
                raise unsupported(f"{owner} with a connection of aiosqlite", "aiosqlite")
            raise TypeError(
                f"{owner} needs an aiosqlite or sqlite3 connection, not "
                f"{type(connection).__name__}. For a file name use "
                f"`async with {owner}.from_conn_string(...)`."
            )
        self.connection = connection
        self._synchronous = synchronous
        self._first = first
        self._equip = equip
        self._inner: SqliteEngine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._forked = False
        fork_guard.renewed_in_child(self)

    def renew(self) -> None:
        """In a forked child the connection's thread does not exist."""
        fork_guard.keep_for_ever(self.connection, self._inner, self._loop)
        self._forked, self._loop = True, None

    async def arun(self, work: Work[R], *, write: bool) -> R:
        return await self._there(lambda engine: engine.run(work, write=write))

    async def aset_up(self, tables: TableSetup) -> None:
        await self._there(lambda engine: engine.set_up(tables))

    def set_up(self, tables: TableSetup) -> None:
        """`aset_up`, from a thread that is not the loop's."""
        self._from_outside(lambda: self.aset_up(tables))

    def run(self, work: Work[R], *, write: bool) -> R:
        """`arun`, from a thread that is not the loop's."""
        return self._from_outside(lambda: self.arun(work, write=write))

    async def acommit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        return await self._there(lambda engine: engine.commit(committer, waiting))

    def commit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        """`acommit`, from a thread that is not the loop's."""
        return self._from_outside(lambda: self.acommit(committer, waiting))

    async def avacuum(self) -> None:
        """Rewrite the file without the rows that were removed."""
        await self._there(SqliteEngine.vacuum)

    def vacuum(self) -> None:
        """`avacuum`, from a thread that is not the loop's."""
        self._from_outside(self.avacuum)

    async def _engine(self) -> SqliteEngine:
        """The engine for the inner sqlite3 connection, which exists once aiosqlite's is awaited."""
        if self._forked:
            raise ForkedProcessError(IN_CHILD)
        if self._inner is None:
            try:
                async with self.connection.cursor() as cursor:
                    inner: sqlite3.Connection = cursor.connection
            except ValueError as error:
                raise ConnectionUnusableError(
                    "The aiosqlite connection is not open: await it first, as in "
                    "`async with aiosqlite.connect(...) as conn:`, and keep it open."
                ) from error
            self._inner = self._inner or SqliteEngine(
                inner, synchronous=self._synchronous, first=self._first, equip=self._equip
            )
        self._loop = asyncio.get_running_loop()
        return self._inner

    async def _there(self, job: Callable[[SqliteEngine], R]) -> R:
        """Call a function with the engine, in the connection's thread."""
        engine = await self._engine()
        result: Any = None
        failure: BaseException | None = None

        def call() -> None:
            nonlocal result, failure
            try:
                result = job(engine)
            except BaseException as error:
                failure = error

        try:
            await self.connection._execute(call)
        except ValueError as error:
            raise ConnectionUnusableError(
                "The aiosqlite connection is closed. Keep it open as long as the saver or store is "
                "used."
            ) from error
        if failure is not None:
            raise failure
        found: R = result
        return found

    def _from_outside(self, call: Callable[[], Coroutine[Any, Any, R]]) -> R:
        if running_loop() is not None:
            raise ColourError(
                "This saver works through an aiosqlite connection, and a sync call would block the "
                "event loop that the connection answers to. Use the async method."
            )
        if self._loop is None or self._loop.is_closed() or not self._loop.is_running():
            return asyncio.run(call())
        return asyncio.run_coroutine_threadsafe(call(), self._loop).result()
