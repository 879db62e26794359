"""Digests of checkpoints, by which a copy is compared with its source."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any, Final

from ormsgpack import Ext

from milepost.checkpoint._contract.records import CheckpointTuple, place_of
from milepost.checkpoint.serde._msgpack import ext
from milepost.checkpoint.serde._msgpack.codec import Level
from milepost.checkpoint.serde._types import models
from milepost.checkpoint.serde._types.records import RecordType, name_of
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry, Writer, default_registry


class _Comparing(TypeRegistry):
    """Writes what the shared registry can write, and of a model all but which fields were given:
    LangGraph does not keep that."""

    def find_writer(self, cls: type) -> Writer:
        writer = default_registry.writers.get(cls) or default_registry.find_writer(cls)
        if models.is_model(cls):
            writer = _model_writer(cls)
        self.writers[cls] = writer
        return writer


def _model_writer(cls: type) -> Writer:
    name = name_of(cls)
    encode = models.ModelCodec(cls).encode

    def write(model: Any, level: Level) -> Ext:
        fields, _given, extra, private, *_ = encode(model)
        return Ext(ext.RECORD, level.pack([name, fields, extra, private]))

    return write


class _Listing(TypeRegistry):
    """Reads what the shared registry can read, and every tuple as a list: LangGraph does."""

    plain_tuples = False

    def __init__(self) -> None:
        super().__init__()
        self.readers[ext.TUPLE] = lambda data, level: level.unpack(data)

    def _find(self, name: str) -> RecordType | None:
        return super()._find(name) or default_registry._find(name)


_SERDE: Final = JsonPlusSerializer(registry=_Comparing())
_TO_LISTS: Final = JsonPlusSerializer(registry=_Listing())
_EXACT: Final = JsonPlusSerializer()

Fingerprint = dict[str, bytes]
"""A digest for each part of a checkpoint, under a name that a report can show."""


def fingerprint(found: CheckpointTuple, *, in_langgraph: bool = False) -> Fingerprint:
    """Of everything that is stored of a checkpoint: values, versions, metadata, writes, parent.

    With `in_langgraph`, of what LangGraph makes of it: it has no tuples.
    """
    digest = _bytes_as_lists if in_langgraph else _bytes
    checkpoint = found.checkpoint
    parts: dict[str, list[bytes]] = {
        "its time": [checkpoint["ts"].encode()],
        "its versions": [_plain(checkpoint["channel_versions"])],
        "what its nodes have seen": [_plain(checkpoint["versions_seen"])],
        "its updated channels": [_plain(checkpoint.get("updated_channels"))],
        "its metadata": [_plain(found.metadata)],
        "its parent": [_parent(found)],
    }
    for channel, value in checkpoint["channel_values"].items():
        parts[f"the value of {channel}"] = [digest(value)]
    for task_id, channel, value in found.pending_writes or ():
        parts.setdefault(f"the writes of task {task_id} to {channel}", []).append(digest(value))
    return {name: _digest(content) for name, content in parts.items()}


def differences(expected: Fingerprint, stored: Fingerprint) -> list[str]:
    """The parts that are not the same."""
    return sorted(
        name for name in expected.keys() | stored.keys() if expected.get(name) != stored.get(name)
    )


def _parent(found: CheckpointTuple) -> bytes:
    config = found.parent_config
    return b"" if config is None else str(place_of(config).checkpoint_id).encode()


def _plain(content: Any) -> bytes:
    """Metadata is JSON in LangGraph's databases, where a tuple is a list and keys have no order."""
    return json.dumps(content, sort_keys=True, default=repr).encode()


def _bytes(value: Any) -> bytes:
    kind, data = _SERDE.dumps_typed(value)
    return b"".join((kind.encode(), b"\0", data))


def _bytes_as_lists(value: Any) -> bytes:
    return _bytes(_TO_LISTS.loads_typed(_EXACT.dumps_typed(value)))


def _digest(content: list[bytes]) -> bytes:
    total = blake2b(digest_size=16)
    for part in content:
        total.update(len(part).to_bytes(8, "big"))
        total.update(part)
    return total.digest()
