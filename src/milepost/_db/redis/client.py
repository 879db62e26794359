"""Clients of Redis and Valkey: how they are made from an address, and what kind one is."""

from __future__ import annotations

import inspect
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from milepost.errors import ConnectionUnusableError, MissingDependencyError

_CLUSTER: Final = ("redis+cluster", "rediss+cluster", "valkey+cluster", "valkeys+cluster")
_SAME: Final = {"valkey": "redis", "valkeys": "rediss"}


def load_redis() -> Any:
    """redis-py, or an error that says how to get it."""
    try:
        import redis
    except ImportError as error:
        raise MissingDependencyError(
            "Redis and Valkey need redis-py: pip install 'milepost[redis]'"
        ) from error
    return redis


def make_client(url: str, *, is_async: bool, cluster: bool | None = None, **options: Any) -> Any:
    """A client for an address: `redis://`, `rediss://` (TLS), `unix://`; `valkey` in their place.

    `cluster` makes a cluster client; so does `redis+cluster://`, or `?cluster=true`. The client
    itself repeats nothing: `RedisEngine` knows what may be repeated.
    """
    redis = load_redis()
    address, in_url = _split(url)
    wanted = in_url if cluster is None else cluster
    from redis.backoff import NoBackoff

    module: Any
    if is_async:
        import redis.asyncio as module
        from redis.asyncio.retry import Retry
    else:
        from redis.retry import Retry  # type: ignore[assignment]

        module = redis
    if wanted:
        if is_async:
            from redis.asyncio.cluster import RedisCluster
        else:
            from redis.cluster import RedisCluster  # type: ignore[assignment]
        return RedisCluster.from_url(address, **options)
    settings = {"retry": Retry(NoBackoff(), 0), "health_check_interval": 30, **options}
    return module.Redis.from_url(address, **settings)


def _split(url: str) -> tuple[str, bool]:
    """The address as redis-py knows it, and whether it is that of a cluster."""
    parts = urlsplit(url)
    cluster = parts.scheme in _CLUSTER
    scheme = parts.scheme.removesuffix("+cluster")
    query = parse_qsl(parts.query, keep_blank_values=True)
    for name, value in query:
        if name == "cluster":
            cluster = value.lower() in ("1", "true", "yes")
    rest = urlencode([pair for pair in query if pair[0] != "cluster"])
    scheme = _SAME.get(scheme, scheme)
    if scheme == "unix":  # an empty host is written out: `unix:///path`
        return f"unix://{parts.netloc}{parts.path}{'?' if rest else ''}{rest}", cluster
    return urlunsplit((scheme, parts.netloc, parts.path, rest, "")), cluster


def is_async_client(client: Any) -> bool:
    """Whether the methods of a client are awaited."""
    return inspect.iscoroutinefunction(type(client).execute_command)


def is_cluster_client(client: Any) -> bool:
    """Whether a client speaks to a cluster."""
    return hasattr(type(client), "get_node_from_key")


def check_client(client: Any, owner: str) -> None:
    """Refuse what is no client, and a client that decodes: stored values are bytes."""
    if isinstance(client, (str, bytes)) or not hasattr(type(client), "execute_command"):
        raise TypeError(
            f"{owner} takes a client of redis-py or valkey-py, not {type(client).__name__}; for an "
            f"address there is {owner}.from_conn_string(...)."
        )
    if _connection_kwargs(client).get("decode_responses"):
        raise ConnectionUnusableError(
            f"{owner}: the client decodes what it reads, and stored values are bytes. Make the "
            "client without decode_responses=True."
        )


def _connection_kwargs(client: Any) -> dict[str, Any]:
    pool = getattr(client, "connection_pool", None)
    found = getattr(pool, "connection_kwargs", None)
    if found is None:
        found = getattr(getattr(client, "nodes_manager", None), "connection_kwargs", None)
    if found is None:
        found = getattr(client, "connection_kwargs", None)
    return found if isinstance(found, dict) else {}
