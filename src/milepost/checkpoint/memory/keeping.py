"""Whole threads in memory: what the shared housekeeping is made of here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from milepost.checkpoint.housekeeping import Housekeeping
from milepost.checkpoint.memory import frames
from milepost.checkpoint.memory.logs import Kept, Slice, compacted, size_of
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
from milepost.checkpoint.threads import (
    Choice,
    Lineage,
    Node,
    Removed,
    ThreadInfo,
    Wanted,
    copy_refused,
    metadata_text,
    no_such_thread,
    with_ancestors,
)
from milepost.constants import CHILDREN
from milepost.stepper import Stepper

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from milepost.checkpoint.memory.frames import Stored
    from milepost.sql.engine import Program

R = TypeVar("R")


class Keeping(Housekeeping, Shelves):
    """Threads as wholes. Nothing here waits: each step of a program is done when it is asked."""

    def _drive(self, program: Program[R]) -> R:
        steps = Stepper(program)
        for _ in steps:
            pass
        return steps.result

    async def _adrive(self, program: Program[R]) -> R:
        return self._drive(program)

    def _vacuum(self) -> Program[None]:
        return _done(None)  # memory is given back when nothing refers to it

    # -- the registry

    def _page(self, wanted: Wanted) -> Program[list[ThreadInfo]]:
        wanted.check()
        with self._lock:
            found: list[ThreadInfo] = []
            for thread_id in sorted({*self.storage, *self._threads}):
                if len(found) >= wanted.limit:
                    break
                info = self._entry(thread_id)
                if info is not None and _is_wanted(info, wanted):
                    found.append(info)
        return _done(found)

    def _info(self, thread_id: str) -> Program[ThreadInfo | None]:
        with self._lock:
            info = self._entry(thread_id)
            if info is None:
                return _done(None)
            checkpoints = writes = size = 0
            values: list[Kept] = []
            for ns, saved in self.storage.get(thread_id, {}).items():
                checkpoints += len(saved)
                for key in blobs_of(thread_id, ns, saved.values()):
                    if (kept := self.blobs.get(key)) is not None:
                        values.append(kept)
                for id, stored in saved.items():
                    size += len(stored.frame) + len(stored.metadata[1])
                    rows = self.writes.get((thread_id, ns, id), {})
                    writes += len(rows)
                    values += [row[2] for row in rows.values()]
        size += size_of(values)
        return _done(info._replace(checkpoints=checkpoints, writes=writes, bytes=size))

    def _describe(self, thread_id: str, metadata: Mapping[str, Any]) -> Program[None]:
        text = metadata_text(thread_id, metadata)
        with self._lock:
            if self._entry(thread_id) is None:
                raise no_such_thread(thread_id)
            if thread_id not in self._threads:
                self._threads[thread_id] = Thread(self.head(thread_id))
            self._threads[thread_id].metadata = json.loads(text)
        return _done(None)

    def _entry(self, thread_id: str) -> ThreadInfo | None:
        thread = self._threads.get(thread_id)
        if thread is None:
            if thread_id not in self.storage:
                return None
            thread = Thread(self.head(thread_id))
        return ThreadInfo(
            thread_id,
            self._status_of(thread_id, thread),
            thread.created_at,
            thread.updated_at,
            thread.head,
            dict(thread.metadata),
        )

    # -- copies

    def _copy(self, source: str, target: str) -> Program[None]:
        with self._lock:
            if target in self._threads or target in self.storage:
                raise copy_refused(target)
            for ns, saved in self.storage.get(source, {}).items():
                for key in blobs_of(source, ns, saved.values()):
                    if (blob := self.blobs.get(key)) is not None:
                        new_key = (target, *key[1:])
                        places = blob_place(key), blob_place(new_key)
                        self.blobs[new_key] = self._moved(blob, *places)
                for id, stored in saved.items():
                    old, new = Place(source, ns, id), Place(target, ns, id)
                    if rows := self.writes.get((source, ns, id)):
                        self.writes[target, ns, id] = {
                            at: self._moved_write(row, old, new, at) for at, row in rows.items()
                        }
                    graphs = self.storage.get(target)
                    if graphs is None:
                        graphs = self.storage[target] = {}
                    graphs.setdefault(ns, {})[id] = self._moved_checkpoint(stored, old, new)
            if target in self.storage:
                thread = self._threads[target] = Thread(self.head(source))
                if (original := self._threads.get(source)) is not None:
                    status = self._status_of(source, original)
                    # No run is at work on the copy.
                    thread.status = "interrupted" if status == "running" else status
                    thread.metadata = dict(original.metadata)
        return _done(None)

    def _moved_write(
        self, row: StoredWrite, old: Place, new: Place, at: tuple[str, int]
    ) -> StoredWrite:
        task_id, channel, kept, path = row
        places = write_place(old, *at), write_place(new, *at)
        return (task_id, channel, self._moved(kept, *places), path)

    def _moved_checkpoint(self, stored: Stored, old: Place, new: Place) -> Stored:
        if self._codes.cuts:
            return stored
        places = metadata_place(old, stored.id), metadata_place(new, stored.id)
        return stored._replace(metadata=self._codes.moved(stored.metadata, *places))

    def _moved(self, kept: Kept, source: str, target: str) -> Kept:
        """What is sealed for its place is sealed anew; all else is shared."""
        if self._codes.cuts or isinstance(kept, Slice):
            return kept
        return self._codes.moved(kept, source, target)

    # -- removing

    def _remove(self, thread_id: str, unused_since: float | None = None) -> Program[Removed]:
        with self._lock:
            if unused_since is not None:
                info = self._entry(thread_id)
                if info is None or info.updated_at >= unused_since:
                    return _done(Removed())
            graphs = self.storage.pop(thread_id, {})
            thread = self._threads.pop(thread_id, None)
            self._latest.pop(thread_id, None)
            removed = Removed([thread_id] if graphs or thread else [])
            for key in thread.early_writes if thread else ():
                removed.writes += len(self.writes.pop(key, ()))
            for ns, saved in graphs.items():
                removed.checkpoints += len(saved)
                for id, stored in saved.items():
                    removed.writes += len(self.writes.pop((thread_id, ns, id), ()))
                    for channel, version in frames.versions_named(stored):
                        gone = self.blobs.pop((thread_id, ns, channel, version), None)
                        removed.values += gone is not None
        return _done(removed)

    def _keep(self, thread_id: str, choose: Choice, dry_run: bool) -> Program[Removed]:
        with self._lock:
            history = self._history(thread_id)
            kept = with_ancestors(history, choose(history))
            removed = Removed([] if kept or not history else [thread_id])
            removed.checkpoints = len(history) - len(kept)
            if not removed.checkpoints:
                return _done(removed)
            for ns, saved in self.storage[thread_id].items():
                staying = {id: stored for id, stored in saved.items() if (ns, id) in kept}
                unused = blobs_of(thread_id, ns, saved.values())
                unused -= blobs_of(thread_id, ns, staying.values())
                doomed = [id for id in saved if id not in staying]
                removed.values += sum(key in self.blobs for key in unused)
                removed.writes += sum(
                    len(self.writes.get((thread_id, ns, id), ())) for id in doomed
                )
                if dry_run:
                    continue
                for key in unused:
                    self.blobs.pop(key, None)
                for id in doomed:
                    del saved[id]
                    self.writes.pop((thread_id, ns, id), None)
                for id, stored in staying.items():
                    if stored.parent_id not in staying:
                        saved[id] = frames.first(stored)
            if not dry_run:
                self._tidy(thread_id)
            return _done(removed)

    def _history(self, thread_id: str) -> dict[Node, Lineage]:
        inner: frames.Known = {}
        versions: dict[str, frames.Known] = {}
        return {
            (ns, id): self._lineage(Place(thread_id, ns, id), stored, inner, versions)
            for ns, saved in self.storage.get(thread_id, {}).items()
            for id, stored in saved.items()
        }

    def _lineage(
        self, place: Place, stored: Stored, inner: frames.Known, versions: dict[str, frames.Known]
    ) -> Lineage:
        metadata = self._metadata(place, stored)
        leans = False
        for channel in metadata.get("counters_since_delta_snapshot") or ():
            version = frames.version_in(stored, channel, versions.setdefault(channel, {}))
            if (*place[:2], channel, version) not in self.blobs:
                leans = True
                break
        run_id = metadata.get("run_id")
        return Lineage(
            stored.parent_id,
            None if run_id is None else str(run_id),
            leans,
            frames.seen_in(stored, CHILDREN, inner),
        )

    def _threads_of_runs(self, run_ids: Collection[str]) -> Program[list[str]]:
        with self._lock:
            found = [
                thread_id
                for thread_id in self.storage
                if any(line.run_id in run_ids for line in self._history(thread_id).values())
            ]
        return _done(found)

    def _tidy(self, thread_id: str) -> None:
        """After a part of a thread is gone: find its head, let go of bytes that nothing uses."""
        self._latest.pop(thread_id, None)
        graphs = self.storage[thread_id]
        if not any(graphs.values()):
            self._remove(thread_id)
            return
        head = max(graphs.get("", {}), default=None)
        self._threads.setdefault(thread_id, Thread(head)).head = head
        for ns, saved in graphs.items():
            self._compact(thread_id, ns, saved)

    def _compact(self, thread_id: str, ns: str, saved: Mapping[str, Stored]) -> None:
        blobs = {
            key: kept
            for key in blobs_of(thread_id, ns, saved.values())
            if isinstance(kept := self.blobs.get(key), Slice)
        }
        rows = [(id, at, row) for id in saved for at, row in self._rows(thread_id, ns, id)]
        parts = [row[2] for _, _, row in rows if isinstance(row[2], Slice)]
        moved = compacted([*blobs.values(), *parts])
        for key, kept in blobs.items():
            self.blobs[key] = moved.get(id(kept), kept)
        for checkpoint_id, at, (task_id, channel, part, path) in rows:
            if id(part) in moved:
                row = (task_id, channel, moved[id(part)], path)
                self.writes[thread_id, ns, checkpoint_id][at] = row

    def _rows(self, thread_id: str, ns: str, id: str) -> list[tuple[tuple[str, int], StoredWrite]]:
        return list(self.writes.get((thread_id, ns, id), {}).items())


def _done(value: R) -> Program[R]:
    """A program that has its result already."""
    yield from ()
    return value


def _is_wanted(info: ThreadInfo, wanted: Wanted) -> bool:
    return (
        (wanted.after is None or info.thread_id > wanted.after)
        and (wanted.prefix is None or info.thread_id.startswith(wanted.prefix))
        and (wanted.status is None or info.status == wanted.status)
        and (wanted.updated_after is None or info.updated_at > wanted.updated_after)
        and (wanted.updated_before is None or info.updated_at < wanted.updated_before)
        and all(_matches(info.metadata, *item) for item in wanted.metadata.items())
    )


def _matches(metadata: Mapping[str, Any], key: str, value: Any) -> bool:
    if key == "owner":
        owner = metadata.get("owner")
        return owner is not None and str(owner) == str(value)
    if key == "tags":
        tags = metadata.get("tags")
        wanted = [value] if isinstance(value, str) else value
        return isinstance(tags, list) and all(str(tag) in tags for tag in wanted)
    # As text: in JSON neither 1 and true nor 1 and 1.0 are the same.
    return key in metadata and json.dumps(metadata[key], sort_keys=True) == json.dumps(
        value, sort_keys=True
    )
