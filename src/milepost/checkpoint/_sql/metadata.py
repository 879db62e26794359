"""The stored form of a checkpoint's metadata.

Nearly every checkpoint has the same three entries and no others. These are stored without their
names, which would be two thirds of the bytes.
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
"""In the column `metadata_type`: the cell holds source and step; `parents` is empty."""

WITH_COUNT: Final = "="
"""A prefix in the column `metadata_type`: the cell begins with the number of rows of writes at the
checkpoint. The number is there because this cell always exists and has a checksum or a seal."""

_USUAL_ENTRIES: Final = 3
_COUNT_BYTES: Final = 4
"""Bytes of that number."""


def encoded(
    codec: Codec, metadata: CheckpointMetadata, thread_id: str, ns: str, id: str
) -> tuple[str | None, bytes]:
    """The stored form of the kind, and the bytes before sealing."""
    entries: Mapping[str, Any] = metadata
    if codec.splices and len(entries) == _USUAL_ENTRIES and entries.get("parents") == {}:
        source, step = entries.get("source"), entries.get("step")
        if type(source) is str and type(step) is int:
            try:
                return SOURCE_AND_STEP, ormsgpack.packb((source, step))
            except ormsgpack.MsgpackEncodeError:
                pass  # not a msgpack value: the serializer raises with a reason
    try:
        kind, data = codec.whole(metadata, "metadata", thread_id, ns, id)
    except SerdeError as error:
        raise error.at(thread=thread_id, channel="metadata") from None
    return short_kind(kind), data


def counted(kind: str | None, data: Buffer, rows: int) -> tuple[str | None, bytes]:
    """Stored kind and bytes of metadata, with the number of rows of writes added."""
    return f"{WITH_COUNT}{kind or ''}", rows.to_bytes(_COUNT_BYTES, "big") + data


def split_count(kind: str | None, data: Buffer) -> tuple[str | None, Buffer, int]:
    """The reverse of `counted`: kind, bytes, number of rows. The number is 0 if none is stored."""
    if not is_counted(kind):
        return kind, data, 0
    assert kind is not None
    if len(data) < _COUNT_BYTES:
        raise DeserializationError("stored metadata does not decode: it is too short")
    return kind[1:] or None, data[_COUNT_BYTES:], int.from_bytes(data[:_COUNT_BYTES], "big")


def is_counted(kind: str | None) -> bool:
    """Whether metadata of this kind holds the number of rows of writes."""
    # A damaged cell may be of any type; opening the cell raises.
    return isinstance(kind, str) and kind.startswith(WITH_COUNT)


def opened(
    codec: Codec, kind: str | None, stored: bytes, thread_id: str, ns: str, id: str
) -> tuple[str | None, Buffer, int]:
    """Kind, unsealed bytes and number of rows of writes, from a stored metadata cell."""
    try:
        return split_count(kind, codec.unseal(stored, ("metadata", thread_id, ns, id), (kind,)))
    except SerdeError as error:
        raise error.at(thread=thread_id, channel="(the metadata)") from None


def decoded(
    codec: Codec, kind: str | None, stored: bytes, thread_id: str, ns: str, id: str
) -> CheckpointMetadata:
    """The metadata of a checkpoint, from the cells of its row."""
    kind, data, _ = opened(codec, kind, stored, thread_id, ns, id)
    try:
        if kind != SOURCE_AND_STEP:
            place = ("metadata", thread_id, ns, id)
            return cast("CheckpointMetadata", codec.decode(long_kind(kind), [data], *place))
        try:
            source, step = ormsgpack.unpackb(data)
        except (ValueError, TypeError) as error:
            raise DeserializationError(f"stored metadata does not decode: {error}") from error
        return {"source": source, "step": step, "parents": {}}
    except SerdeError as error:
        raise error.at(thread=thread_id, channel="(the metadata)") from None
