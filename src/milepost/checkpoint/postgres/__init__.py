"""A saver that keeps threads in PostgreSQL."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from milepost._db.calls import make_calls
from milepost._db.dialect import POSTGRES
from milepost._db.migrations import table_setup
from milepost._db.postgres.engine import Settings, driver
from milepost._db.postgres.opening import opening
from milepost._db.postgres.sync import PostgresEngine
from milepost._internal.left_open import lend
from milepost.checkpoint._contract.thread_metadata import (
    SaverOptions,
    ThreadOptions,
    checked_options,
)
from milepost.checkpoint._sql.group_saver import GroupCommits
from milepost.checkpoint._sql.saver import SqlSaver
from milepost.checkpoint._sql.schema import SCHEMA, TABLES
from milepost.checkpoint.postgres.base import BasePostgresSaver

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from psycopg import Connection
    from psycopg_pool import ConnectionPool

    from milepost._db.postgres.opening import PoolConfig
    from milepost.checkpoint.postgres.shallow import ShallowPostgresSaver
    from milepost.checkpoint.serde.base import SerializerProtocol

    Conn = Connection[Any] | ConnectionPool[Any]
    """What a saver is given: a connection, or a pool of them."""
else:

    def __getattr__(name):
        """What needs more than this module, when it is asked for."""
        if name == "Conn":
            from psycopg_pool import ConnectionPool

            return driver.Connection | ConnectionPool
        if name == "ShallowPostgresSaver":
            from milepost.checkpoint.postgres.shallow import ShallowPostgresSaver

            return ShallowPostgresSaver
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["BasePostgresSaver", "Conn", "PostgresSaver", "ShallowPostgresSaver"]


class PostgresSaver(BasePostgresSaver, GroupCommits, SqlSaver):  # type: ignore[misc] # prune
    """Keeps threads in PostgreSQL. Call `setup()` once before the first use.

    Give it a psycopg connection or a pool, or let `from_conn_string` open and close one.
    A pool, and the connection that `from_conn_string` made, survive a restart of the server.
    A pipeline that is open on the connection is used. A step is acknowledged when the pipeline has
    been synchronised, not before.

    Args:
        conn: A psycopg connection or pool.
        pipe: The pipeline that is open on the connection.
        serde: Turns values into bytes and back.
        schema: Where the tables are; by default where the role's search path says.
        pooler_safe: Prepare nothing on the server, as PgBouncer wants it.
        **threads: `thread_metadata`: keys of a run's metadata that are stored with the thread;
            `seal_thread_metadata`: whether they are encrypted there.

    Raises:
        NotSetUpError: On first use, if `setup()` has not made the tables.

    Examples:
        >>> import os
        >>> from milepost.checkpoint.postgres import PostgresSaver
        >>> from milepost.graph import START, StateGraph
        >>> builder = StateGraph(dict).add_node("work", lambda state: {"n": 1})
        >>> builder = builder.add_edge(START, "work")
        >>> with PostgresSaver.from_conn_string(os.environ["DB_URI"]) as saver:
        ...     saver.setup()
        ...     graph = builder.compile(checkpointer=saver)
        ...     graph.invoke({}, {"configurable": {"thread_id": "1"}})
        {'n': 1}
    """

    engine: PostgresEngine

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
        check_source(type(self).__name__, conn, pipe, driver.Connection)
        self.conn = conn
        self.pipe = pipe
        settings = Settings(schema, pooler_safe, TABLES, type(self).__name__)
        self.engine = PostgresEngine(conn, settings)

    @classmethod
    @contextmanager
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        pipeline: bool = False,  # noqa: ARG003
        pool_config: PoolConfig | Mapping[str, Any] | None = None,
        schema: str | None = None,
        pooler_safe: bool = False,
        **options: Unpack[SaverOptions],
    ) -> Iterator[Self]:
        """A saver on a connection or a pool of its own; use it with `with`.

        Args:
            conn_string: The address, such as `postgresql://user:password@host:5432/database`.
            pipeline: Changes nothing: statements that belong together are always sent together.
            pool_config: Makes a pool of connections instead of one: `min_size`, `max_size`, …
            schema: As for the class.
            pooler_safe: As for the class.
            **options: Those of the class.
        """
        settings = {"schema": schema, "pooler_safe": pooler_safe, **checked_options(options)}
        saver = make_calls(opening(PostgresEngine, conn_string, pool_config, cls, settings))

        def close() -> None:
            saver.stop_sweeper()
            saver.engine.close()

        yield from lend(saver, close)

    def setup(self) -> None:
        """Make the tables, or bring them up to date. Several processes may do so at once."""
        self.engine.set_up(TABLE_SETUP)


TABLE_SETUP: Final = table_setup(POSTGRES, SCHEMA)
"""The first thing that is done with a database."""


def check_source(saver: str, conn: Any, pipe: Any, wanted: type) -> None:
    """Refuse what cannot work, with the reason."""
    name = f"psycopg.{wanted.__name__}"
    is_pool = not isinstance(conn, wanted) and callable(getattr(conn, "connection", None))
    if not is_pool and not isinstance(conn, wanted):
        raise TypeError(
            f"{saver} needs a {name} or a pool of them, not {type(conn).__name__}. For a "
            f"connection string use `{saver}.from_conn_string(...)`."
        )
    asynchronous = "Async" in type(conn).__name__
    if is_pool and asynchronous != ("Async" in name):
        raise TypeError(f"{saver} cannot use a {type(conn).__name__}: it needs a pool of {name}.")
    if is_pool and pipe is not None:
        raise ValueError(
            f"{saver} cannot use a pipeline together with a pool: a pipeline belongs to one "
            "connection. Leave out `pipe`."
        )
