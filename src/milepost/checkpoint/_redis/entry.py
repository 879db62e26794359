"""The entry of a thread in the registry, as a hash in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from milepost._db.redis.commands import Argument
from milepost.checkpoint._redis.scripts import Change
from milepost.checkpoint._redis.thread_io import pairs
from milepost.errors import DamagedRowError


class Entry(NamedTuple):
    """What the registry knows of a thread. The hash has the same names."""

    head: str | None
    token: str | None
    epoch: int
    status: str
    created_at: float
    updated_at: float
    owner: str | None = None
    metadata: str | None = "{}"
    ttl: str | None = None
    """Seconds, or `FOR_EVER`. None if the saver's default applies."""


def entry_in(thread_id: str, cells: Sequence[bytes]) -> tuple[dict[str, str], Entry | None]:
    """All values of a thread's hash, and the entry in it; None if the thread does not exist."""
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
    """The changes that turn one entry into another."""
    found: list[Argument] = []
    for key, value in after._asdict().items():
        if before is not None and value == getattr(before, key):
            continue
        if value is None:
            if before is not None:
                found += [Change.REMOVE_VALUE, key]
        else:
            text = repr(value) if isinstance(value, float) else str(value)
            found += [Change.SET_VALUE, key, text]
    return found
