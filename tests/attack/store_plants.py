"""Bugs of the store that were repaired, put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

POSTGRES = ("postgres", "postgres-pool")
DATABASES = ("sqlite", *POSTGRES)


def switch_without_waiting() -> None:
    """A reindex ended beside puts that knew the old table: they were never found by meaning."""
    from milepost.store._sql.dialects import PG

    object.__setattr__(PG, "own", PG.own._replace(take=None, share=None))


def reindexes_mixed() -> None:
    """A reindex went on in the table of another one that had begun after it."""
    from milepost.store._vectors.generations import Generations

    def is_making(self: Generations, _number: int) -> bool:
        return self.coming is not None

    Generations.is_making = is_making  # type: ignore[method-assign]


def old_model_forgotten() -> None:
    """What a process with the old model put after the switch was never embedded."""
    from milepost.store._vectors import generations

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

    write.ItemWriter.sweep = sweep  # type: ignore[method-assign]


def sweep_of_old_tables() -> None:
    """A sweep did not look whether another process had made all vectors again."""
    from milepost.store._sql import write

    real, known = write.ItemWriter.sweep, {}

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

    write.ItemWriter.sweep = sweep  # type: ignore[method-assign]


def reads_among_writes() -> None:
    """The reads of a batch that also writes had a snapshot each."""
    from milepost.store._sql import core

    core._takes_several_reads = lambda _groups: False


def versions_without_lock() -> None:
    """Two puts with the same version were both accepted."""
    from milepost.store._sql.dialects import PG

    unlocked = PG.own.versions.removesuffix(" FOR UPDATE")
    assert unlocked != PG.own.versions
    object.__setattr__(PG, "own", PG.own._replace(versions=unlocked, locks=None))


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


def large_numbers_in_decimals() -> None:
    """A float near 1e30 was another number for a database that counts in decimals."""
    from milepost.store._core import json_view

    json_view._WHOLE = float("inf")  # type: ignore[misc]


def names_with_nul_differ() -> None:
    """A filter looked for a name with NUL under another name than the one that was stored."""
    from milepost.store._core import filters

    filters._name = lambda key, viewer: key


def vectors_not_looked_at() -> None:
    """A model that returned None was a TypeError."""
    from milepost.store._vectors.embeddings import Embedder

    def checked(self: Any, vectors: Any, expected: int, are_queries: bool) -> list[bytes]:
        assert expected == len(vectors)
        packed = [self._pack(*vector) for vector in vectors]
        if not are_queries:
            self._fix_length(packed)
        return packed

    Embedder._checked = checked  # type: ignore[method-assign]


def one_list_for_model_and_store() -> None:
    """A model was given the list with which its vectors were counted."""
    from milepost.store._vectors.embeddings import Embedder

    embed = Embedder.embed

    def embed_in_place(self: Any, texts: Any, *, are_queries: bool) -> Any:
        if are_queries:
            return embed(self, texts, are_queries=True)
        texts = list(texts)
        vectors = self._function(texts)
        return self._checked(vectors, len(texts), are_queries)

    Embedder.embed = embed_in_place  # type: ignore[method-assign]


def any_size() -> None:
    """How large a value can be was left to the server to say."""
    import sys

    from milepost.store._core.core import StoreCore

    class Endless:
        """A limit that cannot be set."""

        def __get__(self, core: Any, kind: Any = None) -> int:
            return sys.maxsize

        def __set__(self, core: Any, value: int) -> None:
            pass

    StoreCore.largest = StoreCore.largest_view = Endless()  # type: ignore[assignment]


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
    "large-numbers-in-decimals": (large_numbers_in_decimals, POSTGRES),
    "names-with-nul-differ": (names_with_nul_differ, DATABASES),
    "vectors-not-looked-at": (vectors_not_looked_at, ("memory", "sqlite")),
    "one-list-for-model-and-store": (one_list_for_model_and_store, ("memory", "sqlite")),
    "any-size": (any_size, DATABASES),
}
"""What to do, and where it can be met."""
