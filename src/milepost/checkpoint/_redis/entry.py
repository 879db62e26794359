"""The registry's entry of a thread, as a hash in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from milepost._db.redis.commands import Argument
from milepost.checkpoint._redis.thread_io import pairs
from milepost.errors import DamagedRowError


class Entry(NamedTuple):
    """What the registry says of a thread."""

    head: str | None
    token: str | None
    epoch: int
    status: str
    created_at: float
    updated_at: float
    owner: str | None = None
    metadata: str | None = "{}"
    ttl: str | None = None
    """Seconds; -1 for ever. None if the saver's default holds."""


def entry_in(thread_id: str, cells: Sequence[bytes]) -> tuple[dict[str, str], Entry | None]:
    """The entry that a hash holds, and all of that hash; None if there is no such thread."""
    given = {key.decode(): value.decode() for key, value in pairs(cells)}
    if "epoch" not in given:
        return given, None
    try:
        return given, Entry(
            given.get("head"),
            given.get("token"),
            int(given["epoch"]),
            given["status"],
            float(given["created_at"]),
            float(given["updated_at"]),
            given.get("owner"),
            given.get("metadata"),
            given.get("ttl"),
        )
    except (KeyError, ValueError) as error:
        raise DamagedRowError(
            f"The entry of thread '{thread_id}' in the registry is damaged: {error!r}. Restore the "
            "thread's keys from a backup, or delete the thread."
        ) from error


def entry_changes(before: Entry | None, after: Entry) -> list[Argument]:
    """What makes one entry of another."""
    found: list[Argument] = []
    for key, value in after._asdict().items():
        if before is not None and value == getattr(before, key):
            continue
        if value is None:
            if before is not None:
                found += ["X", key]
        else:
            found += ["E", key, repr(value) if isinstance(value, float) else str(value)]
    return found
