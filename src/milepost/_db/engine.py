"""The engine that a saver or store runs on, generators of several transactions, and failures.

Such a generator yields transactions and is sent their results. So a method with
several transactions is written once for sync and async code.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from milepost._internal import generators
from milepost.errors import (
    ConnectionUnusableError,
    DatabaseBusyError,
    ForeignDatabaseError,
    NotErasedError,
    NotSetUpError,
    SaverError,
    StorageError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from milepost._db.group_commit import Committer, Outcome, Waiting
    from milepost._db.operations import Work

R = TypeVar("R")
S = TypeVar("S")


class Transaction(NamedTuple):
    """One operation, run in one transaction."""

    work: Work[Any]
    write: bool = True


class Vacuum(NamedTuple):
    """Give space back to the system. Databases forbid this inside a transaction."""


Transactions: TypeAlias = Generator[Transaction | Vacuum, Any, R]


def transaction(work: Work[R], *, write: bool = True) -> Transactions[R]:
    """A generator of one transaction."""
    result: R = yield Transaction(work, write)
    return result


class Engine(Protocol):
    """Runs operations on one database, for sync and async code: what every backend has."""

    def run(self, work: Work[R], *, write: bool) -> R:
        """Carry out an operation in one transaction."""
        ...

    async def arun(self, work: Work[R], *, write: bool) -> R:
        """`run`, for use on an event loop."""
        ...

    def vacuum(self) -> None:
        """Give space back to the system, and overwrite what was removed."""
        ...

    async def avacuum(self) -> None:
        """`vacuum`, for use on an event loop."""
        ...


class GroupEngine(Engine, Protocol):
    """An engine whose database stores steps of many threads in one transaction."""

    def commit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        """Take part in a group commit."""
        ...

    async def acommit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        """`commit`, for use on an event loop."""
        ...


def drive(engine: Engine, transactions: Transactions[R]) -> R:
    """Carry out transactions in sync code."""

    def carry_out(step: Transaction | Vacuum) -> Any:
        if isinstance(step, Vacuum):
            return engine.vacuum()
        return engine.run(step.work, write=step.write)

    return generators.drive(transactions, carry_out)


async def adrive(engine: Engine, transactions: Transactions[R]) -> R:
    """`drive`, for use on an event loop."""

    def carry_out(step: Transaction | Vacuum) -> Awaitable[Any]:
        if isinstance(step, Vacuum):
            return engine.avacuum()
        return engine.arun(step.work, write=step.write)

    return await generators.adrive(transactions, carry_out)


# -- failures of a database

FAILURES_OF_THE_DATABASE: Final = (ConnectionUnusableError, DatabaseBusyError, StorageError)
"""Failures of the database itself: any other transaction would fail in the same way."""

STILL_THERE: Final = (
    "What was removed cannot be read any more, but its bytes are still in the files of the "
    "database."
)


@contextmanager
def not_erased() -> Iterator[None]:
    """Report a failure while space is given back as `NotErasedError`: the bytes are still there."""
    try:
        yield
    except (NotErasedError, NotSetUpError, ForeignDatabaseError, ConnectionUnusableError):
        raise
    except SaverError as error:
        raise NotErasedError(
            f"{STILL_THERE} Overwriting them has failed: {error} Repair the cause, then call "
            "vacuum(), or erase() again."
        ) from error
