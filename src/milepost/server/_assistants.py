"""Assistants: a graph with a configuration, in versions.

Each graph has one from the start. What clients make of it, and all others, are items of the Store
of the database, in the namespace `milepost:assistants`: one item for each assistant, with all of
its versions. So they are there after a restart, and on every server of the database. A change is
read, made and stored under a lock of this server; of two servers that change one assistant at the
same moment, the later one is kept.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from milepost.checkpoint._contract.records import now
from milepost.server._errors import HttpError, not_found
from milepost.server._records import Assistant

if TYPE_CHECKING:
    from milepost.inspect import Database

NAMESPACE: Final = ("milepost:assistants",)
"""Where they are in the Store."""
_UUIDS: Final = uuid.UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")
_PAGE: Final = 500


def default_id(graph_id: str) -> str:
    """The id of the assistant that a graph has from the start, the same on every server."""
    return str(uuid.uuid5(_UUIDS, graph_id))


class Versions(msgspec.Struct, frozen=True):
    """An assistant with all of its versions, as it is stored."""

    latest: int
    """The version that is used."""
    versions: list[Assistant]
    """Oldest first."""

    @property
    def present(self) -> Assistant:
        """The version that is used."""
        return next(one for one in self.versions if one.version == self.latest)

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Versions | None:
        """Read a value of the Store; None if the value is no assistant."""
        try:
            found = msgspec.convert(value, cls)
        except msgspec.ValidationError:
            return None
        return found if any(one.version == found.latest for one in found.versions) else None


class Assistants:
    """All assistants of a server."""

    def __init__(self, graph_ids: Iterable[str], database: Database) -> None:
        self._lock = threading.Lock()
        self._graph_ids = list(graph_ids)
        self._database = database
        self._memory: Any = None
        self._first = {
            default_id(graph_id): Versions(
                1, [_new(graph_id, default_id(graph_id), metadata={"created_by": "system"})]
            )
            for graph_id in self._graph_ids
        }

    def all(self) -> list[Assistant]:
        """All assistants, each in the version that is used."""
        found = {**self._first, **dict(self._stored())}
        return [versions.present for versions in found.values()]

    def get(self, name: str) -> Assistant:
        """The assistant with this id, or the one that a graph has from the start."""
        return self._get(name).present

    def create(
        self, graph_id: str, *, if_exists: str, assistant_id: str | None = None, **fields: Any
    ) -> Assistant:
        self._check_graph(graph_id)
        with self._lock:
            if assistant_id is not None and (found := self._named(assistant_id)) is not None:
                if if_exists == "do_nothing":
                    return found.present
                raise HttpError(409, f"Assistant '{assistant_id}' exists already.")
            new = _new(graph_id, assistant_id or str(uuid.uuid4()), **fields)
            return self._put(Versions(1, [new]))

    def update(self, name: str, fields: Mapping[str, Any]) -> Assistant:
        """Make a new version; metadata is merged, everything else replaced."""
        if "graph_id" in fields:
            self._check_graph(fields["graph_id"])
        with self._lock:
            known = self._get(name)
            before = known.present
            metadata = {**before.metadata, **fields.get("metadata", {})}
            version = max(one.version for one in known.versions) + 1
            changed = {**fields, "metadata": metadata, "version": version, "updated_at": now()}
            after = msgspec.structs.replace(before, **changed)
            return self._put(Versions(version, [*known.versions, after]))

    def delete(self, name: str) -> Assistant:
        """Remove an assistant with all of its versions."""
        with self._lock:
            found = self._get(name).present
            if found.assistant_id in self._first:
                raise HttpError(409, f"Graph '{found.graph_id}' always has this assistant.")
            self._store(write=True).delete(NAMESPACE, found.assistant_id)
            return found

    def versions(self, name: str) -> list[Assistant]:
        """The versions of an assistant, newest first."""
        return self._get(name).versions[::-1]

    def set_latest(self, name: str, version: int) -> Assistant:
        """Go back to a version, or forward again."""
        with self._lock:
            known = self._get(name)
            if not any(one.version == version for one in known.versions):
                raise not_found(f"Assistant '{name}' has no version {version}.")
            return self._put(Versions(version, known.versions))

    def _get(self, name: str) -> Versions:
        found = self._named(name)
        if found is None:
            raise not_found(f"There is no assistant and no graph '{name}'.")
        return found

    def _named(self, name: str) -> Versions | None:
        found = self._find(name)
        if found is None and name in self._graph_ids:
            found = self._find(default_id(name))
        return found

    def _find(self, assistant_id: str) -> Versions | None:
        store = self._store()
        item = None if store is None else store.get(NAMESPACE, assistant_id, refresh_ttl=False)
        found = None if item is None else Versions.read(item.value)
        return found or self._first.get(assistant_id)

    def _stored(self) -> Iterator[tuple[str, Versions]]:
        store, seen = self._store(), 0
        while store is not None:
            page = store.search(NAMESPACE, limit=_PAGE, offset=seen, refresh_ttl=False)
            for item in page:
                if item.namespace == NAMESPACE and (found := Versions.read(item.value)):
                    yield item.key, found
            seen += len(page)
            if len(page) < _PAGE:
                return

    def _put(self, changed: Versions) -> Assistant:
        present = changed.present
        value = msgspec.to_builtins(changed)
        self._store(write=True).put(NAMESPACE, present.assistant_id, value, index=False)
        return present

    def _store(self, *, write: bool = False) -> Any:
        """The Store. A saver in memory may have none: then they are in memory too."""
        found = self._memory
        if found is None:
            found = self._database.store_to_write() if write else self._database.store
        if found is None and write:
            from milepost.store.memory import InMemoryStore

            found = self._memory = InMemoryStore()
        return found

    def _check_graph(self, graph_id: str) -> None:
        if graph_id not in self._graph_ids:
            raise not_found(f"There is no graph '{graph_id}'.")


def _new(graph_id: str, assistant_id: str, **fields: Any) -> Assistant:
    made = now()
    given = {"config": {}, "context": {}, "metadata": {}, "name": graph_id, **fields}
    return Assistant(
        assistant_id=assistant_id,
        graph_id=graph_id,
        created_at=made,
        updated_at=made,
        version=1,
        **given,
    )
