"""What the generators in the savers and stores yield, and what they are sent back.

An operation is a generator. It never waits and knows no driver; it yields statements and is sent
their results. A driver runs a whole operation in one transaction, in sync or in async code.

    yielded            sent back
    Query              the rows, as a list of tuples
    LinkedRows         None; its `onward` was shown each row
    Queries            a list with the rows of each query
    Execute            the number of rows that were changed
    ExecuteMany        None; the statement has run once for each set of parameters
    Batch              None; all its statements have run
    GuardedBatch       True if all of it has run; False if none of it has
    ConditionalInsert  the same

With what says that it is the `last` a driver may end the transaction, which saves a round trip.
Mostly nothing follows. What does is a transaction of its own, and must read again what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from milepost._internal.generators import GeneratorDriver


class Raw(bytes):
    """A parameter in the binary form of the type that the statement has in its place."""

    __slots__ = ()


class Query(NamedTuple):
    """A statement whose rows are wanted."""

    sql: str
    parameters: Sequence[Any] = ()
    last: bool = False


class LinkedRows(NamedTuple):
    """Rows that are looked up one after the other: each says which one comes next.

    Only where a query is no round trip.
    """

    sql: str
    parameters: tuple[Any, ...] | None
    """For the first row."""
    onward: Callable[[tuple[Any, ...]], tuple[Any, ...] | None]
    """Those for the row after one, or None."""


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
    """Whether it must not run twice. If the connection is lost while a last batch is on its way,
    it is unknown whether it has run: the caller gets an OutcomeUnknownError, and the batch is not
    repeated."""


class GuardedBatch(NamedTuple):
    """Statements that are to run if the guards hold.

    It comes first in an operation; answered with True, it is also the last. So a driver may send
    it together with the beginning and the end of the transaction. Answered with False, the
    transaction has begun again, and the operation goes on.
    """

    guards: Sequence[ExecuteMany]
    """Queries that must find, or statements that must change, one row for each set of
    parameters."""
    statements: Sequence[Execute | ExecuteMany]


class ConditionalInsert(NamedTuple):
    """A statement that is a transaction by itself if it changes one row, as a guard in it allows.

    As `GuardedBatch`, it comes first in an operation, and answered with True it is the last. It is
    answered with False also if it would add a row that is there already, and does not say what to
    do then.
    """

    sql: str
    parameters: Sequence[Any]


Statement: TypeAlias = (
    Query | LinkedRows | Queries | Execute | ExecuteMany | Batch | GuardedBatch | ConditionalInsert
)
R = TypeVar("R")
Operation: TypeAlias = Generator[Statement, Any, R]
"""One transaction."""
Work: TypeAlias = Callable[[], Operation[R]]
"""Makes an operation, one for each attempt: a transaction that failed may be tried again."""


class BatchableRead(Generic[R]):
    """Work that reads little, and may share a transaction with others of its kind."""

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
    """What an operation comes to if it has nothing to ask; None if it has."""
    steps = GeneratorDriver(operation)
    for _ in steps:
        operation.close()
        return None
    return steps.result
