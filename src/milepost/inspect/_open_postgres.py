"""Databases in PostgreSQL."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from milepost._db.operations import rows_of
from milepost.errors import MissingDependencyError
from milepost.inspect._errors import hidden, told_plainly
from milepost.inspect._opening_parts import langgraphs_or_none, ours, serde_for, store_opener

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost._db.postgres.sync import PostgresEngine
    from milepost.checkpoint.serde.base import SerializerProtocol
    from milepost.inspect._database import Database
    from milepost.inspect._langgraph import Execute
    from milepost.store.postgres import PostgresStore


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
        execute = _on_postgres(connection)
        create = write and create
        theirs = langgraphs_or_none(columns, execute, shown, "postgres", stack, create=create)
    except BaseException:
        stack.close()
        raise
    if theirs is not None:
        return theirs
    saver = PostgresSaver(connection, serde=serde_for(serde), pooler_safe=True)
    saver.engine = PostgresEngine(connection, Settings(None, True, TABLES), reconnect=connect)
    stack.pop_all()
    stack.callback(saver.engine.close)
    if not columns:
        saver.setup()

    def make() -> PostgresStore:
        from milepost.store.postgres import PostgresStore

        return PostgresStore(saver.engine, serde=serde_for(serde))

    store = store_opener(make, lambda: _has_store(saver.engine))
    return ours(saver, store, shown, "postgres", write, stack)


def _has_store(engine: PostgresEngine) -> bool:
    [(table,)] = engine.run(lambda: rows_of("SELECT to_regclass('milepost_items')"), write=False)
    return table is not None


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
