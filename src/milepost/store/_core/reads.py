"""What the reads of several groups have found, while they are under way."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from milepost.store._core.tasks import Get, Group, Outcome, Search, Task


class Reads:
    """The reads of several groups, as of one time."""

    def __init__(self, groups: Sequence[Group], now: int, completed: int | None) -> None:
        self.groups = groups
        self.now = now
        self.completed = completed
        """The generation that was completed for them."""
        self.begin()

    def begin(self) -> None:
        """Forget what an attempt has found that is repeated."""
        self.renewed: list[Any] = []
        """Items whose time to live begins again."""
        self.results: list[list[Any]] = [[None] * len(group) for group in self.groups]
        self.failed: dict[int, Exception] = {}

    @property
    def tasks(self) -> list[Task]:
        """Those of all groups."""
        return list(chain.from_iterable(self.groups))

    def gets(self) -> list[Get]:
        return [task for task in self.tasks if isinstance(task, Get)]

    def by_meaning(self) -> bool:
        """Whether one of them ranks by vectors."""
        return any(isinstance(task, Search) and task.vector is not None for task in self.tasks)

    def outcomes(self, failed: dict[int, Exception]) -> list[Outcome]:
        """What each group has found, or why it failed."""
        return [failed.get(number, found) for number, found in enumerate(self.results)]
