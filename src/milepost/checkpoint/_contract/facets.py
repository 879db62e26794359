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
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from milepost._db.engine import adrive, drive
from milepost._internal import generators
from milepost._internal.generators import method_pairs
from milepost._internal.operations import Operation, followed

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost._db.engine import Engine, Transactions

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
F = TypeVar("F", bound="Facet")


class Facet:
    """A part of a saver's methods, as an object."""

    def __init__(self, engine: Engine | None) -> None:
        self._engine = engine
        """None for the saver in memory, whose transactions never wait."""

    def _drive(self, transactions: Transactions[R]) -> R:
        if self._engine is not None:
            return drive(self._engine, transactions)
        return generators.drive(transactions, _done)

    async def _adrive(self, transactions: Transactions[R]) -> R:
        if self._engine is not None:
            return await adrive(self._engine, transactions)
        return self._drive(transactions)


def _done(_step: object) -> None:
    """A transaction in memory is done as soon as it is yielded."""


sync_and_async = method_pairs(
    lambda facet, transactions, name: facet._drive(followed(Operation(name), transactions)),
    lambda facet, transactions, name: facet._adrive(followed(Operation(name), transactions)),
)


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
