"""Runs an operation on a PostgreSQL connection, with as few round trips as it allows.

BEGIN travels with the first statement and COMMIT with the last, if that is known to be the last.
A guarded batch is one round trip in all: statements that are sent together and synchronised once
are a transaction, and a guard that does not hold fails it as a whole.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from milepost.sql.failures import OutcomeUnknownError
from milepost.sql.operations import (
    Alone,
    Batch,
    Guarded,
    Many,
    Operation,
    Query,
    Read,
    Run,
    Several,
    Trail,
    Work,
)
from milepost.sql.pg_wire import (
    Answer,
    Ask,
    TransactionStatus,
    asks_of,
    changed_by,
    exchange,
    portions,
    psycopg,
    repeated,
    rows_of,
)
from milepost.stepper import Stepper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg.abc import PQGen

    from milepost.sql.pg import Begin

R = TypeVar("R")

_COMMIT: Ask = ("COMMIT", ())
_ROLLBACK: Ask = ("ROLLBACK", ())


_OPEN = (TransactionStatus.INTRANS, TransactionStatus.INERROR)


def transaction(connection: Any, work: Work[R], begin: Begin, *, prepare: bool) -> PQGen[R]:
    """Carry out an operation: everything that it does, or nothing."""
    return _Transaction(connection, begin, prepare).drive(work())


class _Transaction:
    def __init__(self, connection: Any, begin: Begin, prepare: bool) -> None:
        self._connection = connection
        self._begin = begin
        self._begun = False
        self._prepare = prepare

    def drive(self, operation: Operation[R]) -> PQGen[R]:
        steps = Stepper(operation)
        try:
            for statement in steps:
                if isinstance(statement, Alone):
                    steps.answer = yield from self._alone(statement)
                elif isinstance(statement, Guarded):
                    steps.answer = yield from self._guarded(statement)
                else:
                    assert not isinstance(statement, (Read, Trail)), "only where nothing is far"
                    steps.answer = yield from self._statement(statement)
            if self._begun:
                yield from exchange(self._connection, [_COMMIT], prepare=False)
            return steps.result
        except BaseException as error:
            open_still = self._connection.pgconn.transaction_status in _OPEN
            # Whoever abandons a generator does not wait for it any more.
            if open_still and not isinstance(error, GeneratorExit):
                yield from exchange(self._connection, [_ROLLBACK], prepare=False)
            raise
        finally:
            operation.close()

    def _statement(self, statement: Query | Several | Run | Many | Batch) -> PQGen[Any]:
        if isinstance(statement, Batch):
            asks, last = _asks(statement.statements), statement.last
        elif isinstance(statement, Several):
            asks, last = _asks(statement.queries), statement.last
        else:
            asks, last = _asks((statement,)), isinstance(statement, Query) and statement.last
        if not asks:
            return None
        # A reader of several statements needs one snapshot for all of them.
        alone = last and not self._begun and (len(asks) == 1 or isinstance(statement, Batch))
        large = _large(statement)
        try:
            results = yield from (
                self._bare(asks, large) if alone else self._send(asks, last=last, large=large)
            )
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            if isinstance(statement, Batch) and statement.once and self._connection.closed:
                raise OutcomeUnknownError(
                    "The connection to PostgreSQL was lost while a change that must not be made "
                    f"twice was on its way: nobody knows whether it was stored ({error}). Read "
                    "what is there now, and decide whether to repeat it."
                ) from error
            raise
        if isinstance(statement, Query):
            return rows_of(self._connection, results[0])
        if isinstance(statement, Several):
            return [rows_of(self._connection, result) for result in results]
        if isinstance(statement, Run):
            return changed_by(results[0])
        return None

    def _bare(self, asks: list[Ask], large: Sequence[int] = ()) -> PQGen[list[Answer]]:
        """The results of `asks`, which are all of the transaction: it needs no words of its own,
        unless there is more to set than that it begins."""
        if len(self._begin) < 2:
            return exchange(self._connection, asks, prepare=self._prepare, large=large)
        return self._send(asks, last=True, large=large)

    def _send(
        self, asks: list[Ask], *, last: bool, large: Sequence[int] = ()
    ) -> PQGen[list[Answer]]:
        """The results of `asks`, within the transaction."""
        count = len(asks)
        before: list[Ask] = [] if self._begun else [(begin, ()) for begin in self._begin]
        if last and (self._begun or before):
            asks = [*asks, _COMMIT]
        self._begun = (self._begun or bool(before)) and not last
        results = yield from exchange(
            self._connection,
            [*before, *asks] if before else asks,
            prepare=self._prepare,
            large=[len(before) + place for place in large],
        )
        return results[len(before) : len(before) + count]

    def _guarded(self, guarded: Guarded) -> PQGen[bool]:
        asks: list[Ask] = [
            (_guard(guard.sql, len(some)), [value for row in some for value in row])
            for guard in guarded.guards
            for some in portions(guard.rows)
        ]
        asks += _asks(guarded.statements)
        try:
            yield from self._bare(asks)
        except psycopg.errors.DivisionByZero:
            yield from self._undo()
            return False
        return True

    def _alone(self, statement: Alone) -> PQGen[bool]:
        try:
            results = yield from self._bare([statement])
        except psycopg.errors.UniqueViolation:  # an earlier attempt was not in vain
            yield from self._undo()
            return False
        return changed_by(results[0]) == 1

    def _undo(self) -> PQGen[None]:
        """End a transaction that has failed, if it had words of its own."""
        if self._connection.pgconn.transaction_status in _OPEN:
            yield from exchange(self._connection, [_ROLLBACK], prepare=False)


@lru_cache(64)
def _guard(statement: str, rows: int) -> str:
    """A statement that fails unless it finds or changes one row for each set of parameters."""
    is_query = statement.lstrip().startswith("SELECT")
    if statement.lstrip().startswith("INSERT"):
        statement = repeated(statement, rows)
    elif rows > 1:
        start, condition = re.split(r"\bWHERE\b", statement, maxsplit=1)
        count = statement.count("%s")
        names = iter([f"p{n}" for n in range(count)])
        start, condition = (
            re.sub("%s", lambda _: f"held_by.{next(names)}", part) for part in (start, condition)
        )
        row = f"({', '.join(['%s'] * count)})"
        statement = (
            f"{start} {',' if is_query else 'FROM'} (VALUES {', '.join([row] * rows)})"
            f" AS held_by ({', '.join(f'p{n}' for n in range(count))}) WHERE {condition}"
        )
    if not is_query:
        statement += " RETURNING 1"
    return f"WITH held AS ({statement}) SELECT 1 / (count(*) = {rows})::integer FROM held"


def _large(statement: Query | Several | Run | Many | Batch) -> Sequence[int]:
    """Which of the queries may have large rows."""
    if isinstance(statement, Query):
        return (0,) if statement.large else ()
    if isinstance(statement, Several):
        return [place for place, query in enumerate(statement.queries) if query.large]
    return ()


def _asks(statements: Sequence[Query | Run | Many]) -> list[Ask]:
    asks: list[Ask] = []
    for one in statements:
        if isinstance(one, Many):
            asks += asks_of(one.sql, one.rows)
        else:
            asks.append((one.sql, one.parameters))
    return asks
