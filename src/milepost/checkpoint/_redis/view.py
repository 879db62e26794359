"""A thread as one transaction sees it: what was read, and what the transaction has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost._db.redis.commands import Argument, RedisEffects
from milepost.checkpoint._redis.rows import (
    AFTER_ALL,
    CHECKPOINT,
    REV,
    ROOT_CHECKPOINTS,
    SEQ,
    WRITE,
    Entry,
    entry_changes,
    entry_in,
    field_of,
    link,
    pack,
    pairs,
    parts,
    unpack,
)
from milepost.checkpoint._redis.scripts import Change, Condition, Request
from milepost.checkpoint._redis.thread_io import Changed, read
from milepost.checkpoint._sql.statements import just_after

if TYPE_CHECKING:
    from milepost.checkpoint._redis.rows import Row
    from milepost.checkpoint._redis.server import Settings

_NO_LIMIT: Final = 1 << 40

# -- ranges of a thread's index, which has the fields of checkpoints and writes in their order


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


class ThreadView:
    """What a transaction has read and changed of one thread."""

    def __init__(self, settings: Settings, thread_id: str, owner: str | None) -> None:
        self.thread_id = thread_id
        self._settings = settings
        self._owner = owner
        self._expected = settings.acknowledged.expected(thread_id, owner)
        self._rev: bytes | None = None
        """The `rev` of the first read; None if the thread did not exist."""
        self._has_read = False
        self.entry: Entry | None = None
        """The entry with its changes; None if the thread does not exist, or is to be removed."""
        self._has_entry = False
        """Whether the entry was read."""
        self._newest: str | None = None
        """The latest root checkpoint by the index, as it was read."""
        self._rows: dict[bytes, Row | None] = {}
        """Rows that were read; None for a row that does not exist."""
        self.changed: dict[bytes, Row | None] = {}
        """Rows that the transaction has added or replaced; None for a removed row."""
        self.is_wiped = False
        """Whether all rows are to be removed. Then the entry is removed too."""
        self._before: Entry | None = None
        """The entry as it was read."""
        self._has_all_rows = False
        """Whether all rows were read."""
        self._ranges: dict[Range, list[bytes]] = {}
        """Ranges that were read together with a checkpoint."""

    # -- reading

    def fetch(self, *requests: Argument) -> RedisEffects[list[Any]]:
        """The replies to requests. Raises Changed if another client has written meanwhile."""
        replies: list[Any]
        rev, *replies = yield from read(self._settings, self.thread_id, requests)
        if self._has_read and rev != self._rev:
            raise Changed
        self._rev, self._has_read = rev, True
        return replies

    def load(self) -> RedisEffects[Entry | None]:
        """The thread's entry."""
        if not self._has_entry:
            [(cells, newest)] = yield from self.fetch(Request.ENTRY)
            self._learn(cells, newest)
        return self.entry

    def load_one(self, ns: str, id: str | None) -> RedisEffects[Entry | None]:
        """The thread's entry, read together with all rows of a checkpoint, or of the latest."""
        if self._has_read or not self._settings.scripts:
            return (yield from self.load())
        [(entry, flat, ranges)] = yield from self.fetch(Request.CHECKPOINT, ns, id or "")
        self._keep(pairs(flat))
        for name, writes, after in ranges:
            one = name.decode("utf-8", "replace")  # that of a damaged row may be no text
            self._ranges[writes_at(ns, one)] = writes
            self._ranges[after_one(ns, one)] = after
        self._learn(*entry)
        return self.entry

    def _learn(self, cells: Sequence[bytes], newest: Sequence[bytes]) -> None:
        """Take in the entry from a reply. Raises BrokenChainError if the server has lost steps."""
        self._has_entry = True
        self._newest = parts(newest[0])[1] if newest else None
        found, self.entry = entry_in(self.thread_id, cells)
        self._before = self.entry
        if self.entry is None:
            self._settings.acknowledged.forget(self.thread_id)
            return
        epoch = self.entry.epoch
        head = max(self.entry.head or "", self._newest or "") or None
        is_own = self._owner is not None and self.entry.token == self._owner
        writes = int(found.get(SEQ, 0)) if is_own else None
        loss = self._expected.check(self.thread_id, epoch, head, writes)
        if loss is not None:
            self._settings.acknowledged.forget(self.thread_id)
            raise loss
        if head is not None:
            self._settings.acknowledged.head(self.thread_id, epoch, head)

    def head(self) -> RedisEffects[str | None]:
        """The latest checkpoint. While a run goes on, the head of the entry may lag behind."""
        entry = yield from self.load()
        if entry is None or entry.status != "running":
            return entry and entry.head
        newest = yield from self.newest("")
        return max(entry.head or "", newest or "") or None

    def newer(self) -> RedisEffects[str | None]:
        """A checkpoint that is newer than the head, which must not be when no run goes on."""
        entry = yield from self.load()
        if entry is None or entry.status == "running":
            return None
        newest = yield from self.newest("")
        return newest if newest is not None and newest > (entry.head or "") else None

    def newest(self, ns: str) -> RedisEffects[str | None]:
        """The latest checkpoint of a graph."""
        if ns == "" and self._has_entry and not any(map(_is_of_root, self.changed)):
            return self._newest
        found = yield from self.range(Range(CHECKPOINT, (ns,), limit=1, backwards=True))
        return parts(found[0])[1] if found else None

    def range(self, wanted: Range) -> RedisEffects[list[bytes]]:
        """The fields in one range."""
        [found] = yield from self.ranges([wanted])
        return found

    def ranges(self, wanted: Sequence[Range]) -> RedisEffects[list[list[bytes]]]:
        """Several ranges, in one round trip."""
        found: list[list[bytes]] = [[] for _ in wanted]
        if self._has_all_rows:
            found = [one.among(self._rows) for one in wanted]
        elif self._ranges and all(one in self._ranges for one in wanted):
            found = [self._ranges[one] for one in wanted]
        elif wanted:
            requests = [part for one in wanted for part in one.request(len(self.changed))]
            found = yield from self.fetch(*requests)
        return [one.merged(some, self.changed) for one, some in zip(wanted, found, strict=True)]

    def rows(self, fields: Iterable[bytes]) -> RedisEffects[dict[bytes, Any]]:
        """Those of some rows that exist."""
        fields = list(fields)
        missing = [field for field in fields if not self._has(field)]
        if missing:
            [found] = yield from self.fetch(Request.ROWS, len(missing), *missing)
            self._keep(zip(missing, found, strict=True))
        return {field: row for field in fields if (row := self._get(field)) is not None}

    def row(self, field: bytes) -> RedisEffects[Any]:
        """One row, or None."""
        found = yield from self.rows([field])
        return found.get(field)

    def follow(
        self, fields: Iterable[bytes], *, parents: bool = False
    ) -> RedisEffects[dict[bytes, Any]]:
        """Rows, and all rows that they are differences from; with `parents`, all ancestors too."""
        found: dict[bytes, Any] = {}
        pending = list(dict.fromkeys(fields))
        while pending:
            yield from self._read_chains(pending, parents=parents)
            ends = [self._add_chain(field, found, parents=parents) for field in pending]
            pending = list(dict.fromkeys(field for field in ends if field is not None))
        return found

    def _read_chains(self, fields: Sequence[bytes], *, parents: bool) -> RedisEffects[None]:
        """Read rows, and where a script can do it, all rows that they are differences from."""
        missing = [field for field in fields if not self._has(field)]
        if not missing:
            return
        if not self._settings.scripts:
            yield from self.rows(missing)
            return
        request = (Request.CHAINS, int(parents), len(missing))
        [flat] = yield from self.fetch(*request, *missing)
        self._keep(pairs(flat))
        self._keep((field, None) for field in missing)

    def _add_chain(self, field: bytes, found: dict[bytes, Row], *, parents: bool) -> bytes | None:
        """Add a row and the rows that it is a difference from, as far as they were read. Returns
        the field of the first row that was not read."""
        row = self._get(field)
        while row is not None and field not in found:
            found[field] = row
            following = link(field, row, to_parent=parents)
            if following is None:
                return None
            if not self._has(following):
                return following
            field, row = following, self._get(following)
        return None

    def all(self, kind: bytes) -> RedisEffects[dict[bytes, Any]]:
        """All rows of a kind, sorted by field."""
        if not self._has_all_rows:
            [flat] = yield from self.fetch(Request.ALL_ROWS)
            self._keep(pairs(flat))
            self._has_all_rows = True
        rows = (self._rows | self.changed).items()
        return dict(sorted(one for one in rows if one[0][:1] == kind and one[1] is not None))

    def _has(self, field: bytes) -> bool:
        return self._has_all_rows or field in self.changed or field in self._rows

    def _get(self, field: bytes) -> Row | None:
        return self.changed[field] if field in self.changed else self._rows.get(field)

    def _keep(self, found: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Remember rows that were read; None for a row that does not exist."""
        for field, data in found:
            if field not in self._rows:
                self._rows[field] = None if data is None else unpack(field, data)

    # -- changing

    def is_to_be_written(self) -> bool:
        """Whether this transaction has changed anything."""
        return bool(self.changed) or self.is_wiped or self.entry != self._before

    def changes(self) -> list[Argument]:
        """All changes, on condition that the thread has not changed since it was read."""
        found: list[Argument] = [Condition.IS_NEW]
        if self._rev is not None:
            found = [Condition.EQUALS, REV, self._rev]
        if self.entry is None:
            return [*found, Change.DELETE_THREAD]
        assert not self.is_wiped, "a thread without rows is removed as a whole"
        # Rows are removed first: after that, a server whose memory is full takes the rest too.
        for field, row in self.changed.items():
            if row is None:
                found += [Change.DELETE_ROW, field]
        found += entry_changes(self._before, self.entry)
        for field, row in self.changed.items():
            if row is not None:
                found += [Change.PUT_ROW, field, pack(row)]
        return found

    def is_new(self) -> bool:
        """Whether the thread did not exist."""
        return self._before is None

    def stored_head(self) -> str | None:
        """The latest checkpoint of the root graph that this transaction stores."""
        ids = (parts(field)[1] for field, row in self.changed.items() if _is_of_root(field) and row)
        return max(ids, default=None)


def _is_of_root(field: bytes) -> bool:
    return field.startswith(ROOT_CHECKPOINTS)
