"""What a saver was told about its server, and what it knows of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from milepost.checkpoint._redis.acknowledged import Acknowledged
from milepost.checkpoint._redis.rows import Keys

UNSURE: Final = "how much of that survives a crash of the server is for its settings to say"


class Durability(NamedTuple):
    """What is promised of a step that was acknowledged.

    Examples:
        >>> import os
        >>> from milepost.checkpoint.redis import RedisSaver
        >>> with RedisSaver.from_conn_string(os.environ["REDIS_URL"], wait_aof=False) as saver:
        ...     saver.durability.replicas
        0
    """

    fsynced: bool | None
    """Whether it is in the server's append-only file, on the disk; None before the first use."""
    replicas: int
    """How many replicas have it."""
    promise: str
    """The same in words."""


@dataclass
class Settings:
    """What a saver was told about its server, and what it has found out."""

    keys: Keys
    owner: str = "RedisSaver"
    """The class that errors name."""
    ttl: float | None = None
    """Seconds."""
    refresh_on_read: bool = False
    wait_aof: bool = True
    wait_replicas: int = 0
    allow_eviction: bool = False
    scripts: bool = True
    """Whether scripts may be used; False as soon as the server refuses one."""
    fsyncs: bool | None = None
    """Whether the server can tell when a write is on the disk; None before the first use."""
    is_ready: bool = False
    """Whether the server was looked at."""
    acknowledged: Acknowledged = field(default_factory=Acknowledged)
    listed: dict[str, float] = field(default_factory=dict)
    """Thread → when this saver has last put it into the index of threads."""
