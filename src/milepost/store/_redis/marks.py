"""Which items below a root have vectors, and of which generation.

The sorted set of marks has a score for each item:

    > 0   the item's vectors, if it has texts, are there; the score is the number of the change
          that wrote them, so that a copy can ask for what has changed since
    = 0   the item lacks its vectors: a store put it whose model is not the generation's
    < 0   the item was put without vectors, by a store without an index, in the change of this
          number; a reindex makes them

A root notes the generation of its marks and vectors. The notes of the store say which one counts;
a root that is behind is brought up to it by the first that uses its vectors (`align`). So a switch
of generations is one change of the notes, and nothing has to wait for it: what others write to a
root with the old generation in mind is marked as lacking when the root follows.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost._db.redis.commands import Command, Program, RunScript, command
from milepost._db.redis.guarded import Counter, Guard, guarded
from milepost.store._redis.layout import Head, Keys, Place, RootKeys, member

if TYPE_CHECKING:
    from milepost.store._core.tasks import Write
    from milepost.store._redis.change import Change, RootState
    from milepost.store._vectors.embeddings import Packed
    from milepost.store._vectors.generations import Generations

_CREATED = struct.Struct(">Q")


class StaleGenerations(Exception):
    """A root has a later generation than this store knows of: it has to look again."""


class RootGenerations(NamedTuple):
    """The generations of a root's vectors, by number."""

    current: int | None
    coming: int | None

    @classmethod
    def read(cls, current: bytes | None, coming: bytes | None) -> RootGenerations:
        """From the cells of a root."""
        return cls(*(None if one is None else int(one) for one in (current, coming)))

    def guards(self, meta: bytes) -> list[Guard]:
        """That they are still these."""
        pairs = (("current", self.current), ("coming", self.coming))
        return [
            Guard(("HGET", meta, name), None if one is None else b"%d" % one) for name, one in pairs
        ]


class Marks:
    """Keeps marks and vectors right when items are written."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def write(
        self,
        change: Change,
        place: Place,
        write: Write,
        head: Head | None,
        generations: Generations | None,
    ) -> None:
        """What a put, or (without a head) a delete, means for an item's vectors."""
        root = place[0][0]
        there, keys, name = change.generations(root), self._keys.root(root), member(*place)
        commands = change.commands
        target = None if generations is None or head is None else generations.target
        if there.current is not None and (target is None or target is not generations.current):  # type: ignore[union-attr]
            commands.append(command("HDEL", keys.vectors, name))
            if head is None:
                commands.append(command("ZREM", keys.marks, name))
            elif generations is not None and (target is not None or generations.was_fitting):
                commands.append(command("ZADD", keys.marks, 0, name))
            else:
                commands.append(command("ZADD", keys.marks, change.seq(root, "-"), name))
        if there.coming is not None and (target is None or target is not generations.coming):  # type: ignore[union-attr]
            commands.append(command("ZREM", keys.coming_marks, name))
            commands.append(command("HDEL", keys.coming_vectors, name))
        if target is not None:
            assert head is not None
            assert generations is not None
            marks, vectors = marks_and_vectors(keys, coming=target is not generations.current)
            commands += marked(
                marks, vectors, name, change.seq(root), packed(head.created, write.vectors)
            )

    def align(
        self,
        roots: Sequence[str],
        known: Mapping[str, RootState],
        generations: Generations | None,
    ) -> Program[bool]:
        """Bring roots up to the generations that count; whether one was behind."""
        if generations is None:
            return False
        behind = False
        for root in roots:
            if (yield from self.follow(root, known[root].generations, generations)):
                behind = True
        return behind

    def follow(self, root: str, there: RootGenerations, generations: Generations) -> Program[bool]:
        """Bring one root up to them; whether it was behind."""
        current, coming = (
            None if one is None else one.number for one in (generations.current, generations.coming)
        )
        latest = max(coming or 0, current or 0)
        # What was coming may be current by now: a root never goes back.
        if (there.current or 0) > (current or 0) or (there.coming or 0) > latest:
            raise StaleGenerations
        keys, behind = self._keys.root(root), False
        if current is not None and there.current != current:
            yield from self._advance(keys, there, current)
            there = RootGenerations(current, None)
            behind = True
        if coming is not None and there.coming != coming:
            yield _scripted(
                keys,
                there.guards(keys.meta),
                [
                    command("DEL", keys.coming_marks, keys.coming_vectors),
                    command("HSET", keys.meta, "coming", coming),
                ],
            )
            behind = True
        return behind

    def _advance(self, keys: RootKeys, there: RootGenerations, current: int) -> Program[None]:
        made = there.coming == current
        exists = yield command("EXISTS", keys.coming_vectors)
        guards = there.guards(keys.meta)
        guards.append(Guard(("EXISTS", keys.coming_vectors), b"%d" % exists))
        commands = [command("DEL", keys.vectors)]
        if made:
            # Those that the coming generation does not have get the score 0: they lack vectors.
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
    """Commands that give an item its vectors, or none if it has no texts."""
    return [
        command("ZADD", marks, seq, name),
        command("HDEL", vectors, name)
        if vector is None
        else command("HSET", vectors, name, vector),
    ]


def packed(created: int, vectors: Sequence[Packed]) -> bytes | None:
    """The vectors of an item, as they are stored."""
    return _CREATED.pack(created) + b"".join(vectors) if vectors else None


def unpacked(stored: bytes) -> tuple[int, bytes]:
    """When the item was made, and its vectors one after the other."""
    created: Any = _CREATED.unpack_from(stored)[0]
    return int(created), stored[_CREATED.size :]
