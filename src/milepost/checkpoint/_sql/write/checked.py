"""Stores steps that need lookups: the first step of a run on a thread, steps of a foreign runtime,
and steps whose parent may be gone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from milepost._db.operations import Batch, Execute, ExecuteMany, Operation, Query
from milepost._internal.ids import foreign_epoch, is_foreign, new_epoch
from milepost.checkpoint._contract.records import WRITES_IDX_MAP
from milepost.checkpoint._contract.threads import parent_gone
from milepost.checkpoint._sql import manifest as manifests
from milepost.checkpoint._sql.cache import CachedManifest
from milepost.checkpoint._sql.inline_writes import as_own_rows
from milepost.checkpoint._sql.manifest import EMPTIED, INHERITED, Manifest
from milepost.checkpoint._sql.read.fetched import CheckpointRecord, without_inline_writes
from milepost.checkpoint._sql.rows import CheckpointRow, Prepared
from milepost.checkpoint._sql.threads.lock import LockedThread, lock_all
from milepost.checkpoint._sql.write.counts import stored_writes
from milepost.checkpoint._sql.write.tables import TransactionRows
from milepost.checkpoint._sql.write.writes import part_inline
from milepost.constants import ERROR, INTERRUPT
from milepost.errors import ThreadConflict

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from milepost._db.group_commit import Outcome
    from milepost.checkpoint._contract.step_saver import Fence
    from milepost.checkpoint._delta.encode import Codec
    from milepost.checkpoint._sql.read.reader import CheckpointReader
    from milepost.checkpoint._sql.statements import Statements
    from milepost.checkpoint._sql.threads.registry import Registry

_STOPPED: Final = (WRITES_IDX_MAP[ERROR], WRITES_IDX_MAP[INTERRUPT])
"""The positions of what a task writes when it has stopped before its end."""


class CheckedSteps:
    """Stores steps after a look at their threads, which are locked meanwhile."""

    def __init__(
        self, codec: Codec, queries: Statements, reader: CheckpointReader, registry: Registry
    ) -> None:
        self._codec = codec
        self._q = queries
        self._reader = reader
        self._registry = registry

    def steps(self, steps: Sequence[Prepared]) -> Operation[Outcome]:
        threads = yield from self._threads({step.place.thread_id for step in steps})
        lost: dict[str, ThreadConflict] = {}
        outcome: Outcome = []
        tables = TransactionRows(self._codec, self._q)
        for step in steps:
            token = step.token
            if token is not None and token in lost:
                outcome.append(lost[token])
                continue
            row = threads[step.place.thread_id]
            overtaken = yield from self._is_overtaken(step, row, tables)
            try:
                if step.fence is not None:
                    step.fence.check(step.place.thread_id, row.head, row.token, overtaken)
            except ThreadConflict as conflict:
                assert token is not None
                lost[token] = conflict
                outcome.append(conflict)
                continue
            yield from self._step(step, row, tables)
            outcome.append(None)
        for thread_id, row in threads.items():
            if row.metadata:
                yield from self._registry.add_metadata(thread_id, row.metadata)
        now = time.time()
        batch: list[Execute | ExecuteMany] = [*tables.statements()]
        for thread_id, row in threads.items():
            if row.status is not None:
                values_now = (row.head, row.token, row.status, now, thread_id)
                batch.append(Execute(self._q.touch_thread, values_now))
            elif row.new:
                batch.append(Execute(self._q.delete_thread, (thread_id,)))
        if batch:
            yield Batch(batch, last=True)
        return outcome

    def _is_overtaken(
        self, step: Prepared, row: LockedThread, tables: TransactionRows
    ) -> Operation[bool]:
        """Whether another run has stored something since this run, before its first commit, loaded
        the thread.

        First case: writes of tasks that this run has called too. This run's writes would be left
        out, though its checkpoint is made from them. Second case: this run starts from an older
        checkpoint, and there is a newer one. This run's checkpoints would sort between the other
        run's, whose inline writes would no longer be in the row of the next checkpoint.
        """
        fence, checkpoint = step.fence, step.checkpoint
        if fence is None or row.token == fence.token:
            return False
        thread_id, ns, parent_id = step.place
        if fence.forced or (ns, parent_id) in fence.loaded:
            yield from tables.send()
        if (ns, parent_id) in fence.loaded:
            keys = yield Query(self._q.write_keys, step.place)
            if not fence.has_loaded(ns, parent_id, [task_id for task_id, _ in keys]):
                return True
        if not fence.forced:
            return False
        first = fence.first_ids(ns, checkpoint.checkpoint_id if checkpoint else None)
        for graph, id in first.items():
            [(newest,)] = yield Query(self._q.newest_of, (thread_id, graph))
            if newest is not None and newest > id:
                return True
        return False

    def _threads(self, ids: Collection[str]) -> Operation[dict[str, LockedThread]]:
        threads = yield from lock_all(self._q, ids)
        for id, row in threads.items():
            if row.stored == "running" and not row.new:
                # Read under the lock, since the last owner may have stored more checkpoints.
                [(row.head, *_)] = yield Query(self._q.head_and_newer, (id,))
        return threads

    def _step(self, step: Prepared, row: LockedThread, tables: TransactionRows) -> Operation[None]:
        checkpoint, fence, head = step.checkpoint, step.fence, row.head
        # First, since it sends the rows so far: what this step counts must not go with them.
        status = yield from self._status(step, row, tables)
        if checkpoint is not None:
            yield from self._ready_checkpoint(step, checkpoint, row, tables)
        elif fence is not None and step.place.checkpoint_id != row.head:
            yield from tables.send()
            yield from self._check_parent(step, None)
        if fence is not None:
            if is_foreign(row.epoch):
                yield from self._begin_epoch(step, row, new_epoch())
            if fence.taken and fence.epoch != row.epoch:
                yield from self._check_reached(step, fence, tables)
                fence.alone = fence.epoch is None and head == fence.head
            if not fence.alone:
                part_inline(self._codec, step)
            if row.token != fence.token:
                is_held = row.stored == "running" and not row.new
                fence.overtakes = is_held and not fence.is_of_other_runtime
            row.token, fence.epoch, fence.touched = fence.token, row.epoch, time.time()
            row.metadata = {**row.metadata, **fence.thread_metadata}
        elif (
            row.token is not None
            and (row.status or row.stored) == "running"
            and not is_foreign(row.epoch)
        ):
            # Makes the run that owns the thread look at it again: its next checkpoint may not come
            # right after its last one any more, and the status has to be stored again. Only once,
            # since all that a foreign runtime builds on is stored whole after that.
            yield from self._begin_epoch(step, row, foreign_epoch())
        row.status = status
        if checkpoint is None and step.writes and not tables.counts.knows(step):
            yield from tables.send()
            written = yield from stored_writes(self._codec, self._q, step.place)
            if written is not None:
                tables.counts.learn(step.place, written)
        tables.add(step, row.epoch)

    def _ready_checkpoint(
        self,
        step: Prepared,
        checkpoint: CheckpointRow,
        row: LockedThread,
        tables: TransactionRows,
    ) -> Operation[None]:
        """Look up what the row of a checkpoint depends on: its parent, and its former row."""
        fence, base = step.fence, checkpoint.base
        replaces = fence is None and not (row.new and row.status is None)
        if base is not None and not base.supports(step.token, row.epoch):
            base = None
        # The parent may have been removed since the run loaded it. The parent of a foreign
        # runtime's checkpoint need not be stored here at all.
        builds = fence is not None or checkpoint.base is not None
        unsure = base is None and builds and step.place.checkpoint_id is not None
        if replaces or unsure or checkpoint.cached.partial:
            yield from tables.send()
        if replaces:
            yield from self._replace(step, checkpoint, row, tables)
        if checkpoint.cached.partial:
            yield from self._fill_in_inherited(step, checkpoint, base, unsure=unsure)
        elif unsure:
            yield from self._check_parent(step, checkpoint.checkpoint_id)
        if step.place.checkpoint_id == checkpoint.checkpoint_id:
            # Put again with the config that it was read with: it keeps its parent.
            rows = yield Query(self._q.checkpoint, step.place)
            step.place = step.place._replace(checkpoint_id=rows[0][1] if rows else None)
        # If a node called `update_state` on its own thread, the run's next id may be older.
        is_newer = row.head is None or checkpoint.checkpoint_id > row.head
        if step.place.checkpoint_ns == "" and is_newer:
            row.head = checkpoint.checkpoint_id

    def _check_reached(
        self, step: Prepared, fence: Fence, tables: TransactionRows
    ) -> Operation[None]:
        """Raise BrokenChainError if the run's latest checkpoint of the root graph is gone.

        The chain of an inner graph may still be intact then. But the run can store no further
        checkpoint in the root graph, and an inner graph's checkpoints are found from the root's.
        """
        fence.written.clear()
        thread_id, _, _ = step.place
        root = fence.root
        if root is None:
            return
        yield from tables.send()
        if not (yield Query(self._q.checkpoint, (thread_id, "", root))):
            id = step.checkpoint.checkpoint_id if step.checkpoint is not None else None
            raise parent_gone(thread_id, id, root)

    def _check_parent(self, step: Prepared, id: str | None) -> Operation[None]:
        """Raise BrokenChainError if the checkpoint that a step builds on, or writes at, is gone."""
        thread_id, _, parent_id = step.place
        if parent_id is not None and not (yield Query(self._q.checkpoint, step.place)):
            raise parent_gone(thread_id, id, parent_id)

    def _status(self, step: Prepared, row: LockedThread, tables: TransactionRows) -> Operation[str]:
        """The thread's status after a step.

        A foreign runtime stores checkpoints and writes in any order. So an interrupt may be stored
        before its checkpoint. What it stores at a place before the head does not change the status.
        """
        before, checkpoint = row.status or row.stored, step.checkpoint
        if step.fence is None:
            id = checkpoint.checkpoint_id if checkpoint is not None else step.place.checkpoint_id
            if row.head is not None and (id or "") < row.head:
                return before
        if before not in ("interrupted", "error") or step.status != "running" or not checkpoint:
            return step.status or before
        if step.fence is not None and not step.fence.is_of_other_runtime:
            return step.status  # our own runtime knows the status
        thread_id, ns, _ = step.place
        yield from tables.send()
        keys = yield Query(self._q.write_keys, (thread_id, ns, checkpoint.checkpoint_id))
        return before if any(position in _STOPPED for _, position in keys) else step.status

    def _replace(
        self, step: Prepared, new: CheckpointRow, thread: LockedThread, tables: TransactionRows
    ) -> Operation[None]:
        """Before a foreign runtime puts a checkpoint again: cut loose the rows that build on it."""
        thread_id, ns, _ = step.place
        yield from self._give_own_rows(thread_id, ns, new.checkpoint_id)
        found = yield Query(self._q.checkpoint, (thread_id, ns, new.checkpoint_id))
        if not found:
            return
        place = step.place._replace(checkpoint_id=new.checkpoint_id)
        written = yield from stored_writes(self._codec, self._q, place)
        if written is not None:
            tables.counts.keep(place, new, written)
        rows = yield Query(self._q.children, (thread_id, ns, new.checkpoint_id))
        children = [CheckpointRecord(*row) for row in rows]
        found = yield from self._reader.manifests((thread_id, ns), children)
        for child in children:
            writes = found.parent_writes(child)
            data = manifests.pack(found.stamp(child), found.of(child.id).manifest, writes)
            bound = ("frame", thread_id, ns, child.id)
            sealed = self._codec.seal(data, bound, (child.parent_id, 1))
            yield Execute(self._q.complete_checkpoint, (sealed, thread_id, ns, child.id))
        # Other processes may have the old checkpoint cached: a new epoch makes that entry unusable.
        yield from self._begin_epoch(step, thread, new_epoch())

    def _begin_epoch(self, step: Prepared, row: LockedThread, epoch: int) -> Operation[None]:
        row.epoch = epoch
        yield Execute(self._q.new_epoch, (row.head, epoch, step.place.thread_id))

    def _give_own_rows(self, thread_id: str, ns: str, id: str) -> Operation[None]:
        """Give inline writes own rows, if their row is replaced or no longer follows its parent."""
        rows = yield Query(self._q.inline_writes, (thread_id, ns, id))
        for *row, inline_writes in rows:
            child = CheckpointRecord(*row)
            if inline_writes is not None and child.parent_id is not None and child.parent_id != id:
                place = (thread_id, ns, child.parent_id)
                yield ExecuteMany(
                    self._q.add_write, as_own_rows(self._codec, place, child.id, inline_writes)
                )
                manifest = without_inline_writes(self._codec, thread_id, ns, child)
                yield Execute(self._q.part_inline_writes, (manifest, thread_id, ns, child.id))

    def _fill_in_inherited(
        self,
        step: Prepared,
        checkpoint: CheckpointRow,
        base: CachedManifest | None,
        *,
        unsure: bool,
    ) -> Operation[None]:
        """Replace INHERITED entries by those of the parent's manifest. `unsure`: raise if the
        parent is gone."""
        cached = checkpoint.cached
        parent: Manifest | None
        if base is not None and not base.partial:
            parent = base.manifest
        else:
            parent = yield from self._reader.manifest_of(step.place)
        thread_id, _, parent_id = step.place
        if parent is None and unsure and parent_id is not None:
            raise parent_gone(thread_id, checkpoint.checkpoint_id, parent_id)
        inherited = parent.inline if parent is not None else {}
        manifest = cached.manifest
        cached.manifest = Manifest(
            manifest.versions,
            manifest.seen,
            {
                channel: inherited.get(channel, EMPTIED) if held is INHERITED else held
                for channel, held in manifest.inline.items()
            },
        )
        cached.partial = False
