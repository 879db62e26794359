"""Databases in PostgreSQL."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from milepost._db.operations import Operation, Query
from milepost.errors import MissingDependencyError
from milepost.inspect._failures import hidden, told_plainly
from milepost.inspect._opening_parts import (
    check_langgraph,
    langgraphs,
    no_tables,
    ours,
    serde_for,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost._db.postgres.sync import PostgresEngine
    from milepost.checkpoint.serde.base import SerializerProtocol
    from milepost.inspect._database import Database
    from milepost.inspect._langgraph import Execute


def open_postgres(
    url: str, write: bool, create: bool, serde: SerializerProtocol | None
) -> Database:
    try:
        from milepost._db.postgres.engine import Settings, connecting, driver
        from milepost._db.postgres.sync import PostgresEngine
        from milepost.checkpoint._sql.schema import TABLES
        from milepost.checkpoint.postgres import PostgresSaver
    except ImportError as error:
        raise MissingDependencyError(
            "PostgreSQL needs a driver: pip install 'milepost[postgres]'"
        ) from error

    def connect() -> Any:
        made = driver.connect(url, autocommit=True, prepare_threshold=None, connect_timeout=15)
        if not write:
            # For all that this connection does: the server refuses every change.
            made.execute("SET default_transaction_read_only = on")
        return made

    with connecting():
        connection = connect()
    shown = hidden(url)
    stack = ExitStack()
    stack.callback(connection.close)
    try:
        columns = {row[0] for row in connection.execute(_POSTGRES_COLUMNS).fetchall()}
        if columns and "frame" not in columns:
            check_langgraph(shown, columns)
            return langgraphs(_on_postgres(connection), shown, "postgres", stack)
        if not columns and not (write and create):
            raise no_tables(shown)
    except BaseException:
        stack.close()
        raise
    saver = PostgresSaver(connection, serde=serde_for(serde), pooler_safe=True)
    saver.engine = PostgresEngine(connection, Settings(None, True, TABLES), reconnect=connect)
    stack.pop_all()
    stack.callback(saver.engine.close)
    if not columns:
        saver.setup()

    def store(create: bool) -> Any:
        if not create and not _has_store(saver.engine):
            return None
        from milepost.store.postgres import PostgresStore

        found = PostgresStore(saver.engine, serde=serde_for(serde))
        if create:
            found.setup()
        return found

    return ours(saver, store, shown, "postgres", write, stack)


def _has_store(engine: PostgresEngine) -> bool:
    def ask() -> Operation[bool]:
        [(table,)] = yield Query("SELECT to_regclass('milepost_items')", ())
        return table is not None

    return engine.run(ask, write=False)


_POSTGRES_COLUMNS: Final = (
    "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('checkpoints') AND attnum > 0"
    " AND NOT attisdropped"
)


def _on_postgres(connection: Any) -> Execute:
    lock = threading.Lock()

    def execute(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with lock, told_plainly("the database"):
            rows: list[tuple[Any, ...]] = connection.execute(
                sql.replace("%", "%%").replace("?", "%s"), tuple(values)
            ).fetchall()
            return rows

    return execute
