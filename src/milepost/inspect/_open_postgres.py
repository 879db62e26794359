"""Databases in PostgreSQL."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from milepost._db.operations import rows_of
from milepost.errors import MissingDependencyError
from milepost.inspect._database import langgraph_database, milepost_database
from milepost.inspect._errors import without_password
from milepost.inspect._stored import serde_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.checkpoint.serde.base import SerializerProtocol
    from milepost.inspect._database import Database


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
    shown = without_password(url)

    def run_query(sql: str, values: Sequence[Any]) -> Any:
        return connection.execute(sql.replace("%", "%%").replace("?", "%s"), values).fetchall()

    with ExitStack() as stack:
        stack.callback(connection.close)
        columns = {row[0] for row in connection.execute(_COLUMNS).fetchall()}
        langgraph = langgraph_database(
            columns, run_query, shown, "postgres", connection.close, write and create
        )
        stack.pop_all()  # no error: the connection stays open
    if langgraph is not None:
        return langgraph
    saver = PostgresSaver(connection, serde=serde_for(serde), pooler_safe=True)
    saver.engine = PostgresEngine(connection, Settings(None, True, TABLES), reconnect=connect)
    if not columns:
        saver.setup()

    def open_store(create: bool) -> Any:
        if not create:
            [(table,)] = saver.engine.run(lambda: rows_of(_STORE_TABLE), write=False)
            if table is None:
                return None
        from milepost.store.postgres import PostgresStore

        store = PostgresStore(saver.engine, serde=serde_for(serde))
        if create:
            store.setup()
        return store

    return milepost_database(saver, open_store, shown, "postgres", write, saver.engine.close)


_STORE_TABLE: Final = "SELECT to_regclass('milepost_items')"
_COLUMNS: Final = (
    "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('checkpoints') AND attnum > 0"
    " AND NOT attisdropped"
)
