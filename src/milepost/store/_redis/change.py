"""The script of one batch of writes on Redis, while it is put together."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from milepost._db.redis.commands import Command, RunScript, command
from milepost._db.redis.guarded import Counter, Guard, guarded, number
from milepost.store._core import namespaces
from milepost.store._core.records import Namespace
from milepost.store._core.tasks import Group, Write
from milepost.store._redis.layout import Head, Keys, Place, member, sealed
from milepost.store._redis.marks import RootGenerations


class RootState(NamedTuple):
    """What is known about a root."""

    deleted: int
    """The highest version of an item that was deleted."""
    token: bytes | None
    """Identifies a root from its first item until a sweep finds it empty."""
    generations: RootGenerations


@dataclass(slots=True)
class State:
    """The current state of all that a batch concerns."""

    roots: dict[str, RootState]
    heads: dict[Place, Head | None]
    """Of items that have expired, too."""
    sizes: dict[Namespace, int]


@dataclass(slots=True)
class Batch:
    """The writes of several groups, while they are carried out."""

    groups: Sequence[Group]
    failed: dict[int, Exception]
    now: int
    nonce: str = field(default_factory=lambda: secrets.token_hex(6))
    done: set[str] = field(default_factory=set)
    """Roots whose writes are stored: in a cluster each is a script of its own."""
    fresh: set[str] = field(default_factory=set)
    """Roots that were registered for it."""
    unknown: int = 0
    """How often an answer was lost."""
    only_expired: bool = False
    """Whether only items that have expired are deleted."""
    written: int = 0
    """How many items were."""

    def writes(self) -> list[Write]:
        """Those that are still to be done."""
        return [
            write
            for at, group in enumerate(self.groups)
            if at not in self.failed
            for write in group
            if isinstance(write, Write) and write.namespace[0] not in self.done
        ]


class Change:
    """The script of one batch: its guards and its commands."""

    def __init__(self, keys: Keys, state: State, batch: Batch, floor: int) -> None:
        self._keys = keys
        self._state = state
        self._batch = batch
        self._floor = floor
        self.keys: list[bytes] = []
        self.guards: list[Guard] = []
        self.commands: list[Command] = []
        self._counters: list[Counter] = []
        self._numbers: dict[str, int] = {}
        self._sizes: dict[Namespace, int] = {}
        self._deleted: dict[str, int] = {}
        self._guarded: set[str] = set()
        self.heads: dict[Place, Head] = {}
        """The new heads."""

    def begin(self, root: str) -> None:
        """Change something below a root."""
        keys = self._keys.root(root)
        self.keys += keys
        self._numbers[root] = len(self._counters)
        self._counters.append(Counter(keys.meta, "seq"))
        known = self._state.roots[root]
        self.guards += known.generations.guards(keys.meta)
        self.guards.append(Guard(("HGET", keys.meta, "root"), known.token))
        if known.token is None:
            self.commands.append(command("HSET", keys.meta, "root", self._batch.nonce))

    def seq(self, root: str, sign: str = "") -> bytes:
        """Stands for the number of this change below a root, or its negative."""
        return number(self._numbers[root], sign)

    def generations(self, root: str) -> RootGenerations:
        """The generations of a root's vectors."""
        return self._state.roots[root].generations

    def add(self, place: Place, write: Write, stamp: int) -> None:
        """Put or delete an item."""
        namespace, key = place
        root, old = namespace[0], self._state.heads[place]
        space, keys = self._keys.space(namespace), self._keys.root(root)
        self.keys += space
        self.guards.append(Guard(("HGET", space.heads, key), None if old is None else old.stored))
        name = member(namespace, key)
        if write.data is None:
            assert old is not None
            self.commands += [
                command("HDEL", space.heads, key),
                command("HDEL", space.bodies, key),
                command("ZREM", space.order, key),
            ]
            if old.expires is not None:
                self.commands.append(command("ZREM", keys.expiry, name))
            self._deleted[root] = max(old.updated, self._deleted.get(root, 0))
            self._guard_deleted(root)
            self._resize(namespace, -1)
            return
        before = 0 if old is None else old.updated
        version = max(stamp, 1 + max(before, self._floor, self._state.roots[root].deleted))
        is_new = old is None or old.is_expired(self._batch.now)
        expires = None if write.ttl is None else self._batch.now + write.ttl
        head = Head(
            version if is_new or old is None else old.created,
            version,
            write.ttl,
            expires,
            self._batch.nonce,
            write.index,
        )
        self.heads[place] = head
        self.commands += [
            command("HSET", space.heads, key, head.dump()),
            command("HSET", space.bodies, key, sealed(write.data)),
            command("ZADD", space.order, version, key),
        ]
        if expires is not None:
            self.commands.append(command("ZADD", keys.expiry, expires, name))
        elif old is not None and old.expires is not None:
            self.commands.append(command("ZREM", keys.expiry, name))
        if old is None:
            self._guard_deleted(root)
            self._resize(namespace, 1)

    def _guard_deleted(self, root: str) -> None:
        if root not in self._guarded:
            self._guarded.add(root)
            known = self._state.roots[root].deleted
            expected = b"%d" % known if known else None
            self.guards.append(Guard(("HGET", self._keys.root(root).meta, "deleted"), expected))

    def _resize(self, namespace: Namespace, by: int) -> None:
        self._sizes[namespace] = self._sizes.get(namespace, 0) + by

    def end(self) -> None:
        """Note what became of namespaces and of versions."""
        for namespace, by in self._sizes.items():
            before = self._state.sizes[namespace]
            spaces, text = self._keys.root(namespace[0]).spaces, namespaces.to_text(namespace)
            if by < 0:
                # Of two that delete at the same time, one is the last.
                size = ("HLEN", self._keys.space(namespace).heads)
                self.guards.append(Guard(size, b"%d" % before))
            if before + by == 0:
                self.commands.append(command("ZREM", spaces, text))
            elif by > 0:
                self.commands.append(command("ZADD", spaces, 0, text))
        for root, version in self._deleted.items():
            meta, known = self._keys.root(root).meta, self._state.roots[root].deleted
            if version > known:
                self.commands.append(command("HSET", meta, "deleted", version))

    def script(self) -> RunScript:
        """The script; either all of its commands run or none."""
        keys = list(dict.fromkeys(self.keys))
        return guarded(keys, self.guards, self.commands, self._counters, once=True)
