"""What opening a database has in common, whatever its kind."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from milepost.inspect._database import Database
from milepost.inspect._errors import CannotOpenError
from milepost.inspect._stored import data_saver
from milepost.inspect._tables import SqlSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from milepost.checkpoint.serde.base import SerializerProtocol
    from milepost.inspect._database import Kind, OpenStore
    from milepost.inspect._langgraph import Execute, LangGraphReader


def serde_for(serde: SerializerProtocol | None) -> SerializerProtocol | None:
    """The serializer to read with: the given one, or one with the key in MILEPOST_AES_KEY.

    With a key, what is stored in clear is read too: the key may be meant for another database.
    """
    if serde is not None or not os.environ.get("MILEPOST_AES_KEY"):
        return serde
    from milepost.checkpoint.serde.encrypted import EncryptedSerializer

    return EncryptedSerializer.from_pycryptodome_aes(allow_plaintext=True)


def ours(
    saver: Any, open_store: OpenStore, url: str, kind: Kind, write: bool, stack: ExitStack
) -> Database:
    reader = data_saver(saver)
    return Database(
        saver,
        url=url,
        kind=kind,
        writable=write,
        open_store=open_store,
        source=SqlSource(reader),  # type: ignore[arg-type]
        reader=reader,
        close=stack.close,
    )


def _langgraphs(execute: Execute, url: str, kind: Kind, stack: ExitStack) -> Database:
    from milepost.inspect._langgraph import PostgresReader, SqliteReader
    from milepost.inspect._langgraph_threads import LangGraphSource

    reader: LangGraphReader
    reader = SqliteReader(execute) if kind == "sqlite" else PostgresReader(execute)
    return Database(
        reader,
        url=url,
        kind=kind,
        flavour="langgraph",
        source=LangGraphSource(reader),
        reader=reader,
        close=stack.close,
    )


def langgraphs_or_none(
    columns: set[str], execute: Execute, url: str, kind: Kind, stack: ExitStack, *, create: bool
) -> Database | None:
    """The database if its table of checkpoints, with these columns, is LangGraph's."""
    if columns and "frame" not in columns:
        if not {"checkpoint_ns", "checkpoint", "metadata"} <= columns:
            raise CannotOpenError(
                f"{url} has a table 'checkpoints' that is neither milepost's nor LangGraph's "
                "(since 0.2)."
            )
        return _langgraphs(execute, url, kind, stack)
    if not columns and not create:
        raise CannotOpenError(
            f"{url} holds no threads: it has no table 'checkpoints'. Is it the right database?"
        )
    return None


def store_opener(make: Callable[[], Any], is_there: Callable[[], bool]) -> OpenStore:
    """Opens the store of a database; None if there is none and none is to be made."""

    def opened(create: bool) -> Any:
        if not create and not is_there():
            return None
        store = make()
        if create:
            store.setup()
        return store

    return opened
