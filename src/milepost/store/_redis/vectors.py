"""Search by meaning: exact, with numpy, on copies of the vectors in this process.

Each root that is searched has a copy. A search first fetches the vectors that have changed since
the last search. A copy keeps the vectors of deleted items; a search leaves them out, since it finds
no item for them. A copy with too many of them is replaced.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from functools import partial
from operator import attrgetter
from typing import Final, NamedTuple

from milepost._db.redis.commands import RedisEffects, chunks, command
from milepost._db.redis.guarded import MAX_ARGUMENTS
from milepost._internal import fork_guard
from milepost.errors import DamagedRowError
from milepost.store._core import namespaces
from milepost.store._core.records import Namespace
from milepost.store._core.tasks import Scored, Search
from milepost.store._redis.layout import Keys, from_member
from milepost.store._redis.marks import RootGenerations, follow, unpacked
from milepost.store._redis.read import Candidate, Candidates, ItemReader, Rescore
from milepost.store._redis.snapshot import Moved, Snapshot
from milepost.store._vectors.embeddings import Packed
from milepost.store._vectors.generations import Generation, Generations
from milepost.store._vectors.reindex import Incomplete
from milepost.store._vectors.table import VectorTable, best_of

_MAX_COPIES_BYTES: Final = 512 * 2**20
"""The size of the copies of all roots; one copy may exceed it."""
_MAX_DELETED_ITEMS: Final = 1000
"""A copy is replaced if it has twice as many items as are stored, and more than these besides."""
_MAX_FIELDS: Final = MAX_ARGUMENTS - 2
"""Fields of a hash that one command of a script reads."""
_FETCH_BYTES: Final = 2 * 2**20
"""Vectors that are fetched in one round trip."""


class _Owner(NamedTuple):
    """The item that vectors belong to."""

    name: bytes
    created: int


_NAME: Final = attrgetter("name")


class Nearest(NamedTuple):
    """Items with their scores."""

    found: list[tuple[float, _Owner]]
    more: bool
    """Whether the copy has further items below the prefix."""


class CopyOf(NamedTuple):
    """The generation and root that a copy was made from.

    A root that was removed and added again has another token.
    """

    generation: int
    token: bytes | None
    """The token of the root (`RootState`)."""


class Refreshed(NamedTuple):
    """The state of a root's copy, after a search has brought the copy up to date."""

    version: CopyOf
    seq: int | None
    """The `seq` that the copy must have; None if a later one will do."""
    lacking: bool
    """Whether some items of the root lack their vectors."""


class _Copy:
    """The vectors below one root."""

    def __init__(self, version: CopyOf, dims: int) -> None:
        self.version = version
        self.seq = 0
        self._width = 4 * dims
        self._table: VectorTable[_Owner] = VectorTable(dims)
        self._places: dict[bytes, tuple[int, ...]] = {}
        """By item: where its vectors are in the table."""
        self._spaces: dict[str, set[bytes]] = {}
        """The items of each namespace that have vectors."""

    @property
    def count(self) -> int:
        return len(self._places)

    @property
    def size(self) -> int:
        return len(self._table.owners) * self._width

    def put(self, name: bytes, stored: bytes | None) -> None:
        self._table.remove(self._places.pop(name, ()))
        space = name.partition(b"\0")[0].decode()
        names = self._spaces.setdefault(space, set())
        names.discard(name)
        if stored is None:
            if not names:
                del self._spaces[space]
            return
        created, joined = unpacked(stored)
        if len(joined) % self._width:
            raise DamagedRowError(
                f"The vectors of the item {from_member(name)!r} are damaged: they are not of the "
                "length that was written. Put the item again, or call reindex() with another "
                "`model` in the index to rebuild all vectors."
            )
        vectors = [joined[at : at + self._width] for at in range(0, len(joined), self._width)]
        self._places[name] = self._table.add(vectors, _Owner(name, created))
        names.add(name)

    def nearest(self, vector: Packed, prefix: str, count: int) -> Nearest:
        """At least `count` of the nearest items below a prefix, unsorted, each once."""
        below = [names for space, names in self._spaces.items() if space.startswith(prefix)]
        total, start = sum(map(len, below)), prefix.encode()
        near: Iterable[list[tuple[float, _Owner]]]
        if 4 * total > 3 * len(self._places):
            # Nearly all items are below the prefix: searching all of them, and leaving out the
            # others, is cheaper than selecting vectors first.
            near = self._table.from_nearest(vector, 2 * count)
        else:
            places = [at for names in below for name in names for at in self._places[name]]
            near = [self._table.scored(vector, places)]
        best: list[tuple[float, _Owner]] = []
        for some in near:
            best = best_of([*best, *(one for one in some if one[1].name.startswith(start))], _NAME)
            if len(best) >= count:
                return Nearest(best, len(best) < total)
        return Nearest(best, False)


class Copies:
    """The copies of the roots that were searched last."""

    def __init__(self, dims: int) -> None:
        self._dims = dims
        self._copies: OrderedDict[str, _Copy] = OrderedDict()
        self._lock = fork_guard.held_at_fork(threading.Lock())

    def seen(self, root: str) -> tuple[CopyOf | None, int, int]:
        """What the copy of a root is of, the last `seq` that it has taken in, and how many items it
        has."""
        with self._lock:
            copy = self._copies.get(root)
            return (None, 0, 0) if copy is None else (copy.version, copy.seq, copy.count)

    def update(
        self,
        root: str,
        version: CopyOf,
        seqs: tuple[int, int],
        changed: Iterable[tuple[bytes, bytes | None]],
    ) -> None:
        """Take in the vectors that have changed between two values of the root's `seq`."""
        with self._lock:
            copy = self._copies.get(root)
            if copy is None or copy.version != version or not seqs[0]:
                copy = self._copies[root] = _Copy(version, self._dims)
            if copy.seq != seqs[0]:
                raise Moved  # another thread has updated the copy
            for name, stored in changed:
                copy.put(name, stored)
            copy.seq = seqs[1]
            self._copies.move_to_end(root)
            total = sum(one.size for one in self._copies.values())
            while total > _MAX_COPIES_BYTES and len(self._copies) > 1:
                total -= self._copies.popitem(last=False)[1].size

    def nearest(
        self, root: str, known: Refreshed, vector: Packed, prefix: Namespace, count: int
    ) -> Nearest:
        """At least `count` of the nearest items of a root.

        Raises Moved if another thread has replaced the copy since this search has refreshed it.
        """
        with self._lock:
            copy = self._copies.get(root)
            if copy is None or copy.version != known.version:
                raise Moved
            if known.seq is not None and copy.seq != known.seq:
                raise Moved
            return copy.nearest(vector, namespaces.to_text(prefix), count)


class Ranker:
    """Carries out searches by meaning."""

    def __init__(self, keys: Keys, reader: ItemReader, dims: int) -> None:
        self._keys = keys
        self._reader = reader
        self._width = 4 * dims
        self._copies = Copies(dims)

    def search(
        self, search: Search, snapshot: Snapshot, known: Generations
    ) -> RedisEffects[list[Scored]]:
        """The page that a search asks for.

        Raises Incomplete if items lack their vectors, unless this generation was completed as far
        as possible.
        """
        assert search.vector is not None
        generation = known.for_search()
        roots = yield from self._reader.roots(search.prefix)
        refreshed: dict[str, Refreshed] = {}
        for root in roots:
            refreshed[root] = yield from self._refresh(root, generation, known, snapshot)
        lacking = [root for root, one in refreshed.items() if one.lacking]
        if lacking and generation.number != snapshot.completed:
            raise Incomplete(generation.number, lacking)
        vector = search.vector

        def candidates(depth: int) -> RedisEffects[Candidates]:
            near = [
                self._copies.nearest(root, one, vector, search.prefix, depth)
                for root, one in refreshed.items()
            ]
            found = [one for some in near for one in some.found]
            found.sort(key=lambda one: (-one[0], one[1].created))
            yield from ()
            ranked = [
                Candidate(from_member(owner.name), owner.created, score) for score, owner in found
            ]
            more = any(some.more for some in near)
            # A root may have further items that are nearer than the last of these.
            return Candidates(ranked[:depth] if more else ranked, more)

        # If reads need not be of one moment, vectors are read again together with their items.
        rescore = None
        if not snapshot.is_strict:
            rescore = Rescore(generation.number, partial(self._score, vector))
        return (yield from self._reader.page(search, candidates, snapshot, rescore))

    def _score(self, vector: Packed, name: bytes, stored: bytes | None) -> float | None:
        """The score of an item by its vectors; None if it has none."""
        copy = _Copy(CopyOf(0, None), self._width // 4)
        copy.put(name, stored)
        best = copy.nearest(vector, "", 1).found
        return best[0][0] if best else None

    def _refresh(
        self, root: str, generation: Generation, known: Generations, snapshot: Snapshot
    ) -> RedisEffects[Refreshed]:
        """Bring the copy of a root up to date."""
        number, keys = generation.number, self._keys.root(root)
        copied, since, count = self._copies.seen(root)
        (current, coming, token), later, plain, lacking, have = yield from snapshot.read(
            [root],
            [keys.marks],
            [
                command("HMGET", keys.meta, "current", "coming", "root"),
                command("ZRANGEBYSCORE", keys.marks, f"({since}", "+inf"),
                command("ZRANGEBYSCORE", keys.marks, "-inf", f"(-{since}" if since else "(0"),
                command("ZRANGEBYSCORE", keys.marks, 0, 0),
                command("ZCOUNT", keys.marks, "(0", "+inf"),
            ],
        )
        # Later reads may see later changes. The next search fetches those.
        seq = snapshot.seq(root)
        of_root = RootGenerations.read(current, coming)
        if of_root.current != number:
            yield from follow(keys, of_root, known)
            raise Moved
        version = CopyOf(number, token)
        if copied != version or count > 2 * have + _MAX_DELETED_ITEMS:
            since, plain = 0, []
            (later,) = yield from snapshot.read(
                [root], [keys.marks], [command("ZRANGEBYSCORE", keys.marks, "(0", "+inf")]
            )
        changed: list[tuple[bytes, bytes | None]] = [(name, None) for name in (*plain, *lacking)]
        size = max(1, _FETCH_BYTES // self._width)
        for names in chunks(later, size):
            reads = [command("HMGET", keys.vectors, *some) for some in chunks(names, _MAX_FIELDS)]
            *replies, now = yield from snapshot.read(
                [root], [keys.vectors], [*reads, command("HGET", keys.meta, "current")]
            )
            if now != current:
                raise Moved  # these vectors belong to another generation
            stored = [one for reply in replies for one in reply]
            changed += zip(names, stored, strict=True)
        self._copies.update(root, version, (since, seq), changed)
        return Refreshed(version, seq if snapshot.is_strict else None, bool(lacking))
