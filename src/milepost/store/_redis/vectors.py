"""Search by meaning: exact, with numpy, on copies of the vectors in this process.

There is a copy for each root. It asks for what has changed since it last asked; vectors of items
that were deleted meanwhile are noticed when a search wants to return the item.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from milepost._db.redis.commands import Program, command
from milepost._internal import fork_guard
from milepost.errors import DamagedRowError
from milepost.store._core import namespaces
from milepost.store._core.records import Namespace
from milepost.store._core.tasks import Row, Search
from milepost.store._redis.heads import Head
from milepost.store._redis.keys import Keys, from_member
from milepost.store._redis.marks import Marks, RootGenerations, unpacked
from milepost.store._redis.read import Candidate, Reader, Renewal
from milepost.store._redis.snapshot import Moved, Snapshot, fields
from milepost.store._vectors.embeddings import Packed
from milepost.store._vectors.generations import Generation, Generations
from milepost.store._vectors.table import VectorTable

_BYTES: Final = 512 * 2**20
"""What the copies of all roots may take together; at least one is kept."""
_FETCHED: Final = 2 * 2**20
"""Bytes of vectors that are fetched in one go."""


class Incomplete(Exception):
    """Some items lack vectors that this store can make; make them, and search again."""

    def __init__(self, generation: int, roots: list[str]) -> None:
        super().__init__(generation, roots)
        self.generation = generation
        self.roots = roots


class _Owner(NamedTuple):
    """The item that vectors belong to."""

    name: bytes
    space: str
    created: int


class CopyOf(NamedTuple):
    """What a copy is of: vectors of one generation, during one life of a root."""

    generation: int
    life: bytes | None


class _Copy:
    """The vectors below one root."""

    def __init__(self, version: CopyOf, dims: int) -> None:
        self.version = version
        self.seq = 0
        self._width = 4 * dims
        self._table: VectorTable[_Owner] = VectorTable(dims)
        self._places: dict[bytes, tuple[int, ...]] = {}

    @property
    def size(self) -> int:
        return len(self._table.owners) * self._width

    def put(self, name: bytes, stored: bytes | None) -> None:
        self._table.remove(self._places.pop(name, ()))
        if stored is None:
            return
        created, joined = unpacked(stored)
        if len(joined) % self._width:
            raise DamagedRowError(
                f"The vectors of the item {from_member(name)!r} are damaged: they are not of the "
                "length that was written. Put the item again, or call reindex() with another "
                "`model` in the index to rebuild all vectors."
            )
        vectors = [joined[at : at + self._width] for at in range(0, len(joined), self._width)]
        owner = _Owner(name, name.partition(b"\0")[0].decode(), created)
        self._places[name] = self._table.add(vectors, owner)

    def ranked(self, vector: Packed, prefix: str, count: int | None) -> list[tuple[float, _Owner]]:
        """The nearest items below a prefix, each once; `count` None for all."""
        below = [
            (owner, at)
            for at, owner in enumerate(self._table.owners)
            if owner is not None and owner.space.startswith(prefix)
        ]
        scores = self._table.scores(vector, [at for _, at in below]) if below else []
        best: dict[bytes, tuple[float, _Owner]] = {}
        for score, (owner, _) in zip(scores, below, strict=True):
            known = best.get(owner.name)
            if known is None or score > known[0]:
                best[owner.name] = (score, owner)
        ranked = sorted(best.values(), key=lambda one: (-one[0], one[1].created))
        return ranked if count is None else ranked[:count]


class Copies:
    """The copies of all roots that were searched lately."""

    def __init__(self, dims: int) -> None:
        self._dims = dims
        self._copies: OrderedDict[str, _Copy] = OrderedDict()
        self._lock = fork_guard.held_at_fork(threading.Lock())

    def seen(self, root: str) -> tuple[CopyOf | None, int]:
        """What there is a copy of, and the number of the last change that it has seen."""
        with self._lock:
            copy = self._copies.get(root)
            return (None, 0) if copy is None else (copy.version, copy.seq)

    def update(
        self,
        root: str,
        version: CopyOf,
        seqs: tuple[int, int],
        changed: Iterable[tuple[bytes, bytes | None]],
    ) -> None:
        """Take in what has changed between two numbers."""
        with self._lock:
            copy = self._copies.get(root)
            if copy is None or copy.version != version:
                copy = self._copies[root] = _Copy(version, self._dims)
            if copy.seq != seqs[0]:
                raise Moved  # another thread has taken it in
            for name, stored in changed:
                copy.put(name, stored)
            copy.seq = seqs[1]
            self._copies.move_to_end(root)
            total = sum(one.size for one in self._copies.values())
            while total > _BYTES and len(self._copies) > 1:
                total -= self._copies.popitem(last=False)[1].size

    def forget(self, root: str, names: Sequence[bytes]) -> None:
        """Items that are not there any more, or lack their vectors."""
        with self._lock:
            copy = self._copies.get(root)
            for name in names if copy is not None else ():
                copy.put(name, None)  # type: ignore[union-attr]

    def ranked(
        self, root: str, vector: Packed, prefix: Namespace, count: int | None
    ) -> list[tuple[float, _Owner]]:
        """The nearest items of a root."""
        with self._lock:
            copy = self._copies.get(root)
            text = namespaces.to_text(prefix)
            return [] if copy is None else copy.ranked(vector, text, count)


class Ranker:
    """Carries out searches by meaning."""

    def __init__(self, keys: Keys, reader: Reader, marks: Marks, dims: int) -> None:
        self._keys = keys
        self._reader = reader
        self._marks = marks
        self._width = 4 * dims
        self._copies = Copies(dims)

    def search(
        self,
        search: Search,
        snapshot: Snapshot,
        now: int,
        renewed: list[Renewal],
        known: Generations,
        completed: int | None,
    ) -> Program[list[Row]]:
        """The page that a search asks for.

        Incomplete if items lack their vectors, unless those of this generation were `completed`
        as far as they could be.
        """
        assert search.vector is not None
        generation = known.for_search()
        roots = yield from self._reader.roots(search.prefix)
        lacking = []
        for root in roots:
            if (yield from self._refresh(root, generation, known, snapshot)):
                lacking.append(root)
        if lacking and generation.number != completed:
            raise Incomplete(generation.number, lacking)
        wanted = search.offset + search.limit
        count = None if search.conditions else wanted + 16
        while True:
            ranked: list[tuple[float, _Owner]] = []
            full = False
            for root in roots:
                some = self._copies.ranked(root, search.vector, search.prefix, count)
                full = full or (count is not None and len(some) == count)
                ranked += some
            ranked.sort(key=lambda one: (-one[0], one[1].created))
            alive = yield from self._alive(ranked, search, snapshot, now)
            if len(alive) >= wanted or not full:
                break
            assert count is not None
            count = 4 * count
        return (yield from self._reader.page(search, alive, snapshot, now, renewed))

    def _alive(
        self,
        ranked: Sequence[tuple[float, _Owner]],
        search: Search,
        snapshot: Snapshot,
        now: int,
    ) -> Program[list[Candidate]]:
        """Those that are still there."""
        if search.conditions:
            # The page looks at each item anyway.
            return [Candidate(from_member(owner.name), _NO_HEAD, score) for score, owner in ranked]
        places = {owner.name: from_member(owner.name) for _, owner in ranked}
        heads = yield from self._reader.heads(list(places.values()), snapshot)
        gone: dict[str, list[bytes]] = {}
        alive = []
        for score, owner in ranked:
            place = places[owner.name]
            head = heads[place]
            if head is None:
                gone.setdefault(place[0][0], []).append(owner.name)
            elif not head.is_dead(now):
                alive.append(Candidate(place, head, score))
        for root, names in gone.items():
            self._copies.forget(root, names)
        return alive

    def _refresh(
        self, root: str, generation: Generation, known: Generations, snapshot: Snapshot
    ) -> Program[bool]:
        """Bring the copy of a root up to date; whether some of its items lack vectors."""
        number, keys = generation.number, self._keys.root(root)
        copied, since = self._copies.seen(root)
        (current, coming, life), later, plain, lacking = yield from snapshot.read(
            [root],
            [keys.marks],
            [
                command("HMGET", keys.meta, "current", "coming", "root"),
                command("ZRANGEBYSCORE", keys.marks, f"({since}", "+inf"),
                command("ZRANGEBYSCORE", keys.marks, "-inf", f"(-{since}" if since else "(0"),
                command("ZRANGEBYSCORE", keys.marks, 0, 0),
            ],
        )
        there = RootGenerations(*(None if one is None else int(one) for one in (current, coming)))
        if there.current != number:
            yield from self._marks.follow(root, there, known)
            raise Moved
        version = CopyOf(number, life)
        if copied != version:
            since, plain = 0, []
            (later,) = yield from snapshot.read(
                [root], [keys.marks], [command("ZRANGEBYSCORE", keys.marks, "(0", "+inf")]
            )
        changed: list[tuple[bytes, bytes | None]] = [(name, None) for name in (*plain, *lacking)]
        size = max(1, _FETCHED // self._width)
        for at in range(0, len(later), size):
            names = later[at : at + size]
            replies = yield from snapshot.read([root], [keys.vectors], fields(keys.vectors, names))
            stored = [one for reply in replies for one in reply]
            changed += zip(names, stored, strict=True)
        self._copies.update(root, version, (since, snapshot.seq(root)), changed)
        return bool(lacking)


_NO_HEAD: Final = Head(0, 0, None, None, "", None)
