"""Vectors for items that are stored already, on Redis (`_vectors/reindex.py`).

Vectors of the coming generation are stored item by item, each with a mark. Then one change of the
store's notes makes that generation the current one.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from milepost._db.redis.commands import RedisEffects, chunks, command
from milepost._db.redis.guarded import MAX_ARGUMENTS, Counter, Guard, guarded, is_done, value_of
from milepost.errors import DatabaseBusyError
from milepost.store._core.tasks import Index, Row
from milepost.store._redis.layout import Place, RedisItem, from_member, member, root_of
from milepost.store._redis.marks import (
    RootGenerations,
    StaleGenerations,
    follow,
    marked,
    marks_and_vectors,
    packed,
)
from milepost.store._redis.notes import Notes
from milepost.store._redis.upkeep import items_at, names_in, spaces_of
from milepost.store._vectors.generations import PROBE
from milepost.store._vectors.reindex import FEW, Read, Reindexer, Vectors

if TYPE_CHECKING:
    from milepost.store._redis.core import RedisCore
    from milepost.store._vectors.generations import Generations

_MAX_ATTEMPTS: Final = 50


class RedisReindexer(Reindexer):
    """A place is a namespace and a key."""

    core: RedisCore

    def __init__(self, core: RedisCore) -> None:
        self.core = core
        self.state = core.state
        self._keys = core.keys
        self._notebook = core.notebook

    def begin(self) -> RedisEffects[tuple[int, bool, int | None]]:
        def begun(notes: Notes) -> Notes | None:
            known = self.state.known(notes)
            if known.can_resume():
                return None
            if known.coming is not None:
                notes.pop(f"{PROBE}{known.coming.number}", None)
            coming = self.state.after(known)
            return {**notes, "reindex": coming.dump(), "reindex_maker": self.state.maker}

        known = self.state.known((yield from self._notebook.change(begun)))
        self.state.was_fitting = True
        assert known.coming is not None
        number = known.coming.number
        return number, known.needs_probe(number), None

    def note_probe(self, number: int, probe: str) -> RedisEffects[None]:
        def noted(notes: Notes) -> Notes | None:
            if not self.state.known(notes).is_making(number):
                return None
            return {**notes, f"{PROBE}{number}": probe}

        yield from self._notebook.change(noted)

    def probe_of(self, number: int) -> RedisEffects[str | None]:
        return (yield from self._notebook.load()).get(f"{PROBE}{number}")

    def stale(self, number: int, size: int) -> RedisEffects[list[Any]]:  # noqa: ARG002
        generations = yield from self.core.generations()
        found: list[Place] = []
        if not generations.is_making(number):
            return found
        for root in (yield from self.core.reader.roots()):
            if not (yield from self._followed(root, generations)):
                continue
            marks = self._keys.root(root).coming_marks
            for space in (yield from spaces_of(self.core, root)):
                names = yield from names_in(self.core, space)
                for some in chunks(names, MAX_ARGUMENTS - 2):
                    members = [member(space, name) for name in some]
                    scores = yield command("ZMSCORE", marks, *members)
                    found += [
                        (space, name)
                        for name, score in zip(some, scores, strict=True)
                        if score is None
                    ]
        return found

    def lacking(self, after: Any) -> RedisEffects[tuple[list[Any], Any]]:
        """`after` is a list of roots, or such a list with places that are still to be completed."""
        if after is None:
            after = yield from self.core.reader.roots()
        roots, places = after if isinstance(after, tuple) else (after, [])
        if not places and roots:
            names = yield command("ZRANGEBYSCORE", self._keys.root(roots[0]).marks, 0, 0)
            roots, places = roots[1:], [from_member(name) for name in names]
        left = (roots, places[FEW:])
        return places[:FEW], left if any(left) else None

    def read(self, places: list[Any]) -> RedisEffects[list[tuple[Row, Index]]]:
        found: list[RedisItem] = []
        for _, part in groupby(places, key=root_of):
            found += yield from items_at(self.core, list(part))
        return [(one.row, one.head.index) for one in found]

    def store(
        self, number: int | None, found: list[Read], vectors: Vectors
    ) -> RedisEffects[int | None]:
        generations = yield from self.core.generations()
        if generations.to_fill(number) is None:
            return None
        count, coming = 0, number is not None
        for root, part in groupby(found, key=lambda one: one.row.namespace[0]):
            count += yield from self._mark(root, list(part), vectors, generations, coming=coming)
        return count

    def finish(self, number: int, found: int, size: int) -> RedisEffects[bool]:  # noqa: ARG002
        if found > FEW:
            return False

        def switched(notes: Notes) -> Notes | None:
            known = self.state.known(notes)
            if not known.is_making(number):
                return None
            notes["index"] = notes.pop("reindex")
            notes.pop("reindex_maker", None)
            if known.current is not None:
                notes.pop(f"{PROBE}{known.current.number}", None)
            return notes

        notes = yield from self._notebook.change(switched)
        generations = self.state.known(notes)
        for root in (yield from self.core.reader.roots()):
            yield from self._followed(root, generations)
        return True

    def _followed(self, root: str, generations: Generations) -> RedisEffects[bool]:
        """Bring a root up to the generations. False if the root has a later one."""
        keys = self._keys.root(root)
        for _ in range(_MAX_ATTEMPTS):
            token, current, coming = yield command("HMGET", keys.meta, "root", "current", "coming")
            if token is None:
                return True  # the root has no items
            try:
                known = RootGenerations.read(current, coming)
                if not (yield from follow(keys, known, generations)):
                    return True
            except StaleGenerations:
                return False
        raise DatabaseBusyError("The vectors of a root were changed by others at each attempt.")

    def _mark(
        self,
        root: str,
        found: list[Read],
        vectors: Vectors,
        generations: Generations,
        *,
        coming: bool,
    ) -> RedisEffects[int]:
        """Store vectors of items below one root, except of items that have changed since they were
        read. Returns the number of items."""
        keys = self._keys.root(root)
        pair = marks_and_vectors(keys, coming=coming)
        for _ in range(_MAX_ATTEMPTS):
            if not (yield from self._followed(root, generations)):
                return 0
            known = RootGenerations.read(*(yield command("HMGET", keys.meta, "current", "coming")))
            items = {
                one.row.place: one
                for one in (yield from items_at(self.core, [one.row.place for one in found]))
            }
            guards, commands, more = known.guards(keys.meta), [], list(keys)
            count = 0
            for one in found:
                now = items.get(one.row.place)
                if now is None or now.row.updated != one.row.updated:
                    continue
                count += 1
                heads = self._keys.space(now.row.namespace).heads
                more.append(heads)
                guards.append(Guard(("HGET", heads, now.row.key), now.head.stored))
                blob = packed(now.head.created, [vectors[text] for text in one.texts])
                commands += marked(*pair, member(*now.row.place), value_of(0), blob)
            if not count:
                return 0
            script = guarded(
                list(dict.fromkeys(more)), guards, commands, [Counter(keys.meta, "seq")]
            )
            answer: list[Any] = yield script
            if is_done(answer):
                return count
        return 0
