"""The settings of a saver, and what it has learned about its server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from milepost.checkpoint._redis.acknowledged import Acknowledged
from milepost.checkpoint._redis.rows import Keys

UNSURE: Final = "how much of that survives a crash of the server is for its settings to say"


class Durability(NamedTuple):
    """What holds for every step that was acknowledged.

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
    """How many replicas have the step."""
    promise: str
    """The same in words."""


@dataclass
class Settings:
    """The settings of a saver, and what it has learned about its server."""

    keys: Keys
    owner: str = "RedisSaver"
    """The class that errors name."""
    ttl: float | None = None
    """How many seconds a thread lives after its last use; None for ever."""
    refresh_on_read: bool = False
    wait_aof: bool = True
    wait_replicas: int = 0
    allow_eviction: bool = False
    scripts: bool = True
    """Whether scripts may be used; False as soon as the server refuses one."""
    fsyncs: bool | None = None
    """Whether a write waits for the server's disk; None before the first use."""
    is_ready: bool = False
    """Whether the server was checked."""
    acknowledged: Acknowledged = field(default_factory=Acknowledged)
    listed: dict[str, float] = field(default_factory=dict)
    """Thread → when this saver last added it to the index of threads."""

    @property
    def ttl_text(self) -> str:
        """`ttl` as scripts get it: "" for None."""
        return "" if self.ttl is None else str(self.ttl)
