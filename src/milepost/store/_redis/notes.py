"""What a store on Redis notes about all of its items: the generations of its vectors, its roots.

The notes are one JSON object. A change replaces the object, if no other change came first.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from milepost._db.redis.commands import Pipeline, RedisEffects, command
from milepost._db.redis.guarded import Guard, guarded, is_done
from milepost.errors import DamagedRowError, DatabaseBusyError, SaverError
from milepost.store._redis.layout import Keys

Notes: TypeAlias = dict[str, Any]
FORMAT: Final = 1
_MAX_ATTEMPTS: Final = 100


class Notebook:
    """Reads and changes the notes."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def load(self) -> RedisEffects[Notes]:
        return _parsed((yield command("GET", self._keys.meta)))

    def change(self, change: Callable[[Notes], Notes | None]) -> RedisEffects[Notes]:
        """Replace the notes with what `change` returns; None keeps them. Returns the notes."""
        for _ in range(_MAX_ATTEMPTS):
            stored = yield command("GET", self._keys.meta)
            before = _parsed(stored)
            after = change(dict(before))
            if after is None or after == before:
                return before
            new = json.dumps({"format": FORMAT, **after}).encode()
            guards = [Guard(("GET", self._keys.meta), stored)]
            commands = [command("SET", self._keys.meta, new)]
            answer = yield guarded([self._keys.meta], guards, commands)
            if is_done(answer):
                return after
        raise DatabaseBusyError("The notes of the store were changed by others at each attempt.")

    # -- roots

    def register(self, roots: list[str]) -> RedisEffects[int]:
        """Note that these roots have items, or will soon. Returns the floor: versions of new items
        are above it.

        Called before the first item of a root is put, and again after that: a sweep that removes
        empty roots keeps a root that was registered after the sweep has read it.
        """
        pairs = [part for root in roots for part in (root, uuid.uuid4().hex)]
        replies = yield Pipeline(
            [command("HSET", self._keys.roots, *pairs), command("GET", self._keys.meta)]
        )
        return int(_parsed(replies[1]).get("floor", 0))

    def raise_floor(self, version: int) -> RedisEffects[None]:
        """Let versions of items below new roots be larger than this one."""

        def raised(notes: Notes) -> Notes | None:
            if notes.get("floor", 0) >= version:
                return None
            return {**notes, "floor": version}

        yield from self.change(raised)

    def token(self, root: str) -> RedisEffects[bytes | None]:
        """Identifies the last registration of a root."""
        token: bytes | None = yield command("HGET", self._keys.roots, root)
        return token

    def unregister(self, root: str, token: bytes) -> RedisEffects[None]:
        """Remove a root from the list, unless it was registered again."""
        guards = [Guard(("HGET", self._keys.roots, root), token)]
        commands = [command("HDEL", self._keys.roots, root)]
        yield guarded([self._keys.roots], guards, commands)


def _parsed(stored: bytes | None) -> Notes:
    if stored is None:
        return {}
    try:
        notes: Notes = json.loads(stored)
        version = int(notes.get("format", FORMAT))
    except (ValueError, AttributeError, TypeError) as error:
        raise DamagedRowError(
            "The store's notes (the key that ends with `:meta`) are damaged. Restore the key from "
            "a backup; items are not concerned."
        ) from error
    if version > FORMAT:
        raise SaverError(
            f"The store was written by a newer version of milepost (its format is {version}, this "
            f"one knows {FORMAT}). Upgrade milepost."
        )
    return notes
