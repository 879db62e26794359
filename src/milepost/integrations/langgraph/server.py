"""milepost's storage in a deployed LangGraph server, without a change of code.

A `langgraph.json` names it:

    {"checkpointer": {"path": "milepost.integrations.langgraph.server:checkpointer"}}

and the environment says where threads are kept:

- `MILEPOST_DB`: `postgresql://…` or `sqlite:///file.db`. Needed.
- `MILEPOST_AES_KEY`: seals values with this key. Without it they are stored in clear.
- `MILEPOST_POOL_SIZE`: the most connections to PostgreSQL; 10 if it is not set.
- `MILEPOST_TYPES`: modules, or `module:Class`, with commas, whose data types may be stored.
- `MILEPOST_FENCE`: `0` lets two workers on one thread both succeed. Otherwise the second one gets
  ThreadConflict.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from milepost._internal.supported import needed
from milepost.errors import MilepostError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from langgraph.checkpoint.base import BaseCheckpointSaver as TheirSaver

    from milepost.checkpoint.serde.base import SerializerProtocol


class ServerSettingsError(MilepostError, ValueError):
    """The environment does not say where, or how, threads are to be kept."""


@asynccontextmanager
async def checkpointer() -> AsyncIterator[TheirSaver[Any]]:
    """A LangGraph saver on the database that the environment names, open until the server ends.

    Raises:
        ServerSettingsError: The environment does not say where, or how, threads are to be kept.

    Examples:
        >>> import asyncio, os
        >>> from milepost.integrations.langgraph.server import checkpointer
        >>> os.environ["MILEPOST_DB"] = "sqlite:///threads.db"
        >>> async def main():
        ...     async with checkpointer() as saver:
        ...         return await saver.aget_tuple({"configurable": {"thread_id": "1"}})
        >>> asyncio.run(main()) is None
        True
        >>> del os.environ["MILEPOST_DB"]
    """
    needed("langgraph.checkpoint.base")
    from milepost._db.addresses import is_postgres, sqlite_file
    from milepost.integrations.langgraph import as_langgraph

    address = os.environ.get("MILEPOST_DB", "")
    types = _types()
    fence = os.environ.get("MILEPOST_FENCE", "1") != "0"
    if is_postgres(address):
        from psycopg_pool import AsyncConnectionPool

        from milepost.checkpoint.postgres.aio import AsyncPostgresSaver

        size = _pool_size()
        async with AsyncConnectionPool(
            address, min_size=min(2, size), max_size=size, kwargs={"autocommit": True}, open=False
        ) as pool:
            saver = AsyncPostgresSaver(pool, serde=_serializer())
            await saver.setup()
            yield as_langgraph(saver, types=types, fence=fence)
    elif file := sqlite_file(address):
        from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(file, serde=_serializer()) as on_file:
            yield as_langgraph(on_file, types=types, fence=fence)
    else:
        raise ServerSettingsError(
            f"MILEPOST_DB {'names no database' if address else 'is not set'}: set it to the "
            "database of the threads, postgresql://user@host/name or sqlite:///threads.db."
        )


def _serializer() -> SerializerProtocol | None:
    key = os.environ.get("MILEPOST_AES_KEY")
    if not key:
        return None
    from milepost.checkpoint.serde.encrypted import EncryptedSerializer

    return EncryptedSerializer.from_pycryptodome_aes(key=key)


def _pool_size() -> int:
    size = os.environ.get("MILEPOST_POOL_SIZE", "10")
    if not size.isdecimal() or int(size) < 1:
        raise ServerSettingsError(
            f"MILEPOST_POOL_SIZE is {size!r}: set it to a number of connections from 1 up."
        )
    return int(size)


def _types() -> list[Any]:
    found = []
    for name in filter(None, os.environ.get("MILEPOST_TYPES", "").split(",")):
        try:
            found.append(resolve_name(name.strip()))
        except (ImportError, AttributeError, ValueError) as error:
            raise ServerSettingsError(
                f"MILEPOST_TYPES names {name.strip()!r}, which cannot be imported: {error}"
            ) from error
    return found
