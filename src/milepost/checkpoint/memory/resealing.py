"""Seals what is in memory anew with the newest key, a thread at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.checkpoint.codec import Typed
from milepost.checkpoint.memory.keeping import Keeping
from milepost.checkpoint.memory.logs import Kept, read
from milepost.checkpoint.memory.rows import blob_place, blobs_of, metadata_place, write_place
from milepost.checkpoint.records import Place
from milepost.checkpoint.serde.rotation import NOT_ENCRYPTED, Progress, Reencrypted, rotates
from milepost.checkpoint.threads import Problem
from milepost.errors import CheckpointError, SerdeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Resealing(Keeping):
    """Threads whose key can be changed."""

    def reencrypt(
        self,
        thread_ids: Sequence[str] | None = None,
        *,
        progress: Progress[Problem] | None = None,
    ) -> Reencrypted[Problem]:
        """Seal every value of threads, or of all, with the newest key; what was done.

        Others may go on working. When it finds nothing to do, every older key can be dropped.
        `progress` is called after each thread.
        """
        if not rotates(self.serde):
            raise CheckpointError(NOT_ENCRYPTED)
        done: Reencrypted[Problem] = Reencrypted()
        with self._lock:
            known = {*self.storage, *self._threads}
        for thread_id in sorted(known if thread_ids is None else map(str, thread_ids)):
            with self._lock:
                self._reseal(thread_id, done)
            if progress is not None:
                progress(done)
        return done

    async def areencrypt(
        self,
        thread_ids: Sequence[str] | None = None,
        *,
        progress: Progress[Problem] | None = None,
    ) -> Reencrypted[Problem]:
        """`reencrypt`, for use on an event loop."""
        return self.reencrypt(thread_ids, progress=progress)

    def _reseal(self, thread_id: str, done: Reencrypted[Problem]) -> None:
        thread = self._threads.get(thread_id)
        written = set(thread.early_writes) if thread is not None else set()
        for ns, saved in self.storage.get(thread_id, {}).items():
            for key in blobs_of(thread_id, ns, saved.values()):
                kept = self.blobs.get(key)
                if kept is not None:
                    new = self._resealed(kept, blob_place(key), done, "blobs", *key)
                    if new is not None:
                        self.blobs[key] = new
            for id, stored in list(saved.items()):
                where = metadata_place(Place(thread_id, ns, id), id)
                new = self._resealed(stored.metadata, where, done, "storage", thread_id, ns, id)
                if new is not None:
                    saved[id] = stored._replace(metadata=new)
                written.add((thread_id, ns, id))
        for write_key in written:
            rows = self.writes.get(write_key, {})
            for at, row in list(rows.items()):
                where = write_place(Place(*write_key), *at)
                new = self._resealed(row[2], where, done, "writes", *write_key, *at)
                if new is not None:
                    rows[at] = (row[0], row[1], new, row[3])

    def _resealed(
        self, kept: Kept, place: str, done: Reencrypted[Problem], table: str, *key: Any
    ) -> Typed | None:
        """The value under the newest key; None if it has that already, or does not open."""
        typed = read(kept)
        serde: Any = self.serde
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
