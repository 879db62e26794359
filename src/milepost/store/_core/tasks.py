"""What a store works on: operations that are checked, encoded and ready to be carried out.

The logic of a store is a generator. The generator never waits and is neither sync nor async: it
yields requests, and one of the two drivers in `api` sends it their results.

    yielded      sent back
    Embed        two lists of vectors, for the documents and for the queries
    Transact     what the work returned; on SQL it ran in one transaction
    TableSetup   None; the tables are there
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

from milepost._db.migrations import TableSetup
from milepost.errors import VersionConflict
from milepost.store._core.records import ListNamespacesOp, Namespace, Order

if TYPE_CHECKING:
    from milepost.store._core.filters import Condition
    from milepost.store._vectors.embeddings import Packed

Index: TypeAlias = Literal[False] | tuple[str, ...] | None
"""What a put said about embedding: nothing, these paths, or (None) the store's own."""


class Get(NamedTuple):
    """Fetch one item."""

    namespace: Namespace
    key: str
    refresh: bool


class Search(NamedTuple):
    """Find items."""

    prefix: Namespace
    conditions: tuple[Condition, ...]
    limit: int
    offset: int
    query: str | None
    order: Order | None
    refresh: bool
    vector: Packed | None = None
    """The query's, once it is known."""


class Listing(NamedTuple):
    """Find namespaces."""

    op: ListNamespacesOp


class Write(NamedTuple):
    """Store an item, or delete it if there is no `data`."""

    namespace: Namespace
    key: str
    data: tuple[str, bytes] | None
    view: str
    """What filters see, as JSON; empty if the backend makes it itself."""
    texts: tuple[str, ...]
    index: Index  # type: ignore[assignment]
    ttl: int | None
    """In microseconds."""
    if_version: int | None
    vectors: Sequence[Packed] = ()
    """One for each text, once they are known."""

    def conflict(self, there: int) -> VersionConflict:
        """The error for a put whose version is not the one that is there (0 for no item)."""
        state = f"at version {there}" if there else "not there"
        wanted = f"version {self.if_version}" if self.if_version else "no item"
        return VersionConflict(
            f"The item {self.key!r} in {self.namespace} is {state}, but the caller expected "
            f"{wanted}; nothing was written. Get the item again, apply the change to it, and put "
            "it with if_version=item.version."
        )


Task: TypeAlias = Get | Search | Listing | Write
Group: TypeAlias = Sequence[Task]
"""What one caller asked for at once: done as a whole or not at all."""
Outcome: TypeAlias = list[Any] | Exception
"""One result for each task of a group, or why the group failed."""


class Row(NamedTuple):
    """An item as it is stored. Times are in microseconds; `updated` is also the version."""

    namespace: Namespace
    key: str
    data: tuple[str, bytes]
    created: int
    updated: int
    score: float | None = None


class RefusedItem(NamedTuple):
    """An item that does not open, and why."""

    namespace: Namespace
    key: str
    reason: str


class Embed(NamedTuple):
    """Make vectors. Equal texts are listed once."""

    documents: list[str]
    queries: list[str]


class Transact(NamedTuple):
    """Carry out what the engine of the store understands: SQL in one transaction, or a program of
    commands."""

    work: Callable[[], Generator[Any, Any, Any]]
    write: bool


Request: TypeAlias = Embed | Transact | TableSetup
R = TypeVar("R")
Program: TypeAlias = Generator[Request, Any, R]

Progress: TypeAlias = Callable[[int, int | None], object]
"""Called with the number of items that are done, and of all items."""
