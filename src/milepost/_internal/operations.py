"""Lets others follow what is done with threads outside of runs: reads, updates, pruning.

An operation is a generator, of effects or of transactions. A follower is asked when one begins,
and answers with a context manager that is entered around it, in the thread or task that carries
it out. Without followers an operation is the bare generator.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeAlias, TypeVar

from milepost._internal.dataclass_tools import record

Y = TypeVar("Y")
S = TypeVar("S")
R = TypeVar("R")


@record(frozen=False)
class Operation:
    """Something that is done with threads."""

    name: str
    """The name of the method, without the `a` of async ones."""
    thread_id: str | None = None
    graph: str | None = None
    """The name of the graph that it is done with."""
    yields: bool = False
    """Whether the caller's code runs in between: it reads states one after the other."""
    result: Any = None
    """The result, once the operation has ended."""


Follower: TypeAlias = Callable[[Operation], AbstractContextManager[None]]
FOLLOWERS: list[Follower] = []


def followed(operation: Operation, work: Generator[Y, S, R]) -> Generator[Y, S, R]:
    """The work of an operation, with its followers around it; without any, `work` itself."""
    return _followed(operation, work) if FOLLOWERS else work


def _followed(operation: Operation, work: Generator[Y, S, R]) -> Generator[Y, S, R]:
    with ExitStack() as stack:
        for follow in FOLLOWERS:
            stack.enter_context(follow(operation))
        result = operation.result = yield from work
        return result
