"""What each statement of a saver means in Redis: a method for each, under its name.

The savers on SQL databases are operations that yield statements (`_sql/statements.py`). Here a
statement is its name, and three classes have the methods that answer them, with the parameters
that the SQL has. So all that savers do with a thread is written once.
"""

from __future__ import annotations

import time
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
from milepost.checkpoint._redis.calls import Calls
from milepost.checkpoint._redis.guarded import guarded_changes
from milepost.checkpoint._redis.read_statements import ReadStatements
from milepost.checkpoint._redis.registry_statements import RegistryStatements
from milepost.checkpoint._redis.row_statements import RowStatements
from milepost.checkpoint._redis.transaction import store
from milepost.checkpoint._redis.view import ThreadView
from milepost.checkpoint._sql.statements import Statements

if TYPE_CHECKING:
    from milepost.checkpoint._redis.calls import Known
    from milepost.checkpoint._redis.rows import Keys

_NONE: Final = {"latest": "", "newest": ""}
REDIS: Final = Statements(**{name: name for name in Statements.__annotations__} | _NONE)
"""Every statement is its own name. There is no guess at the newest values."""

_RELISTED: Final = 60.0
"""Seconds after which a thread that is written to is put into the index of threads again."""
_OWNERS: Final[dict[str, Any]] = {
    name: owner
    for owner in (RegistryStatements, RowStatements, ReadStatements)
    for name in vars(owner)
    if not name.startswith("_")
}


class Tables:
    """The tables of a saver, as one transaction sees them."""

    def __init__(
        self,
        keys: Keys,
        known: Known,
        listed: dict[str, float],
        owner: str | None,
        *,
        scripts: bool,
    ) -> None:
        self.keys = keys
        self.known = known
        self.owner = owner
        self.views: dict[str, ThreadView] = {}
        self._listed = listed
        self._scripts = scripts

    def view(self, thread_id: str) -> ThreadView:
        found = self.views.get(thread_id)
        if found is None:
            found = ThreadView(thread_id, self.known, self.owner, scripts=self._scripts)
            self.views[thread_id] = found
        return found

    def is_to_be_listed(self, thread_id: str) -> bool:
        """Whether it is long ago that this saver has put a thread into the index."""
        now = time.monotonic()
        if now - self._listed.get(thread_id, -_RELISTED) < _RELISTED:
            return False
        if len(self._listed) > 10_000:
            self._listed.clear()
        self._listed[thread_id] = now
        return True

    def carry_out(self, statement: Statement) -> Calls[Any]:
        """What a statement is answered with."""
        if isinstance(statement, (Query, Execute)):
            return (yield from self._run(statement.sql, statement.parameters))
        if isinstance(statement, ExecuteMany):
            for row in statement.rows:
                yield from self._run(statement.sql, row)
            return None
        if isinstance(statement, Batch):
            for one in statement.statements:
                yield from self.carry_out(one)
            return None
        if isinstance(statement, Queries):
            answers = []
            for query in statement.queries:
                answers.append((yield from self._run(query.sql, query.parameters)))
            return answers
        assert isinstance(statement, (GuardedBatch, ConditionalInsert))
        return (yield from self._guarded(statement))

    def _run(self, name: str, parameters: Sequence[Any]) -> Calls[Any]:
        name, _, table = name.partition(" ")
        method: Callable[..., Calls[Any]] = getattr(_OWNERS[name](self), name)
        return (yield from method(*((table,) if table else ()), *parameters))

    def _guarded(self, statement: GuardedBatch | ConditionalInsert) -> Calls[bool]:
        """A step on the conditions that its run knows, without reading anything."""
        if not self._scripts:
            return False
        step = guarded_changes(statement)
        expected = self.known.expected(step.thread_id, self.owner)
        if expected.writes and not step.is_new:
            step.changes[:0] = [">", "seq", expected.writes]
        done = yield from store(self, step.thread_id, step.changes, is_new=step.is_new)
        if done and step.head is not None:
            self.known.head(step.thread_id, step.epoch, step.head)
        return done
