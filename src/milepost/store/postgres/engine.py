"""The engines of the savers, with one short cut.

A store's most frequent operations are a single statement. Such a statement is a transaction by
itself; on a local server, BEGIN and COMMIT around it take longer than the statement does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from milepost.sql.pg_aio import AsyncPostgresEngine
from milepost.sql.pg_sync import PostgresEngine

if TYPE_CHECKING:
    from milepost.sql.operations import Work
    from milepost.sql.pg import Begin, Settings

R = TypeVar("R")


class PgEngine(PostgresEngine):
    """One PostgreSQL database, for a store."""

    def run(self, work: Work[R], *, write: bool, single: bool = False) -> R:
        """Carry out an operation, in a transaction unless it is a `single` statement."""
        return self._attempts(work, _begin(self.settings, write, single))


class AsyncPgEngine(AsyncPostgresEngine):
    """The same on an event loop."""

    async def arun(self, work: Work[R], *, write: bool, single: bool = False) -> R:
        """Carry out an operation, in a transaction unless it is a `single` statement."""
        return await self._attempts(work, _begin(self.settings, write, single))


def _begin(settings: Settings, write: bool, single: bool) -> Begin:
    # A schema is chosen at the beginning of a transaction, so then there must be one.
    return () if single and settings.schema is None else settings.begin(write)
