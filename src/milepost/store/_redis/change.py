"""Builds the script of one batch of writes on Redis."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from milepost._db.redis.commands import Command, RunScript, command
from milepost._db.redis.guarded import Counter, Guard, guarded, value_of
from milepost.store._core import namespaces
from milepost.store._core.records import Namespace
from milepost.store._core.tasks import Group, Write, writes_of
from milepost.store._redis.layout import Head, Keys, Place, member, sealed
from milepost.store._redis.marks import RootGenerations


class RootState(NamedTuple):
    """A root as it was read."""

    deleted: int
    """The highest version of an item that was deleted."""
    token: bytes | None
    """Identifies a root, from its first item until a sweep removes the empty root."""
    generations: RootGenerations


@dataclass(slots=True)
class State:
    """The stored state of the roots, items and namespaces that a batch changes."""

    roots: dict[str, RootState]
    heads: dict[Place, Head | None]
    """Also of items that have expired."""
    sizes: dict[Namespace, int]
    """How many items each namespace has."""


@dataclass(slots=True)
class Batch:
    """The writes of several groups, and how far they are carried out."""

    groups: Sequence[Group]
    failed: dict[int, Exception]
    """By the place of a group: why its writes are not stored."""
    now: int
    nonce: str = field(default_factory=lambda: secrets.token_hex(6))
    """Stored in the heads of the items that the batch puts. If the reply of its script is lost, the
    nonce shows whether the script has run."""
    done: set[str] = field(default_factory=set)
    """Roots whose writes are stored. In a cluster each root has a script of its own."""
    fresh: set[str] = field(default_factory=set)
    """Roots that were registered for this batch."""
    lost_replies: int = 0
    """How often the reply of a script was lost."""
    only_expired: bool = False
    """Whether the batch deletes only what has expired."""
    written: int = 0
    """How many items were written."""

    def writes(self) -> list[Write]:
        """The writes that are still to be done."""
        return [
            write
            for write in writes_of(self.groups, self.failed)
            if write.namespace[0] not in self.done
        ]


class Change:
    """The guards and commands of one script, as they are collected."""

    def __init__(self, keys: Keys, state: State, batch: Batch, floor: int) -> None:
        self._keys = keys
        self._state = state
        self._batch = batch
        self._floor = floor
        self.keys: list[bytes] = []
        self.guards: list[Guard] = []
        self.commands: list[Command] = []
        self._counters: list[Counter] = []
        self._counter_of: dict[str, int] = {}
        """By root: the place of its counter in the script."""
        self._sizes: defaultdict[Namespace, int] = defaultdict(int)
        """By how much the number of a namespace's items changes."""
        self._deleted: dict[str, int] = {}
        self.heads: dict[Place, Head] = {}
        """The new heads of items that are put."""

    def begin(self, root: str) -> None:
        """Prepare for changes below a root. Call this first."""
        keys = self._keys.root(root)
        self.keys += keys
        self._counter_of[root] = len(self._counters)
        self._counters.append(Counter(keys.meta, "seq"))
        known = self._state.roots[root]
        self.guards += known.generations.guards(keys.meta)
        self.guards.append(Guard(("HGET", keys.meta, "root"), known.token))
        if known.token is None:
            self.commands.append(command("HSET", keys.meta, "root", self._batch.nonce))

    def seq(self, root: str, *, negative: bool = False) -> bytes:
        """An argument that the script replaces with the new `seq` of a root, or minus that."""
        return value_of(self._counter_of[root], negative=negative)

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
            self._sizes[namespace] -= 1
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
            self._sizes[namespace] += 1

    def _guard_deleted(self, root: str) -> None:
        known = self._state.roots[root].deleted
        expected = b"%d" % known if known else None
        self.guards.append(Guard(("HGET", self._keys.root(root).meta, "deleted"), expected))

    def end(self) -> None:
        """Add what follows from all changes: which namespaces have items, the deleted version."""
        for namespace, by in self._sizes.items():
            before = self._state.sizes[namespace]
            spaces, text = self._keys.root(namespace[0]).spaces, namespaces.to_text(namespace)
            if by < 0:
                # Of two deletes at the same time, only one may find that it empties the namespace.
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
        """The script. Either all of its commands run or none."""
        keys, guards = list(dict.fromkeys(self.keys)), list(dict.fromkeys(self.guards))
        commands, counters = self.commands, self._counters
        if not self.heads:
            # Deletes come first: after that, a server whose memory is full takes the rest too.
            commands = [*commands, *[command("HINCRBY", *counter, 1) for counter in counters]]
            counters = []
        return guarded(keys, guards, commands, counters, once=True)
