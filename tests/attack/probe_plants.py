"""Bugs of what is around threads that were repaired, put back: damage, errors, limits, imports."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

SQLITE = ("sqlite", "sqlite-encrypted")
POSTGRES = ("postgres", "postgres-pool")
DATABASES = (*SQLITE, *POSTGRES)
EVERYWHERE = ("memory", *DATABASES)


# -- rows that are gone


def rows_of_writes_unnoticed() -> None:
    """Rows of pending writes could be deleted: nobody had counted them."""
    from milepost.checkpoint._sql.read import fetched

    parent_writes = fetched.Manifests.parent_writes

    def uncounted(self: Any, row: Any) -> Any:
        return parent_writes(self, row)._replace(rows=0)

    fetched.Manifests.parent_writes = uncounted  # type: ignore[method-assign]
    fetched.counted_rows = lambda codec, thread_id, ns, row: 0


def inline_writes_unnoticed() -> None:
    """The writes in the row of a checkpoint could be emptied: nothing said that there were any."""
    from milepost.checkpoint._sql.read.fetched import Manifests

    parent_writes = Manifests.parent_writes

    def unsaid(self: Any, row: Any) -> Any:
        return parent_writes(self, row)._replace(inline=False)

    Manifests.parent_writes = unsaid  # type: ignore[method-assign]


_NEWER = re.compile(
    r"\(SELECT MAX\(checkpoint_id\) FROM checkpoints c\s+WHERE status <> 'running'"
    r".*?COALESCE\(head, ''\)\)",
    re.DOTALL,
)
"""In a statement: the newest checkpoint after the head of a thread that is not running."""


def old_entry_unnoticed() -> None:
    """An entry of the registry that was put back made an old state the newest."""
    from milepost.checkpoint._sql import saver, statements

    queries_for = saver.queries_for  # type: ignore[attr-defined]

    def unaware(given: Any, dialect: Any) -> Any:
        found = queries_for(given, dialect)
        texts = {name: getattr(found, name) for name in statements.Statements.__annotations__}
        changed = {name: _NEWER.sub("NULL", text) for name, text in texts.items()}
        assert changed != texts
        return statements.Statements(**changed)

    saver.queries_for = unaware  # type: ignore[attr-defined]


# -- errors


def metadata_not_looked_at() -> None:
    """Metadata of a thread that was no JSON was a JSONDecodeError, also from `verify`."""
    from milepost.checkpoint._sql.threads import registry

    registry.stored_metadata = lambda cell: cell if isinstance(cell, dict) else json.loads(cell)


def cells_of_any_type() -> None:
    """A cell of another type was a TypeError."""
    from milepost.checkpoint._delta import encode

    encode._has_its_types = lambda data, place, columns: True


def timeout_is_lost() -> None:
    """A statement that took too long was told as a lost connection."""
    from milepost._db.postgres import engine
    from milepost.errors import ConnectionUnusableError

    explain = engine.explain

    def lost(error: Any, schema: str | None) -> Any:
        if isinstance(error, engine.driver.errors.QueryCanceled):
            return ConnectionUnusableError(f"The connection was lost: {error}. Use a pool.")
        return explain(error, schema)

    engine.explain = lost


def refusal_unexplained() -> None:
    """A server that refuses was a bare error of psycopg's."""
    from milepost._db.postgres import opening

    opening.connecting = contextlib.nullcontext  # type: ignore[attr-defined]


def reads_want_to_write() -> None:
    """A file that can only be read was refused to readers, too."""
    from milepost._db.sqlite import engine

    engine.suppress_read_only = contextlib.nullcontext  # type: ignore[attr-defined]


def pickled_anyhow() -> None:
    """To pickle a saver ended in the middle of its locks and connections."""
    from milepost._internal.fork_guard import ProcessBound

    ProcessBound.__reduce__ = lambda self: object.__reduce__(self)  # type: ignore[method-assign]


# -- other processes


def surplus_unnoticed() -> None:
    """The reader in Python ignored what follows a value inside an extension."""
    from milepost.checkpoint.serde._msgpack import codec, engine

    def unpack_all(data: Any, hook: Any = None) -> Any:
        return codec.unpackb(bytes(data), ext_hook=hook, option=codec.OTHER_KEYS)

    codec.unpack_all = engine.unpack_all = unpack_all  # type: ignore[attr-defined]


def damaged_item_ends_all() -> None:
    """One damaged item of a LangGraph store ended the import of items."""
    from milepost.integrations.langgraph._moving.items import ItemDatabase

    pages = ItemDatabase.pages

    def end(reason: str) -> None:
        raise LookupError(reason)

    def until_damage(self: Any, _refuse: Any) -> Iterator[Any]:
        return pages(self, end)

    ItemDatabase.pages = until_damage  # type: ignore[method-assign]


# -- limits


def one_stack() -> None:
    """Graphs inside graphs ran on one stack, and met Python's limit."""
    from milepost._engine.drivers import aio, sync

    aio.is_deep = sync.is_deep = lambda depth: False  # type: ignore[attr-defined]


def each_line_again() -> None:
    """A prune in memory opened all manifests before each checkpoint."""
    from milepost.checkpoint._memory import manifests

    nearest = manifests._nearest
    manifests._nearest = lambda checkpoint, find, cache: nearest(checkpoint, find, {})


def branches_know_all_nodes() -> None:
    """Each conditional edge was made ready for each node, when a graph was compiled."""
    from milepost.graph import _compile

    branch_route = _compile.branch_route  # type: ignore[attr-defined]

    def made_ready(router: Any, source: Any, ends: Any, culprit: Any = None) -> Any:
        route = branch_route(router, source, ends, culprit)
        for name in router.nodes if ends is None else ends:
            with contextlib.suppress(Exception):
                route(name)
        return route

    _compile.branch_route = made_ready  # type: ignore[attr-defined]


def printed_half_made() -> None:
    """A state showed placeholders where nobody had looked."""
    from milepost._internal.lazy_tuple import LazyTuple

    LazyTuple.__repr__ = lambda self: repr(self._made)  # type: ignore[method-assign]


PLANTS: dict[str, tuple[Callable[[], None], tuple[str, ...]]] = {
    "rows-of-writes-unnoticed": (rows_of_writes_unnoticed, DATABASES),
    "inline-writes-unnoticed": (inline_writes_unnoticed, DATABASES),
    "old-entry-unnoticed": (old_entry_unnoticed, DATABASES),
    "metadata-not-looked-at": (metadata_not_looked_at, DATABASES),
    "cells-of-any-type": (cells_of_any_type, SQLITE),
    "timeout-is-lost": (timeout_is_lost, POSTGRES),
    "refusal-unexplained": (refusal_unexplained, POSTGRES),
    "reads-want-to-write": (reads_want_to_write, SQLITE),
    "pickled-anyhow": (pickled_anyhow, EVERYWHERE),
    "surplus-unnoticed": (surplus_unnoticed, EVERYWHERE),
    "damaged-item-ends-all": (damaged_item_ends_all, ("sqlite",)),
    "one-stack": (one_stack, EVERYWHERE),
    "each-line-again": (each_line_again, EVERYWHERE),
    "branches-know-all-nodes": (branches_know_all_nodes, EVERYWHERE),
    "printed-half-made": (printed_half_made, EVERYWHERE),
}
"""What to do, and where it can be met."""
