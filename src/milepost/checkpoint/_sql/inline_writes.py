"""Several writes in one row.

A task's ordinary writes come together and are never changed. So small ones share a row: a row has
a key of a hundred bytes, and the usual task writes a value and a trigger of a few bytes each. What
refers to a channel's version, special writes, and those of a foreign runtime, which may come one
by one, have rows of their own.

Mostly they come together with the checkpoint that they lead to. Then they need no row at all: they
are stored in that checkpoint's, so that a usual step is one row, and dirties one page of a
database. They still belong to the checkpoint before it. To be found from there, the two must be
next to each other, which they are if one run made both and nothing in between, or if the first was
the head of the thread when the run came to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import ormsgpack

from milepost.checkpoint._sql.rows import WriteRow
from milepost.errors import DeserializationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.checkpoint._delta.diff import Buffer
    from milepost.checkpoint._delta.encode import Codec

SEVERAL_WRITES: Final = "+"
"""In the column `type`: the row holds several writes."""
Entry: TypeAlias = "tuple[str, str, list[_PackedWrite]]"
"""A task's id, path and writes. The row of a checkpoint holds a list of these."""
_PackedWrite: TypeAlias = "tuple[int, str, str | None, bytes]"
"""Position, channel, kind as it is stored, bytes."""
INLINE_WRITES: Final = "#"
"""In a row that a query returns: what it holds is from the row of the next checkpoint."""


def pack_several(writes: Sequence[WriteRow]) -> WriteRow:
    """Ordinary writes, none of them with a base, as one row."""
    return WriteRow(
        writes[0].position, "", None, SEVERAL_WRITES, ormsgpack.packb(_packed_writes(writes))
    )


def unpack_several(data: Buffer) -> list[WriteRow]:
    """The writes that such a row holds."""
    try:
        return _write_rows(ormsgpack.unpackb(data))
    except (ValueError, TypeError) as error:
        raise DeserializationError(f"stored writes do not decode: {error}") from error


def unpack_inline(data: Buffer) -> list[tuple[str, str, list[WriteRow]]]:
    """The writes that the row of a checkpoint holds, with the task's id and path."""
    try:
        return [(id, path, _write_rows(writes)) for id, path, writes in ormsgpack.unpackb(data)]
    except (ValueError, TypeError) as error:
        raise DeserializationError(f"stored writes do not decode: {error}") from error


def as_own_rows(
    codec: Codec, place: tuple[str, str, str], child: str, inline_writes: bytes
) -> list[Any]:
    """The writes in the row of `child`, as rows of the checkpoint at `place`."""
    thread_id, ns, id = place
    opened = codec.unseal(inline_writes, ("led", thread_id, ns, child), (id,))
    found = []
    for task_id, path, writes in unpack_inline(opened):
        position, channel, base, kind, data = pack_several(writes)
        bound = ("write", thread_id, ns, id, task_id, str(position))
        data = codec.seal(data, bound, (channel, path, base, kind))
        found.append((*place, task_id, position, channel, path, base, kind, data))
    return found


def _packed_writes(writes: Sequence[WriteRow]) -> list[_PackedWrite]:
    return [(position, channel, kind, data) for position, channel, _, kind, data in writes]


def _write_rows(stored: Sequence[Sequence[Any]]) -> list[WriteRow]:
    return [
        WriteRow(position, channel, None, kind, data) for position, channel, kind, data in stored
    ]
