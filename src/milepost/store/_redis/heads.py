"""The head of an item: what is stored about it beside its value."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TypeAlias

from milepost.errors import DamagedRowError
from milepost.store._core.records import Namespace
from milepost.store._core.tasks import Index, Row

Place: TypeAlias = tuple[Namespace, str]


def root_of(place: Place) -> str:
    """The first label of a namespace."""
    return place[0][0]


@dataclass(frozen=True, slots=True)
class Head:
    """Times are in microseconds; `updated` is also the version."""

    created: int
    updated: int
    ttl: int | None
    expires: int | None
    nonce: str
    """Made for one batch of writes: tells whether it was stored, if its answer was lost."""
    index: Index

    def dump(self) -> bytes:
        index = "" if self.index is None else json.dumps(self.index)
        times = f"{self.created} {self.updated} {self.ttl or 0} {self.expires or 0}"
        return f"{times} {self.nonce} {index}".encode()

    def is_dead(self, now: int) -> bool:
        """Whether the item has expired."""
        return self.expires is not None and self.expires <= now


def parsed(place: Place, stored: bytes) -> Head:
    try:
        created, updated, ttl, expires, nonce, index = stored.decode().split(" ", 5)
        found: Index = json.loads(index) if index else None
        return Head(
            int(created),
            int(updated),
            int(ttl) or None,
            int(expires) or None,
            nonce,
            tuple(found) if isinstance(found, list) else found,
        )
    except ValueError as error:
        raise _damaged(place) from error


def sealed(data: tuple[str, bytes]) -> bytes:
    """A value as it is stored: its kind, and what the serializer made of it."""
    return data[0].encode() + b":" + data[1]


def to_row(place: Place, head: Head, body: bytes | None, score: float | None = None) -> Row:
    """An item as the core wants it."""
    if body is None:
        raise _damaged(place)
    kind, _, data = body.partition(b":")
    return Row(*place, (kind.decode("utf-8", "replace"), data), head.created, head.updated, score)


def _damaged(place: Place) -> DamagedRowError:
    return DamagedRowError(
        f"The item {place[1]!r} in {place[0]} is damaged: its head or its value is missing, or not "
        "what was written. Put or delete the item, or restore the database from a backup."
    )
