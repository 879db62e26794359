"""What each statement of a saver means in Redis.

Savers are written once, as operations that yield statements (`_sql/statements.py`). On Redis a
statement is its name (`names.py`). `INSERTS` and `UPDATES` lead from the name to a row. All other
statements are answered by the method that has the name, with the parameters of the SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from milepost.checkpoint._redis.rows import SEQ
from milepost.checkpoint._redis.scripts import Condition
from milepost.checkpoint._redis.thread_io import store
from milepost.checkpoint._redis.view import ThreadView

if TYPE_CHECKING:
    from milepost._db.redis.commands import RedisEffects
    from milepost.checkpoint._redis.settings import Settings


ANSWERED_BY: Final = {
    name: owner
    for owner in (ReadStatements, RowStatements, RegistryStatements)
    for name in vars(owner)
    if not name.startswith("_")
}
"""Statement → the class with the method of that name."""


class Tables:
    """The tables of a saver, as one transaction sees them."""

    def __init__(self, settings: Settings, owner: str | None) -> None:
        self.settings = settings
        self.owner = owner
        """The token of the run that the transaction is for."""
        self.views: dict[str, ThreadView] = {}
        """By thread: what the transaction has read and changed."""

    def view(self, thread_id: str) -> ThreadView:
        found = self.views.get(thread_id)
        if found is None:
            found = self.views[thread_id] = ThreadView(self.settings, thread_id, self.owner)
        return found

    def carry_out(self, statement: Statement) -> RedisEffects[Any]:
        """The answer to a statement."""
        return _CARRY_OUT[type(statement)](self, statement)

    def _single(self, statement: Query | Execute) -> RedisEffects[Any]:
        name, given = statement.sql, statement.parameters
        if name in INSERTS:
            return RowStatements(self).insert(name, *given)
        if name in UPDATES:
            return RowStatements(self).update(name, *given)
        name, *table = name.split(" ")  # only statements that seal rows again name a table
        answer: Callable[..., RedisEffects[Any]] = getattr(ANSWERED_BY[name](self), name)
        return answer(*table, *given)

    def _many(self, statement: ExecuteMany) -> RedisEffects[list[Any]]:
        return self._each([Execute(statement.sql, row) for row in statement.rows])

    def _batch(self, statement: Batch) -> RedisEffects[list[Any]]:
        return self._each(statement.statements)

    def _queries(self, statement: Queries) -> RedisEffects[list[Any]]:
        return self._each(statement.queries)

    def _each(self, statements: Sequence[Statement]) -> RedisEffects[list[Any]]:
        answers = []
        for one in statements:
            answers.append((yield from self.carry_out(one)))
        return answers

    def _guarded(self, statement: GuardedBatch | ConditionalInsert) -> RedisEffects[bool]:
        """Store a step under the conditions that its run knows, without reading anything."""
        settings = self.settings
        if not settings.scripts:
            return False
        step = GuardedStep(statement)
        thread_id, changes = step.thread_id, [*step.conditions, *step.changes]
        expected = settings.acknowledged.expected(thread_id, self.owner)
        if expected.writes and not step.is_new:
            changes = [Condition.AT_LEAST, SEQ, expected.writes, *changes]
        done = yield from store(settings, thread_id, changes, is_new=step.is_new, owner=self.owner)
        if done and step.head is not None:
            settings.acknowledged.head(thread_id, step.epoch, step.head)
        return done


_CARRY_OUT: Final[dict[type, Callable[[Tables, Any], RedisEffects[Any]]]] = {
    Query: Tables._single,
    Execute: Tables._single,
    ExecuteMany: Tables._many,
    Batch: Tables._batch,
    Queries: Tables._queries,
    GuardedBatch: Tables._guarded,
    ConditionalInsert: Tables._guarded,
}
"""Class of a statement → method. `LinkedRows` and `ReadCells` are for databases in this process."""
