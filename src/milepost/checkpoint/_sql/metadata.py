"""Metadata in its stored form.

Nearly every checkpoint has the same three entries and nothing else, so these are stored without
their names: two thirds of the bytes, in as many rows as there are checkpoints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import ormsgpack

from milepost.checkpoint._sql.rows import long_kind, short_kind
from milepost.errors import DeserializationError, SerdeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from milepost.checkpoint._contract.records import CheckpointMetadata
    from milepost.checkpoint._delta.diff import Buffer
    from milepost.checkpoint._delta.encode import Codec

SOURCE_AND_STEP: Final = "-"
"""In the column `metadata_type`: source and step, of a root graph."""

WITH_COUNT: Final = "="
"""Before the rest in the same column: with the metadata is stored how many rows of writes the
checkpoint has. There it is under the checksum, or the cipher, of a cell that is always there."""

_USUAL_ENTRIES: Final = 3
_COUNT_BYTES: Final = 4
"""Bytes of the number."""


def encoded(
    codec: Codec, metadata: CheckpointMetadata, thread_id: str, ns: str, id: str
) -> tuple[str | None, bytes]:
    """The kind as it is stored, and the bytes before they are sealed."""
    entries: Mapping[str, Any] = metadata
    if codec.splices and len(entries) == _USUAL_ENTRIES and entries.get("parents") == {}:
        source, step = entries.get("source"), entries.get("step")
        if type(source) is str and type(step) is int:
            try:
                return SOURCE_AND_STEP, ormsgpack.packb((source, step))
            except ormsgpack.MsgpackEncodeError:
                pass  # a number or a text that msgpack does not have: the serializer explains
    try:
        kind, data = codec.whole(metadata, "metadata", thread_id, ns, id)
    except SerdeError as error:
        raise error.at(thread=thread_id, channel="metadata") from None
    return short_kind(kind), data


def counted(kind: str | None, data: Buffer, rows: int) -> tuple[str | None, bytes]:
    """Metadata, its kind as it is stored, with the number of rows of writes."""
    return f"{WITH_COUNT}{kind or ''}", rows.to_bytes(_COUNT_BYTES, "big") + data


def apart(kind: str | None, data: Buffer) -> tuple[str | None, Buffer, int]:
    """What `counted` was given; no rows if the metadata was never counted with."""
    if not is_counted(kind):
        return kind, data, 0
    assert kind is not None
    if len(data) < _COUNT_BYTES:
        raise DeserializationError("stored metadata does not decode: it is too short")
    return kind[1:] or None, data[_COUNT_BYTES:], int.from_bytes(data[:_COUNT_BYTES], "big")


def is_counted(kind: str | None) -> bool:
    """Whether metadata of this kind says how many rows of writes there are."""
    # A damaged cell may be of any type; opening the cell raises.
    return isinstance(kind, str) and kind.startswith(WITH_COUNT)


def opened(
    codec: Codec, kind: str | None, stored: bytes, thread_id: str, ns: str, id: str
) -> tuple[str | None, Buffer, int]:
    """What is stored of a checkpoint's metadata, and how many rows of writes there must be."""
    try:
        return apart(kind, codec.unseal(stored, ("metadata", thread_id, ns, id), (kind,)))
    except SerdeError as error:
        raise error.at(thread=thread_id, channel="(the metadata)") from None


def decoded(
    codec: Codec, kind: str | None, stored: bytes, thread_id: str, ns: str, id: str
) -> CheckpointMetadata:
    """The metadata of a checkpoint, from the cells of its row."""
    place = ("metadata", thread_id, ns, id)
    try:
        data = codec.unseal(stored, place, (kind,))
        if kind != SOURCE_AND_STEP:  # nor counted
            kind, data, _ = apart(kind, data)
        if kind != SOURCE_AND_STEP:
            return cast("CheckpointMetadata", codec.decode(long_kind(kind), [data], *place))
        try:
            source, step = ormsgpack.unpackb(data)
        except (ValueError, TypeError) as error:
            raise DeserializationError(f"stored metadata does not decode: {error}") from error
        return {"source": source, "step": step, "parents": {}}
    except SerdeError as error:
        raise error.at(thread=thread_id, channel="(the metadata)") from None
