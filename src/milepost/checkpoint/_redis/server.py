"""Checks a server when a saver first uses it, and has its append-only file rewritten."""

from __future__ import annotations

import warnings
from typing import Final

from milepost._db.calls import Pause
from milepost._db.redis.commands import Everywhere, RedisEffects, command
from milepost._db.redis.errors import is_barred, translated
from milepost._db.redis.server import info_value, refuse_eviction
from milepost._internal import log
from milepost.checkpoint._redis.settings import UNSURE, Settings
from milepost.errors import NotErasedError

_REWRITE_SECONDS: Final = 60.0
"""How long a rewrite of the append-only file may take."""
_POLL_SECONDS: Final = 0.01


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
