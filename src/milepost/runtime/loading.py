"""Finding a run's place in its thread, and loading what is saved there."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from milepost.checkpoint.commit import Fence, StepSaver
from milepost.checkpoint.names import LONGEST
from milepost.checkpoint.records import CheckpointTuple, Place, place_of
from milepost.checkpoint.threads import checkpoint_gone
from milepost.constants import INPUT, NS_END, NS_SEP, PREVIOUS
from milepost.errors import CheckpointError, CheckpointNotFoundError, OutsideRunError
from milepost.runtime import leases
from milepost.runtime.apply import apply_writes
from milepost.runtime.board import Board
from milepost.runtime.checkpoints import LINEAGE, without_ids
from milepost.runtime.effects import Ask, Flush, Listing, Next, RunProgram
from milepost.runtime.pending import null_writes
from milepost.runtime.program import Outside, Program, Write
from milepost.runtime.saving import Ledger
from milepost.runtime.telling import Telling

if TYPE_CHECKING:
    from milepost.checkpoint.base import BaseCheckpointSaver


class Loading(Telling):
    """The part of a run that knows how to find what it starts from."""

    # -- finding the saver and the place

    def _saver(self) -> BaseCheckpointSaver[Any] | None:
        """The saver of this run, and the namespace that it writes to."""
        chosen = self.options.checkpointer
        if chosen is False:
            self._place_without_saver()
            return None
        if chosen is True and self.parent is None:
            raise OutsideRunError(
                "checkpointer=True means the parent's checkpointer, but this graph was called on "
                "its own. Compile it with a saver to run it by itself."
            )
        if chosen is None or chosen is True:
            if self.parent is None or self.parent.session.ledger is None:
                self._place_without_saver()
                return None
            self.ledger = self.parent.session.ledger
        elif self.parent is not None:
            above = self.parent.session.ledger
            thread_id = (self.config.get("configurable") or {}).get("thread_id")
            if above is not None and thread_id in (None, above.thread_id):
                if above.saver is chosen:
                    self.ledger = above
            else:
                # A graph with its own saver and thread is a run of its own.
                self.parent = None
                return chosen
        if self.parent is not None:
            self.ns = self.parent.child_ns()
            if chosen is True:
                self.ns = without_ids(self.ns)
        saver = self.ledger.saver if self.ledger is not None else chosen
        if len(self.ns) > LONGEST and isinstance(saver, StepSaver):
            from milepost.sql.failures import InvalidIdError

            raise InvalidIdError(
                f"Graph '{self.program.name}' is nested {self.depth} graphs deep, in the namespace "
                f"'{without_ids(self.ns)}', which has {len(self.ns)} characters with the ids of "
                f"its tasks; at most {LONGEST} can be stored, about 24 graphs. Nest fewer, give "
                "nodes shorter names, or compile inner graphs with checkpointer=False."
            )
        return saver  # type: ignore[return-value]

    def _place_without_saver(self) -> None:
        if self.parent is not None:
            self.ns = self.parent.child_ns()
            self.thread_id = self.parent.session.thread_id

    # -- loading

    def _load(
        self, saver: BaseCheckpointSaver[Any]
    ) -> RunProgram[tuple[CheckpointTuple | None, bool]]:
        """The checkpoint to start from, and whether the caller named it."""
        if self.ledger is not None:
            self.thread_id = self.ledger.thread_id
            return (yield from self._load_inner(saver)), False
        if self.shared is not None and self.shared.deferred:
            yield Flush(self.shared, last=False)
        place = place_of(self.config)
        self.thread_id = place.thread_id
        ledger = self.ledger = yield from self._join(saver, place.thread_id)
        self.owns_ledger = True
        if self.parent is not None:
            place = place._replace(checkpoint_ns=self.ns, checkpoint_id=None)
        else:
            place = yield from self._destination(saver, place)
        saved = yield Ask(saver, "get_tuple", (place.config(),))
        explicit = place.checkpoint_id is not None
        if explicit and saved is None:
            raise CheckpointNotFoundError(
                f"Thread '{place.thread_id}' has no checkpoint '{place.checkpoint_id}'. "
                "get_state_history(config) lists those that it has."
            )
        head: str | None = saved.checkpoint["id"] if saved else None
        if explicit or place.checkpoint_ns:
            head = yield from head_of(saver, place.thread_id)
        if self.shared is None:
            fence = ledger.fence
            fence.head, fence.forced = head, explicit and saved.checkpoint["id"] != head
        return saved, explicit

    def _join(self, saver: BaseCheckpointSaver[Any], thread_id: str) -> RunProgram[Ledger]:
        """Become a writer of the thread; claim it first if nobody else may be at work on it."""
        fence = Fence(None) if self.shared is None else self.shared.fence
        if self.options.on_conflict == "reject" and self.shared is None:
            if not isinstance(saver, StepSaver):
                raise CheckpointError(
                    f"on_conflict='reject' needs a saver that knows who is at work on a thread. "
                    f"{type(saver).__name__} has only the methods of BaseCheckpointSaver. Use one "
                    "of milepost's savers, or leave on_conflict out."
                )
            yield Ask(saver, "hold", (thread_id, fence))
            if not saver.instant:
                leases.keep(saver, thread_id, fence)
        durability = self.options.durability or "async"
        return Ledger(saver, thread_id, durability, fence)

    def _destination(self, saver: BaseCheckpointSaver[Any], place: Place) -> RunProgram[Place]:
        """Where a run from an inner graph's checkpoint starts: at the root's around it."""
        ns, checkpoint_id = place.checkpoint_ns, place.checkpoint_id
        if ns == "":
            return place
        if checkpoint_id is None:
            return Place(place.thread_id, "", None)
        configurable = self.config.get("configurable") or {}
        around: Mapping[str, str] | None = configurable.get("checkpoint_map")
        if around is None:
            inner = yield Ask(saver, "get_tuple", (place.config(),))
            around = inner.metadata.get("parents") if inner is not None else None
        travel = {**(around or {}), ns: checkpoint_id}
        root = travel.pop("", None)
        if root is None:
            raise CheckpointNotFoundError(
                f"Thread '{place.thread_id}' has no checkpoint '{checkpoint_id}' in the inner "
                f"graph '{ns}'. get_state_history lists those that it has."
            )
        self.travel = travel
        return Place(place.thread_id, "", root)

    def _load_inner(self, saver: BaseCheckpointSaver[Any]) -> RunProgram[CheckpointTuple | None]:
        """The state of a graph inside a run: of an earlier attempt, or of its own memory."""
        assert self.parent is not None
        assert self.thread_id is not None
        above = self.parent.session
        if (
            NS_END in self.ns
            and self.parent.attempt == 1
            and not above.repeats
            and not above.travel
        ):
            return None  # the task is new, and so is everything inside it
        assert self.ledger is not None
        if self.ledger.deferred:
            yield Flush(self.ledger, last=False)
        origin = _step_into(above.travel, self.ns)
        if origin is not None:
            old_ns, old_id, self.travel = origin
            found: CheckpointTuple | None = yield Ask(
                saver, "get_tuple", (Place(self.thread_id, old_ns, old_id).config(),)
            )
            if found is not None:
                self._moved_from = old_ns
                return found
        latest: CheckpointTuple | None = yield Ask(
            saver, "get_tuple", (Place(self.thread_id, self.ns, None).config(),)
        )
        if latest is None or self._is_of_this_call(latest):
            return latest
        if above.repeats or self.parent.attempt > 1:
            mine = yield from self._earlier_attempt(saver)
            if mine is not None:
                return mine
        remembered = self.remembered()
        if remembered is None:
            # Its memory was made on another branch, after this one had parted.
            return None
        if remembered == latest.checkpoint["id"]:
            return latest
        past: CheckpointTuple | None = yield Ask(
            saver, "get_tuple", (Place(self.thread_id, self.ns, remembered).config(),)
        )
        if past is None:
            raise checkpoint_gone(self.thread_id, remembered)
        return past

    def _earlier_attempt(
        self, saver: BaseCheckpointSaver[Any]
    ) -> RunProgram[CheckpointTuple | None]:
        """How far this call had come, if others of its step have gone on with the memory since."""
        assert self.thread_id is not None
        everything = {"filter": None, "before": None, "limit": None}
        place = Place(self.thread_id, self.ns, None)
        cursor = yield Listing(saver, (place.config(),), everything)
        found: CheckpointTuple | None = yield Next(cursor)
        while found is not None and self._is_of_this_step(found):
            if self._is_of_this_call(found):
                return found
            found = yield Next(cursor)
        return None

    def _is_of_this_step(self, saved: CheckpointTuple) -> bool:
        assert self.parent is not None
        above = self.parent.session
        return saved.metadata.get("parents", {}).get(above.ns) == above.checkpoint_id

    def _is_of_this_call(self, saved: CheckpointTuple) -> bool:
        """Whether an earlier attempt of the task around this graph has made a checkpoint of it."""
        if not self._is_of_this_step(saved):
            return False
        assert self.parent is not None
        served = saved.checkpoint["versions_seen"].get(LINEAGE, {}).get(LINEAGE)
        # LangGraph does not note whose call it was.
        return self._is_transient or served is None or served == self.parent.task.id

    def _restore(self, saved: CheckpointTuple) -> RunProgram[None]:
        checkpoint = saved.checkpoint
        self._present = checkpoint["id"]
        self.stored_id = checkpoint["id"]
        self.previous_id = (
            place_of(saved.parent_config).checkpoint_id if saved.parent_config else None
        )
        self.metadata = saved.metadata
        self.step = saved.metadata.get("step", -1)
        self.pending = saved.pending_writes or ()
        assert self.ledger is not None
        if self._moved_from is None:
            self.ledger.fence.load(self.ns, checkpoint["id"], self.pending)
        yield from rebuild_deltas(self.ledger.saver, self.program, self.board, saved)
        if self.board.available(PREVIOUS):
            self.previous = self.board.live[PREVIOUS].get()
        for writes in null_writes(self.pending):
            self._apply_outside(writes)

    def _apply_outside(self, writes: Sequence[Write]) -> set[str]:
        """Apply what no task wrote, between two steps; the channels that changed."""
        return apply_writes(
            self.program,
            self.board,
            [Outside(INPUT, (), writes)],
            self.next_version,
            is_step=False,
        )


def head_of(saver: BaseCheckpointSaver[Any], thread_id: str) -> Generator[Ask, Any, str | None]:
    """The id of a thread's latest checkpoint."""
    if isinstance(saver, StepSaver):
        head: str | None = yield Ask(saver, "head", (thread_id,))
        return head
    latest = yield Ask(saver, "get_tuple", (Place(thread_id, "", None).config(),))
    return latest.checkpoint["id"] if latest else None


def rebuild_deltas(
    saver: BaseCheckpointSaver[Any], program: Program, board: Board, saved: CheckpointTuple
) -> Generator[Ask, Any, None]:
    """Replay the stored writes of delta channels that the checkpoint holds no value of."""
    wanted = [
        name
        for name in program.delta
        if name in board.versions and name not in saved.checkpoint["channel_values"]
    ]
    if not wanted:
        return
    history = yield Ask(
        saver, "get_delta_channel_history", (), {"config": saved.config, "channels": wanted}
    )
    for name in wanted:
        found = history.get(name) or {"writes": []}
        pattern: Any = program.channels[name]
        if "seed" in found:
            channel = pattern.from_checkpoint(found["seed"])
        else:
            channel = board.live[name]
        channel.replay_writes(found["writes"])
        board.replace(name, channel)


def _step_into(travel: Mapping[str, str], own_ns: str) -> tuple[str, str, Mapping[str, str]] | None:
    """The checkpoint that a journey into inner graphs has for this one, and the journey's rest.

    Task ids in namespaces are new after a fork, so levels are matched by their names.
    """
    depth = len(own_ns.split(NS_SEP))
    for ns, checkpoint_id in travel.items():
        if len(ns.split(NS_SEP)) == depth and without_ids(ns) == without_ids(own_ns):
            return ns, checkpoint_id, {n: c for n, c in travel.items() if n != ns}
    return None
