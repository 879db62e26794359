"""Threads that langgraph-checkpoint-redis has stored, as a source.

A checkpoint is a document `checkpoint:THREAD:NAMESPACE:ID`, or of a shallow saver
`checkpoint:THREAD:NAMESPACE`; a write is `checkpoint_write:…:TASK:NUMBER`. Threads and namespaces
have colons of their own, so the documents are asked what they are, not the keys. What changed from
version to version:

- Before 0.0.2 an empty namespace was stored as such, since then as `__empty__`.
- From 0.0.2 to 0.0.8 a checkpoint was filed under the id of its parent. Its own id is inside.
- Before 0.1 values had documents of their own too, `checkpoint_blob:…:CHANNEL:VERSION`. They are
  read where a checkpoint lacks a value.
- Metadata is a text of JSON; of a shallow saver since 0.1 it is JSON itself.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from milepost.checkpoint._contract.records import CheckpointTuple, Place
from milepost.errors import CheckpointError
from milepost.integrations.langgraph._moving.redis_documents import Documents, Found, RedisValues
from milepost.integrations.langgraph._moving.sources import naming

_EMPTY: Final = "__empty__"
_NO_ID: Final = "00000000-0000-0000-0000-000000000000"
_HEAD: Final = (
    *("$.thread_id", "$.checkpoint_ns", "$.checkpoint_id", "$.parent_checkpoint_id"),
    *("$.checkpoint.id", "$.has_writes"),
)
_WRITE: Final = ("$.thread_id", "$.checkpoint_ns", "$.checkpoint_id")


class _Head(NamedTuple):
    """Where the document of a checkpoint is, and which checkpoint it was made from."""

    key: str
    parent: str | None


class RedisThreads:
    """All that the database holds of threads: the places at once, values when they are asked for.

    `prefixes` are those of checkpoints and of writes, which a program may have chosen.
    """

    def __init__(
        self, documents: Documents, values: RedisValues, prefixes: tuple[str, str]
    ) -> None:
        self._documents = documents
        self._values = values
        self._damaged: list[str] = []
        self._heads: dict[Place, _Head] = {}
        self._places: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._writes: dict[Place, list[str]] = defaultdict(list)
        self._paths: dict[Place, dict[str, str]] = {}
        checkpoints, writes = prefixes
        self._blobs = f"{checkpoints}_blob"
        for found in documents.fields(documents.keys(checkpoints), *_HEAD):
            self._note_head(found)
        for found in documents.fields(documents.keys(writes), *_WRITE):
            if (place := self._place(found, found.fields.get("$.checkpoint_id"))) is not None:
                self._writes[place].append(found.key)
        self._blob_keys = set(documents.keys(self._blobs))

    def _note_head(self, found: Found) -> None:
        if found.fields.keys() == {"$.has_writes"}:
            return  # a write has come before its checkpoint, and that never did
        filed = found.fields.get("$.checkpoint_id")
        own = found.fields.get("$.checkpoint.id", filed)
        if (place := self._place(found, own)) is None:
            return
        above = (filed, found.fields.get("$.parent_checkpoint_id"))
        parents = (id for id in above if isinstance(id, str) and id not in ("", _NO_ID, own))
        if place not in self._heads:
            self._places[place.thread_id].append((place.checkpoint_ns, place.checkpoint_id or ""))
        self._heads[place] = _Head(found.key, next(parents, None))

    def _place(self, found: Found, id: Any) -> Place | None:
        """Where a document belongs; None if it does not say so."""
        thread_id, ns = found.fields.get("$.thread_id"), found.fields.get("$.checkpoint_ns", "")
        if isinstance(thread_id, str) and isinstance(ns, str) and isinstance(id, str):
            return Place(thread_id, "" if ns == _EMPTY else ns, id)
        reason = found.damage or "its document names no thread, namespace and checkpoint"
        self._damaged.append(f"key '{found.key}': {reason}")
        return None

    # -- a source

    def threads(self) -> Iterable[str]:
        """All threads."""
        return sorted(self._places)

    def size(self) -> int:
        """How many checkpoints there are."""
        return len(self._heads)

    def damaged(self) -> Sequence[str]:
        """Documents whose thread cannot be found out."""
        return self._damaged

    def places(self, thread_id: str) -> Sequence[tuple[str, str]]:
        """Namespace and id of every checkpoint, oldest first."""
        return sorted(self._places.get(thread_id, ()), key=lambda place: place[1])

    def paths(self, place: Place) -> Mapping[str, str]:
        """The paths of the tasks that wrote after a checkpoint."""
        if place not in self._paths:
            self._pending(place)
        return self._paths[place]

    def read(self, place: Place) -> CheckpointTuple | None:
        """A checkpoint with its writes."""
        head = self._heads.get(place)
        found = next(self._documents.read([head.key]), None) if head else None
        if head is None or found is None:
            return None
        with naming(place):
            return self._tuple(place, head, self._document(found))

    # -- documents

    def _document(self, found: Found) -> dict[str, Any]:
        document = found.fields.get("$")
        if not isinstance(document, dict):
            raise CheckpointError(f"key '{found.key}': {found.damage or 'it holds no object'}")
        return document

    def _tuple(self, place: Place, head: _Head, document: dict[str, Any]) -> CheckpointTuple:
        stored: dict[str, Any] = dict(document["checkpoint"])
        stored.pop("type", None)
        stored.pop("pending_sends", None)  # always empty: they are the parent's writes
        stored["channel_values"] = dict(self._channels(place, stored))
        checkpoint: Any = {"updated_channels": None, **stored, "id": place.checkpoint_id}
        metadata = document["metadata"]
        parent = None if head.parent is None else place._replace(checkpoint_id=head.parent)
        return CheckpointTuple(
            place.config(),
            checkpoint,
            json.loads(metadata) if isinstance(metadata, str) else metadata,
            None if parent is None else parent.config(),
            self._pending(place),
        )

    def _channels(self, place: Place, stored: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        inline = stored.get("channel_values") or {}
        for channel, value in inline.items():
            yield channel, self._values.inline(value)
        keys = {
            key: channel
            for channel, version in stored["channel_versions"].items()
            if channel not in inline
            for key in self._keys_of_blob(place, channel, version)
            if key in self._blob_keys
        }
        for found in self._documents.read(keys):
            document = self._document(found)
            if document["type"] != "empty":
                yield (
                    keys[found.key],
                    self._values.typed(document["type"], document["blob"], keys[found.key]),
                )

    def _keys_of_blob(self, place: Place, channel: str, version: Any) -> Iterator[str]:
        for ns in (place.checkpoint_ns, _EMPTY) if not place.checkpoint_ns else [place[1]]:
            yield ":".join((self._blobs, place.thread_id, ns, channel, str(version)))

    def _pending(self, place: Place) -> list[tuple[str, str, Any]]:
        """Writes after a checkpoint, by the paths of their tasks, as LangGraph sorts them."""
        found = [self._document(one) for one in self._documents.read(self._writes.get(place, ()))]
        found.sort(key=lambda one: (one.get("task_path") or "", one["task_id"], one["idx"]))
        self._paths[place] = {
            write["task_id"]: write["task_path"] for write in found if write.get("task_path")
        }
        return [
            (
                write["task_id"],
                write["channel"],
                self._values.typed(write["type"], write["blob"], write["channel"]),
            )
            for write in found
        ]
