"""What a checkpoint is, in a few bytes: to tell whether a copy is the same."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any, Final

from milepost.checkpoint.records import CheckpointTuple, place_of
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer

_SERDE: Final = JsonPlusSerializer()

Fingerprint = dict[str, bytes]
"""A digest for each part of a checkpoint, under a name that a report can show."""


def fingerprint(found: CheckpointTuple) -> Fingerprint:
    """Of everything that is stored of a checkpoint: values, versions, metadata, writes, parent."""
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
        parts[f"the value of {channel}"] = [_bytes(value)]
    for task_id, channel, value in found.pending_writes or ():
        parts.setdefault(f"the writes of task {task_id} to {channel}", []).append(_bytes(value))
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


def _digest(content: list[bytes]) -> bytes:
    total = blake2b(digest_size=16)
    for part in content:
        total.update(len(part).to_bytes(8, "big"))
        total.update(part)
    return total.digest()
