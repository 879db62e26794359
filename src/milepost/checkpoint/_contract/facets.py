"""A facet is an object with a part of a saver's methods: `saver.threads`, `saver.admin`.

An operation of a facet is written once, as a generator of transactions. A sync and an async
method are made from it:

    def _copy(self, source: str, target: str) -> Transactions[None]: ...

    copy, acopy = sync_and_async(_copy)

The documented method of the saver is `copy_thread = method_of(_threads, Threads.copy)`. Type
checkers and editors still see all parameters and results.
"""

from __future__ import annotations

from functools import wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from milepost._db.engine import adrive, drive
from milepost._internal import generators
from milepost._internal.generators import method_pairs
from milepost._internal.operations import Operation, followed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from milepost._db.engine import Engine, Transactions

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
F = TypeVar("F", bound="Facet")


class TransactionDriver:
    """Carries out transactions on an engine."""

    def __init__(self, engine: Engine | None) -> None:
        self._engine = engine
        """None for the saver in memory, whose transactions never wait."""

    def drive(self, transactions: Transactions[R]) -> R:
        if self._engine is not None:
            return drive(self._engine, transactions)
        return generators.drive(transactions, _done)

    async def adrive(self, transactions: Transactions[R]) -> R:
        if self._engine is not None:
            return await adrive(self._engine, transactions)
        return self.drive(transactions)


def _done(_step: object) -> None:
    """A transaction in memory is done as soon as it is yielded."""


class Facet(Protocol):
    """A part of a saver's methods, as an object."""

    driver: TransactionDriver


def _drive(facet: Facet, transactions: Transactions[Any], name: str) -> Any:
    return facet.driver.drive(followed(Operation(name), transactions))


def _adrive(facet: Facet, transactions: Transactions[Any], name: str) -> Awaitable[Any]:
    return facet.driver.adrive(followed(Operation(name), transactions))


sync_and_async = method_pairs(_drive, _adrive)


def method_of(
    facet: Callable[[S], F], method: Callable[Concatenate[F, P], R]
) -> Callable[Concatenate[S, P], R]:
    """The method of a saver that calls a method of its facet."""

    @wraps(method)
    def delegate(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(facet(self), *args, **kwargs)

    @wraps(method)
    async def adelegate(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        result: Any = method(facet(self), *args, **kwargs)
        return await result

    found: Any = adelegate if iscoroutinefunction(method) else delegate
    return found  # type: ignore[no-any-return]
