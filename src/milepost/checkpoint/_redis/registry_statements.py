"""The statements about the registry: a thread's entry, its lease, lists of threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from milepost._db.redis.commands import RedisEffects, Scan, command
from milepost.checkpoint._redis.rows import BLOB, CHECKPOINT, WRITE, Entry, Rows, entry_in, parts
from milepost.checkpoint._redis.thread_io import read_entries, unlist
from milepost.checkpoint._sql.statements import just_after

if TYPE_CHECKING:
    from milepost.checkpoint._redis.transaction import Tables


THREADS_PER_PAGE: Final = 200
"""Threads that a listing reads in one round trip."""


class RegistryStatements:
    """Answers the statements about the registry, with the columns of the SQL."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._settings = tables.settings
        self._index = tables.settings.keys.threads
        self.view = tables.view

    def _select(self, id: str, columns: Callable[[Entry], tuple[Any, ...]]) -> RedisEffects[Rows]:
        """Some values of a thread's entry."""
        entry = yield from self.view(id).load()
        return [columns(entry)] if entry else []

    def _current(self, id: str) -> RedisEffects[Entry | None]:
        """A thread's entry, with the latest checkpoint as the head."""
        entry = yield from self.view(id).load()
        return entry and entry._replace(head=(yield from self.view(id).head()))

    def lock_thread(self, id: str) -> RedisEffects[Rows]:
        return self._select(id, lambda e: (e.head, e.token, e.epoch, e.status, e.updated_at))

    def add_thread(self, id: str, *cells: Any) -> RedisEffects[int]:
        view = self.view(id)
        if (yield from view.load()) is not None:
            return 0
        view.entry = Entry(*cells)
        return 1

    def _change(
        self, id: str, condition: Callable[[Entry], bool] = lambda _: True, /, **values: Any
    ) -> RedisEffects[int]:
        """Change an entry, if it exists and meets a condition."""
        view = self.view(id)
        entry = yield from view.load()
        if entry is None or not condition(entry):
            return 0
        view.entry = entry._replace(**values)
        return 1

    def touch_thread(
        self, head: str | None, token: str | None, status: str, now: float, id: str
    ) -> RedisEffects[int]:
        return self._change(id, head=head, token=token, status=status, updated_at=now)

    def new_epoch(self, head: str | None, epoch: int, id: str) -> RedisEffects[int]:
        return self._change(id, head=head, epoch=epoch)

    def take_lease(self, token: str, now: float, id: str) -> RedisEffects[int]:
        return self._change(id, token=token, status="running", updated_at=now)

    def renew_lease(self, now: float, id: str) -> RedisEffects[int]:
        return self._change(id, lambda e: e.status == "running", updated_at=now)

    def end_lease(self, status: str, id: str, token: str) -> RedisEffects[int]:
        head = yield from self.view(id).head()
        return (yield from self._change(id, lambda e: e.token == token, head=head, status=status))

    def drop_claim(self, id: str, token: str, created_at: float | None) -> RedisEffects[int]:
        view = self.view(id)
        entry = yield from view.load()
        if entry is None or entry.head is not None or entry.token != token:
            return 0
        if entry.created_at != created_at:
            return 0
        view.entry = None
        return 1

    def end_claim(self, id: str, token: str) -> RedisEffects[int]:
        def is_claim(entry: Entry) -> bool:
            return entry.token == token and entry.head is None

        return self._change(id, is_claim, token=None, status="idle")

    def create_claimed(self, now: float, id: str) -> RedisEffects[int]:
        def is_claimed(e: Entry) -> bool:
            return e.head is None and e.token is not None and e.status == "running"

        return self._change(id, is_claimed, created_at=now)

    def describe_thread(self, owner: str | None, metadata: str, id: str) -> RedisEffects[int]:
        return self._change(id, owner=owner, metadata=metadata)

    def set_ttl(self, id: str, ttl: str) -> RedisEffects[int]:
        """Decide how long a thread lives (`Entry.ttl`)."""
        return self._change(id, ttl=ttl)

    def ttl_of(self, id: str) -> RedisEffects[Rows]:
        return self._select(id, lambda e: (e.ttl,))

    def thread_info(self, id: str) -> RedisEffects[Rows]:
        entry = yield from self._current(id)
        return [info_row(id, entry)] if entry else []

    def thread_size(self, id: str, *_: str) -> RedisEffects[Rows]:
        view = self.view(id)
        found = yield from view.all(CHECKPOINT)
        frames = [len(row.frame) + len(row.metadata) for row in found.values()]
        inline = [len(row.led) for row in found.values() if row.led is not None]
        blobs = [len(row.blob) for row in (yield from view.all(BLOB)).values()]
        writes = [len(row.blob) for row in (yield from view.all(WRITE)).values()]
        sizes = {"checkpoints": frames, "inline writes": inline, "values": blobs, "writes": writes}
        return [(kind, len(some), sum(some)) for kind, some in sizes.items()]

    def delete_thread(self, id: str) -> RedisEffects[int]:
        view = self.view(id)
        existed = (yield from view.load()) is not None
        view.entry = None
        return int(existed)

    def head_and_newer(self, id: str) -> RedisEffects[Rows]:
        entry = yield from self._current(id)
        return [(entry.head, (yield from self.view(id).newer()), entry.epoch)] if entry else []

    def newest_of(self, id: str, ns: str) -> RedisEffects[Rows]:
        return [((yield from self.view(id).newest(ns)),)]

    def thread_page(self, start: str, limit: int) -> RedisEffects[Rows]:
        low = b"[" + start.encode()
        found = yield command("ZRANGEBYLEX", self._index, low, b"+", b"LIMIT", 0, limit)
        return [(id.decode(),) for id in found]

    def thread_page_of_run(self, _run: str, start: str, limit: int) -> RedisEffects[Rows]:
        return self.thread_page(start, limit)

    def entries(self, ids: Sequence[str]) -> RedisEffects[Rows]:
        """The entries of some threads. Threads that do not exist any more leave the index."""
        found = yield from read_entries(self._settings, ids)
        rows: Rows = []
        for id, (cells, newest) in zip(ids, found, strict=True):
            entry = entry_in(id, cells)[1]
            if entry is None:
                yield from unlist(self._settings, id)
                continue
            if entry.status == "running" and newest:
                entry = entry._replace(head=max(entry.head or "", parts(newest[0])[1]))
            rows.append(info_row(id, entry))
        return rows

    def threads_of_run(self, run_id: str) -> RedisEffects[Rows]:
        found: Rows = []
        page = yield from self.thread_page("", THREADS_PER_PAGE)
        while page:
            for (id,) in page:
                rows = yield from self.view(id).all(CHECKPOINT)
                if any(row.run_id == run_id for row in rows.values()):
                    found.append((id,))
                del self._tables.views[id]
            page = yield from self.thread_page(just_after(page[-1][0]), THREADS_PER_PAGE)
        return found

    def unlisted(self) -> RedisEffects[Rows]:
        keys = self._settings.keys
        ids = sorted({keys.thread_in(key) for key in (yield Scan(keys.pattern.encode()))})
        found = (yield from read_entries(self._settings, ids)) if ids else []
        rows: Rows = []
        for id, (cells, _) in zip(ids, found, strict=True):
            if not cells:
                rows.append((id,))
            elif (yield command("ZSCORE", self._index, id)) is None:
                yield command("ZADD", self._index, 0, id)
        return rows

    def copy_entry(
        self, target: str, epoch: int, created: float, updated: float, source: str
    ) -> RedisEffects[int]:
        entry = yield from self._current(source)
        if entry is None:
            return 0
        status = "interrupted" if entry.status == "running" else entry.status
        cells = (entry.head, None, epoch, status, created, updated, entry.owner, entry.metadata)
        return (yield from self.add_thread(target, *cells))

    def dump_entry(self, id: str) -> RedisEffects[Rows]:
        entry = yield from self._current(id)
        if entry is None:
            return []
        times = entry.created_at, entry.updated_at
        return [(id, entry.head, entry.status, *times, entry.owner, entry.metadata)]


def info_row(id: str, entry: Entry) -> tuple[Any, ...]:
    return (id, entry.status, entry.created_at, entry.updated_at, entry.head, entry.metadata)
