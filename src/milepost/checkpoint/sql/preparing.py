"""Encodes a step: pure, without I/O, before the next step starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from milepost.checkpoint.codec import Codec, Encoded
from milepost.checkpoint.cutting import cut, place_in
from milepost.checkpoint.names import check_name, check_place
from milepost.checkpoint.records import WRITES_IDX_MAP, Place
from milepost.checkpoint.splice import Parts, pack
from milepost.checkpoint.sql import frames, notes
from milepost.checkpoint.sql.chains import blob_row, moved
from milepost.checkpoint.sql.remembered import EarlyWrite, Frame, KnownFrame, Memory
from milepost.checkpoint.sql.rows import (
    BlobRow,
    CheckpointRow,
    EarlyFold,
    Fold,
    Prepared,
    TaskRows,
    WriteRow,
    short_kind,
)
from milepost.checkpoint.sql.writes import for_ledger, together
from milepost.checkpoint.threads import is_trigger
from milepost.constants import ERROR, INTERRUPT
from milepost.errors import SerdeError
from milepost.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from milepost.checkpoint.commit import NewCheckpoint, StepCommit, TaskWrites
    from milepost.sql.dialect import Bounds

INLINE: Final = 128
"""Encoded values up to this size are kept in the frame."""
_EARLY: Final = 1024
"""A write of this size that was stored before its step ended is stored anew as a reference."""
_REFERRED: Final = 96
"""A write this large is cut out of the channel's new version, if it is found there."""
_BRIEF: Final = 512
"""Writes of a task up to this size are stored in the row of the checkpoint that they led to."""
_MOST_GRAPHS: Final = 256
"""Graphs of a run whose last checkpoint is remembered."""
_MOST_SOUND: Final = 10_000
"""Names that are remembered to be sound."""

_Once: TypeAlias = dict[int, Encoded]
"""What a step has encoded, by the identity of the object: a write is often a channel's value."""


class Preparer:
    """Turns steps into rows, with what the saver remembers of the rows before them."""

    def __init__(self, codec: Codec, memory: Memory, chain: Bounds) -> None:
        self._codec = codec
        self._memory = memory
        self._chain = chain
        self._sound: set[str] = set()
        """Names that were checked."""

    def step(self, step: StepCommit) -> Prepared:
        """The rows of a step of one of our own runs."""
        place = Place(step.thread_id, step.checkpoint_ns, step.checkpoint_id)
        # Ids that the runtime made, or found in the database, are sound.
        if step.thread_id not in self._sound:
            self._check("thread_id", step.thread_id)
        if step.checkpoint_ns not in self._sound:
            self._check("checkpoint_ns", step.checkpoint_ns)
        prepared = Prepared(place, step.fence)
        once: _Once = {}
        # The writes come first: what cannot be encoded is then told with the node that wrote it.
        encoded = [self._encoded(place, task, once) for task in step.writes]
        led = False
        if step.new is not None:
            self._checkpoint(prepared, step.new, once)
            led = self._codec.splices and self._follows(step, step.new.checkpoint["id"])
        for task, values in zip(step.writes, encoded, strict=True):
            prepared.writes.append(self._writes(prepared, task, values))
        self._store_writes(prepared, led=led)
        if self._codec.splices and step.checkpoint_id is not None:
            if step.new is None:
                self._note_early(step, encoded)
            elif prepared.blobs:
                self._fold_early(prepared)
        prepared.status = step.status
        return prepared

    def checkpoint(self, place: Place, new: NewCheckpoint) -> Prepared:
        """The rows of a checkpoint that a foreign runtime puts."""
        check_place(place)
        check_name("checkpoint_id", new.checkpoint["id"])
        prepared = Prepared(place, None)
        self._checkpoint(prepared, new, {})
        prepared.status = _status(prepared, new)
        return prepared

    def writes(self, place: Place, task: TaskWrites) -> Prepared:
        """The rows of writes that a foreign runtime puts."""
        check_place(place)
        check_name("task_id", task.task_id)
        prepared = Prepared(place, None)
        prepared.writes.append(self._writes(prepared, task, self._encoded(place, task, {})))
        self._store_writes(prepared)
        prepared.status = _status(prepared, None)
        return prepared

    def _check(self, what: str, name: Any) -> None:
        """`check_name`, once for each of the names that come up in every step."""
        check_name(what, name)
        if len(self._sound) >= _MOST_SOUND:
            self._sound.clear()
        self._sound.add(name)

    # -- checkpoints

    def _checkpoint(self, prepared: Prepared, new: NewCheckpoint, once: _Once) -> None:
        place, token = prepared.place, prepared.token
        thread_id, ns, parent_id = place
        checkpoint, metadata = new.checkpoint, new.metadata
        id = checkpoint["id"]
        versions = checkpoint["channel_versions"]
        base = (
            self._memory.frame(thread_id, ns, parent_id, token) if parent_id is not None else None
        )
        inline = dict(base.frame.inline) if base is not None else {}
        for channel, value in new.changed.items():
            inline[channel] = self._value(prepared, channel, versions[channel], value, once)
        if base is not None and prepared.blobs:
            self._move_emptied(prepared, base, new.changed)
        partial = base.partial if base is not None else False
        if base is None and len(new.changed) < len(versions):
            # The frame is completed from the database when it is stored.
            partial = True
            for channel in versions:
                inline.setdefault(channel, True)
        # What a node has seen is replaced when it runs, never changed.
        frame = Frame(dict(versions), dict(checkpoint["versions_seen"]), inline)
        updated = checkpoint.get("updated_channels")
        kind, data = notes.encoded(self._codec, metadata, thread_id, ns, id)
        told = self._codec.seal(data, ("metadata", thread_id, ns, id), (short_kind(kind),))
        run_id = metadata.get("run_id")
        delta = None
        if base is not None and not frames.is_due(base):
            delta = frames.changes(base.frame, frame, new.changed, new.seen)
        prepared.checkpoint = CheckpointRow(
            id,
            None if run_id is None else str(run_id),
            (checkpoint["v"], checkpoint["ts"], None if updated is None else list(updated)),
            delta,
            base,
            KnownFrame(token, base.epoch if base else None, id, frame, 1, 0, 0, partial),
            kind,
            told,
        )
        # A foreign runtime's checkpoint is remembered once it is stored.
        if self._codec.splices and token is not None:
            known = {row.channel: row.known for row in prepared.blobs if row.known is not None}
            self._memory.learn(thread_id, ns, prepared.checkpoint.known, known)

    def _value(
        self, prepared: Prepared, channel: str, version: Any, value: Any, once: _Once
    ) -> Any:
        """What the frame holds for a channel; a large value becomes a row."""
        if value is MISSING:
            return None
        thread_id, ns, _ = prepared.place
        if channel not in self._sound:
            self._check("channel", channel)
        encoded = once.get(id(value))
        if encoded is None:
            try:
                after = self._before(prepared, channel) if self._codec.shares(value) else None
                encoded = self._codec.encode(
                    value, "blob", thread_id, ns, channel, str(version), after=after
                )
            except SerdeError as error:
                raise error.at(thread=thread_id, channel=channel) from None
        if encoded.size <= INLINE:
            return [encoded.kind, encoded.parts.join()]
        if self._codec.splices:
            base = self._memory.latest(thread_id, ns, channel, prepared.token)
            row = blob_row(channel, str(version), encoded, base, prepared.token, self._chain)
        else:
            row = BlobRow(channel, str(version), encoded, None)
        prepared.blobs.append(row)
        return False

    def _before(self, prepared: Prepared, channel: str) -> Parts | None:
        """The version that a new one will be compared with, cut up."""
        thread_id, ns, _ = prepared.place
        base = self._memory.latest(thread_id, ns, channel, prepared.token)
        if base is None:
            return None
        base.encoded = cut(base.encoded)
        return base.encoded.parts

    def _move_emptied(
        self, prepared: Prepared, base: KnownFrame, changed: Mapping[str, Any]
    ) -> None:
        """Store a large value that this step emptied as a part of where it went."""
        thread_id, ns, _ = prepared.place
        for channel, value in changed.items():
            if value is not MISSING or base.frame.inline.get(channel) is not False:
                continue
            known = self._memory.latest(thread_id, ns, channel, prepared.token)
            if known is None or known.version != str(base.frame.versions.get(channel)):
                continue
            for row in prepared.blobs:
                if row.known is not None and (program := moved(known, row)) is not None:
                    row.folds.append(Fold(known.version, known.kind, program, channel))
                    break

    # -- writes

    def _note_early(self, step: StepCommit, encoded: Sequence[Sequence[Encoded]]) -> None:
        """Remember the large ones of a step that goes on: they will be found in its values."""
        assert step.checkpoint_id is not None
        for task, values in zip(step.writes, encoded, strict=True):
            for position, ((channel, _), value) in enumerate(zip(task.writes, values, strict=True)):
                at = WRITES_IDX_MAP.get(channel, position)
                if value.size >= _EARLY and at >= 0:
                    early = EarlyWrite(
                        step.checkpoint_id,
                        task.task_id,
                        task.task_path,
                        at,
                        channel,
                        value,
                        step.fence.token,
                    )
                    self._memory.note_early(step.thread_id, step.checkpoint_ns, early)

    def _fold_early(self, prepared: Prepared) -> None:
        thread_id, ns, id = prepared.place
        rows = {row.channel: row for row in prepared.blobs if row.known is not None}
        for early in self._memory.take_early(thread_id, ns, str(id), str(prepared.token)):
            if (row := rows.get(early.channel)) is None:
                continue
            program = cut_out(row, early.encoded)
            if program is not None:
                prepared.early.append(
                    EarlyFold(
                        early.task_id,
                        early.task_path,
                        early.position,
                        early.channel,
                        row.version,
                        early.encoded.kind,
                        program,
                    )
                )

    def _encoded(self, place: Place, task: TaskWrites, once: _Once) -> list[Encoded]:
        thread_id, ns, checkpoint_id = place
        codec, sound = self._codec, self._sound
        if task.task_path not in sound:
            self._check("task_path", task.task_path)
        found = []
        for position, (channel, value) in enumerate(task.writes):
            if channel not in sound:
                self._check("channel", channel)
            try:
                if codec.splices:
                    encoded = once[id(value)] = codec.encode(value)
                else:
                    key = (task.task_id, str(WRITES_IDX_MAP.get(channel, position)))
                    encoded = codec.encode(value, "write", thread_id, ns, str(checkpoint_id), *key)
            except SerdeError as error:
                raise error.at(thread=thread_id, node=task.node or None, channel=channel) from None
            found.append(encoded)
        return found

    def _writes(self, prepared: Prepared, task: TaskWrites, values: Sequence[Encoded]) -> TaskRows:
        """The writes of a task, before they are sealed."""
        rows = {row.channel: row for row in prepared.blobs if row.known} if prepared.blobs else {}
        made = TaskRows(task.task_id, task.task_path)
        for position, ((channel, _), encoded) in enumerate(zip(task.writes, values, strict=True)):
            at = WRITES_IDX_MAP.get(channel, position)
            base, data = None, None
            if encoded.size >= _REFERRED and channel in rows:
                data = cut_out(rows[channel], encoded)
                base = rows[channel].version if data is not None else None
            if data is None:
                data = encoded.parts.join()
            row = WriteRow(at, channel, base, short_kind(encoded.kind), data)
            (made.special if at < 0 else made.ordinary).append(row)
        return made

    @staticmethod
    def _follows(step: StepCommit, id: str) -> bool:
        """Whether the new checkpoint comes right after its parent: then it holds its writes."""
        made, ns = step.fence.made, step.checkpoint_ns
        follows = made.get(ns) == step.checkpoint_id
        if len(made) >= _MOST_GRAPHS:
            made.clear()
        made[ns] = id
        return follows

    def _store_writes(self, prepared: Prepared, *, led: bool = False) -> None:
        """Seal the writes where they are to be stored."""
        thread_id, ns, checkpoint_id = prepared.place
        row = prepared.checkpoint
        if led and row is not None and prepared.writes and all(map(_is_brief, prepared.writes)):
            at = ("led", thread_id, ns, row.checkpoint_id)
            row.led = self._codec.seal(for_ledger(prepared.writes), at, (checkpoint_id,))
            prepared.writes.clear()
            return
        one_row = self._codec.splices and prepared.fence is not None
        for task in prepared.writes:
            path = task.task_path
            place = ("write", thread_id, ns, str(checkpoint_id), task.task_id)
            if one_row and len(task.ordinary) > 1 and self._may_share(task, row):
                task.ordinary = [together(task.ordinary)]
            task.ordinary = [self._sealed(place, path, write) for write in task.ordinary]
            task.special = [self._sealed(place, path, write) for write in task.special]

    @staticmethod
    def _may_share(task: TaskRows, row: CheckpointRow | None) -> bool:
        """Not what is, or will be, a reference to a channel's version."""
        return not any(
            write.base is not None or (len(write.data) >= _EARLY and row is None)
            for write in (*task.ordinary, *task.special)
        )

    def _sealed(self, place: tuple[str, ...], path: str, row: WriteRow) -> WriteRow:
        position, channel, base, kind, data = row
        data = self._codec.seal(data, (*place, str(position)), (channel, path, base, kind))
        return WriteRow(position, channel, base, kind, data)


def _is_brief(task: TaskRows) -> bool:
    """Whether a task has only ordinary writes, and short ones."""
    left = -1 if task.special else _BRIEF
    for _, _, base, _, data in task.ordinary:
        left -= len(data) if base is None else _BRIEF + 1
    return left >= 0


def cut_out(row: BlobRow, write: Encoded) -> bytes | None:
    """The program that finds a write inside the version of the channel that it led to."""
    program = place_in(row.encoded, write)
    return None if program is None else pack(program)


def _status(prepared: Prepared, new: NewCheckpoint | None) -> str:
    """What a foreign runtime leaves behind; ours says how a thread stands."""
    special = {row.channel for task in prepared.writes for row in task.special}
    if INTERRUPT in special:
        return "interrupted"
    if ERROR in special:
        return "error"
    if new is None or prepared.place.checkpoint_ns:
        return "running"
    # Such a channel is emptied by the next step, so if it holds something, it is new.
    waiting = any(
        is_trigger(channel) and value is not MISSING for channel, value in new.changed.items()
    )
    return "running" if waiting else "idle"
