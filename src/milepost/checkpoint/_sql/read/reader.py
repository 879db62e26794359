"""Reads checkpoints: operations that yield queries and return records.

A checkpoint is read with two queries. The first is for its row, its writes, and the manifests that
its manifest builds on. The second is for the rows of its values. Cached rows are not fetched again.
On a remote database, the first query also fetches the newest values, which mostly are the values of
the latest checkpoint. On a local database, the rows of values are looked up one by one.
"""

from __future__ import annotations

import json
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from milepost._db.operations import LinkedRows, Operation, Queries, Query, ReadCells, without_asking
from milepost.checkpoint._contract.records import CheckpointTuple, Place
from milepost.checkpoint._sql.cache import CachedManifest, CachedValue, ThreadCache
from milepost.checkpoint._sql.large import DATA
from milepost.checkpoint._sql.manifest import Manifest
from milepost.checkpoint._sql.read.assembler import CheckpointAssembler, by_checkpoint
from milepost.checkpoint._sql.read.fetched import CheckpointRecord, GraphKey, Manifests, WriteRecord
from milepost.checkpoint._sql.read.query_result import FoundCheckpoint, found_at, latest_at
from milepost.checkpoint._sql.read.values import Resolver

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from milepost._db.dialect import Traits
    from milepost.checkpoint._delta.encode import Codec
    from milepost.checkpoint._sql.statements import Statements

    _SingleQuery: TypeAlias = Callable[[Place], Operation[FoundCheckpoint | Place | None]]

_LONGEST_CHAIN: Final = 256
"""Manifests that the first query may return: at least as many as any chain has."""
_USUAL_CHAIN: Final = 16
"""More than most chains have. Enough if manifests are cached: those of a long chain may be."""
_key: Final = itemgetter(0, 1)


class CheckpointReader:
    def __init__(
        self, codec: Codec, cache: ThreadCache, queries: Statements, dialect: Traits
    ) -> None:
        self.codec = codec
        self.cache = cache
        self.q = queries
        self._remote = dialect.remote
        self._settled = [Query(sql) for sql in dialect.settled]

    def first(self, *queries: Query, last: bool = False) -> Operation[list[list[Any]]]:
        """The rows of the first queries of a transaction, sent with the `settled` statements."""
        answers: list[list[Any]] = yield Queries([*self._settled, *queries], last)
        return answers[len(self._settled) :]

    # -- one checkpoint

    def one(self, place: Place) -> Operation[CheckpointTuple | None]:
        """The checkpoint at `place`, or the latest one there.

        Mostly one query returns all that is not cached, and the transaction ends with that query.
        If more rows are needed, all rows are read again in one new transaction, since they may have
        changed meanwhile.
        """
        holds = self.cache.holds(place.thread_id, place.checkpoint_ns)
        latest = place
        # Of a cached graph, the checkpoint without its values, mostly in one transaction.
        ways: list[_SingleQuery] = [partial(self._found, depth=1, last=True)] if holds else []
        if self.q.newest:
            ways.append(self._newest)
        for query in ways if place.checkpoint_id is None else ():
            found = yield from query(place)
            if found is None:
                return None
            if isinstance(found, Place):
                latest = found
            elif record := without_asking(self._assembled(place, found, holds=holds)):
                return record
        depth = _USUAL_CHAIN if holds else _LONGEST_CHAIN
        checkpoint = yield from self._found(latest, depth)
        if checkpoint is None and latest is not place:
            # The latest checkpoint was removed since it was found: now another is the latest.
            checkpoint = yield from self._found(place, depth)
        if checkpoint is None:
            return None
        return (yield from self._assembled(place, checkpoint, holds=holds))

    def _found(
        self, place: Place, depth: int, *, last: bool = False
    ) -> Operation[FoundCheckpoint | None]:
        """A checkpoint, or the latest, with up to `depth` manifests that it builds on."""
        at = thread_id, ns = place[:2]
        wanted = place
        if place.checkpoint_id is None and self.q.latest:
            latest = yield Query(self.q.latest, (*at, *at, *at, *at, *at, thread_id), last)
            found = latest_at(place, latest)
            if not isinstance(found, Place):
                return found
            wanted = found
        given = (thread_id, wanted.checkpoint_id, ns, *at, *at, depth, *at, *at, *at, *at)
        [answer] = yield from self.first(Query(self.q.found, given), last=last)
        checkpoint = found_at(wanted, answer)
        if checkpoint is None and wanted is not place and last:
            # The latest checkpoint was removed between these two transactions: now another is the
            # latest.
            return (yield from self._found(place, depth))
        return checkpoint

    def _newest(self, place: Place) -> Operation[FoundCheckpoint | Place | None]:
        """The latest checkpoint with the newest values, in one transaction; its place, if its
        parent is not the checkpoint right before it."""
        at = place[:2]
        given = (*at, *at, *at, *at, *at, *at, place.thread_id, *at)
        return latest_at(place, (yield Query(self.q.newest, given, True)))

    def _assembled(
        self, place: Place, found: FoundCheckpoint, *, holds: bool
    ) -> Operation[CheckpointTuple]:
        """The record of a found checkpoint; fetches the missing rows. `holds`: cached rows of its
        graph may be used. The checkpoint is cached, since a run may go on from it."""
        at = place[:2]
        row, parent, epoch = found.row, found.parent, found.epoch
        asked = (row,) if parent is None else (row, parent)
        manifests = yield from self._manifests(at, asked, found.rows, epoch, holds=holds)
        wanted = found.wanted(manifests)
        trusted = epoch if holds else None
        resolver = yield from self.values(at, wanted, trusted, come=found.values, last=True)
        writes = by_checkpoint(found.writes)
        assembler = CheckpointAssembler(self.codec, at, manifests, writes, resolver)
        record = assembler.whole(row)
        if parent is not None:
            record.parent = assembler.record(parent, found.unfetched)
        if self.codec.splices:
            if parent is not None and (found.parent_triggers or not parent.complete):
                self._learn(at, manifests.of(parent.id), found.parent_triggers, resolver)
            self._learn(at, manifests.of(row.id), found.large, resolver)
        return record

    def manifest_of(self, place: Place) -> Operation[Manifest | None]:
        """The manifest of the checkpoint at `place`, if there is one."""
        at, id = place[:2], place.checkpoint_id
        rows = (yield from self._ancestry(at, [id])) if id is not None else {}
        return Manifests(self.codec, at, rows, {id}, {}).of(id).manifest if id in rows else None

    def _learn(
        self,
        at: GraphKey,
        cached: CachedManifest,
        large: Iterable[tuple[str, str]],
        resolver: Resolver,
    ) -> None:
        """Cache a checkpoint that was read, with its values in rows of their own."""
        values = {}
        for channel, version in large:
            values[channel] = resolver.remember(channel, version, cached.epoch)
        self.cache.learn(*at, cached, values)

    # -- manifests

    def manifests(self, at: GraphKey, rows: Sequence[CheckpointRecord]) -> Operation[Manifests]:
        return self._manifests(at, rows, {row.id: row for row in rows})

    def _manifests(
        self,
        at: GraphKey,
        rows: Sequence[CheckpointRecord],
        found: dict[str, CheckpointRecord],
        epoch: int | None = None,
        *,
        holds: bool = False,
    ) -> Operation[Manifests]:
        """The manifests of `rows`, which are in `found`; fetches missing rows that they build on.

        If the cache `holds` some, those of the thread's epoch are used: within an epoch no
        checkpoint is replaced.
        """
        bases: dict[str, CachedManifest] = {}
        missing: dict[str, None] = {}
        passed: dict[str, None] = {}
        trusts = holds and epoch is not None
        for row in rows:
            id: str | None = row.id
            while id is not None and id not in passed:
                passed[id] = None
                cached = self.cache.manifest(*at, id, None) if trusts else None
                if cached is not None and not cached.partial and cached.epoch == epoch:
                    bases[id] = cached
                    break
                if id not in found:
                    missing[id] = None
                    break
                id = None if found[id].complete else found[id].parent_id
        if missing:
            found = (yield from self._ancestry(at, missing)) | found
        return Manifests(self.codec, at, found, {row.id for row in rows}, bases, epoch)

    def _ancestry(self, at: GraphKey, ids: Iterable[str]) -> Operation[dict[str, CheckpointRecord]]:
        """Some checkpoints, with those that their manifests build on, by id."""
        rows = yield Query(self.q.ancestry, (_as_json(ids), *at, *at))
        return {row[0]: CheckpointRecord(*row) for row in rows}

    # -- values and writes

    def assembler(
        self,
        at: GraphKey,
        rows: Sequence[CheckpointRecord],
        *,
        before: CheckpointRecord | None = None,
        adjacent: bool = False,
        last: bool = False,
    ) -> Operation[CheckpointAssembler]:
        """Fetch all rows that some checkpoints of one graph are made from.

        `before`: the checkpoint listed before them, whose manifest counts the writes at its parent.
        `adjacent`: the rows are in order, newest first, and none between them is left out.
        """
        found = {row.id: row for row in ([*rows, before] if before is not None else rows)}
        manifests = yield from self._manifests(at, rows, found)
        ids = [row.id for row in rows]
        after = dict(pairwise(reversed(ids))) if adjacent else {}
        wanted = manifests.wanted()
        ids += manifests.parents_with_sends(rows)
        return (yield from self.rows_of(at, manifests, ids, wanted, after=after, last=last))

    def rows_of(
        self,
        at: GraphKey,
        manifests: Manifests,
        ids: Sequence[str],
        wanted: Collection[tuple[str, str]],
        channels: Sequence[str] | None = None,
        *,
        after: Mapping[str, str] | None = None,
        epoch: int | None = None,
        last: bool = False,
    ) -> Operation[CheckpointAssembler]:
        """Fetch the writes at some checkpoints, and values, with one query.

        With `channels`, only writes to these channels can be decoded. `after` maps a checkpoint to
        the next one, where that is known. `epoch` is the same as for `values`.
        """
        cached = {} if epoch is None else self._cached_values(at, wanted, epoch)
        some = None if channels is None else json.dumps(list(channels))
        missing = [key for key in wanted if key not in cached]
        given = [(id, after.get(id) if after else None) for id in ids]
        blobs, writes = yield from self._rows_of(at, given, missing, some, last)
        shares = len(ids) > 1
        resolver = Resolver(self.codec, at, blobs, cached, shares=shares)
        return CheckpointAssembler(self.codec, at, manifests, by_checkpoint(writes), resolver)

    def _rows_of(
        self,
        at: GraphKey,
        ids: Sequence[tuple[str, str | None]],
        wanted: Iterable[tuple[str, str]],
        channels: str | None,
        last: bool,
    ) -> Operation[tuple[list[tuple[Any, ...]], list[WriteRecord]]]:
        """The rows of values and of writes that `Statements.rows_of` finds."""
        given = (json.dumps(ids), *at, *at, *at, _as_json(wanted), channels, channels, *at, *at)
        found = yield Query(self.q.rows_of, given, last)
        found = yield from _with_cells(found)
        blobs, writes = [], []
        for tag, a, b, c, base, number, path, kind, data in found:
            if tag:
                writes.append(WriteRecord(a, b, number, c, path, base, kind, data))
            else:
                blobs.append((a, b, c, base, number, kind, data))
        return blobs, writes

    def values(
        self,
        at: GraphKey,
        wanted: set[tuple[str, str]],
        epoch: int | None = None,
        *,
        come: Sequence[tuple[Any, ...]] = (),
        last: bool = False,
    ) -> Operation[Resolver]:
        """Fetch the rows of the wanted channels and versions, except those in `come`.

        Values that are cached from this epoch are not fetched. Values of another epoch are: a
        thread that was deleted and created again may have other values under the same versions,
        if a program made these. Without an epoch all are fetched.
        """
        cached = {} if epoch is None else self._cached_values(at, wanted, epoch)
        rows = come
        if missing := wanted.difference(cached, map(_key, come)):
            if self._remote:
                blobs, _ = yield from self._rows_of(at, (), missing, None, last)
                rows = [*come, *blobs]
            else:
                rows = yield from self._one_by_one(at, missing)
        return Resolver(self.codec, at, rows, cached)

    def _one_by_one(
        self, at: GraphKey, keys: Iterable[tuple[str, str]]
    ) -> Operation[list[tuple[Any, ...]]]:
        """The rows of values with all versions in their chains, on a local database.

        A recursive query would be no faster, since there are no round trips to save. Each new
        connection would compile it, which takes as long as looking up all rows of a chain.
        """
        found: dict[tuple[str, str], tuple[Any, ...]] = {}
        outside = False

        def onward(row: tuple[Any, ...]) -> tuple[Any, ...] | None:
            nonlocal outside
            channel, version, base_channel, base, _, _, data = row
            found[channel, version] = row
            outside = outside or type(data) is int
            if base is None:
                return None
            channel = base_channel or channel
            return None if (channel, base) in found else (*at, channel, base)

        for key in keys:
            if key not in found:
                yield LinkedRows(self.q.blob, (*at, *key), onward)
        # The resolver reports a missing row when a value needs that row.
        rows = list(found.values())
        return (yield from _with_cells(rows)) if outside else rows

    def _cached_values(
        self, at: GraphKey, wanted: Iterable[tuple[str, str]], epoch: int
    ) -> dict[tuple[str, str], CachedValue]:
        """The values cached from an epoch."""
        found: dict[tuple[str, str], CachedValue] = {}
        for key in wanted:
            cached = self.cache.value(*at, *key)
            if cached is not None and cached.epoch == epoch:
                found[key] = cached
        return found


def _with_cells(rows: list[tuple[Any, ...]]) -> Operation[list[tuple[Any, ...]]]:
    """Rows of values, with the bytes of those that came with a number instead: see large.py."""
    places = [place for place, row in enumerate(rows) if type(row[-1]) is int]
    if places:
        cells = yield ReadCells(*DATA, [rows[place][-1] for place in places])
        for place, cell in zip(places, cells, strict=True):
            rows[place] = (*rows[place][:-1], cell)
    return rows


def _as_json(wanted: Iterable[object]) -> str:
    """Ids from rows as JSON. An id of a wrong type, from a damaged row, becomes a text that matches
    no row."""
    return json.dumps(list(wanted), default=repr)
