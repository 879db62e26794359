"""Several writes of a task in one row.

A task's ordinary writes come together, mostly with the checkpoint that they led to, and are never
changed. So small ones share a row: a row has a key of a hundred bytes, and the usual task writes a
value and a trigger of a few bytes each. What refers to a channel's version, special writes, and
those of a foreign runtime, which may come one by one, have rows of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import ormsgpack

from milepost.checkpoint.sql.rows import WriteRow
from milepost.errors import DeserializationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.checkpoint.splice import Buffer

TOGETHER: Final = "+"
"""In the column `type`: the row holds several writes."""


def together(writes: Sequence[WriteRow]) -> WriteRow:
    """Ordinary writes, none of them with a base, as one row."""
    data = ormsgpack.packb([(w.position, w.channel, w.kind, w.data) for w in writes])
    return WriteRow(writes[0].position, "", None, TOGETHER, data)


def apart(data: Buffer) -> list[WriteRow]:
    """The writes that such a row holds."""
    try:
        return [
            WriteRow(position, channel, None, kind, held)
            for position, channel, kind, held in ormsgpack.unpackb(data)
        ]
    except (ValueError, TypeError) as error:
        raise DeserializationError(f"stored writes do not decode: {error}") from error
