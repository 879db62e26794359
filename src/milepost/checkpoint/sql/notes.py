"""Metadata in its stored form.

Nearly every checkpoint has the same three entries and nothing else, so these are stored without
their names: two thirds of the bytes, in as many rows as there are checkpoints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import ormsgpack

from milepost.checkpoint.sql.rows import long_kind
from milepost.errors import DeserializationError, SerdeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from milepost.checkpoint.codec import Codec
    from milepost.checkpoint.records import CheckpointMetadata

BRIEF: Final = "-"
"""In the column `metadata_type`: source and step, of a root graph."""

_USUAL: Final = 3


def encoded(
    codec: Codec, metadata: CheckpointMetadata, thread_id: str, ns: str, id: str
) -> tuple[str, bytes]:
    """The kind and the bytes, before they are sealed."""
    entries: Mapping[str, Any] = metadata
    if codec.splices and len(entries) == _USUAL and entries.get("parents") == {}:
        source, step = entries.get("source"), entries.get("step")
        if type(source) is str and type(step) is int:
            try:
                return BRIEF, ormsgpack.packb((source, step))
            except ormsgpack.MsgpackEncodeError:
                pass  # a number or a text that msgpack does not have: the serializer explains
    try:
        return codec.whole(metadata, "metadata", thread_id, ns, id)
    except SerdeError as error:
        raise error.at(thread=thread_id, channel="metadata") from None


def decoded(
    codec: Codec, kind: str | None, stored: bytes, thread_id: str, ns: str, id: str
) -> CheckpointMetadata:
    """The metadata of a checkpoint, from the cells of its row."""
    place = ("metadata", thread_id, ns, id)
    try:
        data = codec.unseal(stored, place, (kind,))
        if kind != BRIEF:
            return cast("CheckpointMetadata", codec.decode(long_kind(kind), [data], *place))
        try:
            source, step = ormsgpack.unpackb(data)
        except (ValueError, TypeError) as error:
            raise DeserializationError(f"stored metadata does not decode: {error}") from error
        return {"source": source, "step": step, "parents": {}}
    except SerdeError as error:
        raise error.at(thread=thread_id, channel="(the metadata)") from None
