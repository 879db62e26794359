"""What a server says about itself."""

from __future__ import annotations

from typing import Any

from milepost._db.redis.commands import Everywhere, RedisEffects, command
from milepost.errors import ConnectionUnusableError


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
