"""Which items below a root have vectors, and of which generation.

The sorted set of marks has a score for each item:

    > 0   the item has its vectors, or no texts; the score is the root's `seq` of the change that
          wrote them, so that a copy can fetch what has changed since
    = 0   the item lacks its vectors, since a store with another model has put the item
    < 0   a store without an index has put the item, so it has no vectors; the score is minus the
          `seq` of that change; a reindex makes the vectors

A root notes the generation of its marks and vectors. The notes of the store say which generation is
current. The first store that uses the vectors of a root brings the root up to it (`follow`). So a
switch of generations is one change of the notes, and no one waits for it. Items that others still
write with the old generation are marked as lacking when their root follows.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost._db.redis.commands import Command, RedisEffects, RunScript, command
from milepost._db.redis.guarded import Counter, Guard, guarded
from milepost.store._redis.layout import Place, RootKeys, member, root_of

if TYPE_CHECKING:
    from milepost.store._core.tasks import Write
    from milepost.store._redis.change import Change
    from milepost.store._vectors.embeddings import Packed
    from milepost.store._vectors.generations import Generations

_CREATED = struct.Struct(">Q")


class StaleGenerations(Exception):
    """A root has a later generation than this store has read: it must read the notes again."""


class RootGenerations(NamedTuple):
    """The generations of a root's vectors, by number."""

    current: int | None
    coming: int | None

    @classmethod
    def read(cls, current: bytes | None, coming: bytes | None) -> RootGenerations:
        """From two fields of a root's hash."""
        return cls(*(None if one is None else int(one) for one in (current, coming)))

    def guards(self, meta: bytes) -> list[Guard]:
        """Guards that hold as long as the root has these generations."""
        pairs = (("current", self.current), ("coming", self.coming))
        return [
            Guard(("HGET", meta, name), None if one is None else b"%d" % one) for name, one in pairs
        ]


def mark(
    keys: RootKeys, change: Change, place: Place, write: Write, generations: Generations | None
) -> None:
    """Add what a put or a delete, which the change has, does to an item's mark and vectors."""
    root, name, commands = root_of(place), member(*place), change.commands
    head = change.heads.get(place)  # of a put alone
    of_root = change.generations(root)
    target = current = coming = None
    if generations is not None and head is not None:
        target, current, coming = generations.target, generations.current, generations.coming
    if of_root.current is not None and (target is None or target is not current):
        commands.append(command("HDEL", keys.vectors, name))
        if head is None:
            commands.append(command("ZREM", keys.marks, name))
        elif generations is not None and (target is not None or generations.was_fitting):
            commands.append(command("ZADD", keys.marks, 0, name))
        else:
            commands.append(command("ZADD", keys.marks, change.seq(root, negative=True), name))
    if of_root.coming is not None and (target is None or target is not coming):
        commands.append(command("ZREM", keys.coming_marks, name))
        commands.append(command("HDEL", keys.coming_vectors, name))
    if target is not None:
        assert head is not None
        marks, vectors = marks_and_vectors(keys, coming=target is not current)
        commands += marked(
            marks, vectors, name, change.seq(root), packed(head.created, write.vectors)
        )


def follow(
    keys: RootKeys, of_root: RootGenerations, generations: Generations | None
) -> RedisEffects[bool]:
    """Bring one root up to the generations of the store. Returns whether it was behind."""
    if generations is None:
        return False
    current, coming = (
        None if one is None else one.number for one in (generations.current, generations.coming)
    )
    latest = max(coming or 0, current or 0)
    # A root never goes back. Its coming generation may be the current one of the store.
    if (of_root.current or 0) > (current or 0) or (of_root.coming or 0) > latest:
        raise StaleGenerations
    behind = False
    if current is not None and of_root.current != current:
        yield from _advance(keys, of_root, current)
        of_root = RootGenerations(current, None)
        behind = True
    if coming is not None and of_root.coming != coming:
        yield _scripted(
            keys,
            of_root.guards(keys.meta),
            [
                command("DEL", keys.coming_marks, keys.coming_vectors),
                command("HSET", keys.meta, "coming", coming),
            ],
        )
        behind = True
    return behind


def _advance(keys: RootKeys, of_root: RootGenerations, current: int) -> RedisEffects[None]:
    """Give a root the current generation: that which was coming, or one without vectors."""
    made = of_root.coming == current
    exists = yield command("EXISTS", keys.coming_vectors)
    guards = of_root.guards(keys.meta)
    guards.append(Guard(("EXISTS", keys.coming_vectors), b"%d" % exists))
    commands = [command("DEL", keys.vectors)]
    if made:
        # Items that have no mark in the coming generation get the score 0: they lack vectors.
        commands.append(
            command(
                *("ZUNIONSTORE", keys.marks, 2, keys.coming_marks, keys.marks),
                *("WEIGHTS", 1, 0, "AGGREGATE", "MAX"),
            )
        )
        if exists:
            commands.append(command("RENAME", keys.coming_vectors, keys.vectors))
    else:
        commands.append(command("ZUNIONSTORE", keys.marks, 1, keys.marks, "WEIGHTS", 0))
    commands += [
        command("DEL", keys.coming_marks, keys.coming_vectors),
        command("HDEL", keys.meta, "coming"),
        command("HSET", keys.meta, "current", current),
    ]
    yield _scripted(keys, guards, commands)


def _scripted(keys: RootKeys, guards: list[Guard], commands: list[Command]) -> RunScript:
    return guarded(list(keys), guards, commands, [Counter(keys.meta, "seq")])


def marks_and_vectors(keys: RootKeys, *, coming: bool) -> tuple[bytes, bytes]:
    """The keys of a root for the coming generation, or for the current one."""
    if coming:
        return keys.coming_marks, keys.coming_vectors
    return keys.marks, keys.vectors


def marked(
    marks: bytes, vectors: bytes, name: bytes, seq: bytes, vector: bytes | None
) -> list[Command]:
    """Commands that store an item's mark and its vectors; None if the item has no texts."""
    return [
        command("ZADD", marks, seq, name),
        command("HDEL", vectors, name)
        if vector is None
        else command("HSET", vectors, name, vector),
    ]


def packed(created: int, vectors: Sequence[Packed]) -> bytes | None:
    """The stored form of an item's vectors, with the time when the item was created."""
    return _CREATED.pack(created) + b"".join(vectors) if vectors else None


def unpacked(stored: bytes) -> tuple[int, bytes]:
    """The time when the item was created, and its vectors one after the other."""
    created: Any = _CREATED.unpack_from(stored)[0]
    return int(created), stored[_CREATED.size :]
