"""The engines of the savers, with one short cut.

A store's most frequent operations are a single statement. Such a statement is a transaction by
itself; on a local server, BEGIN and COMMIT around it take longer than the statement does.
"""

from __future__ import annotations

from typing import Any, TypeVar

from milepost.sql.operations import Work
from milepost.sql.pg import check_idle, cursor_of
from milepost.sql.pg_aio import AsyncPostgresEngine
from milepost.sql.pg_sync import PostgresEngine

R = TypeVar("R")
_BARE = ""
"""In place of BEGIN: there is nothing to begin."""


class PgEngine(PostgresEngine):
    """One PostgreSQL database, for a store."""

    def run(self, work: Work[R], *, write: bool, single: bool = False) -> R:
        """Carry out an operation, in a transaction unless it is a `single` statement."""
        # A schema is chosen at the beginning of a transaction, so then there must be one.
        bare = single and self.settings.schema is None
        return self._attempts(work, _BARE if bare else self.settings.begin(write))

    def _transaction(self, connection: Any, work: Work[R], begin: str) -> R:
        if begin or not connection.autocommit:
            return super()._transaction(connection, work, begin or self.settings.begin(True))
        check_idle(connection)
        with cursor_of(connection) as cursor:
            return self._drive(connection, cursor, work())


class AsyncPgEngine(AsyncPostgresEngine):
    """The same on an event loop."""

    async def arun(self, work: Work[R], *, write: bool, single: bool = False) -> R:
        """Carry out an operation, in a transaction unless it is a `single` statement."""
        bare = single and self.settings.schema is None
        return await self._attempts(work, _BARE if bare else self.settings.begin(write))

    async def _transaction(self, connection: Any, work: Work[R], begin: str) -> R:
        if begin or not connection.autocommit:
            begin = begin or self.settings.begin(True)
            return await super()._transaction(connection, work, begin)
        check_idle(connection)
        async with cursor_of(connection) as cursor:
            return await self._drive(connection, cursor, work())
