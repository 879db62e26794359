"""A thread as one transaction sees it: what was read, and what the transaction has changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from milepost._db.redis.commands import (
    Argument,
    Command,
    RedisEffects,
    Script,
    chunks,
    command,
)
from milepost._db.redis.guarded import MAX_ARGUMENTS
from milepost.checkpoint._redis.rows import (
    CHECKPOINT,
    ROOT_CHECKPOINTS,
    SEQ,
    WRITE,
    Entry,
    entry_changes,
    entry_in,
    link,
    pairs,
    parts,
    unpack,
)
from milepost.checkpoint._redis.scripts import READ_CHAINS, READ_CHECKPOINT
from milepost.checkpoint._redis.thread_io import (
    Changed,
    Range,
    after_one,
    entry_commands,
    expiry,
    life_commands,
    read,
    read_with,
    row_commands,
    write,
    writes_at,
)

if TYPE_CHECKING:
    from milepost.checkpoint._redis.rows import Row
    from milepost.checkpoint._redis.server import Settings


class ThreadView:
    """What a transaction has read and changed of one thread."""

    def __init__(self, settings: Settings, thread_id: str, owner: str | None) -> None:
        self.thread_id = thread_id
        self._settings = settings
        self._owner = owner
        self._expected = settings.acknowledged.expected(thread_id, owner)
        self._keys = settings.keys.of(thread_id)
        self._rev: bytes | None = None
        """The `rev` of the first read; None if the thread did not exist."""
        self._has_read = False
        self.entry: Entry | None = None
        """The entry with its changes; None if the thread does not exist, or is to be removed."""
        self._has_entry = False
        """Whether the entry was read."""
        self._left = -1
        """Milliseconds until the thread expires, if it does."""
        self._now: Sequence[Any] = ()
        """The server's time when it told that."""
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

    def fetch(self, *commands: Command) -> RedisEffects[list[Any]]:
        """The replies to commands. Raises Changed if another client has written meanwhile."""
        rev, replies = yield from read(self._settings, self.thread_id, commands)
        self._check(rev)
        return replies

    def _fetch_with(self, script: Script, *asked: Argument) -> RedisEffects[Any]:
        """The reply of a script that reads."""
        rev, found = yield from read_with(self._settings, self.thread_id, script, *asked)
        self._check(rev)
        return found

    def _check(self, rev: bytes | None) -> None:
        if self._has_read and rev != self._rev:
            raise Changed
        self._rev, self._has_read = rev, True

    def confirm(self) -> RedisEffects[None]:
        """Raise Changed if another client has written since the first read."""
        if self._has_read:
            yield from self.fetch()

    def load(self) -> RedisEffects[Entry | None]:
        """The thread's entry."""
        if not self._has_entry:
            commands = entry_commands(self._keys) + life_commands(self._keys)
            self._learn(*(yield from self.fetch(*commands)))
        return self.entry

    def load_one(self, ns: str, id: str | None) -> RedisEffects[Entry | None]:
        """The thread's entry, read together with all rows of a checkpoint, or of the latest."""
        if self._has_read or not self._settings.scripts:
            return (yield from self.load())
        entry, flat, ranges = yield from self._fetch_with(READ_CHECKPOINT, ns, id or "")
        self._keep(pairs(flat))
        for name, writes, after in ranges:
            one = name.decode("utf-8", "replace")  # that of a damaged row may be no text
            self._ranges[writes_at(ns, one)] = writes
            self._ranges[after_one(ns, one)] = after
        self._learn(*entry)
        return self.entry

    def _learn(
        self, cells: Sequence[bytes], newest: Sequence[bytes], left: int, now: Sequence[Any]
    ) -> None:
        """Take in the entry from a reply. Raises BrokenChainError if the server has lost steps."""
        self._has_entry = True
        self._left, self._now = left, now
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
            more = len(self.changed)
            found = yield from self.fetch(*(one.command(self._keys.order, more) for one in wanted))
        return [one.merged(some, self.changed) for one, some in zip(wanted, found, strict=True)]

    def rows(self, fields: Iterable[bytes]) -> RedisEffects[dict[bytes, Any]]:
        """Those of some rows that exist."""
        fields = list(fields)
        missing = [field for field in fields if not self._has(field)]
        if missing:
            some = chunks(missing, MAX_ARGUMENTS)
            found = yield from self.fetch(*(command("HMGET", self._keys.rows, *s) for s in some))
            self._keep(zip(missing, chain.from_iterable(found), strict=True))
        return {field: row for field in fields if (row := self._get(field)) is not None}

    def row(self, field: bytes) -> RedisEffects[Any]:
        """One row, or None."""
        found = yield from self.rows([field])
        return found.get(field)

    def follow(self, fields: Iterable[bytes]) -> RedisEffects[dict[bytes, Any]]:
        """Rows, and all rows that they are differences from."""
        found: dict[bytes, Any] = {}
        pending = list(dict.fromkeys(fields))
        while pending:
            yield from self._read_chains(pending)
            ends = [self._add_chain(field, found) for field in pending]
            pending = list(dict.fromkeys(field for field in ends if field is not None))
        return found

    def _read_chains(self, fields: Sequence[bytes]) -> RedisEffects[None]:
        """Read rows, and where a script can do it, all rows that they are differences from."""
        missing = [field for field in fields if not self._has(field)]
        if not missing:
            return
        if not self._settings.scripts:
            yield from self.rows(missing)
            return
        flat = yield from self._fetch_with(READ_CHAINS, *missing)
        self._keep(pairs(flat))
        self._keep((field, None) for field in missing)

    def _add_chain(self, field: bytes, found: dict[bytes, Row]) -> bytes | None:
        """Add a row and the rows that it is a difference from, as far as they were read. Returns
        the field of the first row that was not read."""
        row = self._get(field)
        while row is not None and field not in found:
            found[field] = row
            following = link(field, row)
            if following is None:
                return None
            if not self._has(following):
                return following
            field, row = following, self._get(following)
        return None

    def all(self, kind: bytes) -> RedisEffects[dict[bytes, Any]]:
        """All rows of a kind, sorted by field."""
        if not self._has_all_rows:
            [flat] = yield from self.fetch(command("HGETALL", self._keys.rows))
            self._keep(pairs(flat))
            self._has_all_rows = True
        rows = (self._rows | self.changed).items()
        return dict(sorted(one for one in rows if one[0][:1] == kind and one[1] is not None))

    def counts(self) -> RedisEffects[list[int]]:
        """How many rows, checkpoints and writes the thread has."""
        ranges = [Range(kind).bounds() for kind in (CHECKPOINT, WRITE)]
        listed = [command("ZLEXCOUNT", self._keys.order, *bounds) for bounds in ranges]
        return self.fetch(command("HLEN", self._keys.rows), *listed)

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

    def write(self) -> RedisEffects[int]:
        """Store all changes, on condition that the thread has not changed since it was read."""
        rev, keys, entry = self._rev, self._keys, self.entry
        if entry is None:
            unlink = [command("UNLINK", *keys)]
            return write(self._settings, self.thread_id, rev, unlink, removes=True)
        assert not self.is_wiped, "a thread without rows is removed as a whole"
        commands = row_commands(keys, self.changed)
        put, gone = entry_changes(self._before, entry)
        if put:
            commands.append(command("HSET", keys.thread, *chain.from_iterable(put.items())))
        if gone:
            commands.append(command("HDEL", keys.thread, *gone))
        commands += expiry(self._settings, keys, entry.ttl, self._left, self._now)
        return write(self._settings, self.thread_id, rev, commands)

    def is_new(self) -> bool:
        """Whether the thread did not exist."""
        return self._before is None

    def stored_head(self) -> str | None:
        """The latest checkpoint of the root graph that this transaction stores."""
        ids = (parts(field)[1] for field, row in self.changed.items() if _is_of_root(field) and row)
        return max(ids, default=None)


def _is_of_root(field: bytes) -> bool:
    return field.startswith(ROOT_CHECKPOINTS)
