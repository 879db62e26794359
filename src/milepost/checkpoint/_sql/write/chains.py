"""When a version is stored as a difference, and when in full.

A chain of differences is bounded, so that a read touches few rows. Mostly a value only grows;
then each version contains all that came before it, and the chain is kept in two levels, as in a
log-structured store: after some rows that add a little each, one row adds all of that at once,
and the small ones are *compacted*: stored again as parts of the large one. After some of those, a
full row takes their place in the same way. So every byte is there once, however long the history.
A short value gets a full row sooner: most threads are short, and processes that have not seen them
read them, for which a row costs more than some kilobytes.

A value that changes in other ways gets a full row when the differences have become as large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from milepost.checkpoint._delta.diff import Delta, Parts, cost, difference, pack
from milepost.checkpoint._sql.cache import CachedValue, Chain, OlderVersion
from milepost.checkpoint._sql.rows import BlobRow, Compaction

if TYPE_CHECKING:
    from milepost._db.dialect import Bounds
    from milepost.checkpoint._delta.encode import Encoded

_ROWS_BEFORE_FULL: Final = 32
"""Rows of a value that does not just grow, after which a full one may be due."""
_MAX_ROWS: Final = 128
_MAX_COMPACTIONS: Final = 64
"""Full rows that may become parts of a later one, one after the other, before one is kept."""
_MAX_COMPACTIONS_OF_SHORT: Final = 32
"""Full rows of a short value that become parts of a later one: to look back is to follow them."""
_BYTES_PER_EXTRA_ROW: Final = 1 << 20
"""Bytes of a value for which there may be another row: to read them takes far longer than that. So
what it costs to write a value in full, shared by the versions between, does not grow with it."""
_FEW_ELEMENTS: Final = 16
"""Elements of a new list that are looked at one by one, to find where a value went."""
_MIN_MOVED_BYTES: Final = 64
"""Bytes that must be saved to store an emptied channel's value as a part of another's."""
_FULL_ROW: Final = Chain()
"""Of a version that is stored in full."""


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
    """Whether a version is the one before it with something added at its end."""
    if not delta or not new.parts.head:
        return False
    if delta[0] == (0, base.size):
        return len(delta) <= 2
    head = len(base.parts.head)
    return (
        delta[0] == new.parts.head and delta[1:2] == [(head, base.size - head)] and len(delta) <= 3
    )


def _delta_from(root: OlderVersion, new: Encoded) -> Delta:
    """The difference from a version that the new one has grown out of."""
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
    """An older version as its own head, and as much of the new one as it had."""
    head = new.parts.head
    delta: Delta = [(0, older.size)]
    if older.head != head:
        delta = [older.head, (len(head), older.size - len(older.head))]
    return Compaction(older.version, new.kind, pack(delta))


def moved_delta(cached: CachedValue, row: BlobRow) -> bytes | None:
    """The value of an emptied channel as a part of another's, if it went there.

    The input of a graph is stored first as such, and a step later among the values that it set.
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
    """Where in a version the bytes are that its base did not have."""
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
