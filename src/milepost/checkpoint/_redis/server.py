"""The server of a saver: the settings for it, what it has acknowledged, checks at the first use.

After a fail-over the new primary may be a replica that had not yet received the last commits. So a
saver remembers what a server has acknowledged, and notices if the server loses it.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from milepost._db.calls import Pause
from milepost._db.redis.client import info_value, refuse_eviction
from milepost._db.redis.commands import Everywhere, RedisEffects, command
from milepost._db.redis.errors import is_barred, translated
from milepost._internal import fork_guard, log
from milepost.checkpoint._redis.rows import Keys
from milepost.errors import BrokenChainError, NotErasedError

V = TypeVar("V")

_REWRITE_SECONDS: Final = 60.0
"""How long a rewrite of the append-only file may take."""
_POLL_SECONDS: Final = 0.01
_MAX_REMEMBERED: Final = 10_000
"""Threads, and as many runs; the oldest are forgotten."""
UNSURE: Final = "how much of that survives a crash of the server is for its settings to say"


# -- what a server has acknowledged


class Expected(NamedTuple):
    """What the server had acknowledged before a transaction began, and must still have."""

    head: tuple[int, str] | None
    """The thread's epoch, and its latest checkpoint."""
    writes: int
    """How many writes the thread had had when the run last wrote; 0 if that is not known. It counts
    only as long as the run owns the thread."""

    def check(
        self, thread_id: str, epoch: int, head: str | None, writes: int | None
    ) -> BrokenChainError | None:
        """The error to raise if the server has an older state; `writes` is None if the run does not
        own the thread."""
        if self.head is not None and self.head[0] == epoch and (head or "") < self.head[1]:
            what = f"its latest checkpoint was '{self.head[1]}', and is '{head}'"
        elif writes is not None and writes < self.writes:
            what = "what this run has stored last is not there"
        else:
            return None
        return BrokenChainError(
            f"The server has lost the last steps of thread '{thread_id}': {what}. A fail-over to a "
            "replica that lagged behind, or a restart from an older file, does that. Nothing of "
            "this call was stored. Load the thread again to go on from what is left, or restore a "
            "backup. WAITAOF and `wait_replicas` make such a loss less likely."
        )


class Acknowledged:
    """The heads of threads, and for each run the number of writes of its thread."""

    def __init__(self) -> None:
        self._lock = fork_guard.fresh_in_child(threading.Lock())
        self._heads: OrderedDict[str, tuple[int, str]] = OrderedDict()
        self._writes: OrderedDict[str, int] = OrderedDict()
        """By the token of a run."""

    def expected(self, thread_id: str, owner: str | None) -> Expected:
        """What a transaction must find, whatever others do meanwhile."""
        writes = self._writes.get(owner, 0) if owner is not None else 0
        return Expected(self._heads.get(thread_id), writes)

    def head(self, thread_id: str, epoch: int, head: str) -> None:
        """Remember a thread's latest checkpoint, which only a new epoch may set back."""
        with self._lock:
            before = self._heads.get(thread_id)
            if before is None or before[0] != epoch or before[1] < head:
                _keep(self._heads, thread_id, (epoch, head))

    def wrote(self, owner: str, writes: int) -> None:
        """Remember the number of writes of a thread, after a write of a run was acknowledged."""
        with self._lock:
            _keep(self._writes, owner, max(writes, self._writes.get(owner, 0)))

    def forget(self, thread_id: str) -> None:
        """Forget a thread that does not exist any more, or whose loss was reported."""
        with self._lock:
            self._heads.pop(thread_id, None)


def _keep(known: OrderedDict[str, V], key: str, value: V) -> None:
    known[key] = value
    known.move_to_end(key)
    if len(known) > _MAX_REMEMBERED:
        known.popitem(last=False)


# -- settings


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


# -- the server


def check_server(settings: Settings) -> RedisEffects[None]:
    """Refuse a server that evicts threads. Find out whether it can wait for its disk."""
    asked = [command("INFO", "memory"), command("INFO", "persistence"), command("WAITAOF", 0, 0, 0)]
    can_wait = has_file = True
    for memory, persistence, wait in (yield Everywhere(asked)):
        if isinstance(memory, Exception) and not is_barred(memory):
            raise translated(memory, settings.owner) from memory
        policy = info_value(memory, "maxmemory_policy")
        if not settings.allow_eviction:
            refuse_eviction(policy, settings.owner)
            if policy.startswith("volatile") and settings.ttl:
                log.warning(
                    log.STORAGE,
                    "Redis may evict threads with a TTL before their time (%s).",
                    policy,
                )
        can_wait = can_wait and not isinstance(wait, Exception)
        has_file = has_file and info_value(persistence, "aof_enabled") != "0"
    settings.fsyncs = settings.wait_aof and can_wait and has_file
    if settings.wait_aof and not settings.fsyncs:
        why = "has no append-only file" if can_wait else "cannot wait for its disk (no WAITAOF)"
        warnings.warn(
            f"The Redis server {why}: an acknowledged step is in its memory, and "
            f"{UNSURE}. Switch appendonly on, use Redis 7.2 or Valkey, or pass wait_aof=False to "
            "accept that.",
            RuntimeWarning,
            stacklevel=5,
        )
    settings.is_ready = True


def rewrite() -> RedisEffects[None]:
    """Have the append-only files rewritten, so that they lose what was removed."""
    for (reply,) in (yield Everywhere([command("BGREWRITEAOF")])):
        if isinstance(reply, Exception) and "in progress" not in str(reply):
            raise NotErasedError(
                "What was removed cannot be read any more, but may still be in the server's "
                f"append-only file: BGREWRITEAOF was refused ({reply}). Have it done on the server."
            )
    for _ in range(int(_REWRITE_SECONDS / _POLL_SECONDS)):
        replies = yield Everywhere([command("INFO", "persistence")])
        names = ("aof_rewrite_in_progress", "aof_rewrite_scheduled")
        if not any(info_value(reply, name) == "1" for (reply,) in replies for name in names):
            return
        yield Pause(_POLL_SECONDS)
    raise NotErasedError(
        "What was removed cannot be read any more, but the server is still writing its append-only "
        "file again. Wait until `INFO persistence` says that it has ended."
    )
