"""The logic that stores in databases share, whatever their engine understands."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from milepost._internal.progress import Progress
from milepost.errors import ReindexConflict, StoreError, VersionConflict
from milepost.store._core.core import StoreCore
from milepost.store._core.records import GetOp, ListNamespacesOp, Namespace
from milepost.store._core.tasks import (
    Group,
    Outcome,
    Row,
    Search,
    StoreRequests,
    Task,
    Write,
)
from milepost.store._vectors.generations import Unverified
from milepost.store._vectors.reindex import (
    Incomplete,
    Reindexer,
    embed_lacking,
    reindex_all,
    verify_model,
)

_ATTEMPTS: Final = 5
_SWITCHES: Final = 20
"""How many reindexes may end during one call."""


class Raced(Exception):
    """Others have changed an item between two looks at it: try again."""


class EngineCore(StoreCore):
    """The logic of a store whose requests an engine carries out."""

    _ready = False

    # -- what a database gives

    @abstractmethod
    def prepare_database(self) -> StoreRequests[None]:
        """What has to be done before the first use."""

    @abstractmethod
    def attempt(
        self, groups: Sequence[Group], completed: int | None
    ) -> StoreRequests[list[Outcome]]:
        """Carry out groups once.

        A search is broken off if items lack their vectors (`Incomplete`), but for those of a
        generation that was `completed`.
        """

    @abstractmethod
    def reindexer(self) -> Reindexer:
        """What makes vectors for items that are stored already."""

    # -- what all of them do with it

    def ready(self) -> StoreRequests[None]:
        """Prepare the database, once."""
        if not self._ready:
            yield from self.prepare_database()
            self._ready = True

    def perform(self, groups: Sequence[Group]) -> StoreRequests[list[Outcome]]:
        yield from self.ready()
        completed: int | None = None
        attempts = switches = 0
        while True:
            try:
                return (yield from self.attempt(groups, completed))
            except Incomplete as found:
                switches += 1
                if switches > _SWITCHES:
                    raise ReindexConflict(
                        "The store was reindexed again and again while it was used, so that most "
                        "items had no vectors yet. Repeat the call when the reindexing has ended."
                    ) from None
                yield from embed_lacking(self.reindexer(), found.where)
                # What is lacking still, could not be embedded or was put since. But another
                # reindex may have made a new generation, which lacks items of its own.
                completed = found.generation
            except Unverified as unverified:
                yield from verify_model(self.reindexer(), unverified.number)
            except Raced:
                attempts += 1
                if attempts == _ATTEMPTS:
                    raise VersionConflict(
                        "The item was changed by others at each attempt. Get it and try again."
                    ) from None

    def reindex(self, progress: Progress | None, size: int) -> StoreRequests[int]:
        return reindex_all(self.reindexer(), progress, size)


class Reads:
    """The tasks of several groups that read, as of one time, and what they find."""

    def __init__(self, groups: Sequence[Group], now: int, completed: int | None) -> None:
        self.groups = groups
        self.tasks: list[Task] = list(chain.from_iterable(groups))
        """Those of all groups, writes too."""
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
    def only_task(self) -> Task | None:
        """The task, if there is only one."""
        return self.tasks[0] if len(self.groups) == len(self.tasks) == 1 else None

    def gets(self) -> list[GetOp]:
        return [task for task in self.tasks if isinstance(task, GetOp)]

    def by_meaning(self) -> bool:
        """Whether one of them ranks by vectors."""
        return any(isinstance(task, Search) and task.vector is not None for task in self.tasks)

    def fill(
        self,
        items: Mapping[tuple[Namespace, str], Row],
        read: Callable[[Search | ListNamespacesOp], Generator[Any, Any, Any]],
    ) -> Generator[Any, Any, None]:
        """The results of all tasks: gets have found `items`, and `read` does the others."""
        for number, group in enumerate(self.groups):
            for at, task in enumerate(group):
                if isinstance(task, GetOp):
                    self.results[number][at] = items.get((task.namespace, task.key))
                elif not isinstance(task, Write):
                    try:
                        self.results[number][at] = yield from read(task)
                    except StoreError as error:
                        self.failed[number] = error

    def outcomes(self, failed: dict[int, Exception]) -> list[Outcome]:
        """What each group has found, or why it failed."""
        return [failed.get(number, found) for number, found in enumerate(self.results)]
