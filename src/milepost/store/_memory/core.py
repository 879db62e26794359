"""The logic of a store in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import Any

from milepost._internal import fork_guard
from milepost._internal.progress import Progress, report
from milepost.store._core import namespaces
from milepost.store._core.core import Resealed, StoreCore
from milepost.store._core.records import GetOp, Item, ListNamespacesOp, Namespace, make_item
from milepost.store._core.tasks import (
    Group,
    Outcome,
    Search,
    StoreRequests,
    Write,
    last_writes,
    vectors_of,
)
from milepost.store._memory.entries import Entries, Entry


class MemoryCore(StoreCore):
    """Keeps entries by namespace and key. Nothing has to be waited for: its programs ask for
    nothing but vectors."""

    keeps_dims = False
    makes_views = False

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._lock = fork_guard.held_at_fork(threading.RLock())
        self._entries = Entries(has_vectors=self.embedder is not None)

    def copy_to(self, twin: MemoryCore) -> None:
        """Give another core a copy of the entries."""
        with self._lock:
            twin._entries = deepcopy(self._entries)

    def perform(self, groups: Sequence[Group]) -> StoreRequests[list[Outcome]]:
        yield from ()
        with self._lock:
            now = self.stamps.now()
            found = [[self._read(task, now) for task in group] for group in groups]
            return [
                self._written(group, results, now)
                for group, results in zip(groups, found, strict=True)
            ]

    # -- short cuts

    def get_plain(self, namespace: Namespace, key: str) -> Item | None:
        """The item, if it is there and cannot expire."""
        try:
            # No lock: an entry is replaced, never changed, in all that is used here.
            entry = self._entries.spaces[namespace][key]
            if entry.ttl is not None:
                return None
            value = self.value(entry)
        except Exception:
            return None
        return make_item(Item, value, entry)

    def put_plain(self, puts: Sequence[Any]) -> bool:
        """Put values that ask for nothing special, each with its namespace and key; False if that
        is not so, and then nothing has happened."""
        if self._binds or self.embedder is not None:
            return False
        check, dumps = namespaces.check_put, self.serde.dumps_typed
        ready = []
        try:
            for namespace, key, value in puts:
                if type(value) is not dict:
                    return False
                ready.append((check(namespace), namespaces.check_key(key), dumps(value)))
        except Exception:
            return False  # whatever it is, the long way explains it
        entries = self._entries
        with self._lock:
            stamp = self.stamps.next(len(ready))
            for at, (namespace, key, data) in enumerate(ready, stamp):
                if entries.expiring:
                    self._remove_expired(namespace, key, self.stamps.now())
                entries.put(namespace, key, data, (), at)
        return True

    # -- reading

    def _read(self, task: Any, now: int) -> Any:
        if isinstance(task, GetOp):
            entry = self._entries.find(task.namespace, task.key)
            if entry is None or entry.is_expired(now):
                return None
            if task.refresh_ttl and entry.ttl is not None:
                entry.expires = now + entry.ttl
            return entry
        if isinstance(task, Search):
            found = self._entries.search(task, now, self._view)
            if task.refresh and self._entries.expiring:
                for _, entry in found:
                    if entry.ttl is not None:
                        entry.expires = now + entry.ttl
            return found
        if isinstance(task, ListNamespacesOp):
            expiring = self._entries.expiring
            alive = (
                namespace
                for namespace, space in self._entries.spaces.items()
                if not expiring or not all(entry.is_expired(now) for entry in space.values())
            )
            return namespaces.listed(alive, task)
        return None

    def _view(self, entry: Entry) -> Any:
        entry.view = json.loads(self.viewer.text(self.plain_value(entry)))
        return entry.view

    # -- writing

    def _written(self, group: Group, results: list[Any], now: int) -> Outcome:
        """Do the writes of a group, unless one of them is refused."""
        failed: dict[int, Exception] = {}
        final = last_writes([group], failed, None, partial(self._version, now))
        if failed:
            return failed[0]
        stamp = self.stamps.next(len(final))
        for at, write in enumerate(final.values(), stamp):
            self._store(write, now, at)
        return results

    def _version(self, now: int, write: Write) -> int:
        entry = self._entries.find(write.namespace, write.key)
        return 0 if entry is None or entry.is_expired(now) else entry.updated

    def _store(self, write: Write, now: int, stamp: int) -> None:
        namespace, key, data, _, _, index, ttl, _, vectors = write
        entries = self._entries
        if data is None:
            old = entries.find(namespace, key)
            if old is not None:
                entries.remove(old)
            return
        if entries.expiring:
            self._remove_expired(namespace, key, now)
        entry = entries.put(namespace, key, data, vectors, stamp)
        if index is not None:
            entry.index = index
        if ttl is not None:
            entry.ttl = ttl
            entry.expires = now + ttl
            entries.expiring += 1

    def _remove_expired(self, namespace: Namespace, key: str, now: int) -> None:
        """Remove an expired entry, so that its successor is a new item."""
        old = self._entries.find(namespace, key)
        if old is not None and old.is_expired(now):
            self._entries.remove(old)

    # -- upkeep

    def sweep(self) -> StoreRequests[int]:
        yield from ()
        with self._lock:
            now = self.stamps.now()
            expired = [entry for entry in self._entries if entry.is_expired(now)]
            for entry in expired:
                self._entries.remove(entry)
        return len(expired)

    def reindex(self, progress: Progress | None, size: int) -> StoreRequests[int]:
        table = self._entries.vectors
        assert table is not None
        with self._lock:
            entries = list(self._entries)
        for at in range(0, len(entries), size):
            chunk = [
                (entry, self.texts(self.value(entry), entry.index))
                for entry in entries[at : at + size]
            ]
            vectors = yield from vectors_of(found for _, found in chunk)
            with self._lock:
                for entry, found in chunk:
                    if self._entries.find(entry.namespace, entry.key) is entry:
                        table.remove(entry.places)
                        entry.places = table.add([vectors[text] for text in found], entry)
            report(progress, min(at + size, len(entries)), len(entries))
        return len(entries)

    def reencrypt(self, progress: Progress | None) -> StoreRequests[Resealed]:
        yield from ()
        done = Resealed()
        with self._lock:
            for entry, again in self.reseal(((one, one) for one in self._entries), done):
                entry.data = again
                done.resealed += 1
        total = done.resealed + done.current + len(done.refused)
        report(progress, total, total)
        return done
