"""Reads items from Redis: gets, searches without a query, listings of namespaces."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost._db.redis.commands import Command, RedisEffects, chunks, command
from milepost.store._core import namespaces
from milepost.store._core.filters import predicate
from milepost.store._core.records import GetOp, ListNamespacesOp, Namespace
from milepost.store._core.tasks import Row, Scored, Search
from milepost.store._redis.layout import (
    Head,
    Keys,
    Place,
    RedisItem,
    from_member,
    item_at,
    member,
    parsed,
    root_of,
    roots_of,
)
from milepost.store._redis.snapshot import Moved, Snapshot

if TYPE_CHECKING:
    from milepost.store._redis.core import RedisCore

_BODIES_PER_READ: Final = 100
"""Values that a search with a filter reads in one round trip."""
_HEADS_PER_READ: Final = 5000
"""Heads that a search by creation reads in one round trip."""


class Candidate(NamedTuple):
    """An item that a search may return, before its value is read."""

    place: Place
    stamp: int
    """The time when it was last put or created, whichever the search sorts by."""
    score: float | None = None


class Candidates(NamedTuple):
    """Candidates in the order of a search."""

    found: list[Candidate]
    more: bool
    """Whether more can be asked for."""


class Rescore(NamedTuple):
    """Scores from vectors that are read together with their items."""

    generation: int
    score: Callable[[bytes, bytes | None], float | None]
    """From an item's name and its vectors; None if the search does not find the item."""


class ItemReader:
    """Carries out the operations that read."""

    def __init__(self, core: RedisCore) -> None:
        self._core = core
        self._keys = core.keys

    def roots(self, prefix: Namespace = ()) -> RedisEffects[list[str]]:
        """The roots that items below a prefix may have."""
        if prefix:
            return [prefix[0]]
        found = yield command("HKEYS", self._keys.roots)
        return sorted(name.decode() for name in found)

    # -- gets

    def gets(self, wanted: Sequence[GetOp], snapshot: Snapshot) -> RedisEffects[dict[Place, Row]]:
        """The items that these gets find."""
        places = {(get.namespace, get.key): False for get in wanted}
        for get in wanted:
            places[get.namespace, get.key] |= get.refresh_ttl
        found = yield from self._items([place for place in places if place[0]], snapshot)
        for place, (one, _) in found.items():
            if places[place] and one.head.ttl is not None:
                snapshot.renewed.append((place, one.head))
        return {place: one.row for place, (one, _) in found.items()}

    def _items(
        self, places: Iterable[Place], snapshot: Snapshot, rescore: Rescore | None = None
    ) -> RedisEffects[dict[Place, tuple[RedisItem, float | None]]]:
        """The items at these places that exist and have not expired, and their scores if vectors
        are read. Those that one script can read are as of one moment."""
        found: dict[Place, tuple[RedisItem, float | None]] = {}
        for unit in self._keys.units(places):
            keys, commands = heads_and_bodies(self._keys, unit)
            roots = {root: self._keys.root(root) for root in roots_of(unit)}
            if rescore is not None:
                keys += [one.vectors for one in roots.values()]
                for place in unit:
                    commands.append(command("HGET", roots[root_of(place)].vectors, member(*place)))
                commands += [command("HGET", one.meta, "current") for one in roots.values()]
            replies = yield from snapshot.read(list(roots), keys, commands)
            count = len(unit)
            vectors, numbers = replies[2 * count : 3 * count], replies[3 * count :]
            if rescore is not None and any(one != b"%d" % rescore.generation for one in numbers):
                raise Moved
            for at, place in enumerate(unit):
                one = item_at(place, replies[2 * at], replies[2 * at + 1], snapshot.now)
                if one is not None:
                    score = None if rescore is None else rescore.score(member(*place), vectors[at])
                    found[place] = one, score
        return found

    # -- searches

    def search(self, search: Search, snapshot: Snapshot) -> RedisEffects[list[Scored]]:
        """The page that a search asks for."""
        order = search.order or "-updated_at"
        key = _ORDER[order.removeprefix("-")]
        roots = yield from self.roots(search.prefix)

        def candidates(depth: int) -> RedisEffects[Candidates]:
            found: list[Candidate] = []
            more = False
            for root in roots:
                some = yield from self._candidates(root, search, order, depth, snapshot)
                found += some.found
                more = more or some.more
            found.sort(key=key, reverse=order.startswith("-"))
            # A namespace may have further items that come before the rest.
            return Candidates(found[:depth] if more else found, more)

        return (yield from self.page(search, candidates, snapshot))

    def page(
        self,
        search: Search,
        candidates: Callable[[int], RedisEffects[Candidates]],
        snapshot: Snapshot,
        rescore: Rescore | None = None,
    ) -> RedisEffects[list[Scored]]:
        """The page of a search. `candidates` returns at least so many candidates, in the order of
        the search. It is called for more if too few are alive and meet the conditions."""
        wanted = search.offset + search.limit
        if not search.limit:
            return []
        depth = 2 * wanted + 16 if search.conditions else wanted
        while True:
            some = yield from candidates(depth)
            found, renewed = yield from self._page(search, some.found, snapshot, rescore)
            if len(found) == search.limit or not some.more:
                snapshot.renewed += renewed
                if rescore is not None:
                    found.sort(key=lambda one: -(one[0] or 0.0))
                return found
            depth = 8 * depth + 16

    def _page(
        self,
        search: Search,
        candidates: Sequence[Candidate],
        snapshot: Snapshot,
        rescore: Rescore | None,
    ) -> RedisEffects[tuple[list[Scored], list[tuple[Place, Head]]]]:
        """The items out of these candidates that a search returns, and those that it renews."""
        meets = self._filter(search)
        found: list[Scored] = []
        renewed: list[tuple[Place, Head]] = []
        at = skipped = 0
        while at < len(candidates) and len(found) < search.limit:
            left = search.offset - skipped + search.limit - len(found)
            some = candidates[at : at + (_BODIES_PER_READ if search.conditions else left)]
            at += len(some)
            read = yield from self._items([one.place for one in some], snapshot, rescore)
            for place, _, score in some:
                one, new_score = read.get(place, (None, None))
                if rescore is not None:
                    score = new_score
                if one is None or (rescore is not None and score is None) or not meets(one.row):
                    continue
                if skipped < search.offset:
                    skipped += 1
                elif len(found) < search.limit:
                    found.append((score, one.row))
                    if search.refresh and one.head.ttl is not None:
                        renewed.append((place, one.head))
        return found, renewed

    def _filter(self, search: Search) -> Callable[[Row], bool]:
        if not search.conditions:
            return lambda _: True
        holds, core = predicate(search.conditions), self._core
        return lambda row: holds(json.loads(core.viewer.text(core.plain_value(row))))

    def _candidates(
        self, root: str, search: Search, order: str, depth: int, snapshot: Snapshot
    ) -> RedisEffects[Candidates]:
        """The items below a prefix. If they are sorted by their last put, `depth` items of each
        namespace are enough."""
        spaces = yield from self._spaces(root, search.prefix or (root,), snapshot)
        by_put = order.endswith("updated_at")
        verb = "ZREVRANGE" if order.startswith("-") else "ZRANGE"
        last = depth - 1 if by_put else -1
        keys = [self._keys.space(space).order for space in spaces]
        commands = [command(verb, key, 0, last, "WITHSCORES") for key in keys]
        replies = (yield from snapshot.read([root], keys, commands)) if spaces else []
        found: list[Candidate] = []
        more = False
        for space, reply in zip(spaces, replies, strict=True):
            some = [Candidate((space, name.decode()), stamp) for name, stamp in _scored(reply)]
            more = more or (by_put and len(some) == depth)
            found += some
        if order.endswith("created_at"):
            found = yield from self._by_creation(root, found, snapshot)
        return Candidates(found, more)

    def _by_creation(
        self, root: str, found: Sequence[Candidate], snapshot: Snapshot
    ) -> RedisEffects[list[Candidate]]:
        """The same candidates, each with the time when its item was created."""
        result: list[Candidate] = []
        for some in chunks(found, _HEADS_PER_READ):
            keys = [self._keys.space(one.place[0]).heads for one in some]
            commands = [
                command("HGET", key, one.place[1]) for key, one in zip(keys, some, strict=True)
            ]
            stored = yield from snapshot.read([root], list(dict.fromkeys(keys)), commands)
            result += [
                Candidate(one.place, head.created)
                for one, data in zip(some, stored, strict=True)
                if (head := parsed(one.place, data)) is not None
            ]
        return result

    def _spaces(
        self, root: str, prefix: Namespace, snapshot: Snapshot
    ) -> RedisEffects[list[Namespace]]:
        key = self._keys.root(root).spaces
        (found,) = yield from snapshot.read([root], [key], [_below(key, prefix)])
        return [namespaces.from_text(name.decode()) for name in found]

    # -- listings

    def list(self, listing: ListNamespacesOp, snapshot: Snapshot) -> RedisEffects[list[Namespace]]:
        """The page of namespaces that a listing asks for."""
        prefix = namespaces.fixed_prefix(listing)
        alive: list[Namespace] = []
        for root in (yield from self.roots(prefix)):
            keys = self._keys.root(root)
            names, expired = yield from snapshot.read(
                [root],
                [keys.spaces, keys.expiry],
                [
                    _below(keys.spaces, prefix or (root,)),
                    command("ZRANGEBYSCORE", keys.expiry, "-inf", snapshot.now),
                ],
            )
            spaces = [namespaces.from_text(name.decode()) for name in names]
            expiring = Counter(from_member(name)[0] for name in expired)
            doubtful = [space for space in spaces if space in expiring]
            if doubtful:
                sizes = yield from snapshot.read(
                    [root],
                    [self._keys.space(space).heads for space in doubtful],
                    [command("HLEN", self._keys.space(space).heads) for space in doubtful],
                )
                gone = {
                    space
                    for space, size in zip(doubtful, sizes, strict=True)
                    if size <= expiring[space]
                }
                spaces = [space for space in spaces if space not in gone]
            alive += spaces
        return namespaces.listed(alive, listing)


def heads_and_bodies(keys: Keys, places: Sequence[Place]) -> tuple[list[bytes], list[Command]]:
    """The keys and the commands that read the head and the value at each place."""
    touched: list[bytes] = []
    commands: list[Command] = []
    for namespace, name in places:
        space = keys.space(namespace)
        touched += [space.heads, space.bodies]
        commands += [command("HGET", space.heads, name), command("HGET", space.bodies, name)]
    return list(dict.fromkeys(touched)), commands


def _below(key: bytes, prefix: Namespace) -> Command:
    bounds = namespaces.text_range(prefix)
    assert bounds is not None
    low, high = (text.encode() for text in bounds)
    return command("ZRANGEBYLEX", key, b"[" + low, b"(" + high)


def _scored(reply: Sequence[Any]) -> Iterator[tuple[bytes, int]]:
    """Names and scores. The reply of a script is flat; clients make pairs of other replies."""
    if reply and isinstance(reply[0], (list, tuple)):
        return ((name, int(score)) for name, score in reply)
    return zip(reply[::2], map(int, map(float, reply[1::2])), strict=True)


_ORDER: Final[dict[str, Callable[[Candidate], Any]]] = {
    "created_at": lambda one: (one.stamp, one.place),
    "updated_at": lambda one: (one.stamp, one.place),
    "key": lambda one: (one.place[1], namespaces.to_text(one.place[0])),
}
