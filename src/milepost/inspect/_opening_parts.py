"""What opening a database has in common, whatever its kind."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from milepost.inspect._database import Database, source_for
from milepost.inspect._errors import CannotOpenError, told_plainly
from milepost.inspect._stored import data_saver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from milepost.checkpoint.base import BaseCheckpointSaver
    from milepost.checkpoint.serde.base import SerializerProtocol
    from milepost.inspect._database import Kind, OpenStore
    from milepost.inspect._langgraph import LangGraphReader


def serde_for(serde: SerializerProtocol | None) -> SerializerProtocol | None:
    """The serializer to read with: the given one, or one with the key in MILEPOST_AES_KEY.

    With a key, what is stored in clear is read too: the key may be meant for another database.
    """
    if serde is not None or not os.environ.get("MILEPOST_AES_KEY"):
        return serde
    from milepost.checkpoint.serde.encrypted import EncryptedSerializer

    return EncryptedSerializer.from_pycryptodome_aes(allow_plaintext=True)


def milepost_database(
    saver: BaseCheckpointSaver[Any],
    open_store: OpenStore,
    url: str,
    kind: Kind,
    write: bool,
    close: Callable[[], None],
) -> Database:
    reader = data_saver(saver)
    return Database(
        saver,
        url=url,
        kind=kind,
        writable=write,
        open_store=open_store,
        source=source_for(kind, reader),
        reader=reader,
        close=close,
    )


def langgraph_database(
    columns: set[str],
    run_query: Callable[[str, Sequence[Any]], Iterable[Sequence[Any]]],
    url: str,
    kind: Kind,
    close: Callable[[], None],
    create: bool,
) -> Database | None:
    """The database if its table of checkpoints, with these columns, is LangGraph's."""
    if not columns and not create:
        raise CannotOpenError(
            f"{url} holds no threads: it has no table 'checkpoints'. Is it the right database?"
        )
    if not columns or "frame" in columns:
        return None
    if not {"checkpoint_ns", "checkpoint", "metadata"} <= columns:
        raise CannotOpenError(
            f"{url} has a table 'checkpoints' that is neither milepost's nor LangGraph's "
            "(since 0.2)."
        )
    from milepost.inspect._langgraph import PostgresReader, SqliteReader
    from milepost.inspect._langgraph_threads import LangGraphSource

    lock = threading.Lock()

    def execute(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with lock, told_plainly("the database"):
            return [tuple(row) for row in run_query(sql, tuple(values))]

    reader: LangGraphReader
    reader = SqliteReader(execute) if kind == "sqlite" else PostgresReader(execute)
    return Database(
        reader,
        url=url,
        kind=kind,
        flavour="langgraph",
        source=LangGraphSource(reader),
        reader=reader,
        close=close,
    )
