"""`saver.admin` of the saver in memory: seals with the newest key, a thread at a time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from milepost.checkpoint._contract.faceted_saver import Admin
from milepost.checkpoint._contract.records import Place
from milepost.checkpoint._contract.thread_admin import thread_ids_of
from milepost.checkpoint._contract.threads import Problem
from milepost.checkpoint._delta.encode import Typed
from milepost.checkpoint._memory.rows import (
    RegistryEntry,
    blob_place,
    blobs_of,
    metadata_place,
    write_place,
)
from milepost.checkpoint._memory.value_log import StoredValue, read
from milepost.checkpoint.serde._rotation import NOT_ENCRYPTED, Reencrypted, rotates
from milepost.errors import CheckpointError, SerdeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from milepost._db.engine import Transactions
    from milepost._internal.progress import Progress
    from milepost.checkpoint._memory.storage import MemoryStorage


class MemoryAdmin(Admin):
    """Seals everything in memory with the newest key. `vacuum` has no effect here."""

    def __init__(self, saver: MemoryStorage) -> None:
        super().__init__(None)
        self._saver = saver

    def _reseal(
        self, thread_ids: Sequence[str] | None, progress: Progress | None
    ) -> Transactions[Reencrypted[Problem]]:
        if not rotates(self._saver.serde):
            raise CheckpointError(NOT_ENCRYPTED)
        done: Reencrypted[Problem] = Reencrypted()
        with self._saver._lock:
            known = {*self._saver.storage, *self._saver._threads}
        wanted = sorted(known if thread_ids is None else thread_ids_of(thread_ids))
        for at, thread_id in enumerate(wanted, 1):
            with self._saver._lock:
                self._reseal_thread(thread_id, done)
            if progress is not None:
                progress(at, len(wanted))
        yield from ()
        return done

    def _reseal_thread(self, thread_id: str, done: Reencrypted[Problem]) -> None:
        thread = self._saver._threads.get(thread_id)
        written = set(thread.early_writes) if thread is not None else set()
        for ns, saved in self._saver.storage.get(thread_id, {}).items():
            for key in blobs_of(thread_id, ns, saved.values()):
                kept = self._saver.blobs.get(key)
                if kept is not None:
                    new = self._resealed(kept, blob_place(key), done, "blobs", *key)
                    if new is not None:
                        self._saver.blobs[key] = new
            for id, stored in list(saved.items()):
                where = metadata_place(Place(thread_id, ns, id), id)
                new = self._resealed(stored.metadata, where, done, "storage", thread_id, ns, id)
                if new is not None:
                    saved[id] = stored._replace(metadata=new)
                written.add((thread_id, ns, id))
        if thread is not None:
            self._reseal_entry(thread_id, thread, done)
        for write_key in written:
            rows = self._saver.writes.get(write_key, {})
            for at, row in list(rows.items()):
                where = write_place(Place(*write_key), *at)
                new = self._resealed(row[2], where, done, "writes", *write_key, *at)
                if new is not None:
                    rows[at] = (row[0], row[1], new, row[3])

    def _reseal_entry(
        self, thread_id: str, thread: RegistryEntry, done: Reencrypted[Problem]
    ) -> None:
        current = self._saver._thread_metadata.is_current(thread.metadata)
        done.current += current is True
        if current is False:
            try:
                again = self._saver._thread_metadata.merged(thread_id, thread.metadata, {})
                thread.metadata = json.loads(again.text)
                done.resealed += 1
            except SerdeError as error:
                done.refused.append(Problem(thread_id, "", "threads", thread_id, str(error)))

    def _resealed(
        self, kept: StoredValue, place: str, done: Reencrypted[Problem], table: str, *key: Any
    ) -> Typed | None:
        """The value sealed with the newest key; None if it is already, or cannot be unsealed."""
        typed = read(kept)
        serde: Any = self._saver.serde
        if serde.is_current(typed[1]):
            done.current += 1
            return None
        again: Callable[..., Typed] = serde.reseal_typed
        try:
            new = again(typed, place)
        except SerdeError as error:
            thread_id, ns, *rest = map(str, key)
            done.refused.append(Problem(thread_id, ns, table, " ".join(rest), str(error)))
            return None
        done.resealed += 1
        return new
