"""An operation of a saver as one transaction: it reads as of one moment, and writes in one step.

Every write of a thread replaces the thread's `rev`. A transaction that reads in several round trips
must find the same rev in each reply; otherwise it starts again. It collects its changes, and sends
all of them at its end in one script, which does nothing if the rev has changed. So no killed client
leaves a lock behind, and of two transactions one always succeeds.

The usual step of a run reads nothing: its conditions are the run's token, the thread's epoch and
the run's last commit.

Savers are written once, as operations that yield statements (`_sql/statements.py`). On Redis a
statement is its name (`names.py`). `INSERTS`, `UPDATES` and `SEALED` lead from the name to rows.
All other statements are answered by the method that has the name, with the parameters of the SQL.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from milepost._db.calls import Pause
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
from milepost._internal.generators import GeneratorDriver
from milepost.checkpoint._redis.guarded import GuardedStep
from milepost.checkpoint._redis.read_statements import ReadStatements
from milepost.checkpoint._redis.registry_statements import RegistryStatements
from milepost.checkpoint._redis.row_statements import INSERTS, SEALED, UPDATES, RowStatements
from milepost.checkpoint._redis.rows import SEQ
from milepost.checkpoint._redis.scripts import Condition
from milepost.checkpoint._redis.server import check_server
from milepost.checkpoint._redis.thread_io import Changed, store, unlist, write_step
from milepost.checkpoint._redis.view import ThreadView
from milepost.errors import DatabaseBusyError

if TYPE_CHECKING:
    from milepost._db.operations import Work
    from milepost._db.redis.commands import RedisEffects
    from milepost.checkpoint._redis.server import Settings

R = TypeVar("R")

_MAX_ATTEMPTS: Final = 200
_FIRST_PAUSE_SECONDS: Final = 0.002
"""The longest pause after the first attempt; doubled with each attempt."""
_MAX_PAUSE_SECONDS: Final = 0.1


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
        if name in SEALED:
            return RowStatements(self).sealed(name, *given)
        answer: Callable[..., RedisEffects[Any]] = getattr(ANSWERED_BY[name](self), name)
        return answer(*given)

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
        writing = write_step(settings, thread_id, changes)
        done = yield from store(settings, thread_id, writing, is_new=step.is_new, owner=self.owner)
        if done and step.head is not None:
            settings.acknowledged.head(thread_id, step.epoch, step.head)
        return done


_CARRY_OUT: Final[dict[type, Callable[[Tables, Any], RedisEffects[Any]]]] = {
    Query: Tables._single,
    Execute: Tables._single,
    ExecuteMany: lambda tables, many: tables._each([Execute(many.sql, row) for row in many.rows]),
    Batch: lambda tables, batch: tables._each(batch.statements),
    Queries: lambda tables, queries: tables._each(queries.queries),
    GuardedBatch: Tables._guarded,
    ConditionalInsert: Tables._guarded,
}
"""Class of a statement → method. `LinkedRows` and `ReadCells` are for databases in this process."""


def transaction(
    settings: Settings, work: Work[R], *, write: bool, owner: str | None = None
) -> RedisEffects[R]:
    """Carry out an operation. `owner` is the token of the run that the operation is for."""
    if not settings.is_ready:
        yield from check_server(settings)
    pause = _FIRST_PAUSE_SECONDS
    for _ in range(_MAX_ATTEMPTS):
        try:
            return (yield from _attempt(Tables(settings, owner), work, write=write))
        except Changed:
            yield Pause(pause * random.random())
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)
    raise DatabaseBusyError(
        f"Others have changed the thread {_MAX_ATTEMPTS} times while this transaction was under "
        "way. Nothing was stored; repeat the call."
    )


def _attempt(tables: Tables, work: Work[R], *, write: bool) -> RedisEffects[R]:
    operation = work()
    steps = GeneratorDriver(operation)
    try:
        for statement in steps:
            try:
                steps.answer = yield from tables.carry_out(statement)
            except Changed:
                operation.close()
                raise
            except Exception as error:
                steps.error = error
    except Exception as failure:
        if write and not isinstance(failure, Changed):
            for view in tables.views.values():
                yield from view.confirm()
        raise
    if write:
        yield from _commit(tables)
    return steps.result


def _commit(tables: Tables) -> RedisEffects[None]:
    """Store what a transaction has changed. A thread that it leaves alone must not have changed
    either: the source of a copy, or one to which a step is refused. What the refusal says of the
    run's own steps may be newer than what was read, while the run stores several at once."""
    settings = tables.settings
    for view in tables.views.values():
        thread_id, entry = view.thread_id, view.entry
        if not view.is_to_be_written():
            yield from view.confirm()
        elif entry is None:
            if not (yield from view.write()):
                raise Changed
            settings.acknowledged.forget(thread_id)
            yield from unlist(settings, thread_id)
        else:
            done = yield from store(
                settings, thread_id, view.write(), is_new=view.is_new(), owner=tables.owner
            )
            if not done:
                raise Changed
            if (head := view.stored_head()) is not None:
                settings.acknowledged.head(thread_id, entry.epoch, head)
