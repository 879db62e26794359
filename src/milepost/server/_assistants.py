"""Assistants: a graph with a configuration, in versions.

Each graph has one from the start. Others are kept as long as the server runs.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from milepost.server._errors import HttpError, not_found
from milepost.server._records import Assistant

_NAMESPACE: Final = uuid.UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")


def default_id(graph_id: str) -> str:
    """The id of the assistant that a graph has from the start, the same on every server."""
    return str(uuid.uuid5(_NAMESPACE, graph_id))


class Assistants:
    """All assistants of a server."""

    def __init__(self, graph_ids: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._graph_ids = list(graph_ids)
        self._versions: dict[str, list[Assistant]] = {}
        self._latest: dict[str, Assistant] = {}
        for graph_id in self._graph_ids:
            first = _new(graph_id, default_id(graph_id), metadata={"created_by": "system"})
            self._add(first)

    def all(self) -> list[Assistant]:
        """Each in its present version."""
        with self._lock:
            return list(self._latest.values())

    def get(self, name: str) -> Assistant:
        """The assistant with this id, or the one that a graph has from the start."""
        with self._lock:
            return self._get(name)

    def create(
        self, graph_id: str, assistant_id: str | None, if_exists: str, fields: Mapping[str, Any]
    ) -> Assistant:
        """Add one."""
        self._check_graph(graph_id)
        with self._lock:
            if assistant_id is not None and assistant_id in self._latest:
                if if_exists == "do_nothing":
                    return self._latest[assistant_id]
                raise HttpError(409, f"Assistant '{assistant_id}' exists already.")
            return self._add(_new(graph_id, assistant_id or str(uuid.uuid4()), **fields))

    def update(self, name: str, fields: Mapping[str, Any]) -> Assistant:
        """Make a new version; metadata is merged, everything else replaced."""
        if "graph_id" in fields:
            self._check_graph(fields["graph_id"])
        with self._lock:
            before = self._get(name)
            metadata = {**before.metadata, **fields.get("metadata", {})}
            version = max(one.version for one in self._versions[before.assistant_id]) + 1
            changed = {**fields, "metadata": metadata, "version": version, "updated_at": _now()}
            return self._add(msgspec.structs.replace(before, **changed))

    def delete(self, name: str) -> Assistant:
        """Remove one with all its versions."""
        with self._lock:
            found = self._get(name)
            if found.assistant_id in map(default_id, self._graph_ids):
                raise HttpError(409, f"Graph '{found.graph_id}' always has this assistant.")
            del self._latest[found.assistant_id], self._versions[found.assistant_id]
            return found

    def versions(self, name: str) -> list[Assistant]:
        """Newest first."""
        with self._lock:
            return self._versions[self._get(name).assistant_id][::-1]

    def set_latest(self, name: str, version: int) -> Assistant:
        """Go back to a version, or forward again."""
        with self._lock:
            assistant_id = self._get(name).assistant_id
            for one in self._versions[assistant_id]:
                if one.version == version:
                    self._latest[assistant_id] = one
                    return one
        raise not_found(f"Assistant '{name}' has no version {version}.")

    def _get(self, name: str) -> Assistant:
        found = self._latest.get(name)
        if found is None and name in self._graph_ids:
            found = self._latest[default_id(name)]
        if found is None:
            raise not_found(f"There is no assistant and no graph '{name}'.")
        return found

    def _add(self, assistant: Assistant) -> Assistant:
        self._versions.setdefault(assistant.assistant_id, []).append(assistant)
        self._latest[assistant.assistant_id] = assistant
        return assistant

    def _check_graph(self, graph_id: str) -> None:
        if graph_id not in self._graph_ids:
            raise not_found(f"There is no graph '{graph_id}'.")


def _new(graph_id: str, assistant_id: str, **fields: Any) -> Assistant:
    now = _now()
    given = {"config": {}, "context": {}, "metadata": {}, "name": graph_id, **fields}
    return Assistant(
        assistant_id=assistant_id,
        graph_id=graph_id,
        created_at=now,
        updated_at=now,
        version=1,
        **given,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat()
