"""When a version is stored as a delta, and when in full.

The length of a chain of deltas is bounded, so that a read fetches few rows. Mostly a value only
grows: each version contains the version before. Then the chain has two levels, as in a
log-structured store. After some *small* rows, which add a little each, one *large* row adds all of
that at once. The small rows are then *compacted*: stored again as parts of the large row. After
some large rows, a *full* row compacts those in the same way. So each byte is stored once, however
long the history. A short value gets a full row sooner. Most threads are short, and are read by
processes that do not have them cached. For such a read, one more row costs more than some
kilobytes.

A value that changes in other ways gets a full row when its deltas together reach its size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from milepost.checkpoint._delta.diff import Delta, Parts, cost, difference, pack
from milepost.checkpoint._sql.cache import CachedValue, Chain, OlderVersion
from milepost.checkpoint._sql.rows import BlobCells, BlobRow, Compaction, short_kind

if TYPE_CHECKING:
    from milepost._db.dialect import Bounds
    from milepost.checkpoint._delta.encode import Codec, Encoded

_ROWS_BEFORE_FULL: Final = 32
"""Rows in the chain of a value that does not only grow, after which a full row may be due."""
_MAX_ROWS: Final = 128
_MAX_COMPACTIONS: Final = 64
"""Full rows in succession that are compacted into the next full row, before one is kept."""
_MAX_COMPACTIONS_OF_SHORT: Final = 32
"""The same for a short value. Reading an old version follows all of these."""
_BYTES_PER_EXTRA_ROW: Final = 1 << 20
"""Bytes of a value for which its chain may have one more large row, which costs little beside
reading the bytes. So full rows become rarer as a value grows, and a version costs the same."""
_FEW_ELEMENTS: Final = 16
"""A new container with at most this many elements is searched for an emptied channel's value."""
_MIN_MOVED_BYTES: Final = 64
"""Bytes that must be saved, for an emptied channel's value to become a part of another value."""
_FULL_ROW: Final = Chain()
"""The chain of a version that is stored in full."""


def blob_row(
    channel: str,
    version: str,
    encoded: Encoded,
    base: CachedValue | None,
    token: str | None,
    most: Bounds,
) -> BlobRow:
    """How to store a version whose predecessor is `base`."""
    epoch = base.epoch if base else None
    cached = CachedValue(token, epoch, version, encoded, _FULL_ROW, encoded.size)
    row = BlobRow(channel, version, encoded, cached)
    if base is None or base.encoded.kind != encoded.kind or base.version == version:
        return row
    if not base.encoded.parts.head:
        base.cut_like(encoded.parts)
    delta = difference(base.encoded.parts, encoded.parts, base.encoded.size)
    row.delta_from_previous = delta
    row.chain = chain = base.chain
    if chain.roots is not None and _appends(base.encoded, encoded, delta):
        _append_row(row, cached, base, delta, most)
        return row
    price = cost(delta)
    if price * 4 > encoded.size * 3 or (
        chain.rows >= _ROWS_BEFORE_FULL
        and (chain.rows >= _MAX_ROWS or chain.spent + price > encoded.size)
    ):
        return row
    row.base, row.delta = base, pack(delta)
    cached.chain = Chain.of_changes(chain.rows + 1, chain.spent + price)
    return row


def seal_row(codec: Codec, thread_id: str, ns: str, row: BlobRow) -> None:
    """Seal a version as it is planned to be stored, and the versions that are compacted into it."""
    place = (thread_id, ns, row.channel, row.version)
    if row.base is None or row.delta is None:
        row.cells = full_cells(codec, place, row)
    else:
        is_root = row.cached is not None and row.cached.chain.is_root
        base = row.base_version or row.base.version
        row.cells = _sealed(codec, place, base, int(is_root), row.encoded.kind, row.delta)
    for at, older in enumerate(row.compactions):
        place = (thread_id, ns, older.channel or row.channel, older.version)
        columns = (older.channel and row.channel, row.version, 0, short_kind(older.kind))
        sealed = codec.seal(older.delta, ("blob", *place), columns)
        row.compactions[at] = older._replace(delta=sealed)


def full_cells(codec: Codec, place: tuple[str, ...], row: BlobRow) -> BlobCells:
    """The cells of a version that is stored in full."""
    level = row.cached.chain.compactions if row.cached is not None else 0
    return _sealed(codec, place, None, level, row.encoded.kind, row.encoded.parts.join())


def _sealed(
    codec: Codec, place: tuple[str, ...], base: str | None, level: int, kind: str, data: bytes
) -> BlobCells:
    columns = (None, base, level, short_kind(kind))
    return BlobCells(*columns, codec.seal(data, ("blob", *place), columns))


def _append_row(
    row: BlobRow, cached: CachedValue, base: CachedValue, delta: Delta, most: Bounds
) -> None:
    """Store a version that adds to the one before it."""
    chain, new = base.chain, row.encoded
    assert chain.roots is not None
    before = OlderVersion(base.version, base.encoded.parts.head, base.encoded.size)
    tail: tuple[OlderVersion, ...]
    if chain.is_root:
        roots, tail = (*chain.roots, before), ()
    else:
        roots, tail = chain.roots, (*chain.tail, before)
    is_short = new.size <= most.short and chain.compactions < _MAX_COMPACTIONS_OF_SHORT
    if len(tail) < (most.short_rows if is_short else most.small):
        row.base, row.delta = base, pack(delta)
        cached.chain = Chain(
            chain.rows + 1, chain.spent + cost(delta), roots, tail, False, chain.compactions
        )
        return
    if not is_short and len(roots) < most.large + new.size // _BYTES_PER_EXTRA_ROW:
        root = roots[-1]
        row.base_version = root.version
        delta = _delta_from(root, new)
        row.base, row.delta = base, pack(delta)
        row.compactions = [_compaction(older, new) for older in tail]
        cached.chain = Chain(
            len(roots) + 1, chain.spent + cost(delta), roots, (), True, chain.compactions
        )
        return
    kept = chain.compactions >= _MAX_COMPACTIONS
    row.compactions = [_compaction(older, new) for older in (*roots[1 if kept else 0 :], *tail)]
    cached.chain = Chain(compactions=0 if kept else chain.compactions + 1)


def _appends(base: Encoded, new: Encoded, delta: Delta) -> bool:
    """Whether `delta` makes `new` from `base` by adding at the end."""
    if not delta or not new.parts.head:
        return False
    if delta[0] == (0, base.size):
        return len(delta) <= 2
    head = len(base.parts.head)
    return (
        delta[0] == new.parts.head and delta[1:2] == [(head, base.size - head)] and len(delta) <= 3
    )


def _delta_from(root: OlderVersion, new: Encoded) -> Delta:
    """The delta from an older version whose elements are a prefix of the new one's."""
    body = root.size - len(root.head)
    left = new.size - len(new.parts.head) - body
    elements = new.parts.elements
    first = len(elements)
    while left > 0:
        first -= 1
        left -= len(elements[first])
    delta: Delta = [new.parts.head, (len(root.head), body), b"".join(elements[first:])]
    return list(filter(None, delta))


def _compaction(older: OlderVersion, new: Encoded) -> Compaction:
    """An older version as its own head and a prefix of the new version's elements."""
    head = new.parts.head
    delta: Delta = [(0, older.size)]
    if older.head != head:
        delta = [older.head, (len(head), older.size - len(older.head))]
    return Compaction(older.version, new.kind, pack(delta))


def moved_delta(cached: CachedValue, row: BlobRow) -> bytes | None:
    """The delta that makes an emptied channel's value from `row`, if the value has moved there.

    The input of a graph is first an input channel's value, and one step later in state channels.
    """
    pieces = [(start, piece) for start, piece in _new_pieces(row) if len(piece) >= _MIN_MOVED_BYTES]
    if not pieces:
        return None
    data = cached.encoded.parts.join()
    best: tuple[int, int, int] | None = None
    for start, piece in pieces:
        if best is None or len(piece) > best[2]:
            at = data.find(piece)
            if at >= 0:
                best = (at, start, len(piece))
    if best is None:
        return None
    at, start, size = best
    delta: Delta = [data[:at], (start, size), data[at + size :]]
    return pack(list(filter(None, delta)))


def _new_pieces(row: BlobRow) -> list[tuple[int, bytes]]:
    """Offset and bytes of the parts of a version that the version before did not have."""
    found, at = [], 0
    if row.delta_from_previous is None:
        parts: Parts = row.encoded.parts
        at = len(parts.head)
        if len(parts.elements) <= _FEW_ELEMENTS:
            found.append((at, b"".join(parts.elements)))
            for element in parts.elements:
                found.append((at, element))
                at += len(element)
        return found
    for step in row.delta_from_previous:
        if isinstance(step, bytes):
            found.append((at, step))
            at += len(step)
        else:
            at += step[1]
    return found
