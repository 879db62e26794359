"""Seals the rows of a database with the newest key, while other programs use the database.

Each thread is read table by table. The first bytes of a cell show whether it has the newest key.
Other cells are unsealed and sealed again, some rows in a transaction. The transaction locks the
thread first, as every step does. So no value is compacted while its row is sealed again.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost._db.engine import Transaction, Transactions
from milepost._db.operations import ExecuteMany, Operation, Query
from milepost._internal.progress import report
from milepost.checkpoint._contract.threads import Problem
from milepost.checkpoint.serde._rotation import NOT_ENCRYPTED, Reencrypted
from milepost.errors import CheckpointError, SerdeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from milepost._internal.progress import Progress
    from milepost.checkpoint._sql.read.reader import CheckpointReader
    from milepost.checkpoint._sql.threads.registry import Registry

_LOOKED_AT: Final = 1_000
"""Rows that one query reads."""
_ROWS: Final = 100
_BYTES: Final = 1 << 20
"""Rows and bytes that are sealed in one transaction, unless a single row is larger."""

Key = tuple[Any, ...]


class _Table(NamedTuple):
    name: str
    key: tuple[str, ...]
    """The columns of the primary key after the thread's id."""
    cells: dict[str, tuple[str, tuple[str, ...]]]
    """Sealed column → its name in the place it is sealed for, and the columns it is bound to."""
    statements: tuple[str, str, str]
    """The names of the statements that look at rows, read rows, and store new cells."""


_TABLES: Final = (
    _Table(
        "checkpoints",
        ("checkpoint_ns", "checkpoint_id"),
        {
            "frame": ("frame", ("parent_checkpoint_id", "complete")),
            "metadata": ("metadata", ("metadata_type",)),
            "led": ("led", ("parent_checkpoint_id",)),
        },
        ("look_at_checkpoints", "checkpoints_between", "seal_checkpoint"),
    ),
    _Table(
        "checkpoint_blobs",
        ("checkpoint_ns", "channel", "version"),
        {"blob": ("blob", ("base_channel", "base", "level", "type"))},
        ("look_at_blobs", "blobs_between", "seal_blob"),
    ),
    _Table(
        "checkpoint_writes",
        ("checkpoint_ns", "checkpoint_id", "task_id", "idx"),
        {"blob": ("write", ("channel", "task_path", "base", "type"))},
        ("look_at_writes", "writes_between", "seal_write"),
    ),
)


class Resealer:
    def __init__(self, reader: CheckpointReader, registry: Registry) -> None:
        self._codec = reader.codec
        self._q = reader.q
        self._registry = registry

    def threads(
        self, thread_ids: Sequence[str], progress: Progress | None
    ) -> Transactions[Reencrypted[Problem]]:
        """Seal all rows of these threads."""
        if not self._codec.rotates:
            raise CheckpointError(NOT_ENCRYPTED)
        done: Reencrypted[Problem] = Reencrypted()
        for at, thread_id in enumerate(thread_ids):
            for table in _TABLES:
                # A key before all keys of the table.
                after: Key | None = tuple(-(1 << 31) if c == "idx" else "" for c in table.key)
                while after is not None:
                    pages, current, after = yield Transaction(
                        partial(self._look, table, thread_id, after), write=False
                    )
                    done.current += current
                    for page in pages:
                        resealed, refused = yield Transaction(
                            partial(self._seal, table, thread_id, page)
                        )
                        done.resealed += resealed
                        done.refused += refused
                        report(progress, at, len(thread_ids))
            yield from self._reseal_entry(thread_id, done)
            report(progress, at + 1, len(thread_ids))
        return done

    def _reseal_entry(self, thread_id: str, done: Reencrypted[Problem]) -> Transactions[None]:
        try:
            resealed = yield Transaction(partial(self._registry.reseal, thread_id))
        except SerdeError as error:
            done.refused.append(Problem(thread_id, "", "threads", thread_id, str(error)))
        else:
            done.resealed += resealed is True
            done.current += resealed is False

    def _look(
        self, table: _Table, thread_id: str, after: Key
    ) -> Operation[tuple[list[tuple[Key, Key]], int, Key | None]]:
        """First and last key of each page to seal; the number of current rows; the key to continue
        after."""
        look, _, _ = table.statements
        rows = yield Query(getattr(self._q, look), (thread_id, *after, _LOOKED_AT))
        width, cells = len(table.key), len(table.cells)
        old: list[tuple[Key, int]] = []
        for row in rows:
            if all(map(self._is_current, row[width + cells :])):
                continue
            old.append((tuple(row[:width]), sum(row[width : width + cells])))
        more = tuple(rows[-1][:width]) if len(rows) == _LOOKED_AT else None
        return list(_pages(old)), len(rows) - len(old), more

    def _is_current(self, cell: bytes | None) -> bool:
        return cell is None or self._codec.is_current(cell)

    def _seal(
        self, table: _Table, thread_id: str, page: tuple[Key, Key]
    ) -> Operation[tuple[int, list[Problem]]]:
        yield Query(self._q.lock_thread, (thread_id,))
        _, between, store = table.statements
        rows = yield Query(getattr(self._q, between), (thread_id, *page[0], *page[1]))
        width = len(table.key)
        changed, refused = [], []
        for row in rows:
            key, cells = row[:width], row[width : width + len(table.cells)]
            bound = iter(row[width + len(table.cells) :])
            try:
                sealed = []
                for cell, (what, columns) in zip(cells, table.cells.values(), strict=True):
                    place = (what, thread_id, *map(str, key))
                    beside = tuple(islice(bound, len(columns)))
                    current = self._is_current(cell)
                    sealed.append(cell if current else self._codec.reseal(cell, place, beside))
            except SerdeError as error:
                ns, *rest = map(str, key)
                refused.append(Problem(thread_id, ns, table.name, " ".join(rest), str(error)))
                continue
            if sealed != list(cells):
                changed.append((*sealed, thread_id, *key))
        if changed:
            yield ExecuteMany(getattr(self._q, store), changed)
        return len(changed), refused


def _pages(rows: Sequence[tuple[Key, int]]) -> Iterator[tuple[Key, Key]]:
    """The first and last key of groups of rows that go into one transaction."""
    first: Key | None = None
    last: Key = ()
    count = size = 0
    for key, length in rows:
        if first is not None and (count == _ROWS or size + length > _BYTES):
            yield first, last
            first, count, size = None, 0, 0
        first, last = key if first is None else first, key
        count, size = count + 1, size + length
    if first is not None:
        yield first, last
