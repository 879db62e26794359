"""Reads of one moment, though they are several scripts.

Every change below a root increments the root's `seq`. A snapshot remembers the first `seq` of each
root. If a later read finds another `seq`, the reads begin again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from milepost._db.redis.commands import Command, RedisEffects, command
from milepost._db.redis.guarded import reading
from milepost.store._core.engine_core import Reads
from milepost.store._redis.layout import Head, Keys, Place


class Moved(Exception):
    """Another client has changed something below a root between two reads."""


class Snapshot:
    """The reads of one attempt. A snapshot that is not strict accepts changes between two reads."""

    def __init__(self, keys: Keys, reads: Reads, *, strict: bool) -> None:
        self._keys = keys
        self.now = reads.now
        self.completed = reads.completed
        self.renewed: list[tuple[Place, Head]] = reads.renewed
        """The items whose lifetime the reads renew."""
        self.is_strict = strict
        self._seqs: dict[str, bytes | None] = {}
        self._reads = 0

    def read(
        self, roots: Sequence[str], keys: Sequence[bytes], commands: Sequence[Command]
    ) -> RedisEffects[list[Any]]:
        """The replies of commands that read below these roots, all at one moment.

        `keys` are all keys of the commands. In a cluster `roots` is one root.
        """
        metas = [self._keys.root(root).meta for root in roots]
        seqs = [command("HGET", meta, "seq") for meta in metas]
        answer = yield reading([*metas, *keys], [*seqs, *commands])
        self._reads += 1
        for root, seq in zip(roots, answer[1:], strict=False):
            self._check(root, seq)
        return list(answer[1 + len(roots) :])

    def settle(self) -> RedisEffects[None]:
        """Raise Moved if the reads are not of one moment. In a cluster each root has its own."""
        several = self._reads > 1 and len(self._seqs) > 1
        if several and self.is_strict and not self._keys.is_cluster:
            yield from self.read(list(self._seqs), [], [])

    def seq(self, root: str) -> int:
        """The `seq` of a root that was read."""
        return int(self._seqs.get(root) or 0)

    def _check(self, root: str, seq: bytes | None) -> None:
        if self._seqs.setdefault(root, seq) != seq:
            if self.is_strict:
                raise Moved
            self._seqs[root] = seq
