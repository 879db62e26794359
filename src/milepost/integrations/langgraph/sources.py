"""Databases by their addresses: `sqlite:///file.db`, `postgresql://…`."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.checkpoint.records import CheckpointTuple, Place, place_of
from milepost.checkpoint.serde.registry import TypeRegistry
from milepost.checkpoint.sql.maintenance import MaintainedSaver
from milepost.errors import MilepostError
from milepost.integrations.langgraph.decoding import StrictSerializer
from milepost.integrations.langgraph.requirement import needed
from milepost.store.base import BaseStore


class BadAddressError(MilepostError, ValueError):
    """An address that names no database that we can open."""


def sqlite_file(address: str) -> str | None:
    """The file that an address names; None if it is not one of SQLite's."""
    scheme, separator, rest = address.partition("://")
    if not separator or scheme != "sqlite":
        return None
    return rest.removeprefix("/") if rest.startswith("/") else rest


def is_postgres(address: str) -> bool:
    """Whether an address is one of PostgreSQL's."""
    return address.startswith(("postgres://", "postgresql://"))


def bad_address(address: str) -> BadAddressError:
    """What to say about an address of another kind."""
    return BadAddressError(
        f"'{address}' names no database: write sqlite:///file.db or postgresql://user@host/name."
    )


class TheirDatabase:
    """A database of LangGraph's, read under our rules. See `moving.Source`."""

    def __init__(self, saver: Any, query: Any, tables: tuple[str, str]) -> None:
        self._saver = saver
        self._query = query
        self._checkpoints, self._writes = tables

    def threads(self) -> Iterable[str]:
        """All threads."""
        rows = self._query(
            f"SELECT DISTINCT thread_id FROM {self._checkpoints} ORDER BY thread_id", ()
        )
        return [row[0] for row in rows]

    def places(self, thread_id: str) -> Sequence[tuple[str, str]]:
        """Namespace and id of every checkpoint, oldest first."""
        rows = self._query(
            f"SELECT checkpoint_ns, checkpoint_id FROM {self._checkpoints}"
            " WHERE thread_id = ? ORDER BY checkpoint_id",
            (thread_id,),
        )
        return [(row[0], row[1]) for row in rows]

    def paths(self, place: Place) -> Sequence[str]:
        """The paths of the tasks that wrote after a checkpoint."""
        rows = self._query(
            f"SELECT DISTINCT task_path FROM {self._writes}"
            " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
            tuple(place),
        )
        return [row[0] for row in rows if row[0]]

    def read(self, place: Place) -> CheckpointTuple | None:
        """A checkpoint with its writes."""
        found = self._saver.get_tuple(place.config())
        return None if found is None else CheckpointTuple(*found)


class OurDatabase:
    """A saver of ours as a source of threads. See `moving.Source`."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self._saver = saver

    def threads(self) -> Iterable[str]:
        """All threads."""
        if isinstance(self._saver, MaintainedSaver):
            return self._registered(self._saver)
        return sorted({place_of(found.config).thread_id for found in self._saver.list(None)})

    @staticmethod
    def _registered(saver: MaintainedSaver) -> Iterator[str]:
        """From the registry, which reads no values."""
        last: str | None = None
        while page := saver.list_threads(after=last):
            for thread in page:
                yield thread.thread_id
            last = page[-1].thread_id

    def places(self, thread_id: str) -> Sequence[tuple[str, str]]:
        """Namespace and id of every checkpoint, oldest first."""
        listing = self._saver.list({"configurable": {"thread_id": thread_id}})
        found = [place_of(one.config) for one in listing]
        pairs = [(place.checkpoint_ns, place.checkpoint_id or "") for place in found]
        return sorted(pairs, key=lambda pair: pair[1])

    def paths(self, place: Place) -> Sequence[str]:  # noqa: ARG002
        """Not needed: our names of tasks can be computed without them."""
        return ()

    def read(self, place: Place) -> CheckpointTuple | None:
        """A checkpoint with its writes."""
        return self._saver.get_tuple(place.config())


@contextmanager
def open_theirs(address: str, registry: TypeRegistry | None = None) -> Iterator[TheirDatabase]:
    """LangGraph's database at an address, for reading only."""
    serde = StrictSerializer(registry)
    if (file := sqlite_file(address)) is not None:
        module = needed("langgraph.checkpoint.sqlite", "langgraph-checkpoint-sqlite")
        with _copied(file) as connection:
            saver = module.SqliteSaver(connection, serde=serde)
            saver.setup()
            yield TheirDatabase(
                saver,
                lambda sql, values: connection.execute(sql, values).fetchall(),
                ("checkpoints", "writes"),
            )
    elif is_postgres(address):
        module = needed("langgraph.checkpoint.postgres", "langgraph-checkpoint-postgres")
        with module.PostgresSaver.from_conn_string(address) as saver:
            saver.serde = serde

            def query(sql: str, values: Sequence[Any]) -> list[Any]:
                rows = saver.conn.execute(sql.replace("?", "%s"), values).fetchall()
                return [tuple(row.values()) for row in rows]

            yield TheirDatabase(saver, query, ("checkpoints", "checkpoint_writes"))
    else:
        raise bad_address(address)


@contextmanager
def _copied(file: str) -> Iterator[sqlite3.Connection]:
    """A copy of a SQLite file: LangGraph's saver would otherwise bring the original's tables up
    to date, and a move must not change what it reads."""
    if not os.path.exists(file):
        raise BadAddressError(f"There is no file '{file}'.")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="milepost-import-"))
        copy = sqlite3.connect(os.path.join(folder, "copy.db"), check_same_thread=False)
        stack.enter_context(closing(copy))
        with closing(sqlite3.connect(file)) as original:
            original.backup(copy)
        yield copy


@contextmanager
def their_saver(address: str) -> Iterator[Any]:
    """LangGraph's own saver at an address, for writing."""
    if (file := sqlite_file(address)) is not None:
        module = needed("langgraph.checkpoint.sqlite", "langgraph-checkpoint-sqlite")
        with module.SqliteSaver.from_conn_string(file) as saver:
            saver.setup()
            yield saver
    elif is_postgres(address):
        module = needed("langgraph.checkpoint.postgres", "langgraph-checkpoint-postgres")
        with module.PostgresSaver.from_conn_string(address) as saver:
            saver.setup()
            yield saver
    else:
        raise bad_address(address)


@contextmanager
def our_saver(address: str) -> Iterator[BaseCheckpointSaver[Any]]:
    """milepost's saver at an address."""
    if (file := sqlite_file(address)) is not None:
        from milepost.checkpoint.sqlite import SqliteSaver

        with SqliteSaver.from_conn_string(file) as sqlite:
            yield sqlite
    elif is_postgres(address):
        from milepost.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(address) as postgres:
            postgres.setup()
            yield postgres
    else:
        raise bad_address(address)


@contextmanager
def their_store(address: str, *, writing: bool = False) -> Iterator[BaseStore | None]:
    """The store in LangGraph's database; None if there is none and none is to be made."""
    file = sqlite_file(address)
    module = needed(f"langgraph.store.{'postgres' if file is None else 'sqlite'}")
    with ExitStack() as stack:
        if file is None:
            store = stack.enter_context(module.PostgresStore.from_conn_string(address))
            there = store.conn.execute("SELECT to_regclass('store') AS found").fetchone()["found"]
        else:
            connection = (
                stack.enter_context(closing(sqlite3.connect(file, isolation_level=None)))
                if writing
                else stack.enter_context(_copied(file))
            )
            store = module.SqliteStore(connection)
            there = connection.execute(
                "SELECT name FROM sqlite_master WHERE name = 'store'"
            ).fetchone()
        if not there and not writing:
            yield None
            return
        if writing or file is not None:  # what is read of SQLite is a copy, which may be changed
            store.setup()
        from milepost.integrations.langgraph.stores import from_langgraph_store

        yield from_langgraph_store(store)


@contextmanager
def our_store(address: str, *, writing: bool = False) -> Iterator[BaseStore | None]:
    """The store in milepost's database; None if there is none and none is to be made."""
    if not writing and not _has_items(address):
        yield None
    elif (file := sqlite_file(address)) is not None:
        from milepost.store.sqlite import SqliteStore

        with SqliteStore.from_conn_string(file) as sqlite:
            yield sqlite
    else:
        from milepost.store.postgres import PostgresStore

        with PostgresStore.from_conn_string(address) as postgres:
            postgres.setup()
            yield postgres


def _has_items(address: str) -> bool:
    """Whether a milepost database has a store in it."""
    if (file := sqlite_file(address)) is not None:
        with closing(sqlite3.connect(file)) as connection:
            query = "SELECT name FROM sqlite_master WHERE name = 'milepost_items'"
            return connection.execute(query).fetchone() is not None
    with needed("psycopg", "milepost[postgres]").connect(address) as connection:
        return connection.execute("SELECT to_regclass('milepost_items')").fetchone()[0] is not None
