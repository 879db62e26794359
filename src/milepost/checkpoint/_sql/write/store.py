"""Stores prepared steps, one or many, in one transaction.

A step of a run that owns its thread needs no lookups: its statements fail unless the thread is as
the run knows it. All other steps, and those that failed so, are stored by `checked.py`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from milepost._db.operations import (
    ConditionalInsert,
    ExecuteMany,
    GuardedBatch,
    Operation,
)
from milepost._internal import log
from milepost._internal.dataclass_tools import record
from milepost._internal.ids import is_foreign, new_epoch
from milepost.checkpoint._sql.cache import NOT_STORED, CachedValue, ThreadCache
from milepost.checkpoint._sql.rows import CheckpointRow, Prepared
from milepost.checkpoint._sql.write.checked import CheckedSteps
from milepost.checkpoint._sql.write.counts import known_writes, note_stored
from milepost.checkpoint._sql.write.tables import TransactionRows, checkpoint_row
from milepost.checkpoint._sql.write.writes import part_inline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from milepost._db.group_commit import Outcome
    from milepost.checkpoint._contract.step_saver import Fence
    from milepost.checkpoint._delta.encode import Codec
    from milepost.checkpoint._sql.read.reader import CheckpointReader
    from milepost.checkpoint._sql.statements import Statements
    from milepost.checkpoint._sql.threads.registry import Registry


_REGISTRY_INTERVAL: Final = 1.0
"""Seconds for which a run may store steps without updating its registry entry."""


@record(frozen=False)
class _ClaimedThread:
    """A thread that a run owns, or takes in this transaction."""

    fence: Fence
    epoch: int
    head: str | None
    """The latest checkpoint of the root graph after this transaction."""
    status: str = ""


class Storer:
    def __init__(
        self,
        codec: Codec,
        cache: ThreadCache,
        queries: Statements,
        reader: CheckpointReader,
        registry: Registry,
    ) -> None:
        self._codec = codec
        self._cache = cache
        self._q = queries
        self._registry = registry
        self._checked = CheckedSteps(codec, queries, reader, registry)

    def steps(self, steps: Sequence[Prepared]) -> Operation[Outcome]:
        """Store steps; for each, None or the conflict because of which it was not stored."""
        for step in steps:
            if step.fence is not None and not step.fence.alone:
                part_inline(self._codec, step)
        guarded = (
            self._single_insert(steps[0]) if len(steps) == 1 else None
        ) or self._guarded_batch(steps)
        if guarded is not None and (yield guarded):
            for step in steps:
                if step.fence is not None:
                    # An attempt before may have found the thread in use.
                    step.fence.overtakes = False
            return [None] * len(steps)
        return (yield from self._checked.steps(steps))

    def settle(self, steps: Sequence[Prepared], outcome: Outcome) -> None:
        """Update the cache and the fences, after the transaction was committed or rolled back."""
        for step, error in zip(steps, outcome, strict=True):
            if (fence := step.fence) is not None and (fence.overtakes or fence.refusal):
                fence.log_outcome(step.place.thread_id, error)
            owner = None if error is None else NOT_STORED
            row = step.checkpoint
            values: dict[str, CachedValue] = {}
            for blob in step.blobs:
                if blob.cached is not None:
                    blob.cached.owner = owner
                    values[blob.channel] = blob.cached
            if row is not None:
                row.cached.owner = owner
            if error is not None:
                self._cache.forget(step.place.thread_id)
                if fence is not None:
                    fence.written.clear()
                continue
            if fence is not None:
                note_stored(step, fence, self._cache)
                fence.taken = True
                fence.status = step.status
                fence.thread_metadata = {}
                if row is not None and step.place.checkpoint_ns == "":
                    fence.reached = row.checkpoint_id
            elif row is not None and self._codec.splices:
                self._cache.learn(
                    step.place.thread_id, step.place.checkpoint_ns, row.cached, values
                )

    def log_slow(self, steps: Sequence[Prepared], seconds: float) -> None:
        """Log that steps took long to be stored."""
        threads = {step.place.thread_id for step in steps}
        if len(threads) == 1:
            of_one = "Thread '%s': a commit of %d steps took %.1f s."
            log.warning(log.STORAGE, of_one, *threads, len(steps), seconds)
        else:
            of_many = "A commit of %d steps of %d threads took %.1f s."
            log.warning(log.STORAGE, of_many, len(steps), len(threads), seconds)

    # -- steps of runs that own their threads: no lookups

    def _single_insert(self, step: Prepared) -> ConditionalInsert | None:
        """The INSERT of a step that is a single row, as most steps of a run are; None otherwise."""
        fence, row = step.fence, step.checkpoint
        if (
            fence is None
            or row is None
            or not fence.taken
            or fence.epoch is None
            or row.cached.partial
            or not _is_parent_stored(step, row, fence.epoch)
            or step.blobs
            or step.writes
            or step.early
            or not step.status == fence.status == "running"
            or time.time() - fence.touched >= _REGISTRY_INTERVAL
        ):
            return None
        written = known_writes(step)
        rows = 0 if written is None else written.lost + len(written.keys)
        stored = checkpoint_row(self._codec, step, row, fence.epoch, rows)
        key = (step.place.thread_id, fence.token, fence.epoch)
        return ConditionalInsert(self._q.add_if_held, (*stored, *key))

    def _guarded_batch(self, steps: Sequence[Prepared]) -> GuardedBatch | None:
        """All steps in one batch, without lookups; None if a step needs a lookup.

        Each run must own its thread, or take a thread that has not changed since it was loaded.
        While a run goes on, the thread's entry is mostly only checked, not updated: readers find
        the head from the checkpoints.
        """
        held: dict[str, _ClaimedThread] = {}
        tables = TransactionRows(self._codec, self._q)
        for step in steps:
            fence, row = step.fence, step.checkpoint
            if (
                fence is None
                or fence.is_of_other_runtime
                or (row is not None and row.cached.partial)
            ):
                return None
            thread_id, ns, _ = step.place
            entry = held.get(thread_id)
            if entry is None:
                epoch = fence.epoch if fence.taken else self._epoch_at_rest(step, fence, tables)
                if epoch is None:
                    return None
                if fence.thread_metadata and (fence.taken or fence.head is not None):
                    return None  # to be merged with stored metadata: needs a lookup
                entry = held[thread_id] = _ClaimedThread(fence, epoch, fence.reached or fence.head)
            elif entry.fence is not fence:
                return None
            if row is not None:
                if not _is_parent_stored(step, row, entry.epoch):
                    return None
                if ns == "":
                    entry.head = row.checkpoint_id
            entry.status = step.status
            if row is None and step.writes and not tables.counts.knows(step):
                return None
            tables.add(step, entry.epoch)
        return GuardedBatch(self._claims(held), tables.statements())

    def _epoch_at_rest(self, step: Prepared, fence: Fence, tables: TransactionRows) -> int | None:
        """The epoch of a thread that a run is about to take; None if a lookup is needed.

        A run may begin with writes alone, mostly the answer to an interrupt. Then `tables` learns
        the cached rows of writes at the same checkpoint. No rows are removed within an epoch, so if
        their number is the cached number, the rows are the cached ones.
        """
        thread_id, ns, id = step.place
        row = step.checkpoint
        if fence.forced or ns or id != fence.head:
            return None
        if row is not None and id is None:
            return new_epoch()
        if id is None:
            return None
        base = row.base if row is not None else self._cache.manifest(thread_id, ns, id, None)
        if base is None or base.owner is not None or is_foreign(base.epoch):
            return None
        if row is None:
            loaded = fence.loaded.get((ns, id))
            if base.written is None or loaded is None or loaded.number != len(base.written.keys):
                return None
            tables.counts.learn(step.place, base.written)
        return base.epoch

    def _claims(self, held: Mapping[str, _ClaimedThread]) -> list[ExecuteMany]:
        now = time.time()
        looked_at, touched, taken, new, unchanged = [], [], [], [], []
        # Sorted, so that two such transactions seldom deadlock. They still may, since each kind of
        # claim is a statement of its own. PostgreSQL then ends one of the transactions, and the
        # engine repeats it.
        for thread_id, entry in sorted(held.items()):
            fence, epoch, head, status = entry.fence, entry.epoch, entry.head, entry.status
            key = (thread_id, fence.token, epoch)
            if status == fence.status == "running" and now - fence.touched < _REGISTRY_INTERVAL:
                looked_at.append(key)
                continue
            if fence.taken:
                touched.append((head, head, status, now, *key))
            elif fence.head is None:
                columns = self._registry.new_entry(thread_id, fence.thread_metadata)
                new.append((thread_id, head, fence.token, epoch, status, now, now, *columns))
            else:
                found = (thread_id, fence.head, epoch)
                taken.append((head, head, fence.token, status, now, *found))
                if (loaded := fence.loaded.get(("", fence.head))) is not None:
                    unchanged.append((loaded.number, thread_id, "", fence.head))
            fence.epoch, fence.touched = epoch, now
        q = self._q
        claims: list[tuple[str, list[tuple[Any, ...]]]] = [
            (q.holds_thread, looked_at),
            (q.hold_thread, touched),
            (q.take_thread, taken),
            # Checked under the lock, since the last owner may have stored writes.
            *[(q.has_writes, [there]) for there in unchanged],
            (q.new_thread, new),
        ]
        return [ExecuteMany(sql, rows) for sql, rows in claims if rows]


def _is_parent_stored(step: Prepared, row: CheckpointRow, epoch: int) -> bool:
    """Whether a checkpoint has no parent, or a parent that is surely stored in this epoch."""
    if step.place.checkpoint_id is None:
        return True
    return row.base is not None and row.base.supports(step.token, epoch)
