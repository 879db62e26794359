"""The engine that a saver or store runs on, and generators of several transactions.

Such a generator yields transactions and is sent their results. So a method with
several transactions is written once for sync and async code.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from milepost._internal import generators

if TYPE_CHECKING:
    from collections.abc import Awaitable

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
