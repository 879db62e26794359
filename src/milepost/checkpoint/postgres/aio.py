"""The PostgreSQL saver for programs that run on an event loop."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, Unpack

from milepost._db.calls import amake_calls
from milepost._db.postgres.aio import AsyncPostgresEngine
from milepost._db.postgres.engine import Settings, driver
from milepost._db.postgres.opening import opening
from milepost._internal.left_open import quiet_at_exit
from milepost.checkpoint._contract.thread_metadata import (
    SaverOptions,
    ThreadOptions,
    checked_options,
)
from milepost.checkpoint._sql.group_saver import GroupCommits
from milepost.checkpoint._sql.saver import SqlSaver
from milepost.checkpoint._sql.schema import TABLES
from milepost.checkpoint.postgres import TABLE_SETUP, check_source
from milepost.checkpoint.postgres.base import BasePostgresSaver

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from milepost._db.postgres.opening import PoolConfig
    from milepost.checkpoint.postgres.shallow import AsyncShallowPostgresSaver
    from milepost.checkpoint.serde.base import SerializerProtocol

    Conn = AsyncConnection[Any] | AsyncConnectionPool[Any]
    """What a saver is given: a connection, or a pool of them."""
else:

    def __getattr__(name):
        """What needs more than this module, when it is asked for."""
        if name == "Conn":
            from psycopg_pool import AsyncConnectionPool

            return driver.AsyncConnection | AsyncConnectionPool
        if name == "AsyncShallowPostgresSaver":
            from milepost.checkpoint.postgres.shallow import AsyncShallowPostgresSaver

            return AsyncShallowPostgresSaver
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["AsyncPostgresSaver", "AsyncShallowPostgresSaver", "Conn"]


class AsyncPostgresSaver(BasePostgresSaver, GroupCommits, SqlSaver):  # type: ignore[misc] # prune
    """Keeps threads in PostgreSQL. Await `setup()` once before the first use.

    Give it an async psycopg connection or a pool, which may still be closed, or let
    `from_conn_string` open and close one. The sync methods work from threads other than
    the loop's, while it runs.

    Args:
        conn: An async psycopg connection or pool.
        pipe: The pipeline that is open on the connection.
        serde: Turns values into bytes and back.
        schema: Where the tables are; by default where the role's search path says.
        pooler_safe: Prepare nothing on the server, as PgBouncer wants it.
        **threads: See `PostgresSaver`.

    Examples:
        >>> import asyncio, os
        >>> from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
        >>> from milepost.graph import START, StateGraph
        >>> builder = StateGraph(dict).add_node("work", lambda state: {"n": 1})
        >>> builder = builder.add_edge(START, "work")
        >>> async def main():
        ...     async with AsyncPostgresSaver.from_conn_string(os.environ["DB_URI"]) as saver:
        ...         await saver.setup()
        ...         graph = builder.compile(checkpointer=saver)
        ...         return await graph.ainvoke({}, {"configurable": {"thread_id": "1"}})
        >>> asyncio.run(main())
        {'n': 1}
    """

    engine: AsyncPostgresEngine
    steadfast = True

    def __init__(
        self,
        conn: Any,
        pipe: Any = None,
        serde: SerializerProtocol | None = None,
        *,
        schema: str | None = None,
        pooler_safe: bool = False,
        **threads: Unpack[ThreadOptions],
    ) -> None:
        super().__init__(serde=serde, **threads)
        check_source(type(self).__name__, conn, pipe, driver.AsyncConnection)
        self.conn = conn
        self.pipe = pipe
        settings = Settings(schema, pooler_safe, TABLES, type(self).__name__)
        self.engine = AsyncPostgresEngine(conn, settings)

    @classmethod
    @asynccontextmanager
    @quiet_at_exit
    async def from_conn_string(
        cls,
        conn_string: str,
        *,
        pipeline: bool = False,  # noqa: ARG003
        pool_config: PoolConfig | Mapping[str, Any] | None = None,
        schema: str | None = None,
        pooler_safe: bool = False,
        **options: Unpack[SaverOptions],
    ) -> AsyncGenerator[Self, None]:
        """A saver on a connection or a pool of its own; use it with `async with`.

        Args:
            conn_string: The address, such as `postgresql://user:password@host:5432/database`.
            pipeline: Changes nothing: statements that belong together are always sent together.
            pool_config: Makes a pool of connections instead of one: `min_size`, `max_size`, …
            schema: As for the class.
            pooler_safe: As for the class.
            **options: Those of the class.
        """
        settings = {"schema": schema, "pooler_safe": pooler_safe, **checked_options(options)}
        calls = opening(AsyncPostgresEngine, conn_string, pool_config, cls, settings)
        saver = await amake_calls(calls)
        try:
            yield saver
        finally:
            saver.stop_sweeper()
            await saver.engine.close()

    async def setup(self) -> None:
        """Make the tables, or bring them up to date. Several processes may do so at once."""
        await self.engine.aset_up(TABLE_SETUP)
