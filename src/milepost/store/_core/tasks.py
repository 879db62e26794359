"""What a store works on: operations that are checked, encoded and ready to be carried out.

The logic of a store is a generator. The generator never waits and is neither sync nor async: it
yields requests, and one of the two drivers in `api` sends it their results.

    yielded      sent back
    Embed        the vectors of its texts
    Transact     what the work returned; on SQL it ran in one transaction
    TableSetup   None; the tables are there
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

from milepost._db.migrations import TableSetup
from milepost.errors import IndexMismatchError, VersionConflict
from milepost.store._core.records import GetOp, ListNamespacesOp, Namespace, Order

if TYPE_CHECKING:
    from milepost.store._core.filters import Condition
    from milepost.store._vectors.embeddings import Packed
    from milepost.store._vectors.generations import Generations

Index: TypeAlias = Literal[False] | tuple[str, ...] | None
"""What a put embeds: nothing (False), these paths, or (None) the store's own."""


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

    def conflict(self, current: int) -> VersionConflict:
        """The error for a write whose version is not the current one (0 for no item)."""
        state = f"at version {current}" if current else "not there"
        wanted = f"version {self.if_version}" if self.if_version else "no item"
        return VersionConflict(
            f"The item {self.key!r} in {self.namespace} is {state}, but the caller expected "
            f"{wanted}; nothing was written. Get the item again, apply the change to it, and put "
            "it with if_version=item.version."
        )


Task: TypeAlias = GetOp | Search | ListNamespacesOp | Write
"""A get and a listing are the operations themselves, checked."""
Group: TypeAlias = Sequence[Task]
"""What one caller asked for at once: all of it is done, or nothing."""
Outcome: TypeAlias = list[Any] | Exception
"""One result for each task of a group, or why the group failed."""


class Row(NamedTuple):
    """An item as it is stored. Times are in microseconds; `updated` is also the version."""

    namespace: Namespace
    key: str
    data: tuple[str, bytes]
    created: int
    updated: int

    @property
    def place(self) -> tuple[Namespace, str]:
        """Where the item is."""
        return self.namespace, self.key


Scored: TypeAlias = tuple[float | None, Row]
"""What a search finds: an item, and its score if it was ranked by vectors."""


class RefusedItem(NamedTuple):
    """An item that does not open, and why."""

    namespace: Namespace
    key: str
    reason: str


class Embed(NamedTuple):
    """Make vectors."""

    texts: list[str]
    are_queries: bool = False
    """Some models treat these in another way."""


class Transact(NamedTuple):
    """Carry out what the engine of the store understands: SQL in one transaction, or a sequence
    of commands."""

    work: Callable[[], Generator[Any, Any, Any]]
    write: bool


Request: TypeAlias = Embed | Transact | TableSetup
R = TypeVar("R")
StoreRequests: TypeAlias = Generator[Request, Any, R]


# -- which writes of several callers are carried out


def writes_of(groups: Sequence[Group], failed: Container[int]) -> Iterator[Write]:
    """The writes of every group that has not failed."""
    for number, group in enumerate(groups):
        if number not in failed:
            yield from (task for task in group if isinstance(task, Write))


def _conflict(_number: int, write: Write, current: int) -> Exception:
    return write.conflict(current)


def last_writes(
    groups: Sequence[Group],
    failed: dict[int, Exception],
    generations: Generations | None,
    version: Callable[[Write], int],
    refusal: Callable[[int, Write, int], Exception] = _conflict,
) -> dict[tuple[Namespace, str], Write]:
    """The write of each place: of several the last one counts. A group that is refused joins
    `failed`.

    `version` is the current version of a write's item, 0 for none. `refusal` makes the error of a
    group, by its place, whose write expected another version.
    """
    final: dict[tuple[Namespace, str], Write] = {}
    for number, group in enumerate(groups):
        if number in failed:
            continue
        mine: dict[tuple[Namespace, str], Write] = {}
        for write in group:
            if not isinstance(write, Write):
                continue
            place = write.namespace, write.key
            if write.texts and generations is not None:
                try:
                    generations.check_writable()
                except IndexMismatchError as error:
                    failed[number] = error
                    break
            if write.if_version is not None:
                current = version(write)
                if current != write.if_version or place in mine or place in final:
                    failed[number] = refusal(number, write, current)
                    break
                if write.if_version == 0 and write.data is None:
                    continue  # nothing is there, and what others put meanwhile stays
            mine[place] = write
        else:
            final.update(mine)
    return final


# -- which vectors the tasks of several callers need: all of them are made in one call


def vectors_of(
    texts: Iterable[Sequence[str]], *, are_queries: bool = False
) -> StoreRequests[dict[str, Packed]]:
    """The vectors of texts, made in one call, equal texts once."""
    wanted = list(dict.fromkeys(chain.from_iterable(texts)))
    made = (yield Embed(wanted, are_queries)) if wanted else ()
    return dict(zip(wanted, made, strict=True))


def with_vectors(groups: Sequence[Group]) -> StoreRequests[list[Group]]:
    """The groups, with the vectors that they need."""
    tasks = [*chain.from_iterable(groups)]
    documents = yield from vectors_of(task.texts for task in tasks if isinstance(task, Write))
    asked = [task.query for task in tasks if isinstance(task, Search) and task.query is not None]
    queries = yield from vectors_of([asked], are_queries=True)
    return [[_with_vector(task, documents, queries) for task in group] for group in groups]


def _with_vector(
    task: Task, documents: Mapping[str, Packed], queries: Mapping[str, Packed]
) -> Task:
    if isinstance(task, Write) and task.texts:
        return Write(*task[:-1], [documents[text] for text in task.texts])
    if isinstance(task, Search) and task.query is not None:
        return task._replace(vector=queries[task.query])
    return task
