"""What a server says about itself."""

from __future__ import annotations

from typing import Any

from milepost._db.redis.commands import Program, command
from milepost.errors import ConnectionUnusableError, SaverError


def eviction_policies(info: Any) -> set[str]:
    """The eviction policies in a reply to INFO: a client gives text, a dict, or one for each
    node."""
    if isinstance(info, bytes):
        info = info.decode("utf-8", "replace")
    if isinstance(info, str):
        lines = (line.partition(":") for line in info.splitlines())
        return {value.strip() for name, _, value in lines if name == "maxmemory_policy"}
    if not isinstance(info, dict):
        return set()
    if "maxmemory_policy" in info:
        return {str(info["maxmemory_policy"])}
    return {policy for one in info.values() for policy in eviction_policies(one)}


def check_eviction(owner: str) -> Program[None]:
    """Refuse a server that throws keys away when its memory is full."""
    try:
        info = yield command("INFO", "memory")
    except SaverError:
        return  # the server does not tell everyone
    bad = sorted(policy for policy in eviction_policies(info) if policy.startswith("allkeys"))
    if bad:
        raise ConnectionUnusableError(
            f"{owner} would lose data on this server: its maxmemory-policy is {bad[0]}, so it "
            "throws away any key when its memory is full. Use a server with noeviction (or "
            "volatile-*, which leaves these keys alone), or say allow_eviction=True."
        )
