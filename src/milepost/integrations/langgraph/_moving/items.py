"""Moves the items of a store between the two libraries' databases, with their times.

Items are put through the stores, which know how to keep them; only the times, which no store lets
anybody set, are written to the tables.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from milepost.errors import MilepostError
from milepost.store._core.namespaces import from_text, to_text
from milepost.store._core.records import PutOp, to_datetime

if TYPE_CHECKING:
    from milepost._internal.progress import Progress
    from milepost.integrations.langgraph._formats.tables import Execute
    from milepost.integrations.langgraph._moving.redis_items import OurRedisItems, RedisItems
    from milepost.integrations.langgraph._moving.threads import Report
    from milepost.store.base import BaseStore

ItemPlace = tuple[tuple[str, ...], str]
"""The namespace and the key of an item."""

Refuse = Callable[[str], None]
"""Called with an item that is left out, and why."""

_PAGE: Final = 200
MINUTE: Final = 60_000_000
"""In microseconds."""
_EPOCH: Final = to_datetime(0)


_TIMES_TO_LIVE: Final = frozenset({"ttl_minutes", "expires_at"})


class StoredItem(NamedTuple):
    """An item with all that is stored of it. Times are in microseconds."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    created: int
    updated: int
    ttl: int | None
    expires: int | None

    @property
    def place(self) -> ItemPlace:
        """Namespace and key."""
        return self.namespace, self.key


class ItemDatabase(ABC):
    """The items in one database."""

    names: ClassVar[tuple[str, ...]]
    """The columns with an item."""
    table: ClassVar[str]
    space: ClassVar[str]
    """The column that a namespace is in."""
    times: ClassVar[str]
    changed: ClassVar[str]
    """The column with the time of the last change."""

    def __init__(
        self, store: BaseStore | None, execute: Execute, there: Collection[str] | None = None
    ) -> None:
        self._given = store
        self._execute = execute
        # Tables of older versions have no times to live.
        missing = _TIMES_TO_LIVE - set(_TIMES_TO_LIVE if there is None else there)
        names = ("NULL" if name in missing else name for name in self.names)
        self._columns = ", ".join(names)

    @property
    def _store(self) -> BaseStore:
        """The store; there is none where items are only read, and read from the table."""
        assert self._given is not None
        return self._given

    def pages(self, refuse: Refuse) -> Iterator[list[StoredItem]]:
        """All items, in the order of their keys. `refuse` is called for each that cannot be
        read."""
        after: tuple[Any, ...] = ("", "")
        while places := self._places(after):
            yield list(self._items_at(places, refuse))
            after = places[-1]

    def find(self, place: ItemPlace) -> StoredItem | None:
        """The item at a place; None if there is none."""
        at = self._text(place[0]), place[1]
        return next((self._item(*row) for row in self._between(at, at)), None)

    def change_times(self, places: Iterable[ItemPlace]) -> dict[ItemPlace, int]:
        """When the items at these places were last changed; missing ones are left out."""
        wanted = {(self._text(ns), key): (ns, key) for ns, key in places}
        if not wanted:
            return {}
        marks = ", ".join(["(?, ?)"] * len(wanted))
        rows = self._execute(
            f"SELECT {self.space}, key, {self.changed} FROM {self.table}"
            f" WHERE ({self.space}, key) IN (VALUES {marks})",
            [part for place in wanted for part in place],
        )
        return {wanted[row[0], row[1]]: _micros(row[2]) for row in rows}

    def put(self, kept: StoredItem) -> None:
        """Store an item with its times."""
        minutes = None if kept.ttl is None else kept.ttl / MINUTE
        self._store.batch([PutOp(kept.namespace, kept.key, kept.value, None, minutes)])
        self._execute(
            f"UPDATE {self.table} SET {self.times} WHERE {self.space} = ? AND key = ?",
            (*self._stamps(kept), self._text(kept.namespace), kept.key),
        )

    def fitted(self, kept: StoredItem) -> StoredItem:
        """The item as this database can keep it."""
        return kept

    def _places(self, after: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return self._execute(
            f"SELECT {self.space}, key FROM {self.table} WHERE ({self.space}, key) > (?, ?)"
            f" ORDER BY {self.space}, key LIMIT {_PAGE}",
            after,
        )

    def _between(self, first: tuple[Any, ...], last: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return self._execute(
            f"SELECT {self._columns} FROM {self.table}"
            f" WHERE ({self.space}, key) >= (?, ?) AND ({self.space}, key) <= (?, ?)"
            f" ORDER BY {self.space}, key",
            (*first, *last),
        )

    def _items_at(self, places: Sequence[tuple[Any, ...]], refuse: Refuse) -> Iterator[StoredItem]:
        """The items that are at these places, which follow one another."""
        try:
            rows = self._between(places[0], places[-1])
        except Exception as error:
            if len(places) == 1:
                refuse(_unreadable(places[0], error))
                return
            # The driver cannot read a cell of one of them. One by one shows which.
            for place in places:
                yield from self._items_at([place], refuse)
            return
        for row in rows:
            try:
                yield self._item(*row)
            except Exception as error:
                # Whatever is wrong, it is wrong with this item alone.
                refuse(_unreadable(row, error))

    @abstractmethod
    def _text(self, namespace: tuple[str, ...]) -> str: ...

    @abstractmethod
    def _item(self, *row: Any) -> StoredItem: ...

    @abstractmethod
    def _stamps(self, kept: StoredItem) -> tuple[Any, ...]: ...


class MilepostItems(ItemDatabase):
    """A milepost store."""

    names = ("ns", "key", "created", "updated", "ttl", "expires")
    table = "milepost_items"
    space = "ns"
    times = "created = ?, updated = ?, ttl = ?, expires = ?"
    changed = "updated"

    def _text(self, namespace: tuple[str, ...]) -> str:
        return to_text(namespace)

    def _item(self, *row: Any) -> StoredItem:
        namespace = from_text(row[0])
        # The value may be sealed; the store knows how to open it.
        item = self._store.get(namespace, row[1], refresh_ttl=False)
        return StoredItem(namespace, row[1], {} if item is None else item.value, *row[2:])

    def _stamps(self, kept: StoredItem) -> tuple[Any, ...]:
        return kept[3:]


class LangGraphPostgresItems(ItemDatabase):
    """A LangGraph store on PostgreSQL."""

    names = ("prefix", "key", "value", "created_at", "updated_at", "ttl_minutes", "expires_at")
    table = "store"
    space = "prefix"
    times = "created_at = ?, updated_at = ?, ttl_minutes = ?, expires_at = ?"
    changed = "updated_at"

    def fitted(self, kept: StoredItem) -> StoredItem:
        # Whole minutes.
        return kept if kept.ttl is None else kept._replace(ttl=-(-kept.ttl // MINUTE) * MINUTE)

    def _text(self, namespace: tuple[str, ...]) -> str:
        return ".".join(namespace)

    def _item(self, *row: Any) -> StoredItem:
        prefix, key, value, created, updated, minutes, expires = row
        return StoredItem(
            tuple(prefix.split(".")),
            key,
            json.loads(value) if isinstance(value, (str, bytes)) else value,
            _micros(created),
            _micros(updated),
            None if minutes is None else int(minutes * MINUTE),
            None if expires is None else _micros(expires),
        )

    def _stamps(self, kept: StoredItem) -> tuple[Any, ...]:
        minutes = None if kept.ttl is None else kept.ttl / MINUTE
        expires = None if kept.expires is None else to_datetime(kept.expires)
        return to_datetime(kept.created), to_datetime(kept.updated), minutes, expires


class LangGraphSqliteItems(LangGraphPostgresItems):
    """A LangGraph store on SQLite, which keeps times as text, and fractions of minutes."""

    def fitted(self, kept: StoredItem) -> StoredItem:
        return kept

    def _stamps(self, kept: StoredItem) -> tuple[Any, ...]:
        return tuple(
            one.replace(tzinfo=None).isoformat(" ") if isinstance(one, datetime) else one
            for one in super()._stamps(kept)
        )


def move_items(
    source: ItemDatabase | RedisItems,
    target: ItemDatabase | OurRedisItems,
    reader: ItemDatabase | OurRedisItems,
    report: Report,
    progress: Progress = lambda _done, _total: None,
) -> None:
    """Copy items, and verify each. One that the target has in the same age or newer is left; one
    that cannot be read or kept is named in the report.

    `reader` is another connection to the target's database. `progress` is called with the number
    of items that were dealt with.
    """
    seen = 0
    now = int(time.time() * 1_000_000)
    for page in source.pages(report.unreadable.append):
        alive = [target.fitted(k) for k in page if k.expires is None or k.expires > now]
        there = target.change_times(kept.place for kept in alive)
        for kept in alive:
            if (known := there.get(kept.place)) is not None and known >= kept.updated:
                continue
            try:
                target.put(kept)
                copy = reader.find(kept.place)
            except (MilepostError, ArithmeticError, LookupError, TypeError, ValueError) as error:
                report.unreadable.append(f"{_name(kept)}: {error}")
                continue
            if copy == kept:
                report.items += 1
            else:
                report.unreadable.append(f"{_name(kept)}: the copy differs from the original")
        seen += len(page)
        progress(seen, None)


def _unreadable(row: tuple[Any, ...], error: Exception) -> str:
    space, key, *_ = row
    name = f"item '{key}' in {str(space).rstrip('.')}"
    return f"{name}: it cannot be read ({type(error).__name__}: {error})"


def _name(kept: StoredItem) -> str:
    return f"item '{kept.key}' in {'.'.join(kept.namespace)}"


def _micros(moment: datetime | str | int) -> int:
    """LangGraph's SQLite store gives UTC without saying so."""
    if isinstance(moment, int):
        return moment
    known = to_datetime(moment) if isinstance(moment, str) else moment
    aware = known if known.tzinfo is not None else known.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)
