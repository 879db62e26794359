"""When a version is stored as a difference, and when in full.

A chain of differences is bounded, so that a read touches few rows. Mostly a value only grows:
then the newest version contains all that came before it, and when a full row is due, the older
ones are *folded*: stored anew as parts of the new full row. So the value is there once, however
long its history. Otherwise a full row is due when the differences have become as large as it.
"""

from __future__ import annotations

from typing import Final

from milepost.checkpoint.sql.codec import Encoded
from milepost.checkpoint.sql.memory import Chain, Known
from milepost.checkpoint.sql.rows import BlobRow, Fold
from milepost.checkpoint.sql.values import split_like
from milepost.sql.splice import Parts, Program, cost, difference

_ROWS: Final = 32
_MOST_ROWS: Final = 128
_FOLDS: Final = 64
"""Full rows that may become parts of a later one, one after the other, before one is kept."""


def blob_row(
    channel: str, version: str, encoded: Encoded, base: Known | None, token: str | None
) -> BlobRow:
    """How to store a version whose predecessor is `base`."""
    known = Known(token, base.epoch if base else None, version, encoded, Chain())
    row = BlobRow(channel, version, encoded, known)
    if base is None or base.encoded.kind != encoded.kind or base.version == version:
        return row
    if encoded.parts.head and not base.encoded.parts.head:
        parts = split_like(base.encoded.parts.join(), encoded.parts)
        base.encoded = base.encoded._replace(parts=parts)
    program = difference(base.encoded.parts, encoded.parts)
    if not program:
        return row
    price = cost(program)
    chain = base.chain
    grows = chain.appended is not None and _appends(base.encoded, encoded, program)
    if price * 4 > encoded.size * 3 and not grows:
        return row
    before = (base.version, base.encoded.parts.head, base.encoded.size)
    if chain.rows >= _ROWS and (
        grows or chain.rows >= _MOST_ROWS or chain.spent + price > encoded.size
    ):
        if grows:
            assert chain.appended is not None
            row.folds = _folds((*chain.appended, before), encoded, chain)
            kept = chain.folds >= _FOLDS
            known.chain = Chain(folds=0 if kept else chain.folds + 1)
        return row
    row.base, row.program = base, program
    known.chain = Chain(
        chain.rows + 1,
        chain.spent + price,
        (*chain.appended, before) if grows and chain.appended is not None else None,
        chain.folds,
    )
    return row


def _appends(base: Encoded, new: Encoded, program: Program) -> bool:
    """Whether a version is the one before it with something added at its end."""
    if program[0] == (0, base.size):
        return len(program) <= 2
    head = len(base.parts.head)
    return (
        program[0] == new.parts.head
        and program[1:2] == [(head, base.size - head)]
        and len(program) <= 3
    )


def _folds(older: tuple[tuple[str, bytes, int], ...], newest: Encoded, chain: Chain) -> list[Fold]:
    root, *rest = older
    folded = rest if chain.folds >= _FOLDS else [root, *rest]
    return [Fold(version, part_of(newest.parts, head, size)) for version, head, size in folded]


def part_of(newest: Parts, head: bytes, size: int) -> Program:
    """The program for an older version: its own head, then as much as it had."""
    if head == newest.head:
        return [(0, size)]
    return [head, (len(newest.head), size - len(head))]
