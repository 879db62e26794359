"""What threads in memory are copied and removed with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.checkpoint.memory.frames import on_its_own, versions_named
from milepost.checkpoint.memory.logs import Kept, Slice, compacted
from milepost.checkpoint.memory.rows import (
    StoredWrite,
    Thread,
    blob_place,
    blobs_of,
    metadata_place,
    write_place,
)
from milepost.checkpoint.memory.shelves import Shelves
from milepost.checkpoint.records import Place
from milepost.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable

Node = tuple[str, str]
"""A checkpoint in its thread: namespace and id."""


class Keeping(Shelves):
    """Threads as wholes."""

    def _remove_thread(self, thread_id: str) -> None:
        by_ns = self.storage.pop(thread_id, {})
        thread = self._threads.pop(thread_id, None)
        for write_key in thread.early_writes if thread else ():
            self.writes.pop(write_key, None)
        for ns, saved in by_ns.items():
            for checkpoint_id in saved:
                self.writes.pop((thread_id, ns, checkpoint_id), None)
            for stored in saved.values():
                for channel, version in versions_named(stored):
                    self.blobs.pop((thread_id, ns, channel, version), None)
        self._latest.pop(thread_id, None)

    def _keep(self, thread_id: str, wanted: Callable[[Node], bool]) -> None:
        """Drop all checkpoints but the wanted ones, and what only the dropped ones used."""
        for ns, saved in self.storage.get(thread_id, {}).items():
            unused = blobs_of(thread_id, ns, saved.values())
            for checkpoint_id in [id for id in saved if not wanted((ns, id))]:
                del saved[checkpoint_id]
                self.writes.pop((thread_id, ns, checkpoint_id), None)
            for id, stored in saved.items():
                if stored.parent_id not in saved:
                    saved[id] = on_its_own(stored)
            for blob_key in unused - blobs_of(thread_id, ns, saved.values()):
                self.blobs.pop(blob_key, None)
        self._compact(thread_id)
        self._latest.pop(thread_id, None)
        head = max(self.storage.get(thread_id, {}).get("", {}), default=None)
        self._threads.setdefault(thread_id, Thread(head)).head = head

    def _compact(self, thread_id: str) -> None:
        """Let go of bytes that no version and no write uses any more."""
        for ns, saved in self.storage.get(thread_id, {}).items():
            blobs = {
                key: kept
                for key in blobs_of(thread_id, ns, saved.values())
                if isinstance(kept := self.blobs.get(key), Slice)
            }
            rows = {
                (id, at): row
                for id in saved
                for at, row in self.writes.get((thread_id, ns, id), {}).items()
                if isinstance(row[2], Slice)
            }
            parts = [row[2] for row in rows.values() if isinstance(row[2], Slice)]
            moved = compacted([*blobs.values(), *parts])
            for key, kept in blobs.items():
                if id(kept) in moved:
                    self.blobs[key] = moved[id(kept)]
            for (checkpoint_id, at), row in rows.items():
                if id(row[2]) in moved:
                    new: StoredWrite = (row[0], row[1], moved[id(row[2])], row[3])
                    self.writes[thread_id, ns, checkpoint_id][at] = new

    def _copy_thread(self, source: str, target: str) -> None:
        """Everything of `source` under another id. The two share their bytes."""
        if target in self._threads or target in self.storage:
            raise CheckpointError(
                f"Thread '{target}' exists already, and a copy would mix two histories. Delete it "
                "first, or choose another id."
            )
        by_ns = self.storage.get(source)
        if not by_ns:
            return
        codes = self._codes
        for ns, saved in by_ns.items():
            for key in blobs_of(source, ns, saved.values()):
                blob = self.blobs.get(key)
                if blob is not None:
                    new_key = (target, *key[1:])
                    self.blobs[new_key] = self._moved(blob, blob_place(key), blob_place(new_key))
            for id, stored in saved.items():
                old, new = Place(source, ns, id), Place(target, ns, id)
                if rows := self.writes.get((source, ns, id)):
                    self.writes[target, ns, id] = {
                        at: (
                            *row[:2],
                            self._moved(row[2], write_place(old, *at), write_place(new, *at)),
                            row[3],
                        )
                        for at, row in rows.items()
                    }
                if not codes.cuts:
                    places = metadata_place(old, id), metadata_place(new, id)
                    metadata = codes.moved(stored.metadata, *places)
                    stored = stored._replace(metadata=metadata)
                self.storage.setdefault(target, {}).setdefault(ns, {})[id] = stored
        thread = self._threads[target] = Thread(self.head(source))
        if (old_thread := self._threads.get(source)) is not None:
            thread.status = old_thread.status
            thread.metadata = dict(old_thread.metadata)

    def _moved(self, kept: Kept, source: str, target: str) -> Kept:
        if self._codes.cuts or isinstance(kept, Slice):
            return kept
        return self._codes.moved(kept, source, target)
