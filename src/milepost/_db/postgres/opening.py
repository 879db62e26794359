"""A saver or store on a connection or a pool of its own: what `from_conn_string` lends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from typing_extensions import TypedDict

from milepost._db.postgres.errors import connecting

if TYPE_CHECKING:
    from milepost._db.calls import Calls
    from milepost._db.postgres.source import PostgresSource


class PoolConfig(TypedDict, total=False):
    """Settings of a pool of connections; others of `psycopg_pool.ConnectionPool` work too.

    Examples:
        >>> from milepost.store.postgres import PoolConfig
        >>> pool: PoolConfig = {"min_size": 1, "max_size": 10}
    """

    min_size: int
    """How many connections are always open."""
    max_size: int | None
    """How many connections there are at most."""
    kwargs: dict[str, Any]
    """How each connection is opened."""


class _OnEngine(Protocol):
    engine: Any


T = TypeVar("T", bound=_OnEngine)


def opening(
    engine_type: type[PostgresSource],
    conn_string: str,
    pool_config: Mapping[str, Any] | None,
    make: Callable[..., T],
    settings: Mapping[str, Any],
) -> Calls[T]:
    """Open a saver or store; its engine replaces a connection that dies.

    Args:
        engine_type: The engine, which says the types of connections and pools.
        conn_string: The address.
        pool_config: Settings of a pool; None for a connection.
        make: Makes the saver or store on a connection or pool, with `settings`.
        settings: Those of the saver or store.
    """
    how = {"autocommit": True, "prepare_threshold": None if settings.get("pooler_safe") else 0}
    connect: Any = partial(engine_type.connection_type.connect, conn_string, **how)
    make_pool: Any = None
    if pool_config is not None:
        import psycopg_pool

        kwargs = {**how, **(pool_config.get("kwargs") or {})}
        options = {**pool_config, "kwargs": kwargs, "open": False}
        pool_type = getattr(psycopg_pool, engine_type.pool_type)
        connect, make_pool = None, partial(pool_type, conn_string, **options)
    with connecting():
        source = make_pool() if connect is None else (yield connect)
    try:
        made = make(source, **settings)
    except BaseException:
        yield source.close
        raise
    made.engine.own(connect, make_pool)
    try:
        yield from made.engine.opening()
    except BaseException:
        yield from made.engine.closing()
        raise
    return made
