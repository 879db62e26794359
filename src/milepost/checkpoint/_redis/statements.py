"""What each statement of a saver means in Redis: a method for each, under the statement's name.

The savers on SQL databases are operations that yield statements (`_sql/statements.py`). Here a
statement is its name, and `Tables` has the method that answers it, with the parameters that the
SQL has. So all that savers do with a thread is written once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from milepost._db.operations import (
    Batch,
    ConditionalInsert,
    Execute,
    ExecuteMany,
    GuardedBatch,
    Queries,
    Query,
    Statement,
)
from milepost.checkpoint._redis.calls import Calls, Entries, Listed, Scan
from milepost.checkpoint._redis.guarded import guarded_changes
from milepost.checkpoint._redis.rows import (
    BLOB,
    CHECKPOINT,
    WRITE,
    Blob,
    Checkpoint,
    Write,
    field_of,
    parts,
)
from milepost.checkpoint._redis.transaction import (
    Entry,
    ThreadView,
    after_one,
    entry_in,
    store,
    unlist,
    writes_at,
)
from milepost.checkpoint._sql.inline_writes import INLINE_WRITES
from milepost.checkpoint._sql.statements import Statements

if TYPE_CHECKING:
    from milepost.checkpoint._redis.calls import Known
    from milepost.checkpoint._redis.rows import Keys

REDIS: Final = Statements(**{f.name: f.name for f in fields(Statements)} | {"newest": ""})
"""Every statement is its own name. There is no guess at the newest values."""

_NEVER: Final = "\U0010ffff"
_RELISTED: Final = 60.0
"""Seconds after which a thread that is written to is put into the index of threads again."""

Rows = list[tuple[Any, ...]]
_SEALED: Final = {
    "checkpoints": (
        CHECKPOINT,
        ("frame", "metadata", "led"),
        ("parent", "complete", "kind", "parent"),
    ),
    "checkpoint_blobs": (BLOB, ("blob",), ("base_channel", "base", "level", "kind")),
    "checkpoint_writes": (WRITE, ("blob",), ("channel", "path", "base", "kind")),
}
"""By table: the kind of its rows, its sealed cells, and what these are bound to."""


class Tables:
    """The tables of a saver, as one transaction sees them."""

    def __init__(
        self,
        keys: Keys,
        known: Known,
        listed: dict[str, float],
        owner: str | None,
        *,
        scripts: bool,
    ) -> None:
        self.keys = keys
        self.known = known
        self.owner = owner
        self.views: dict[str, ThreadView] = {}
        self._listed = listed
        self._scripts = scripts

    def view(self, thread_id: str) -> ThreadView:
        """A thread."""
        found = self.views.get(thread_id)
        if found is None:
            found = ThreadView(thread_id, self.known, self.owner, scripts=self._scripts)
            self.views[thread_id] = found
        return found

    def is_to_be_listed(self, thread_id: str) -> bool:
        """Whether it is long ago that this saver has put a thread into the index."""
        now = time.monotonic()
        if now - self._listed.get(thread_id, -_RELISTED) < _RELISTED:
            return False
        if len(self._listed) > 10_000:
            self._listed.clear()
        self._listed[thread_id] = now
        return True

    def carry_out(self, statement: Statement) -> Calls[Any]:
        """What a statement is answered with."""
        if isinstance(statement, (Query, Execute)):
            return (yield from self._run(statement.sql, statement.parameters))
        if isinstance(statement, ExecuteMany):
            for row in statement.rows:
                yield from self._run(statement.sql, row)
            return None
        if isinstance(statement, Batch):
            for one in statement.statements:
                yield from self.carry_out(one)
            return None
        if isinstance(statement, Queries):
            answers = []
            for query in statement.queries:
                answers.append((yield from self._run(query.sql, query.parameters)))
            return answers
        assert isinstance(statement, (GuardedBatch, ConditionalInsert))
        return (yield from self._guarded(statement))

    def _run(self, name: str, parameters: Sequence[Any]) -> Calls[Any]:
        name, _, table = name.partition(" ")
        method: Callable[..., Calls[Any]] = getattr(self, name)
        return (yield from method(*((table,) if table else ()), *parameters))

    def _guarded(self, statement: GuardedBatch | ConditionalInsert) -> Calls[bool]:
        """A step on the conditions that its run knows, without reading anything."""
        if not self._scripts:
            return False
        step = guarded_changes(statement)
        expected = self.known.expected(step.thread_id, self.owner)
        if expected.writes and not step.is_new:
            step.changes[:0] = [">", "seq", expected.writes]
        done = yield from store(
            self, step.thread_id, step.changes, is_new=step.is_new, guarded=True
        )
        if done and step.head is not None:
            self.known.head(step.thread_id, step.epoch, step.head)
        return done

    # -- the registry

    def thread(self, id: str) -> Calls[Rows]:
        entry = yield from self.view(id).load()
        return [(entry.token,)] if entry else []

    def lock_thread(self, id: str) -> Calls[Rows]:
        entry = yield from self.view(id).load()
        return [entry[:4]] if entry else []

    def lock_unused_thread(self, id: str, before: float) -> Calls[Rows]:
        entry = yield from self.view(id).load()
        return [(1,)] if entry and entry.updated_at < before else []

    def lock_lease(self, id: str) -> Calls[Rows]:
        entry = yield from self.view(id).load()
        return [(entry.token, entry.status, entry.updated_at)] if entry else []

    def new_thread(self, id: str, *cells: Any) -> Calls[int]:
        view = self.view(id)
        if (yield from view.load()) is not None:
            return 0
        view.entry = Entry(*cells)
        return 1

    add_thread = new_described_thread = new_thread

    def load_entry(self, id: str, head: Any, epoch: int, *rest: Any) -> Calls[int]:
        return (yield from self.new_thread(id, head, None, epoch, *rest))

    def _change(self, id: str, wanted: Callable[[Entry], bool], **values: Any) -> Calls[int]:
        """Change an entry that is as it should be."""
        view = self.view(id)
        entry = yield from view.load()
        if entry is None or not wanted(entry):
            return 0
        view.set(**values)
        return 1

    def touch_thread(
        self, head: str | None, token: str | None, status: str, now: float, id: str
    ) -> Calls[int]:
        changed = {"head": head, "token": token, "status": status, "updated_at": now}
        return (yield from self._change(id, _any, **changed))

    def new_epoch(self, head: str | None, epoch: int, id: str) -> Calls[int]:
        return (yield from self._change(id, _any, head=head, epoch=epoch))

    def take_lease(self, token: str, now: float, id: str) -> Calls[int]:
        changed = {"token": token, "status": "running", "updated_at": now}
        return (yield from self._change(id, _any, **changed))

    def renew_lease(self, now: float, id: str) -> Calls[int]:
        return (yield from self._change(id, lambda e: e.status == "running", updated_at=now))

    def end_lease(self, status: str, id: str, token: str) -> Calls[int]:
        head = yield from self.view(id).head()
        return (yield from self._change(id, lambda e: e.token == token, head=head, status=status))

    def drop_claim(self, id: str, token: str, created_at: float | None) -> Calls[int]:
        view = self.view(id)
        entry = yield from view.load()
        is_claim = entry is not None and entry.head is None and entry.created_at == created_at
        if entry is None or entry.token != token or not is_claim:
            return 0
        view.entry = None
        return 1

    def end_claim(self, id: str, token: str) -> Calls[int]:
        def is_claim(entry: Entry) -> bool:
            return entry.token == token and entry.head is None

        return (yield from self._change(id, is_claim, token=None, status="idle"))

    def create_claimed(self, now: float, id: str) -> Calls[int]:
        def is_claimed(e: Entry) -> bool:
            return e.head is None and e.token is not None and e.status == "running"

        return (yield from self._change(id, is_claimed, created_at=now))

    def describe_thread(self, owner: str | None, metadata: str, id: str) -> Calls[int]:
        return (yield from self._change(id, _any, owner=owner, metadata=metadata))

    def set_ttl(self, id: str, ttl: str) -> Calls[int]:
        """How long a thread lives: a statement of this saver's own."""
        return (yield from self._change(id, _any, ttl=ttl))

    def thread_metadata(self, id: str) -> Calls[Rows]:
        entry = yield from self.view(id).load()
        return [(entry.metadata,)] if entry else []

    def thread_info(self, id: str) -> Calls[Rows]:
        entry = yield from self.view(id).load()
        if entry is None:
            return []
        head = yield from self.view(id).head()
        return [info_row(id, entry, head)]

    def thread_size(self, id: str, *_: str) -> Calls[Rows]:
        view = self.view(id)
        found = yield from view.all(CHECKPOINT)
        frames = [len(row.frame) + len(row.metadata) for row in found.values()]
        inline = [len(row.led) for row in found.values() if row.led is not None]
        blobs = [len(row.blob) for row in (yield from view.all(BLOB)).values()]
        writes = [len(row.blob) for row in (yield from view.all(WRITE)).values()]
        sizes = ((1, frames), (3, inline), (2, blobs), (3, writes))
        return [(table, len(some), sum(some)) for table, some in sizes]

    def delete_thread(self, id: str) -> Calls[int]:
        view = self.view(id)
        there = (yield from view.load()) is not None
        view.entry = None
        return int(there)

    def head(self, id: str) -> Calls[Rows]:
        view = self.view(id)
        return [((yield from view.head()),)] if (yield from view.load()) else []

    def head_and_newer(self, id: str) -> Calls[Rows]:
        view = self.view(id)
        if (yield from view.load()) is None:
            return []
        return [((yield from view.head()), (yield from view.newer()))]

    def newest_of(self, id: str, ns: str) -> Calls[Rows]:
        return [((yield from self.view(id).newest(ns)),)]

    def thread_page(self, after: str, limit: int) -> Calls[Rows]:
        low = b"(" + after.encode() if after else b"-"
        found = yield Listed("ZRANGEBYLEX", (low, b"+", b"LIMIT", 0, limit))
        return [(id.decode(),) for id in found]

    def thread_page_of_run(self, _run: str, after: str, limit: int) -> Calls[Rows]:
        return (yield from self.thread_page(after, limit))

    def entries(self, ids: Sequence[str]) -> Calls[Rows]:
        """The rows of the registry for some threads; those that are gone are taken off the list."""
        found = yield Entries(ids)
        rows: Rows = []
        for id, (cells, newest) in zip(ids, found, strict=True):
            entry = entry_in(id, cells)[1]
            if entry is None:
                yield from unlist(id)
                continue
            head = entry.head
            if entry.status == "running" and newest:
                head = max(head or "", parts(newest[0])[1])
            rows.append(info_row(id, entry, head))
        return rows

    def threads_of_run(self, run_id: str) -> Calls[Rows]:
        found: Rows = []
        page: Rows = [("",)]
        while page:
            page = yield from self.thread_page(page[-1][0], 200)
            for (id,) in page:
                rows = yield from self.view(id).all(CHECKPOINT)
                if any(row.run_id == run_id for row in rows.values()):
                    found.append((id,))
                del self.views[id]
        return found

    def unlisted(self) -> Calls[Rows]:
        ids = sorted(self.keys.thread_in(key) for key in (yield Scan()))
        found = (yield Entries(ids)) if ids else []
        rows: Rows = []
        for id, (cells, _) in zip(ids, found, strict=True):
            if not cells:
                rows.append((id,))
            elif (yield Listed("ZSCORE", (id,))) is None:
                yield Listed("ZADD", (0, id))
        return rows

    # -- storing

    def add_checkpoint(
        self, id: str, ns: str, cp: str, parent: Any, complete: int, run_id: Any, *cells: Any
    ) -> Calls[int]:
        frame, kind, metadata, led = cells
        row = Checkpoint(parent, complete, run_id, kind, led, metadata, frame)
        return (yield from self._put(id, field_of(CHECKPOINT, ns, cp), row))

    def add_blob(
        self, id: str, ns: str, channel: str, version: str, base_channel: Any, base: Any, *rest: Any
    ) -> Calls[int]:
        row = Blob(base, base_channel, *rest)
        return (yield from self._add(id, field_of(BLOB, ns, channel, version), row))

    def add_write(self, id: str, *cells: Any) -> Calls[int]:
        return (yield from self._add(id, *write_row(*cells)))

    def replace_write(self, id: str, *cells: Any) -> Calls[int]:
        return (yield from self._put(id, *write_row(*cells)))

    def _put(self, id: str, field: bytes, row: Any) -> Calls[int]:
        yield from self.view(id).load()
        self.view(id).changed[field] = row
        return 1

    def _add(self, id: str, field: bytes, row: Any) -> Calls[int]:
        if (yield from self.view(id).row(field)) is not None:
            return 0
        return (yield from self._put(id, field, row))

    def _update(self, id: str, field: bytes, **cells: Any) -> Calls[int]:
        row = yield from self.view(id).row(field)
        if row is None:
            return 0
        return (yield from self._put(id, field, row._replace(**cells)))

    def compact_blob(self, channel: Any, base: str, blob: bytes, id: str, *key: str) -> Calls[int]:
        cells = {"base": base, "base_channel": channel, "level": 0, "blob": blob}
        return (yield from self._update(id, field_of(BLOB, *key), **cells))

    def cut_blob(self, blob: bytes, id: str, *key: str) -> Calls[int]:
        cells = {"base": None, "base_channel": None, "level": 0, "blob": blob}
        return (yield from self._update(id, field_of(BLOB, *key), **cells))

    def compact_write(self, base: str, blob: bytes, id: str, *key: Any) -> Calls[int]:
        return (yield from self._update(id, field_of(WRITE, *map(str, key)), base=base, blob=blob))

    def count_writes(self, kind: Any, metadata: bytes, id: str, *key: str) -> Calls[int]:
        field = field_of(CHECKPOINT, *key)
        return (yield from self._update(id, field, kind=kind, metadata=metadata))

    def clear_inline_writes(self, id: str, *key: str) -> Calls[int]:
        return (yield from self._update(id, field_of(CHECKPOINT, *key), led=None))

    def part_inline_writes(self, frame: bytes, id: str, *key: str) -> Calls[int]:
        return (yield from self._update(id, field_of(CHECKPOINT, *key), led=None, frame=frame))

    def complete_checkpoint(self, frame: bytes, id: str, *key: str) -> Calls[int]:
        return (yield from self._update(id, field_of(CHECKPOINT, *key), complete=1, frame=frame))

    def cut_checkpoint(self, frame: bytes, id: str, *key: str) -> Calls[int]:
        cells = {"parent": None, "complete": 1, "frame": frame}
        return (yield from self._update(id, field_of(CHECKPOINT, *key), **cells))

    # -- removing

    def _delete(self, id: str, field: bytes) -> Calls[int]:
        if (yield from self.view(id).row(field)) is None:
            return 0
        self.view(id).changed[field] = None
        return 1

    def delete_checkpoint(self, id: str, *key: str) -> Calls[int]:
        return (yield from self._delete(id, field_of(CHECKPOINT, *key)))

    def delete_blob(self, id: str, *key: str) -> Calls[int]:
        return (yield from self._delete(id, field_of(BLOB, *key)))

    def delete_writes_at(self, id: str, *key: str) -> Calls[int]:
        found = yield from self.view(id).range(WRITE, *key)
        for field in found:
            self.view(id).changed[field] = None
        return len(found)

    def delete_writes(self, id: str) -> Calls[int]:
        [(_, _, writes)] = yield from self.view(id).fetch("C")
        return int(writes)

    def delete_blobs(self, id: str) -> Calls[int]:
        [(rows, checkpoints, writes)] = yield from self.view(id).fetch("C")
        return int(rows) - int(checkpoints) - int(writes)

    def delete_checkpoints(self, id: str) -> Calls[int]:
        [(rows, checkpoints, _)] = yield from self.view(id).fetch("C")
        if rows:
            self.view(id).wipe()
        return int(checkpoints)

    # -- copies

    def _copy(self, kind: bytes, target: str, source: str) -> Calls[int]:
        rows = yield from self.view(source).all(kind)
        self.view(target).changed.update(rows)
        return len(rows)

    def copy_checkpoints(self, target: str, source: str) -> Calls[int]:
        return (yield from self._copy(CHECKPOINT, target, source))

    def copy_blobs(self, target: str, source: str) -> Calls[int]:
        return (yield from self._copy(BLOB, target, source))

    def copy_writes(self, target: str, source: str) -> Calls[int]:
        return (yield from self._copy(WRITE, target, source))

    def copy_entry(
        self, target: str, epoch: int, created: float, updated: float, source: str
    ) -> Calls[int]:
        entry = yield from self.view(source).load()
        if entry is None:
            return 0
        head = yield from self.view(source).head()
        status = "interrupted" if entry.status == "running" else entry.status
        described = (entry.owner, entry.metadata)
        cells = (head, None, epoch, status, created, updated, *described)
        return (yield from self.new_thread(target, *cells))

    # -- sealing rows again, a table at a time: see `_sql/admin/reencrypt.py`

    def reseal_look(self, table: str, id: str, *after: Any) -> Calls[Rows]:
        """Keys, sizes and cells, from a key on; all of a thread's rows at once."""
        rows = yield from self._of_table(table, id)
        return [
            (*key, *(len(cell or b"") for cell in cells), *cells)
            for key, cells, _ in rows
            if key > after
        ]

    def reseal_between(self, table: str, id: str, *keys: Any) -> Calls[Rows]:
        """Keys, cells and what cells are bound to, from a key to another."""
        rows = yield from self._of_table(table, id)
        first, last = keys[: len(keys) // 2], keys[len(keys) // 2 :]
        return [(*key, *cells, *bound) for key, cells, bound in rows if first <= key <= last]

    def reseal_store(self, table: str, *given: Any) -> Calls[int]:
        """One row with other cells."""
        kind, names, _ = _SEALED[table]
        cells = dict(zip(names, given, strict=False))
        id, *key = given[len(names) :]
        return (yield from self._update(id, field_of(kind, *map(str, key)), **cells))

    def _of_table(self, table: str, id: str) -> Calls[list[tuple[tuple[Any, ...], Any, Any]]]:
        kind, names, beside = _SEALED[table]
        rows = yield from self.view(id).all(kind)
        found = []
        for field, row in rows.items():
            key: tuple[Any, ...] = tuple(parts(field))
            if kind == WRITE:
                key = (*key[:-1], int(key[-1]))
            cells = tuple(getattr(row, name) for name in names)
            found.append((key, cells, tuple(getattr(row, name) for name in beside)))
        return sorted(found, key=lambda one: one[0])

    # -- reading

    def checkpoint(self, id: str, ns: str, cp: str) -> Calls[Rows]:
        row = yield from self.view(id).row(field_of(CHECKPOINT, ns, cp))
        return [] if row is None else [checkpoint_cells(cp, row)]

    def ancestry(self, ids: str, id: str, ns: str, *_: str) -> Calls[Rows]:
        wanted = [field_of(CHECKPOINT, ns, cp) for cp in json.loads(ids)]
        found = yield from self.view(id).follow(wanted)
        return [checkpoint_cells(parts(field)[1], row) for field, row in found.items()]

    def blobs(self, pairs: str, id: str, ns: str, *_: str) -> Calls[Rows]:
        wanted = [field_of(BLOB, ns, *pair) for pair in json.loads(pairs)]
        found = yield from self.view(id).follow(wanted)
        return [blob_cells(field, row) for field, row in found.items()]

    def _writes_at(self, view: ThreadView, ns: str, ids: Sequence[str]) -> Calls[Rows]:
        """The rows of writes at some checkpoints: id, task and place, then the row."""
        ranges = yield from view.ranges([writes_at(ns, id) for id in ids])
        some = [field for fields in ranges for field in fields]
        rows = yield from view.rows(some)
        found: Rows = []
        for field, row in rows.items():
            _, id, task, place = parts(field)
            found.append((id, task, int(place), row))
        return found

    def _next(
        self, view: ThreadView, ns: str, ids: Sequence[str]
    ) -> Calls[dict[str, tuple[str, Checkpoint]]]:
        """By checkpoint: the one after it in its graph, if that is its child."""
        fields = yield from view.ranges([after_one(ns, id) for id in ids])
        rows = yield from view.rows(field for some in fields for field in some)
        found = {}
        for id, some in zip(ids, fields, strict=True):
            for field in some:
                if field in rows and rows[field].parent == id:
                    found[id] = (parts(field)[1], rows[field])
        return found

    def found(
        self, id: str, cp: str | None, ns: str, _id: str, _ns: str, *rest: Any
    ) -> Calls[Rows]:
        depth = rest[2]
        view = self.view(id)
        entry = yield from view.load_one(ns, cp)
        answer: Rows = []
        cells: tuple[Any, ...]
        if cp is None:
            head = (yield from view.head()) if ns == "" else None
            cp = head if head is not None else (yield from view.newest(ns))
        if cp is not None:
            first = field_of(CHECKPOINT, ns, cp)
            row = (yield from view.follow([first])).get(first)
            line: list[tuple[str, Checkpoint]] = [] if row is None else [(cp, row)]
            while row is not None and row.parent is not None and len(line) <= depth:
                if row.complete and len(line) > 1:
                    break
                parent = field_of(CHECKPOINT, ns, row.parent)
                row = (yield from view.follow([parent])).get(parent)
                if row is not None:
                    line.append((parts(parent)[1], row))
            for at, (one, row) in enumerate(line):
                kind, metadata = row.kind, row.metadata
                cells = (row.parent, row.complete, kind, row.frame, metadata, None, None, None)
                answer.append((-at, one, *cells))
            near = [one for one, _ in line[:2]] or [cp]
            for one, task, place, write in (yield from self._writes_at(view, ns, near)):
                cells = (write.kind, write.blob, None, write.channel, write.path, write.base)
                answer.append((1, one, task, place, *cells))
            following = yield from self._next(view, ns, near)
            for at, one in enumerate(near):
                if one in following:
                    child, row = following[one]
                    frame = row.frame if at == 0 else None
                    cells = (row.complete, INLINE_WRITES, row.led, frame, "", "", None)
                    answer.append((1, one, child, *cells))
        if entry is not None:
            head, newer = (yield from view.head()), (yield from view.newer())
            answer.append((2, head, newer, entry.epoch, *(None,) * 6))
        return answer

    def rows_of(self, given: str, id: str, ns: str, *rest: Any) -> Calls[Rows]:
        return (yield from self._rows_of(given, id, ns, rest[4], None))

    def rows_of_channels(self, given: str, id: str, ns: str, *rest: Any) -> Calls[Rows]:
        return (yield from self._rows_of(given, id, ns, rest[4], json.loads(rest[5])))

    def _rows_of(
        self, given: str, id: str, ns: str, pairs: str, channels: Sequence[str] | None
    ) -> Calls[Rows]:
        view = self.view(id)
        ids = json.loads(given)
        done: Rows = []
        wanted = [field_of(BLOB, ns, *pair) for pair in json.loads(pairs)]
        for one, task, place, row in (yield from self._writes_at(view, ns, [i for i, _ in ids])):
            done.append((1, one, task, row.channel, row.base, place, row.path, row.kind, row.blob))
            if row.base is not None and (channels is None or row.channel in channels):
                wanted.append(field_of(BLOB, ns, row.channel, row.base))
        children = [field_of(CHECKPOINT, ns, child) for _, child in ids if child]
        rows = yield from view.rows(children)
        after = yield from self._next(view, ns, [one for one, child in ids if child is None])
        for one, child in ids:
            if child is not None:
                row = rows.get(field_of(CHECKPOINT, ns, child))
                if row is not None and row.parent == one:
                    after[one] = (child, row)
            if one in after and after[one][1].led is not None:
                led = after[one][1].led
                done.append((1, one, after[one][0], "", None, 0, "", INLINE_WRITES, led))
        found = yield from view.follow(wanted)
        for field, row in found.items():
            channel, version, base_channel, base, level, kind, blob = blob_cells(field, row)
            done.append((0, channel, version, base_channel, base, level, None, kind, blob))
        return done

    def lineage(self, cp: str | None, id: str, ns: str, *_: Any) -> Calls[Rows]:
        view = self.view(id)
        entry = yield from view.load()
        if cp is None:
            head = (yield from view.head()) if ns == "" else None
            cp = head if head is not None else (yield from view.newest(ns))
        if cp is None:
            return []
        found = yield from view.follow([field_of(CHECKPOINT, ns, cp)], parents=True)
        newer = yield from view.newer()
        epoch = entry.epoch if entry is not None else None
        return [(epoch, newer, *checkpoint_cells(parts(f)[1], row)) for f, row in found.items()]

    def writers(self, id: str, ns: str, cp: str) -> Calls[Rows]:
        found = yield from self.view(id).range(WRITE, ns, cp)
        return [(task,) for task in dict.fromkeys(parts(field)[2] for field in found)]

    def written(self, id: str, ns: str, cp: str) -> Calls[Rows]:
        row = yield from self.view(id).row(field_of(CHECKPOINT, ns, cp))
        if row is None:
            return []
        found = yield from self.view(id).range(WRITE, ns, cp)
        keys: Rows = [(parts(field)[2], int(parts(field)[3])) for field in found]
        return [(row.kind, row.metadata, *key) for key in keys or [(None, None)]]

    def inline_writes(self, id: str, ns: str, cp: str) -> Calls[Rows]:
        found = yield from self.view(id).range(CHECKPOINT, ns, first=cp, limit=2)
        rows = yield from self.view(id).rows(found)
        return [(*checkpoint_cells(parts(f)[1], row), row.led) for f, row in rows.items()]

    def children(self, id: str, ns: str, cp: str) -> Calls[Rows]:
        fields = yield from self.view(id).range(CHECKPOINT, ns)
        rows = yield from self.view(id).rows(fields)
        return [
            checkpoint_cells(parts(field)[1], row)
            for field, row in rows.items()
            if row.parent == cp and not row.complete
        ]

    # -- listing

    def inner_graph(self, id: str) -> Calls[Rows]:
        found = yield from self.view(id).range(CHECKPOINT, first="\1", limit=1)
        return [(parts(field)[0],) for field in found]

    def page_of_graph(self, id: str, ns: str, end: str, limit: int) -> Calls[Rows]:
        fields = yield from self.view(id).range(
            CHECKPOINT, ns, before=None if end == _NEVER else end, limit=limit, backwards=True
        )
        return (yield from self._listed_rows(id, fields))

    def page_of_graph_and_run(
        self, run: str, id: str, ns: str, end: str, limit: int
    ) -> Calls[Rows]:
        fields = yield from self.view(id).range(
            CHECKPOINT, ns, before=None if end == _NEVER else end, backwards=True
        )
        return (yield from self._listed_rows(id, fields, run))[:limit]

    def page_of_thread(
        self, id: str, cp: str, _cp: str, ns: str, limit: int, run: str | None = None
    ) -> Calls[Rows]:
        fields = yield from self.view(id).range(CHECKPOINT)
        keys = sorted(((key[1], key[0]) for key in map(parts, fields)), reverse=True)
        wanted = [
            field_of(CHECKPOINT, graph, one) for one, graph in keys if (one, graph) < (cp, ns)
        ]
        if run is None:
            return (yield from self._listed_rows(id, wanted[:limit]))
        return (yield from self._listed_rows(id, wanted, run))[:limit]

    def page_of_thread_and_run(
        self, run: str, id: str, cp: str, _cp: str, ns: str, limit: int
    ) -> Calls[Rows]:
        return (yield from self.page_of_thread(id, cp, _cp, ns, limit, run))

    def with_id(self, id: str, cp: str) -> Calls[Rows]:
        fields = yield from self.view(id).range(CHECKPOINT)
        wanted = [field for field in reversed(fields) if parts(field)[1] == cp]
        return (yield from self._listed_rows(id, wanted))

    def _listed_rows(self, id: str, fields: Sequence[bytes], run: str | None = None) -> Calls[Rows]:
        rows = yield from self.view(id).rows(fields)
        return [
            (parts(field)[0], *checkpoint_cells(parts(field)[1], row))
            for field, row in rows.items()
            if run is None or row.run_id == run
        ]

    # -- all rows of a thread

    def checkpoints_of(self, id: str) -> Calls[Rows]:
        rows = yield from self.view(id).all(CHECKPOINT)
        found = [(*parts(field), row) for field, row in rows.items()]
        found.sort(key=lambda one: str(one[1]))
        return [(ns, *checkpoint_cells(cp, row), row.run_id) for ns, cp, row in found]

    def blob_keys(self, id: str) -> Calls[Rows]:
        return [tuple(parts(field)) for field in (yield from self.view(id).all(BLOB))]

    def blobs_of(self, id: str) -> Calls[Rows]:
        rows = yield from self.view(id).all(BLOB)
        return [(parts(field)[0], *blob_cells(field, row)) for field, row in rows.items()]

    def all_writes_of(self, id: str, _id: str) -> Calls[Rows]:
        rows = yield from self.view(id).all(WRITE)
        found: Rows = [write_cells(field, row) for field, row in rows.items()]
        for field, row in (yield from self.view(id).all(CHECKPOINT)).items():
            if row.led is not None:
                ns, cp = parts(field)
                found.append((ns, row.parent, cp, 0, "", "", None, INLINE_WRITES, row.led))
        return found

    def dump_entry(self, id: str) -> Calls[Rows]:
        entry = yield from self.view(id).load()
        if entry is None:
            return []
        head = yield from self.view(id).head()
        return [(id, head, entry.status, *entry[4:8])]

    def dump_checkpoints(self, id: str) -> Calls[Rows]:
        rows = yield from self.view(id).all(CHECKPOINT)
        return [
            (
                id,
                *parts(field),
                row.parent,
                row.complete,
                row.run_id,
                row.frame,
                row.kind,
                row.metadata,
                row.led,
            )
            for field, row in sorted(rows.items(), key=lambda one: parts(one[0])[1])
        ]

    def dump_blobs(self, id: str) -> Calls[Rows]:
        return [(id, *row) for row in (yield from self.blobs_of(id))]

    def dump_writes(self, id: str) -> Calls[Rows]:
        rows = yield from self.view(id).all(WRITE)
        return [(id, *write_cells(field, row)) for field, row in rows.items()]


def _any(_: Entry) -> bool:
    return True


def info_row(id: str, entry: Entry, head: str | None) -> tuple[Any, ...]:
    """A row of the registry."""
    return (id, entry.status, entry.created_at, entry.updated_at, head, entry.metadata)


def checkpoint_cells(id: str, row: Checkpoint) -> tuple[Any, ...]:
    """A checkpoint as most queries return it."""
    return (id, row.parent, row.complete, row.frame, row.kind, row.metadata)


def blob_cells(field: bytes, row: Blob) -> tuple[Any, ...]:
    """A version of a value as queries return it."""
    _, channel, version = parts(field)
    return (channel, version, row.base_channel, row.base, row.level, row.kind, row.blob)


def write_cells(field: bytes, row: Write) -> tuple[Any, ...]:
    """A write as queries return it."""
    ns, id, task, place = parts(field)
    return (ns, id, task, int(place), row.channel, row.path, row.base, row.kind, row.blob)


def write_row(
    ns: str, id: str, task: str, place: int, channel: str, path: str, base: Any, *rest: Any
) -> tuple[bytes, Write]:
    """The field of a write, and the write."""
    return field_of(WRITE, ns, id, task, str(place)), Write(base, channel, path, *rest)
