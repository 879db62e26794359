"""The statements that operations of savers and stores yield, and what they are sent back.

An operation is a generator that yields statements and is sent their results. It never waits and
knows no driver. A driver runs a whole operation in one transaction, in sync or async code.

    yielded            sent back
    Query              the rows, as a list of tuples
    LinkedRows         None; its `onward` was called with each row
    ReadCells          the bytes in some cells, as a list
    Queries            a list with the rows of each query
    Execute            the number of rows that were changed
    ExecuteMany        None; the statement has run once for each set of parameters
    Batch              None; all its statements have run
    GuardedBatch       True if all statements have run; False if none has
    ConditionalInsert  True if the statement has run; False if not

A driver may end the transaction together with a statement that is marked `last`, which saves a
round trip. Statements that follow are a new transaction, and the operation must read again what it
relies on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from milepost._internal.generators import GeneratorDriver


class Raw(bytes):
    """A parameter in the binary form of its column's type."""

    __slots__ = ()


class Query(NamedTuple):
    """A statement whose rows are wanted."""

    sql: str
    parameters: Sequence[Any] = ()
    last: bool = False


class LinkedRows(NamedTuple):
    """Rows that are looked up one after the other: each row names the next.

    Only for a database in the same process, where a query is not a round trip.
    """

    sql: str
    parameters: tuple[Any, ...] | None
    """The parameters for the first row."""
    onward: Callable[[tuple[Any, ...]], tuple[Any, ...] | None]
    """From a row to the parameters for the next row, or None at the end."""


class ReadCells(NamedTuple):
    """Cells of one column, each by the number of its row: only where a database has such numbers.

    The bytes are copied once, not twice as by a query.
    """

    table: str
    column: str
    numbers: Sequence[int]


class Queries(NamedTuple):
    """Queries that do not depend on each other: a driver may send them all at once."""

    queries: Sequence[Query]
    last: bool = False


class Execute(NamedTuple):
    """A statement that changes something."""

    sql: str
    parameters: Sequence[Any] = ()


class ExecuteMany(NamedTuple):
    """A statement to be run for several sets of parameters."""

    sql: str
    rows: Sequence[Sequence[Any]]


class Batch(NamedTuple):
    """Statements whose results are not needed: a driver may send them all at once."""

    statements: Sequence[Execute | ExecuteMany]
    last: bool = False
    once: bool = False
    """Whether the batch must not run twice. If the connection is lost during a last batch, the
    batch may have run or not. The caller then gets an OutcomeUnknownError, and the batch is not
    repeated."""


class GuardedBatch(NamedTuple):
    """Statements that run only if all guards hold.

    A guarded batch is the first statement of an operation, and after True also the last. So a
    driver may send it together with BEGIN and COMMIT. After False the driver has rolled back and
    begun again, and the operation goes on.
    """

    guards: Sequence[ExecuteMany]
    """For each set of parameters, a query must find one row, or a statement must change one. On
    PostgreSQL the SQL itself fails otherwise: its parameters are an array for each parameter of a
    set, and the number of sets."""
    statements: Sequence[Execute | ExecuteMany]


class ConditionalInsert(NamedTuple):
    """An INSERT with a guard in its own SQL, which is a whole transaction if it adds one row.

    Like a `GuardedBatch` it is the first statement of an operation, and after True the last. The
    answer is also False if the row exists already and the SQL has no ON CONFLICT clause.
    """

    sql: str
    parameters: Sequence[Any]


Statement: TypeAlias = (
    Query
    | LinkedRows
    | ReadCells
    | Queries
    | Execute
    | ExecuteMany
    | Batch
    | GuardedBatch
    | ConditionalInsert
)
R = TypeVar("R")
Operation: TypeAlias = Generator[Statement, Any, R]
"""One transaction."""
Work: TypeAlias = Callable[[], Operation[R]]
"""Makes a new operation for each attempt, since a failed transaction may be tried again."""


class BatchableRead(Generic[R]):
    """Work that reads little, and may share a transaction with other batchable reads."""

    __slots__ = ("_work",)

    def __init__(self, work: Work[R]) -> None:
        self._work = work

    def __call__(self) -> Operation[R]:
        return self._work()


def rows_of(sql: str, parameters: Sequence[Any] = ()) -> Operation[list[Any]]:
    """An operation that is one query."""
    rows: list[Any] = yield Query(sql, parameters)
    return rows


def without_asking(operation: Operation[R]) -> R | None:
    """The result of an operation that yields no statement; None if it yields one."""
    steps = GeneratorDriver(operation)
    for _ in steps:
        operation.close()
        return None
    return steps.result
