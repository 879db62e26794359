"""The checkpoints of a run: what is stored when, and under which id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from milepost.checkpoint.commit import NewCheckpoint, StepCommit, TaskWrites
from milepost.checkpoint.records import (
    FORMAT_VERSION,
    Checkpoint,
    CheckpointMetadata,
    PendingWrite,
    Place,
    now,
    place_of,
)
from milepost.constants import CHILDREN, NS_END, NS_SEP
from milepost.errors import SerdeError
from milepost.ids import LateId, checkpoint_id, digest_id, random_token
from milepost.runtime.apply import merged_writes
from milepost.runtime.effects import RunProgram, Save
from milepost.runtime.plan import Base, Task, is_waiting, path_text
from milepost.runtime.untracked import tracked_value, tracked_writes
from milepost.types import MISSING, RunnableConfig, _DeltaSnapshot

if TYPE_CHECKING:
    from milepost.runtime.board import Board
    from milepost.runtime.options import Options
    from milepost.runtime.program import Program, Writer
    from milepost.runtime.saving import Ledger
    from milepost.runtime.scope import Scope
    from milepost.runtime.stream import Feed

OF_A_TASK = frozenset(
    {
        "thread_id",
        "checkpoint_id",
        "checkpoint_ns",
        "checkpoint_map",
        "langgraph_step",
        "langgraph_node",
        "langgraph_triggers",
        "langgraph_path",
        "langgraph_checkpoint_ns",
    }
)
"""Metadata that says where a task runs, for those who listen to it: no part of what is saved."""

LINEAGE = "__lineage__"
"""Where a checkpoint keeps the name of its line of history, among what nodes have seen.

A new input, a fork and an update start a new line; a resume goes on with the old one. With the
step and the path it names a task even if a crash has lost the task's checkpoint.
"""


class Bookkeeping:
    """The part of a run that knows where it is in its thread."""

    program: Program
    options: Options
    config: RunnableConfig
    parent: Scope | None
    board: Board
    feed: Feed
    tasks: Sequence[Task]
    paused: bool
    quiet: bool
    depth: int

    def _prepare_bookkeeping(self) -> None:
        self._given: dict[str, Any] = {
            key: value
            for key, value in (self.config.get("metadata") or {}).items()
            if key not in OF_A_TASK
        }
        """What the caller wants to be saved with every checkpoint; nothing else of the config."""
        if self.config.get("run_id") is not None:
            self._given["run_id"] = str(self.config["run_id"])
        self.ledger: Ledger | None = None
        self.shared: Ledger | None = None
        self.owns_ledger = False
        """Whether this run, not one around it, made the ledger."""
        self.thread_id: str | None = None
        self.ns = ""
        self.step = -2
        """The step of the present checkpoint."""
        self._present: str | LateId = ""
        """Its id."""
        self.stored_id: str | None = None
        """The last one that is stored."""
        self.previous_id: str | None = None
        """The one before the present one."""
        self.travel: Mapping[str, str] = {}
        """Inner graphs that are to start from checkpoints of their past: namespace → id."""
        self._moved_from: str | None = None
        """The namespace that the loaded checkpoint was found in, if it was such a start."""
        self.changed: set[str] | None = None
        """Channels that the last step changed; None if that is not known."""
        self.metadata: CheckpointMetadata = {}
        self.pending: Sequence[PendingWrite] = ()
        """Writes that were stored at the present checkpoint before this run."""
        self.resumed = False
        """The next step was planned before, by a run that paused in front of it."""
        self.repeats = False
        """The step at hand was begun by an earlier run: what is inside it may be saved already."""
        self.replanned: Sequence[Task] | None = None
        """Tasks of the next step if they are planned already."""
        self.spawned = 0
        """Tasks that running tasks have called and that have not ended."""
        self.writers: Sequence[Writer] = ()
        """Whose writes made the present checkpoint."""
        self._prepared: list[Any] = []
        """Encoded steps that are to be stored next."""
        self._unstored = False
        """Whether the present checkpoint waits for the end of the run."""
        self.halfway = False
        """Whether the board is on its way from one checkpoint to the next."""
        self._unstored_writes: list[TaskWrites] = []
        self._source: str | None = None
        """Where the present checkpoint comes from, if there is no metadata of it yet."""
        self._authors: dict[str, str] = {}
        """Under `exit`: which node last wrote each channel, to name it if it cannot be stored."""
        self.keeps_deltas_whole = False
        """Whether delta channels that change could not be rebuilt from what is stored of writes."""
        self._snapshots: dict[str, _DeltaSnapshot] = {}
        """Delta channels whose present version is stored as a whole value."""

    # -- where we are

    @property
    def checkpoint_id(self) -> str:
        """The checkpoint that the next step starts from, stored or not."""
        return str(self._present)

    @property
    def task_base(self) -> Base:
        """What the ids of the next step's tasks are made of."""
        return (self._present, self.ns, self.step + 1)

    @property
    def parents(self) -> dict[str, str]:
        """The checkpoints of the enclosing graphs."""
        if self.parent is None:
            return {}
        above = self.parent.session
        return {**above.parents, above.ns: above.checkpoint_id}

    def share_ledger(self, ledger: Ledger | None) -> None:
        """Write to the thread of a run around this one in that run's name."""
        place = place_of(self.config)
        if (
            ledger is not None
            and ledger.saver is self.options.checkpointer
            and ledger.thread_id == place.thread_id
        ):
            self.shared = ledger

    def next_version(self, current: Any) -> Any:
        """The version after `current`."""
        if self.ledger is not None:
            return self.ledger.saver.get_next_version(current, None)
        return 1 if current is None else current + 1

    # -- lines of history

    def start_lineage(self) -> None:
        """A new line of history begins with the next checkpoint.

        That of a graph with memory of its own is the call that it serves: several of a step may
        share the memory.
        """
        if self.parent is not None and not self._is_transient:
            self.board.saw(LINEAGE, {LINEAGE: self.parent.task.id})
            return
        run_id = self.config.get("run_id")
        token = random_token() if run_id is None else f"run {run_id}"
        self.board.saw(LINEAGE, {LINEAGE: token})

    def idempotency_key(self, task: Task) -> str:
        """Names what a task is to do, whichever attempt or process does it."""
        if self.parent is not None:
            above = self.parent.session.idempotency_key(self.parent.task)
            line = f"{above} {without_ids(self.ns)}"
        else:
            line = self.board.seen.get(LINEAGE, {}).get(LINEAGE, "")
        return digest_id("idempotency", line, str(task.base[2]), path_text(task.path))

    # -- inner graphs with memory of their own

    def pin(self) -> None:
        """Tell the tasks around this run how far it has come, and those inside it."""
        if self.parent is None or self.ledger is None or not self._present:
            return
        reached = dict(self.board.seen.get(CHILDREN, {}))
        for task in self.tasks:
            reached.update(task.pins)
        if not self._is_transient:
            reached[self.ns] = self.checkpoint_id
        around = self.parent if reached else None
        while around is not None:
            owner: Task | None = around.task
            while owner is not None:
                owner.pins = {**owner.pins, **reached}
                owner = owner.caller
            around = around.session.parent

    def pin_children(self) -> None:
        """Keep in the next checkpoint where inner graphs with memory of their own are."""
        newest: dict[str, str] = {}
        for task in self.tasks:
            if task.pins:
                newest |= {ns: max(id, newest.get(ns, "")) for ns, id in task.pins.items()}
        if newest:
            self.board.saw(CHILDREN, {**self.board.seen.get(CHILDREN, {}), **newest})

    def remembered(self) -> str | None:
        """How far this graph, which has memory of its own, had come when it is called.

        What an earlier attempt of the call has done comes first, then what calls of this step
        that have ended did, and then what was so when this branch of history was last saved.
        """
        around = self.parent
        while around is not None:
            found = _own_pin(around.task, self.ns) or around.session.reached(self.ns)
            if found is not None:
                return found
            around = around.session.parent
        return None

    def reached(self, ns: str) -> str | None:
        """How far the tasks of this run have brought an inner graph."""
        ended = [task.pins[ns] for task in self.tasks if task.finished and ns in task.pins]
        saved: str | None = self.board.seen.get(CHILDREN, {}).get(ns)
        return max(ended, default=saved)

    # -- saving

    def save_writes(self, writes: Sequence[TaskWrites]) -> RunProgram[None]:
        """Store what tasks wrote, before their step has ended."""
        ledger = self.ledger
        if self.program.untracked:
            writes = tracked_writes(writes, self.program.untracked, step_ends=False)
        if ledger is None or not writes:
            return
        if ledger.durability == "exit":
            self._unstored_writes.extend(writes)
            return
        self._prepared.append(ledger.prepare(self._commit(writes, None)))
        if (save := self.store_prepared(ledger)) is not None:
            yield save

    def store_prepared(self, ledger: Ledger) -> Save | None:
        """Store what is ready, in one transaction if the saver can: here, or how to."""
        if not self._prepared:
            return None
        steps, self._prepared = self._prepared, []
        if self.quiet and (ledger.instant or (ledger.stores_whole and self.feed.may_wait)):
            ledger.store_now(steps)  # nobody waits for events in between
            return None
        return Save(ledger, steps, not ledger.deferred)

    def save_checkpoint(
        self,
        source: str,
        writes: Sequence[TaskWrites] = (),
        writers: Sequence[Writer] = (),
        *,
        held: bool = False,
    ) -> RunProgram[None]:
        """The present state becomes a checkpoint; `writes` are stored along with it.

        `held`: until the next one, because nothing happens in between that a crash could lose.
        """
        ledger = self.ledger
        self.writers = writers
        if ledger is None:
            return
        if ledger.durability == "exit":
            self._unstored = True
            self._unstored_writes.clear()
            for writer in writers:
                for name, _ in writer.writes:
                    self._authors[name] = writer.name
            if self.quiet and not self.program.delta:
                # Most of these checkpoints nobody will ever see: not before one is stored, or a
                # node asks who it is, is there an id or metadata.
                if isinstance(self._present, LateId):
                    self._present = self._present.successor()
                else:
                    self._present = LateId(self._present, ledger.fence.head)
                self._announce(ledger)
                self._source, self.pending = source, ()
                return
        before = self.checkpoint_id
        self.previous_id = self.stored_id and before
        self._present = new_id = checkpoint_id(before, ledger.fence.head)
        self._announce(ledger)
        self._note(source, writers)
        if ledger.durability != "exit":
            if self.program.untracked:
                writes = tracked_writes(writes, self.program.untracked, step_ends=True)
            step = self._commit(writes, self._new_checkpoint(new_id))
            self._prepared.append(ledger.prepare(step))
            if not held and (save := self.store_prepared(ledger)) is not None:
                yield save
            self.stored_id = new_id
            self.board.is_saved()
        self.pending = ()
        if not self.quiet:
            self.show_checkpoint()

    def _announce(self, ledger: Ledger) -> None:
        """Tell the fence of a run in the past where its own checkpoints begin."""
        fence = ledger.fence
        if (
            fence.forced
            and self.parent is None
            and not fence.taken
            and (fence.begins is None or ledger.durability == "exit")
        ):
            fence.begins = (self.ns, self._present)

    def save_on_exit(self, error: BaseException | None) -> RunProgram[None]:
        """Under `exit`: one commit with all that the run has come to."""
        ledger = self.ledger
        if ledger is None or ledger.durability != "exit":
            return
        if self.halfway:
            return  # interrupted in there: what is on the board was never a state
        if self._is_transient and error is None and not self.paused:
            return
        prepared = []
        if self._unstored:
            # Steps in between are not stored, so a delta channel cannot be rebuilt from them; and
            # what others wrote at the parent would be taken for what led here.
            self._keep_deltas_whole()
            if self._source is not None:
                self._note(self._source, ())
            try:
                new = self._new_checkpoint(self.checkpoint_id)
                prepared.append(ledger.prepare(self._commit((), new)))
            except SerdeError as refused:
                raise refused.at(node=self._authors.get(refused.channel or "")) from None
            self.stored_id = self.checkpoint_id
            self.board.is_saved()
            self._unstored = False
        if self._unstored_writes:
            prepared.append(ledger.prepare(self._commit(self._unstored_writes, None)))
            self._unstored_writes = []
        if prepared:
            yield Save(ledger, prepared, True)

    @property
    def _is_transient(self) -> bool:
        """Whether nobody will ask for this graph's state once it has come to its end."""
        return self.parent is not None and NS_END in self.ns

    def _commit(self, writes: Sequence[TaskWrites], new: NewCheckpoint | None) -> StepCommit:
        ledger = self.ledger
        assert ledger is not None
        status = ledger.fence.waiting
        if new is not None and not self.ns and (not ledger.instant or status != "running"):
            waiting = is_waiting(self.program, self.board, self.changed)
            status = status if waiting else "idle"
        return StepCommit(
            ledger.thread_id, self.ns, self.stored_id, writes, new, ledger.fence, status
        )

    def _note(self, source: str, writers: Sequence[Writer]) -> None:
        """The metadata of the present checkpoint."""
        metadata: dict[str, Any] = {**self._given, "source": source, "step": self.step}
        metadata["parents"] = self.parents
        if self.program.delta:
            counters = self.metadata.get("counters_since_delta_snapshot") or {}
            metadata["counters_since_delta_snapshot"] = self._count_deltas(counters, writers)
        self.metadata, self._source = metadata, None  # type: ignore[assignment]

    def show_checkpoint(self) -> None:
        """Tell the streams about the present checkpoint."""
        raise NotImplementedError

    def _count_deltas(
        self, counters: Mapping[str, tuple[int, int]], writers: Sequence[Writer]
    ) -> dict[str, tuple[int, int]]:
        """How far each delta channel is from its last whole value; decides on new ones."""
        written = merged_writes(writers)
        counted = {}
        for name in self.program.delta:
            if name not in self.board.versions:
                continue
            updates, steps = counters.get(name, (0, 0))
            updates, steps = updates + written.get(name, 0), steps + 1
            if name in self.board.dirty:
                self._snapshots.pop(name, None)
                channel: Any = self.board.live[name]
                if self.keeps_deltas_whole or updates >= channel.snapshot_frequency:
                    self._snapshots[name] = _DeltaSnapshot(channel.get())
                    updates = steps = 0
            counted[name] = (updates, steps)
        return counted

    def _keep_deltas_whole(self) -> None:
        """Store the whole values of delta channels, changed or not."""
        for name in self.program.delta:
            if name in self.board.versions:
                self.board.dirty.add(name)
                self._snapshots[name] = _DeltaSnapshot(self.board.live[name].get())

    def _new_checkpoint(self, new_id: str) -> NewCheckpoint:
        board = self.board
        live = board.live
        changed = {
            name: live[name].checkpoint() if name in live else MISSING for name in board.dirty
        }
        for name in self.program.delta:
            if name in changed:
                changed[name] = self._snapshots.get(name, MISSING)
        if self.program.untracked:
            changed = self._tracked(changed)
        checkpoint: Checkpoint = {
            "v": FORMAT_VERSION,
            "id": new_id,
            "ts": now(),
            "channel_values": {},
            "channel_versions": board.versions,
            "versions_seen": board.seen,
            "updated_channels": None if self.changed is None else sorted(self.changed),
        }
        return NewCheckpoint(checkpoint, self.metadata, changed, self._all_values, board.looked)

    def _all_values(self) -> dict[str, Any]:
        values = {**self.board.stored_values(), **self._snapshots}
        return self._tracked(values) if self.program.untracked else values

    def _tracked(self, values: Mapping[str, Any]) -> dict[str, Any]:
        untracked = self.program.untracked
        return {name: tracked_value(name, value, untracked) for name, value in values.items()}

    @property
    def place(self) -> Place | None:
        """The present checkpoint, for configs."""
        if self.thread_id is None:
            return None
        return Place(self.thread_id, self.ns, self.checkpoint_id)


def _own_pin(task: Task | None, ns: str) -> str | None:
    while task is not None:
        if ns in task.pins:
            return task.pins[ns]
        task = task.caller
    return None


def without_ids(ns: str) -> str:
    """A namespace without task ids: `outer:uuid|1|inner:uuid` → `outer|1|inner`.

    The number stays: it tells a task's second call of a graph from its first.
    """
    return NS_SEP.join(part.partition(NS_END)[0] for part in ns.split(NS_SEP))


def node_names(ns: str) -> list[str]:
    """The nodes on the way to a namespace: `outer:uuid|1|inner:uuid` → `outer`, `inner`."""
    return [part for part in without_ids(ns).split(NS_SEP) if part and not part.isdigit()]
