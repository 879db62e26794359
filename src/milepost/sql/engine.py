"""What a saver or store asks of a driver."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from milepost.sql.operations import Work

R = TypeVar("R")


class Engine(Protocol):
    """Runs operations on one database, in both colours."""

    def run(self, work: Work[R], *, write: bool) -> R:
        """Carry out an operation in one transaction."""
        ...

    async def arun(self, work: Work[R], *, write: bool) -> R:
        """`run`, for use on an event loop."""
        ...

    def commit(self, committer: Any, waiting: Any) -> Any:
        """Take part in a group commit."""
        ...

    async def acommit(self, committer: Any, waiting: Any) -> Any:
        """`commit`, for use on an event loop."""
        ...
