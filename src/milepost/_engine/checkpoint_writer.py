"""The checkpoints of a run: what is stored when, and under which id."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from milepost._engine.delta_snapshots import DeltaSnapshots
from milepost._engine.drivers.effects import EffectGenerator, Flush, ReleaseThread, Save
from milepost._engine.missing_nodes import NONE_MISSING, MissingNodes
from milepost._engine.superstep.channel_state import NO_NAMES
from milepost._engine.superstep.plan import due
from milepost._engine.superstep.untracked import tracked_value, tracked_writes
from milepost._engine.thread_writer import WatchedThreadWriter
from milepost._internal import log
from milepost._internal.ids import LateId, checkpoint_id
from milepost.checkpoint._contract.records import PLACE_KEYS
from milepost.checkpoint._contract.step_saver import NewCheckpoint, StepCommit
from milepost.errors import SerdeError, SerializationError
from milepost.types import MISSING, RunnableConfig

if TYPE_CHECKING:
    from milepost._engine.position import Position
    from milepost._engine.streaming.events import RunEvents
    from milepost._engine.superstep.channel_state import ChannelState
    from milepost._engine.superstep.program import ExecutableGraph, Writer
    from milepost._engine.superstep.subtasks import Subtasks
    from milepost._engine.thread_writer import ThreadWriter
    from milepost.checkpoint._contract.records import (
        CheckpointMetadata,
        CheckpointTuple,
        PendingWrite,
    )
    from milepost.checkpoint._contract.step_saver import TaskWrites
    from milepost.checkpoint.base import BaseCheckpointSaver

_PLAIN: frozenset[type] = frozenset({str, int, float, bool, type(None)})
SECRET_WORDS = ("key", "token", "secret", "password", "auth", "credential")
"""A config value is not stored as metadata if its name contains one of these words."""

_OWN_METADATA = ("source", "step", "parents", "counters_since_delta_snapshot")
"""The metadata of a checkpoint that does not come from the config."""


def _is_stored_metadata(key: object, value: object) -> bool:
    """Whether an entry of `configurable` is stored as metadata: text or a number, no secret."""
    if not isinstance(value, (str, int, float)) or not isinstance(key, str):
        return False
    name = key.casefold()
    return not name.startswith("__") and not any(word in name for word in SECRET_WORDS)


def metadata_in_configurable(config: RunnableConfig) -> dict[str, Any]:
    """The entries of `configurable` that are stored as metadata, where `config["metadata"]` has no
    entry of that name."""
    given = config.get("metadata") or {}
    return {
        key: value.replace("\0", "") if isinstance(value, str) else value
        for key, value in (config.get("configurable") or {}).items()
        if key not in PLACE_KEYS and key not in given and _is_stored_metadata(key, value)
    }


class CheckpointWriter:
    """Makes checkpoints of a run's channels, and decides when they are stored.

    Under `sync` and `async` every checkpoint is prepared and handed over at once, together with
    the writes that led to it. Under `exit` the run goes on without storing anything, and `finish`
    stores the last checkpoint.
    """

    __slots__ = (
        "_authors",
        "_prepared",
        "_source",
        "_unstored",
        "_unstored_writes",
        "channels",
        "deltas",
        "enclosing_writer",
        "events",
        "given_metadata",
        "is_never_saved",
        "metadata",
        "mid_apply",
        "missing",
        "next_version",
        "owns_thread",
        "pending",
        "position",
        "program",
        "stores_at_exit",
        "thread",
    )

    def __init__(
        self,
        program: ExecutableGraph,
        position: Position,
        config: RunnableConfig,
        events: RunEvents,
    ) -> None:
        self.program = program
        self.position = position
        self.events = events
        self.channels: ChannelState
        self.thread: ThreadWriter | None = None
        """Stores what is prepared; None if the run has no saver."""
        self.is_never_saved = False
        """Whether the graph was compiled with checkpointer=False."""
        self.next_version: Callable[[Any, None], Any] = _next_number
        """The version of a channel after the given one."""
        self.stores_at_exit = False
        """Whether nothing is stored before the run ends."""
        self.owns_thread = False
        """Whether the thread writer was made for this run, not for an enclosing one."""
        self.enclosing_writer: ThreadWriter | None = None
        """For an update inside a run on the same thread: the thread writer of that run."""
        self.given_metadata: dict[str, Any] = {
            key: value
            for key, value in (config.get("metadata") or {}).items()
            if key not in PLACE_KEYS
        }
        """Metadata that is stored with every checkpoint: from the config, and of traces."""
        self.given_metadata.update(metadata_in_configurable(config))
        if config.get("run_id") is not None:
            self.given_metadata["run_id"] = str(config["run_id"])
        self.metadata: CheckpointMetadata = {}
        """The metadata of the present checkpoint."""
        self.pending: Sequence[PendingWrite] = ()
        """Writes that were stored at the present checkpoint before this run."""
        self.missing: MissingNodes = NONE_MISSING
        """Nodes that the loaded checkpoint waits for and cannot go on at."""
        self.deltas = DeltaSnapshots(program.delta)
        self.mid_apply = False
        """Whether writes are being applied: the channels are between two checkpoints."""
        self._prepared: list[Any] = []
        """Encoded steps that are to be stored next."""
        self._unstored = False
        """Under `exit`: whether the present checkpoint is still to be stored."""
        self._unstored_writes: list[TaskWrites] = []
        self._source: str | None = None
        """The `source` of the present checkpoint, until its metadata is made."""
        self._authors: dict[str, str] = {}
        """Under `exit`: channel → node that last wrote it, named if the value cannot be stored."""

    def drop_unstorable_metadata(self, saver: BaseCheckpointSaver[Any]) -> None:
        """Leave out metadata of the config that the saver cannot encode."""
        for key in [key for key, value in self.given_metadata.items() if type(value) not in _PLAIN]:
            try:
                saver.serde.dumps_typed(self.given_metadata[key])
            except SerializationError as error:
                text = f"metadata {key!r} of the config cannot be saved: {error}"
                self.program.strictness.check(
                    ("metadata", key), partial(SerializationError, text), "It is left out."
                )
                del self.given_metadata[key]

    def join(self, thread: ThreadWriter, *, owned: bool) -> None:
        """Use a thread writer; `owned`: it was made for this run, not for an enclosing one."""
        self.thread, self.owns_thread = thread, owned
        self.next_version = thread.saver.get_next_version
        self.stores_at_exit = thread.durability == "exit"

    # -- while the run goes on

    def save_writes(self, writes: Sequence[TaskWrites]) -> EffectGenerator[None]:
        """Store what tasks wrote, before their step has ended."""
        thread = self.thread
        if self.program.untracked:
            writes = tracked_writes(writes, self.program.untracked, step_ends=False)
        if thread is None or not writes:
            return
        if self.stores_at_exit:
            self._unstored_writes.extend(writes)
            return
        self._prepared.append(self._prepare(thread, writes, None))
        yield from self.store_prepared()

    def keep_writes(self, writes: Sequence[TaskWrites]) -> EffectGenerator[None]:
        """`save_writes` ahead of the run: if this fails, the run stores the same later."""
        prepared = list(self._prepared)
        try:
            yield from self.save_writes(writes)
        except BaseException:
            self._prepared = prepared
            raise

    def save_checkpoint(
        self,
        source: str,
        writes: Sequence[TaskWrites] = (),
        made_by: Sequence[Writer] = (),
        *,
        with_next: bool = False,
        copied: CheckpointTuple | None = None,
    ) -> EffectGenerator[None]:
        """Make a checkpoint of the present state, and store it together with `writes`.

        `with_next`: store it in the next commit; a crash between the two loses nothing.
        `copied`: the checkpoint that this one is a copy of.
        """
        thread, position = self.thread, self.position
        self.channels.former_names = NO_NAMES
        if thread is None:
            check = self.program.storable
            if check.steps_left > 0 and not self.is_never_saved:
                check.check(made_by, self.program)
            return
        if self.stores_at_exit:
            self._keep_for_exit(made_by)
            if self.events.quiet and not self.program.delta:
                self._move_without_id(thread, source)
                return
        before = str(position.present)
        position.previous_id = position.stored_id and before
        position.present = new_id = checkpoint_id(before, thread.fence.head)
        if thread.fence.forced:
            self._announce(thread)
        self._describe(source, made_by)
        if not self.stores_at_exit:
            if self.program.untracked:
                writes = tracked_writes(writes, self.program.untracked, step_ends=True)
            new = self._new_checkpoint(new_id, copied)
            self._prepared.append(self._prepare(thread, writes, new))
            if not with_next:
                steps, self._prepared = self._prepared, []
                yield Save(thread, steps)
            position.stored_id = new_id
        self.pending = ()
        if not self.events.quiet:
            # Metadata of the config is stored, and not shown to the caller that has passed it.
            shown = {key: value for key, value in self.metadata.items() if key in _OWN_METADATA}
            self.events.checkpoint(self.channels, shown, made_by)

    def _keep_for_exit(self, made_by: Sequence[Writer]) -> None:
        """Under `exit`: the present checkpoint waits for the end of the run."""
        self._unstored = True
        self._unstored_writes.clear()
        for writer in made_by:
            for name, _ in writer.writes:
                self._authors[name] = writer.name

    def _move_without_id(self, thread: ThreadWriter, source: str) -> None:
        """Under `exit`, with no consumer of events: go on to the next checkpoint without its id.

        Most of these checkpoints are never seen. An id is made when it is first read, metadata
        when the run ends.
        """
        position = self.position
        if isinstance(position.present, LateId):
            position.present = position.present.successor()
        else:
            position.present = LateId(position.present, thread.fence.head)
        if thread.fence.forced:
            self._announce(thread)
        self._source, self.pending = source, ()

    def store_prepared(self) -> EffectGenerator[None]:
        """Store the prepared steps, in one transaction if the saver can."""
        if self._prepared:
            assert self.thread is not None
            steps, self._prepared = self._prepared, []
            yield Save(self.thread, steps)

    # -- the end of the run

    def set_outcome(self, status: str) -> None:
        """Set the status that the registry gets when the run stops."""
        if (thread := self._claimed) is not None:
            thread.fence.pending_status = status

    def finish(self, subtasks: Subtasks, *, succeeded: bool) -> EffectGenerator[None]:
        """Store what is not stored yet. `succeeded`: the run has neither paused nor failed.

        `subtasks` has the inner graphs that have ended in the last step.
        """
        yield from self.store_prepared()
        if not self.stores_at_exit or self.mid_apply:  # half-applied channels are no state to save
            return
        position = self.position
        if succeeded and position.is_transient and (around := position.parent) is not None:
            # This state of an inner graph is needed only if the calling task does not finish.
            around.run.subtasks.ended_graphs[position.ns] = (around.task, self)
            return
        ended_graphs = list(subtasks.ended_graphs.values())  # a copy: other threads may add some
        for task, ended in ended_graphs:
            # That of a finished task too, if an earlier run has stored it with what was open then.
            was_stored = ended.position.stored_id is not None
            if not task.finished or (was_stored and not succeeded):
                with suppress(SerdeError):  # the inner graph runs again
                    yield from ended._store_at_exit()
        yield from self._store_at_exit()

    def _store_at_exit(self) -> EffectGenerator[None]:
        """Under `exit`: store the whole result of the run in one commit."""
        thread, position = self.thread, self.position
        assert thread is not None
        prepared = []
        if self._unstored:
            # The steps in between are not stored, so delta channels cannot be rebuilt from their
            # writes. Other writes at the parent would be taken for writes of this checkpoint.
            self.channels.dirty.update(self.deltas.take_all(self.channels))
            if self._source is not None:
                self._describe(self._source, ())
            try:
                new = self._new_checkpoint(position.checkpoint_id)
                prepared.append(self._prepare(thread, (), new))
            except SerdeError as refused:
                raise refused.at(node=self._authors.get(refused.channel or "")) from None
            position.stored_id = position.checkpoint_id
            self._unstored = False
        if self._unstored_writes:
            prepared.append(self._prepare(thread, self._unstored_writes, None))
            self._unstored_writes = []
        if prepared:
            yield Save(thread, prepared)

    def flush(self) -> EffectGenerator[None]:
        """Wait until everything is stored, unless an enclosing run does so."""
        if self.thread is not None and self.owns_thread:
            yield Flush(self.thread)

    def release(self) -> EffectGenerator[None]:
        """Make sure that the registry does not list this run as running."""
        if (thread := self._claimed) is None:
            return
        fence = thread.fence
        fence.ended = True
        status = fence.pending_status if fence.status == "running" else None
        if fence.status is None:
            status = fence.before  # nothing was stored: the thread keeps its status
        if thread.native is not None and status is not None:
            # If the release fails, the lease expires.
            try:
                yield ReleaseThread(thread.native, thread.thread_id, fence, status)
            except Exception as error:
                text = "Thread '%s' could not be released (%s): it shows as running for a minute."
                log.warning(log.THREADS, text, thread.thread_id, error)

    @property
    def _claimed(self) -> ThreadWriter | None:
        """The thread writer, if this run, not an enclosing one, has claimed the thread."""
        return self.thread if self.owns_thread and self.enclosing_writer is None else None

    # -- what a checkpoint is made of

    def _announce(self, thread: ThreadWriter) -> None:
        """Tell the fence of a run from an older checkpoint which checkpoint the run makes first."""
        fence, position = thread.fence, self.position
        is_first = fence.first_checkpoint is None or self.stores_at_exit
        if is_first and position.parent is None and not fence.taken:
            fence.first_checkpoint = (position.ns, position.present)

    def _describe(self, source: str, made_by: Sequence[Writer]) -> None:
        """Make the metadata of the present checkpoint."""
        position = self.position
        metadata: dict[str, Any] = {**self.given_metadata, "source": source, "step": position.step}
        metadata["parents"] = dict(position.parents)
        if self.program.delta or "counters_since_delta_snapshot" in self.metadata:
            counters = self.metadata.get("counters_since_delta_snapshot") or {}
            counted = self.deltas.count(self.channels, counters, source, made_by)
            if counted or self.program.delta:
                metadata["counters_since_delta_snapshot"] = counted
        self.metadata, self._source = metadata, None  # type: ignore[assignment]

    def _prepare(
        self, thread: ThreadWriter, writes: Sequence[TaskWrites], new: NewCheckpoint | None
    ) -> Any:
        """Encode a step."""
        position = self.position
        status = thread.fence.pending_status
        at_end = not thread.instant or status != "running"
        if new is not None and not position.ns and at_end and self.enclosing_writer is None:
            waiting = any(due(self.program, self.channels, self.channels.changed))
            status = status if waiting else "idle"
        step = StepCommit(
            thread.thread_id, position.ns, position.stored_id, writes, new, thread.fence, status
        )
        prepared = thread.prepare(step)
        if isinstance(thread, WatchedThreadWriter):
            return thread.watched(prepared, self.events.observers, step)
        return prepared

    def _new_checkpoint(self, new_id: str, copied: CheckpointTuple | None = None) -> NewCheckpoint:
        """Make a checkpoint of the present state, and mark all channels as saved."""
        channels = self.channels
        if copied is not None:
            whole = self.deltas.take_all(channels)
        live = channels.live
        changed: dict[str, Any] = {}
        for name in channels.dirty:
            changed[name] = live[name].checkpoint() if name in live else MISSING
        channels.dirty.clear()
        if self.program.delta:
            self.deltas.substitute(changed)
        if self.program.untracked:
            changed = self._tracked(changed)
        seen, channels.unsaved_seen = channels.unsaved_seen, set()
        new = NewCheckpoint(
            new_id,
            datetime.now(UTC),
            channels.versions,
            channels.seen,
            None if channels.changed is None else sorted(channels.changed),
            self.metadata,
            changed,
            self._all_values,
            None if channels.drops_names else seen,
        )
        channels.drops_names = False
        return new if copied is None else self._as_copy(new, copied, whole)

    def _as_copy(
        self, new: NewCheckpoint, copied: CheckpointTuple, whole: Mapping[str, Any]
    ) -> NewCheckpoint:
        """A copy has the parent of the original, but uses no stored values of the parent.

        So every channel counts as changed. Delta channels are stored whole: the writes at the
        parent rebuild the value of the original, but not of a fork.
        """
        changed: dict[str, Any] = dict.fromkeys(copied.checkpoint["channel_versions"], MISSING)
        changed |= copied.checkpoint["channel_values"]
        changed |= whole
        if (counters := self.metadata.get("counters_since_delta_snapshot")) is not None:
            live = self.channels.live
            former = [name for name in counters if name in live and name not in whole]
            changed |= {name: live[name].checkpoint() for name in former}
            self.metadata["counters_since_delta_snapshot"] = dict.fromkeys(counters, (0, 0))
        return replace(new, changed={**changed, **new.changed}, seen=None, again=True)

    def _all_values(self) -> dict[str, Any]:
        values = {**self.channels.stored_values(), **self.deltas.values}
        return self._tracked(values) if self.program.untracked else values

    def _tracked(self, values: Mapping[str, Any]) -> dict[str, Any]:
        untracked = self.program.untracked
        return {name: tracked_value(name, value, untracked) for name, value in values.items()}


def _next_number(current: Any, _channel: None) -> Any:
    return 1 if current is None else current + 1
