"""Bugs of the store that were repaired, put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

POSTGRES = ("postgres", "postgres-pool")
DATABASES = ("sqlite", *POSTGRES)


def switch_without_waiting() -> None:
    """A reindex ended beside puts that knew the old table: they were never found by meaning."""
    from milepost.store._sql.statements import PG

    object.__setattr__(PG, "take", None)
    object.__setattr__(PG, "share", None)


def reindexes_mixed() -> None:
    """A reindex went on in the table of another one that had begun after it."""
    from milepost.store._sql.generations import Generations

    def is_making(self: Generations, _number: int) -> bool:
        return self.coming is not None

    Generations.is_making = is_making  # type: ignore[method-assign]


def old_model_forgotten() -> None:
    """What a process with the old model put after the switch was never embedded."""
    from milepost.store._sql import generations

    generations.LACKING = 0


def sweep_without_lock() -> None:
    """Vectors of expired items went first; those put or read meanwhile lived on without."""
    from milepost._db.operations import Execute
    from milepost.store._sql import write

    def sweep(self: Any, now: int) -> Any:
        known = yield from self._registry.load()
        expired = "SELECT id FROM milepost_items WHERE expires <= ?"
        render = self._store_sql.render
        for table in known.tables:
            yield Execute(render(f"DELETE FROM {table} WHERE item IN ({expired})"), (now,))
        yield Execute(render("DELETE FROM milepost_items WHERE expires <= ?"), (now,))
        return 0

    write.Writer.sweep = sweep  # type: ignore[method-assign]


def sweep_of_old_tables() -> None:
    """A sweep did not look whether another process had made all vectors anew."""
    from milepost.store._sql import write

    real, known = write.Writer.sweep, {}

    class Remembered:
        def __init__(self, registry: Any) -> None:
            self._registry = registry

        def load(self) -> Any:
            if self._registry not in known:
                known[self._registry] = yield from self._registry.load()
            return known[self._registry]

    def sweep(self: Any, now: int) -> Any:
        registry, self._registry = self._registry, Remembered(self._registry)
        try:
            steps = real(self, now)
            return (yield from steps)
        finally:
            self._registry = registry

    write.Writer.sweep = sweep  # type: ignore[method-assign]


def reads_among_writes() -> None:
    """The reads of a batch that also writes had a snapshot each."""
    from milepost.store._sql import core

    core._takes_several_reads = lambda _groups: False


def versions_without_lock() -> None:
    """Two puts with the same version were both accepted."""
    from milepost.store._sql import statements

    object.__setattr__(statements.PG, "lock", "")


def versions_forgotten() -> None:
    """A version was used twice: a delete did not remember it, and the clock stood still."""
    from milepost.store._sql import statements

    nothing = " ON CONFLICT (shard) DO NOTHING"
    statements.NOTE_DELETED = (  # type: ignore[misc]
        "INSERT INTO milepost_deleted (shard, version) SELECT CAST(? AS INTEGER), 0"
        f" FROM milepost_items WHERE ns = ? AND key = ?{nothing}"
    )
    statements.NOTE_VERSION = (  # type: ignore[misc]
        f"INSERT INTO milepost_deleted (shard, version) VALUES (?, 0 * ?){nothing}"
    )


def repeated_although_done() -> None:
    """A put with a version was repeated after a lost connection, and met its own version."""
    from milepost._db.operations import Batch
    from milepost.store._sql import write

    def batch(statements: Any, last: bool = False, once: bool = False) -> Batch:
        return Batch(statements, last=last)

    write.Batch = batch  # type: ignore[assignment,misc]


PLANTS: dict[str, tuple[Callable[[], None], tuple[str, ...]]] = {
    "switch-without-waiting": (switch_without_waiting, POSTGRES),
    "reindexes-mixed": (reindexes_mixed, DATABASES),
    "old-model-forgotten": (old_model_forgotten, DATABASES),
    "sweep-without-lock": (sweep_without_lock, POSTGRES),
    "sweep-of-old-tables": (sweep_of_old_tables, DATABASES),
    "reads-among-writes": (reads_among_writes, POSTGRES),
    "versions-without-lock": (versions_without_lock, POSTGRES),
    "versions-forgotten": (versions_forgotten, DATABASES),
    "repeated-although-done": (repeated_although_done, POSTGRES),
}
"""What to do, and where it can be met."""
