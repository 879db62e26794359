"""Ranges of a thread's index, which has the fields of checkpoints and writes in their order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from milepost._db.redis.commands import Argument
from milepost.checkpoint._redis.rows import AFTER_ALL, CHECKPOINT, WRITE, field_of
from milepost.checkpoint._redis.scripts import Request
from milepost.checkpoint._sql.statements import just_after

if TYPE_CHECKING:
    from milepost.checkpoint._redis.rows import Row

_NO_LIMIT: Final = 1 << 40


class Range(NamedTuple):
    """Fields of the index that begin with a kind and names. The next name is at least `first`, and
    less than `before`, if these are given."""

    kind: bytes
    names: tuple[str, ...] = ()
    first: str | None = None
    before: str | None = None
    limit: int | None = None
    backwards: bool = False

    def ends(self) -> tuple[bytes, bytes]:
        """The least field that the range may have, and a field that sorts after all of them."""
        start = field_of(self.kind, *self.names) + b"\0"
        end = AFTER_ALL if self.before is None else self.before.encode()
        return start + (self.first or "").encode(), start + end

    def bounds(self) -> tuple[bytes, bytes]:
        """The ends as commands have them: the first is part of the range, the last is not."""
        low, high = self.ends()
        return b"[" + low, b"(" + high

    def request(self, more: int) -> tuple[Argument, ...]:
        """The request for this range. `more` fields above the limit make up for those that the
        transaction has removed."""
        limit = _NO_LIMIT if self.limit is None else self.limit + more
        opcode = Request.RANGE_BACKWARDS if self.backwards else Request.RANGE
        return opcode, *self.bounds(), limit

    def among(self, fields: Iterable[bytes]) -> list[bytes]:
        """Those of some fields that are in the range, in its order."""
        low, high = self.ends()
        return sorted((one for one in fields if low <= one < high), reverse=self.backwards)

    def merged(self, found: list[bytes], changed: Mapping[bytes, Row | None]) -> list[bytes]:
        """Fields that were read, with those that the transaction has added, less the removed."""
        if changed:
            gone = {field for field, row in changed.items() if row is None}
            added = [field for field, row in changed.items() if row is not None]
            found = self.among(({*found} - gone).union(added))
        return found[: self.limit]


def writes_at(ns: str, id: str) -> Range:
    """The rows of writes at a checkpoint."""
    return Range(WRITE, (ns, id))


def after_one(ns: str, id: str) -> Range:
    """The checkpoint after another one in the same graph."""
    return Range(CHECKPOINT, (ns,), first=just_after(id), limit=1)
