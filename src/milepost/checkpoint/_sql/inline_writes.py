"""Several writes in one row.

A task's ordinary writes are stored together and never changed, so small ones share a row. A row has
a key of a hundred bytes, while the usual task writes a value and a trigger of a few bytes each.
References to a channel's version, special writes, and writes of a foreign runtime, which may come
one by one, have rows of their own.

Mostly the writes are stored together with the checkpoint that they lead to. Then they need no row:
they are *inline*, in the row of that checkpoint. So a usual step is one row, on one page. Inline
writes still belong to the parent checkpoint. A reader finds them from there only if the two
checkpoints are adjacent. They are adjacent if one run made both with none in between, or if the
parent was the head of the thread when the run loaded it.
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
"""Position, channel, stored form of the kind, bytes."""
INLINE_WRITES: Final = "#"
"""As the type of a write in a query's result: inline writes, from the next checkpoint's row."""


def pack_several(writes: Sequence[WriteRow]) -> WriteRow:
    """Ordinary writes without a base, as one row."""
    packed: list[_PackedWrite] = [
        (position, channel, kind, data) for position, channel, _, kind, data in writes
    ]
    return WriteRow(writes[0].position, "", None, SEVERAL_WRITES, ormsgpack.packb(packed))


def unpack_several(data: Buffer) -> list[WriteRow]:
    """The writes in a row of `pack_several`."""
    try:
        return _write_rows(ormsgpack.unpackb(data))
    except (ValueError, TypeError) as error:
        raise DeserializationError(f"stored writes do not decode: {error}") from error


def unpack_inline(data: Buffer) -> list[tuple[str, str, list[WriteRow]]]:
    """The writes in the row of a checkpoint: task id, task path and writes of each task."""
    try:
        return [(id, path, _write_rows(writes)) for id, path, writes in ormsgpack.unpackb(data)]
    except (ValueError, TypeError) as error:
        raise DeserializationError(f"stored writes do not decode: {error}") from error


def as_own_rows(
    codec: Codec, place: tuple[str, str, str], child: str, inline_writes: bytes
) -> list[Any]:
    """The inline writes in the row of `child`, as rows of the checkpoint at `place`."""
    thread_id, ns, id = place
    opened = codec.unseal(inline_writes, ("led", thread_id, ns, child), (id,))
    found = []
    for task_id, path, writes in unpack_inline(opened):
        position, channel, base, kind, data = pack_several(writes)
        bound = ("write", thread_id, ns, id, task_id, str(position))
        data = codec.seal(data, bound, (channel, path, base, kind))
        found.append((*place, task_id, position, channel, path, base, kind, data))
    return found


def _write_rows(stored: Sequence[Sequence[Any]]) -> list[WriteRow]:
    return [
        WriteRow(position, channel, None, kind, data) for position, channel, kind, data in stored
    ]
