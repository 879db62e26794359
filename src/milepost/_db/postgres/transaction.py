"""Runs an operation on a PostgreSQL connection, with as few round trips as it allows.

BEGIN travels with the first statement and COMMIT with the last, if that is known to be the last.
A guarded batch is one round trip in all: statements that are sent together and synchronised once
are a transaction, and a guard that does not hold fails it as a whole.
"""

from __future__ import annotations

import re
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from milepost._db.operations import (
    Batch,
    ConditionalInsert,
    Execute,
    ExecuteMany,
    GuardedBatch,
    Operation,
    Queries,
    Query,
    Work,
)
from milepost._db.postgres.wire import BoundStatement, Rows, SocketWait, array, exchange, rows_of
from milepost._internal.generators import GeneratorDriver
from milepost.errors import OutcomeUnknownError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from psycopg.pq.abc import PGresult

    from milepost._db.calls import Calls
    from milepost._db.postgres.engine import Begin

R = TypeVar("R")

_COMMIT: BoundStatement = ("COMMIT", ())
_ROLLBACK: BoundStatement = ("ROLLBACK", ())
_OPEN = (TransactionStatus.INTRANS, TransactionStatus.INERROR)


def transaction(
    connection: Any, work: Work[R], begin: Begin, *, prepare: bool, wait: SocketWait
) -> Calls[R]:
    """Carry out an operation: everything that it does, or nothing."""
    return _Transaction(connection, begin, prepare, wait).drive(work())


class _Transaction:
    def __init__(self, connection: Any, begin: Begin, prepare: bool, wait: SocketWait) -> None:
        self._connection = connection
        self._begin = begin
        self._begun = False
        self._prepare = prepare
        self._wait = wait

    def drive(self, operation: Operation[R]) -> Calls[R]:
        steps = GeneratorDriver(operation)
        try:
            for statement in steps:
                run: Any = _RUN[type(statement)]
                steps.answer = yield from run(self, statement)
            if self._begun:
                yield from exchange(self._connection, [_COMMIT], prepare=False, wait=self._wait)
            return steps.result
        except BaseException as error:
            # A caller that abandons a generator does not wait for an answer any more.
            if not isinstance(error, GeneratorExit):
                try:
                    yield from self._undo()
                except psycopg.Error:
                    if isinstance(error, Exception):
                        raise
            raise
        finally:
            operation.close()

    def _query(self, query: Query) -> Calls[Rows]:
        [result] = yield from self._read([(query.sql, query.parameters)], last=query.last)
        return rows_of(self._connection, result)

    def _queries(self, queries: Queries) -> Calls[list[Rows]]:
        results = yield from self._read(_bound(queries.queries), last=queries.last)
        return [rows_of(self._connection, result) for result in results]

    def _execute(self, statement: Execute) -> Calls[int]:
        [result] = yield from self._send([(statement.sql, statement.parameters)], last=False)
        return result.command_tuples or 0

    def _execute_many(self, statement: ExecuteMany) -> Calls[None]:
        if statement.rows:
            yield from self._send(_bound((statement,)), last=False)

    def _batch(self, batch: Batch) -> Calls[None]:
        statements = _bound(batch.statements)
        if not statements:
            return
        try:
            if batch.last and not self._begun:
                yield from self._one_trip(statements)
            else:
                yield from self._send(statements, last=batch.last)
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            if batch.once and self._connection.closed:
                raise OutcomeUnknownError(
                    "The connection to PostgreSQL was lost while a change that must not be made "
                    f"twice was on its way: it is unknown whether it was stored ({error}). Read "
                    "what is there now, and decide whether to repeat it."
                ) from error
            raise

    def _read(self, statements: list[BoundStatement], *, last: bool) -> Calls[list[PGresult]]:
        """The results of queries. Several need one snapshot for all of them."""
        if last and not self._begun and len(statements) == 1:
            return self._one_trip(statements)
        return self._send(statements, last=last)

    def _one_trip(self, statements: list[BoundStatement]) -> Calls[list[PGresult]]:
        """The results of a whole transaction. A pipeline is a transaction by itself: BEGIN and
        COMMIT are sent only if there is more to set."""
        if len(self._begin) < 2:
            return exchange(self._connection, statements, prepare=self._prepare, wait=self._wait)
        return self._send(statements, last=True)

    def _send(self, statements: list[BoundStatement], *, last: bool) -> Calls[list[PGresult]]:
        """The results of statements within the transaction."""
        count = len(statements)
        before: list[BoundStatement] = [] if self._begun else [(begin, ()) for begin in self._begin]
        if last and (self._begun or before):
            statements = [*statements, _COMMIT]
        self._begun = (self._begun or bool(before)) and not last
        statements = [*before, *statements] if before else statements
        results = yield from exchange(
            self._connection, statements, prepare=self._prepare, wait=self._wait
        )
        return results[len(before) : len(before) + count]

    def _guarded(self, guarded: GuardedBatch) -> Calls[bool]:
        statements: list[BoundStatement] = [
            (sql, [*map(array, zip(*rows, strict=True)), len(rows)]) for sql, rows in guarded.guards
        ]
        statements += _bound(guarded.statements)
        try:
            yield from self._one_trip(statements)
        except psycopg.errors.DivisionByZero:  # what a guard does that does not hold
            yield from self._undo()
            return False
        return True

    def _conditional_insert(self, statement: ConditionalInsert) -> Calls[bool]:
        try:
            results = yield from self._one_trip([statement])
        except psycopg.errors.UniqueViolation:  # an earlier attempt has stored the row
            yield from self._undo()
            return False
        return results[0].command_tuples == 1

    def _undo(self) -> Calls[None]:
        """Roll back a failed transaction, if it was begun with BEGIN."""
        if self._connection.pgconn.transaction_status in _OPEN:
            yield from exchange(self._connection, [_ROLLBACK], prepare=False, wait=self._wait)


_RUN: Final = {
    Query: _Transaction._query,
    Queries: _Transaction._queries,
    Execute: _Transaction._execute,
    ExecuteMany: _Transaction._execute_many,
    Batch: _Transaction._batch,
    GuardedBatch: _Transaction._guarded,
    ConditionalInsert: _Transaction._conditional_insert,
}
"""What runs a statement, by its type. The others are only for databases that are no round trip
away."""


def _bound(statements: Sequence[Query | Execute | ExecuteMany]) -> list[BoundStatement]:
    bound: list[BoundStatement] = []
    for one in statements:
        if isinstance(one, ExecuteMany):
            bound += insert_statements(one.sql, one.rows)
        else:
            bound.append((one.sql, one.parameters))
    return bound


# -- many rows with few INSERTs

_SIZES: Final = (64, 16, 4, 1)
"""Rows that one INSERT takes. Few sizes, so that each of them is soon prepared."""


class _Insert(NamedTuple):
    """An INSERT that can take several rows at once."""

    before: str
    row: str
    after: str
    key: Callable[[Sequence[Any]], Any] | None
    """What must not occur twice in one statement, if it replaces rows."""


_INSERT = re.compile(
    r"(\s*INSERT INTO \w+\s*\(([\w\s,]+)\)\s*VALUES\s*)(\((?:%s(?:,\s*)?)+\))(.*)", re.DOTALL
)
_REPLACES = re.compile(r"ON CONFLICT \(([\w\s,]+)\)\s*DO UPDATE")


@lru_cache(256)
def _insert(sql: str) -> _Insert | None:
    found = _INSERT.fullmatch(sql)
    if found is None:
        return None
    before, columns, row, after = found.groups()
    names = [name.strip() for name in columns.split(",")]
    replaces = _REPLACES.search(after)
    key = None
    if replaces is not None:
        key = itemgetter(*(names.index(name.strip()) for name in replaces[1].split(",")))
    return _Insert(before, row, after, key)


@lru_cache(256)
def repeated(sql: str, times: int) -> str:
    if times == 1:
        return sql
    insert = _insert(sql)
    assert insert is not None
    return f"{insert.before}{', '.join([insert.row] * times)}{insert.after}"


def portions(rows: Sequence[Sequence[Any]]) -> Iterator[Sequence[Sequence[Any]]]:
    """The rows, in portions of few different sizes: each has a prepared statement of its own."""
    at = 0
    for size in _SIZES:
        while len(rows) - at >= size:
            yield rows[at : at + size]
            at += size


def insert_statements(sql: str, rows: Sequence[Sequence[Any]]) -> Iterator[BoundStatement]:
    """As few statements as will do for all the rows."""
    insert = _insert(sql) if len(rows) > 1 else None
    key = insert.key if insert is not None else None
    if insert is None or (key is not None and len({key(row) for row in rows}) < len(rows)):
        for row in rows:
            yield sql, row
        return
    for some in portions(rows):
        yield repeated(sql, len(some)), [value for row in some for value in row]
