"""What each statement of a saver means in Redis.

The savers on SQL databases are operations that yield statements (`_sql/statements.py`). Here a
statement is its name. Two tables say what those do that add or change a row (`row_statements.py`);
each of the others is a method, with the parameters that the SQL has. So all that savers do with a
thread is written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from milepost._db.operations import (
    Batch,
    ConditionalInsert,
    Execute,
    ExecuteMany,
    GuardedBatch,
    Queries,
    Query,
    Statement,
)
from milepost.checkpoint._redis.guarded import GuardedStep
from milepost.checkpoint._redis.read_statements import ReadStatements
from milepost.checkpoint._redis.registry_statements import RegistryStatements
from milepost.checkpoint._redis.row_statements import INSERTS, UPDATES, RowStatements
from milepost.checkpoint._redis.thread_io import store
from milepost.checkpoint._redis.view import ThreadView
from milepost.checkpoint._sql.statements import Statements

if TYPE_CHECKING:
    from milepost._db.redis.commands import RedisEffects
    from milepost.checkpoint._redis.settings import Settings

_NONE: Final = {"latest": "", "newest": ""}
REDIS: Final = Statements(**{name: name for name in Statements.__annotations__} | _NONE)
"""Every statement is its own name. There is no guess at the newest values."""

_OWNERS: Final[dict[str, Any]] = {
    name: owner
    for owner in (RegistryStatements, RowStatements, ReadStatements)
    for name in vars(owner)
    if not name.startswith("_")
}


class Tables:
    """The tables of a saver, as one transaction sees them."""

    def __init__(self, settings: Settings, owner: str | None) -> None:
        self.settings = settings
        self.owner = owner
        """The token of the run that the transaction is for."""
        self.views: dict[str, ThreadView] = {}

    def view(self, thread_id: str) -> ThreadView:
        found = self.views.get(thread_id)
        if found is None:
            found = self.views[thread_id] = ThreadView(self.settings, thread_id, self.owner)
        return found

    def carry_out(self, statement: Statement) -> RedisEffects[Any]:
        """What a statement is answered with."""
        parts: Sequence[Statement]
        if isinstance(statement, (Query, Execute)):
            return (yield from self._run(statement.sql, statement.parameters))
        if isinstance(statement, ExecuteMany):
            parts = [Execute(statement.sql, row) for row in statement.rows]
        elif isinstance(statement, Batch):
            parts = statement.statements
        elif isinstance(statement, Queries):
            parts = statement.queries
        else:
            assert isinstance(statement, (GuardedBatch, ConditionalInsert))
            return (yield from self._guarded(statement))
        answers = []
        for part in parts:
            answers.append((yield from self.carry_out(part)))
        return answers

    def _run(self, name: str, parameters: Sequence[Any]) -> RedisEffects[Any]:
        """`name` is a statement's; that of a table may follow."""
        if name in INSERTS:
            return RowStatements(self).insert(name, *parameters)
        if name in UPDATES:
            return RowStatements(self).update(name, *parameters)
        name, *table = name.split(" ")
        answered: RedisEffects[Any] = getattr(_OWNERS[name](self), name)(*table, *parameters)
        return answered

    def _guarded(self, statement: GuardedBatch | ConditionalInsert) -> RedisEffects[bool]:
        """A step on the conditions that its run knows, without reading anything."""
        settings = self.settings
        if not settings.scripts:
            return False
        step = GuardedStep(statement)
        thread_id, changes = step.thread_id, [*step.conditions, *step.changes]
        expected = settings.acknowledged.expected(thread_id, self.owner)
        if expected.writes and not step.is_new:
            changes = [">", "seq", expected.writes, *changes]
        done = yield from store(settings, thread_id, changes, is_new=step.is_new, owner=self.owner)
        if done and step.head is not None:
            settings.acknowledged.head(thread_id, step.epoch, step.head)
        return done
