"""Reading items from Redis: gets, searches that are not by meaning, listings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from milepost._db.redis.commands import Command, Program, command
from milepost.store._core import namespaces
from milepost.store._core.core import StoreCore
from milepost.store._core.filters import predicate
from milepost.store._core.records import Namespace
from milepost.store._core.tasks import Get, Listing, Row, Search
from milepost.store._redis.heads import Head, Place, parsed, to_row
from milepost.store._redis.keys import Keys, from_member
from milepost.store._redis.snapshot import Snapshot, fields

_BODIES: Final = 100
"""Values that a filter looks at in one go."""
_HEADS: Final = 20_000


class Renewal(NamedTuple):
    """An item whose life a read prolongs."""

    place: Place
    stored: bytes
    head: Head


class Candidate(NamedTuple):
    """An item that a search may return, before its value is looked at."""

    place: Place
    head: Head
    score: float | None = None


class Reader:
    """Carries out what reads. `renewed` collects the items whose life a read prolongs."""

    def __init__(self, core: StoreCore, keys: Keys, *, is_cluster: bool) -> None:
        self._core = core
        self._keys = keys
        self._is_cluster = is_cluster

    def roots(self, prefix: Namespace) -> Program[list[str]]:
        """The roots below which a prefix is."""
        if prefix:
            return [prefix[0]]
        found = yield command("HKEYS", self._keys.roots)
        return sorted(name.decode() for name in found)

    # -- gets

    def gets(
        self, wanted: Sequence[Get], snapshot: Snapshot, now: int, renewed: list[Renewal]
    ) -> Program[dict[Place, Row]]:
        """The items that these gets find."""
        places = {(get.namespace, get.key): False for get in wanted}
        for get in wanted:
            places[get.namespace, get.key] |= get.refresh
        found: dict[Place, Row] = {}
        for part in self._parts([place for place in places if place[0]]):
            pairs = yield from self._heads_and_bodies(part, snapshot)
            for place, (stored, body) in zip(part, pairs, strict=True):
                if stored is None:
                    continue
                head = parsed(place, stored)
                if not head.is_dead(now):
                    found[place] = to_row(place, head, body)
                    if places[place] and head.ttl is not None:
                        renewed.append(Renewal(place, stored, head))
        return found

    def _parts(self, places: Sequence[Place]) -> Iterator[list[Place]]:
        """What one script can read: in a cluster, the places below one root."""
        if not self._is_cluster:
            yield from ([*places],) if places else ()
            return
        for _, part in groupby(sorted(places), key=_root):
            yield list(part)

    def _heads_and_bodies(
        self, places: Sequence[Place], snapshot: Snapshot
    ) -> Program[list[tuple[bytes | None, bytes | None]]]:
        keys, commands = [], []
        for namespace, key in places:
            space = self._keys.space(namespace)
            keys += [space.heads, space.bodies]
            commands += [command("HGET", space.heads, key), command("HGET", space.bodies, key)]
        roots = list(dict.fromkeys(namespace[0] for namespace, _ in places))
        replies = yield from snapshot.read(roots, keys, commands)
        return list(zip(replies[::2], replies[1::2], strict=True))

    def heads(
        self, places: Sequence[Place], snapshot: Snapshot
    ) -> Program[dict[Place, Head | None]]:
        """The heads of items, of those too that have expired."""
        found: dict[Place, Head | None] = {}
        for part in self._parts(places):
            keys = [self._keys.space(namespace).heads for namespace, _ in part]
            roots = list(dict.fromkeys(map(_root, part)))
            commands = [
                command("HGET", key, name) for key, (_, name) in zip(keys, part, strict=True)
            ]
            stored = yield from snapshot.read(roots, keys, commands)
            for place, head in zip(part, stored, strict=True):
                found[place] = None if head is None else parsed(place, head)
        return found

    # -- searches

    def search(
        self, search: Search, snapshot: Snapshot, now: int, renewed: list[Renewal]
    ) -> Program[list[Row]]:
        """The page that a search asks for."""
        wanted = search.offset + search.limit
        if not wanted:
            return []
        order = search.order or "-updated_at"
        newest = not search.conditions and order == "-updated_at"
        depth = wanted if newest else 0
        candidates: list[Candidate] = []
        for root in (yield from self.roots(search.prefix)):
            candidates += yield from self._candidates(root, search.prefix, depth, snapshot, now)
        candidates.sort(key=_ORDER[order.removeprefix("-")], reverse=order.startswith("-"))
        return (yield from self.page(search, candidates, snapshot, now, renewed))

    def page(
        self,
        search: Search,
        candidates: Sequence[Candidate],
        snapshot: Snapshot,
        now: int,
        renewed: list[Renewal],
    ) -> Program[list[Row]]:
        """The page of a search, from what it may return in the order in which it is returned."""
        fulfils = self._filter(search)
        found: list[Row] = []
        at = skipped = 0
        if fulfils is None:
            at = search.offset
        while at < len(candidates) and len(found) < search.limit:
            size = search.limit - len(found) if fulfils is None else _BODIES
            some = candidates[at : at + size]
            at += len(some)
            pairs: dict[Place, tuple[bytes | None, bytes | None]] = {}
            for part in self._parts([one.place for one in some]):
                read = yield from self._heads_and_bodies(part, snapshot)
                pairs.update(zip(part, read, strict=True))
            for one in some:
                stored, body = pairs[one.place]
                if stored is None:
                    continue
                head = parsed(one.place, stored)
                row = to_row(one.place, head, body, one.score)
                if head.is_dead(now) or (fulfils is not None and not fulfils(row)):
                    continue
                if fulfils is not None and skipped < search.offset:
                    skipped += 1
                    continue
                if len(found) == search.limit:
                    break
                found.append(row)
                if search.refresh and head.ttl is not None:
                    renewed.append(Renewal(one.place, stored, head))
        return found

    def _filter(self, search: Search) -> Callable[[Row], bool] | None:
        if not search.conditions:
            return None
        holds, core = predicate(search.conditions), self._core
        return lambda row: holds(json.loads(core.viewer.text(core.plain_value(row))))

    def _candidates(
        self, root: str, prefix: Namespace, depth: int, snapshot: Snapshot, now: int
    ) -> Program[list[Candidate]]:
        """The heads of all items below a prefix; with `depth`, of so many that were put last in
        each namespace, and of more if some of those have expired."""
        spaces = yield from self._spaces(root, prefix or (root,), snapshot)
        found: list[Candidate] = []
        last = depth - 1 if depth else -1
        while spaces:
            keys = [self._keys.space(space).order for space in spaces]
            names = yield from snapshot.read(
                [root], keys, [command("ZREVRANGE", key, 0, last) for key in keys]
            )
            again: list[Namespace] = []
            for part in _chunks(zip(spaces, names, strict=True)):
                for space, heads in (yield from self._heads(root, part, snapshot)):
                    alive = [one for one in heads if not one.head.is_dead(now)]
                    if depth and len(alive) < depth <= last + 1 == len(heads):
                        again.append(space)
                    else:
                        found += alive
            spaces, last = again, 4 * last + 16
        return found

    def _heads(
        self, root: str, part: Sequence[tuple[Namespace, list[bytes]]], snapshot: Snapshot
    ) -> Program[list[tuple[Namespace, list[Candidate]]]]:
        keys, commands, counts = [], [], []
        for space, names in part:
            key = self._keys.space(space).heads
            keys.append(key)
            more: list[Command] = fields(key, names)
            counts.append(len(more))
            commands += more
        replies = iter((yield from snapshot.read([root], keys, commands)))
        result = []
        for (space, names), count in zip(part, counts, strict=True):
            stored = [one for _ in range(count) for one in next(replies)]
            heads = []
            for name, head in zip(names, stored, strict=True):
                if head is not None:
                    place = space, name.decode()
                    heads.append(Candidate(place, parsed(place, head)))
            result.append((space, heads))
        return result

    def _spaces(self, root: str, prefix: Namespace, snapshot: Snapshot) -> Program[list[Namespace]]:
        key = self._keys.root(root).spaces
        (found,) = yield from snapshot.read([root], [key], [_below(key, prefix)])
        return [namespaces.from_text(name.decode()) for name in found]

    # -- listings

    def list(self, listing: Listing, snapshot: Snapshot, now: int) -> Program[list[Namespace]]:
        """The page of namespaces that a listing asks for."""
        prefix = namespaces.fixed_prefix(listing.op)
        alive: list[Namespace] = []
        for root in (yield from self.roots(prefix)):
            keys = self._keys.root(root)
            names, expired = yield from snapshot.read(
                [root],
                [keys.spaces, keys.expiry],
                [
                    _below(keys.spaces, prefix or (root,)),
                    command("ZRANGEBYSCORE", keys.expiry, "-inf", now),
                ],
            )
            spaces = [namespaces.from_text(name.decode()) for name in names]
            dead = Counter(from_member(name)[0] for name in expired)
            doubtful = [space for space in spaces if space in dead]
            if doubtful:
                sizes = yield from snapshot.read(
                    [root],
                    [self._keys.space(space).heads for space in doubtful],
                    [command("HLEN", self._keys.space(space).heads) for space in doubtful],
                )
                gone = {
                    space
                    for space, size in zip(doubtful, sizes, strict=True)
                    if size <= dead[space]
                }
                spaces = [space for space in spaces if space not in gone]
            alive += spaces
        return namespaces.listed(alive, listing.op)


def _below(key: bytes, prefix: Namespace) -> Command:
    bounds = namespaces.text_range(prefix)
    assert bounds is not None
    low, high = (text.encode() for text in bounds)
    return command("ZRANGEBYLEX", key, b"[" + low, b"(" + high)


def _chunks(
    spaces: Iterable[tuple[Namespace, list[bytes]]],
) -> Iterator[list[tuple[Namespace, list[bytes]]]]:
    """Namespaces and their keys, in parts of some thousand keys."""
    part: list[tuple[Namespace, list[bytes]]] = []
    size = 0
    for space, names in spaces:
        part.append((space, names))
        size += len(names) + 1
        if size >= _HEADS:
            yield part
            part, size = [], 0
    if part:
        yield part


def _root(place: Place) -> str:
    return place[0][0]


_ORDER: Final[dict[str, Callable[[Candidate], Any]]] = {
    "created_at": lambda one: (one.head.created, one.place),
    "updated_at": lambda one: (one.head.updated, one.place),
    "key": lambda one: (one.place[1], namespaces.to_text(one.place[0])),
}
