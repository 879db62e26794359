"""Clients of Redis and Valkey: made from an address, checked, classified. Checks of servers."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from importlib import import_module
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from milepost._db.redis.commands import Everywhere, RedisEffects, command
from milepost._db.redis.errors import client_errors
from milepost.errors import ConnectionUnusableError, MissingDependencyError

_CLUSTER_SCHEMES: Final = ("redis+cluster", "rediss+cluster", "valkey+cluster", "valkeys+cluster")
_SCHEME_OF_REDIS_PY: Final = {"valkey": "redis", "valkeys": "rediss"}
_HEALTH_CHECK_SECONDS: Final = 30
"""redis-py pings a connection before use that was idle for so long."""


def make_client(url: str, *, is_async: bool, cluster: bool | None = None, **options: Any) -> Any:
    """A client for an address: `redis://`, `rediss://` (TLS), `unix://`; `valkey` in their place.

    The client is that of a cluster with `cluster`, `redis+cluster://` or `?cluster=true`. It never
    repeats a command: only `RedisEngine` knows what may be repeated.
    """
    package = "redis.asyncio" if is_async else "redis"
    try:
        module = import_module(package)
    except ImportError as error:
        raise MissingDependencyError(
            "Redis and Valkey need redis-py: pip install 'milepost[redis]'"
        ) from error
    try:
        address, in_url = _split(url)
        if in_url if cluster is None else cluster:
            return module.RedisCluster.from_url(address, **options)
        from redis.backoff import NoBackoff

        retry = import_module(f"{package}.retry").Retry(NoBackoff(), 0)
        return module.Redis.from_url(
            address, **{"retry": retry, "health_check_interval": _HEALTH_CHECK_SECONDS, **options}
        )
    except ValueError as error:
        raise ConnectionUnusableError(
            "The address of Redis cannot be read: write redis://user:password@host:6379/0, with "
            "%2F and %40 for / and @ in the password."
        ) from error
    except client_errors() as error:  # a sync client of a cluster connects when it is made
        raise ConnectionUnusableError(
            f"No connection to a cluster could be made: {error}. See that its nodes run and take "
            "connections at this address."
        ) from error


def without_parameters(url: str, names: Collection[str]) -> tuple[str, dict[str, str]]:
    """An address without some parameters of its query, and the values of those parameters."""
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    found = {name: value for name, value in query if name in names}
    rest = urlencode([pair for pair in query if pair[0] not in names])
    if parts.scheme == "unix":  # an empty host is written out: `unix:///path`
        return f"unix://{parts.netloc}{parts.path}{'?' if rest else ''}{rest}", found
    return urlunsplit((parts.scheme, parts.netloc, parts.path, rest, "")), found


def _split(url: str) -> tuple[str, bool]:
    """The address in the form of redis-py, and whether it names a cluster."""
    url, found = without_parameters(url, ("cluster",))
    scheme, _, rest = url.partition(":")
    cluster = scheme in _CLUSTER_SCHEMES
    if "cluster" in found:
        cluster = found["cluster"].lower() in ("1", "true", "yes")
    scheme = scheme.removesuffix("+cluster")
    return f"{_SCHEME_OF_REDIS_PY.get(scheme, scheme)}:{rest}", cluster


def is_async_client(client: Any) -> bool:
    """Whether the methods of a client must be awaited."""
    return inspect.iscoroutinefunction(type(client).execute_command)


def is_cluster_client(client: Any) -> bool:
    """Whether a client is a cluster client."""
    return hasattr(type(client), "get_node_from_key")


def check_client(client: Any, owner: str) -> None:
    """Refuse what is not a client, and a client that decodes replies: stored values are bytes."""
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
    """The arguments of a client's connections: its pool, its manager of nodes or the client itself
    has them, depending on the kind of client."""
    owners = (getattr(client, name, None) for name in ("connection_pool", "nodes_manager"))
    for owner in (*owners, client):
        if isinstance(found := getattr(owner, "connection_kwargs", None), dict):
            return found
    return {}


# -- what a server says about itself


def info_value(info: Any, name: str) -> str:
    """A value in a reply to INFO, which is bytes or a dict, depending on the client; "" if it is
    missing, or if the reply is an error."""
    if isinstance(info, dict):
        return str(info.get(name, ""))
    lines = info.decode("utf-8", "replace").splitlines() if isinstance(info, bytes) else ()
    return next((line.partition(":")[2] for line in lines if line.startswith(f"{name}:")), "")


def check_eviction(owner: str) -> RedisEffects[None]:
    """Refuse a server that evicts any key when its memory is full."""
    # INFO may be hidden from this user; then nothing is checked.
    for (memory,) in (yield Everywhere([command("INFO", "memory")])):
        refuse_eviction(info_value(memory, "maxmemory_policy"), owner)


def refuse_eviction(policy: str, owner: str) -> None:
    """Raise if a `maxmemory-policy` lets a server evict any key."""
    if policy.startswith("allkeys"):
        raise ConnectionUnusableError(
            f"{owner} would lose data on this server: its maxmemory-policy is {policy}, so it "
            "evicts any key when its memory is full. Use a server with noeviction (or "
            "volatile-*, which leaves keys without a time to live alone), or say "
            "allow_eviction=True."
        )
