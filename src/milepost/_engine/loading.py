"""Finds a run's position in its thread, and loads the checkpoint there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from milepost._engine.checkpoint_writer import metadata_in_configurable
from milepost._engine.delta_snapshots import rebuild_deltas
from milepost._engine.drivers.effects import (
    EffectGenerator,
    Flush,
    HoldThread,
    KeepClaim,
    ListCheckpoints,
    LoadCheckpoint,
    LoadHead,
    NextCheckpoint,
    ReleaseThread,
)
from milepost._engine.missing_nodes import missing_nodes
from milepost._engine.position import LINEAGE, Position, remembered, without_ids
from milepost._engine.superstep.apply import apply_writes
from milepost._engine.superstep.pending_writes import null_writes
from milepost._engine.superstep.program import ExternalWriter, Write
from milepost._engine.superstep.renames import as_renamed
from milepost._engine.thread_writer import ThreadWriter, WatchedThreadWriter
from milepost._internal import log
from milepost.checkpoint._contract.names import LONGEST
from milepost.checkpoint._contract.records import CheckpointTuple, Place, place_of
from milepost.checkpoint._contract.step_saver import Fence, StepSaver, step_saver
from milepost.checkpoint._contract.thread_metadata import metadata_text
from milepost.checkpoint._contract.threads import checkpoint_gone
from milepost.constants import INPUT, NS_SEP, PREVIOUS
from milepost.errors import (
    CheckpointError,
    CheckpointNotFoundError,
    InvalidIdError,
    MissingThreadError,
    OutsideRunError,
    ThreadConflict,
)

if TYPE_CHECKING:
    from milepost._engine.checkpoint_writer import CheckpointWriter
    from milepost._engine.context.config import RunSettings
    from milepost._engine.superstep.program import ExecutableGraph
    from milepost.checkpoint.base import BaseCheckpointSaver
    from milepost.types import RunnableConfig

    Saver = BaseCheckpointSaver[Any]


# -- the saver and the namespace


def no_parent() -> OutsideRunError:
    """A graph with `checkpointer=True` is used without a graph around it."""
    return OutsideRunError(
        "checkpointer=True means the parent's checkpointer, but this graph was called on "
        "its own. Compile it with a saver to run it by itself."
    )


def find_saver(
    settings: RunSettings, position: Position, checkpoints: CheckpointWriter
) -> Saver | None:
    """The saver of a run; None if the run is not saved.

    Sets the namespace of an inner graph, and joins the thread writer of the enclosing run:

        checkpointer  enclosing run                 result
        False         any                           not saved
        any other     saved                         joins the thread of that run
        any other     not saved                     not saved
        a saver       any, and names a thread       a run of its own, unless this is its thread
        a saver       there is none                 its own saver

    A thread is in one saver, with all graphs that run in it: what is left of a question in an inner
    graph must not be in another place than what is left of the nodes around it.
    """
    chosen, parent = settings.checkpointer, position.parent
    own: Saver | None = None if chosen is None or isinstance(chosen, bool) else chosen
    checkpoints.is_never_saved = chosen is False
    if parent is None:
        if chosen is True:
            raise no_parent()
        return own
    above = parent.run.checkpoints.thread
    thread_id = (settings.config.get("configurable") or {}).get("thread_id")
    if own is not None:
        if thread_id is None and above is None:
            checkpoints.program.strictness.check(
                "no thread", lambda: _no_thread(checkpoints.program.name), "It runs unsaved."
            )
        elif settings.own_thread and (above is None or str(thread_id) != above.thread_id):
            position.parent = None  # with its own saver and thread, it is a run of its own
            return own
    position.ns = parent.child_ns()
    if chosen is False or above is None:
        position.thread_id = parent.run.position.thread_id
        return None
    checkpoints.join(above, owned=False)
    around = parent.run.position
    position.parents = {**around.parents, around.ns: around.checkpoint_id}
    if chosen is True:
        position.ns = without_ids(position.ns)
    _check_depth(above.saver, position.ns, parent.run.depth + 1, checkpoints.program.name)
    return above.saver


def _no_thread(graph: str) -> MissingThreadError:
    return MissingThreadError(
        f"Graph '{graph}' has a saver of its own, and was called by a graph without one and "
        "without a thread: pass a thread_id, or give the saver to the outer graph."
    )


def _check_depth(saver: Saver, ns: str, depth: int, graph: str) -> None:
    if len(ns) > LONGEST and isinstance(saver, StepSaver):
        raise InvalidIdError(
            f"Graph '{graph}' is nested {depth} graphs deep, in the namespace '{without_ids(ns)}', "
            f"which has {len(ns)} characters with the ids of its tasks; at most {LONGEST} can be "
            "stored, about 24 graphs. Nest fewer, give nodes shorter names, or compile inner "
            "graphs with checkpointer=False."
        )


# -- loading


def load_checkpoint(
    saver: Saver,
    settings: RunSettings,
    position: Position,
    checkpoints: CheckpointWriter,
    *,
    in_place: bool = False,
) -> EffectGenerator[tuple[CheckpointTuple | None, bool]]:
    """The checkpoint to start from, and whether the caller named it.

    `in_place`: start at the checkpoint of the config, even if it is of an inner graph.
    """
    if checkpoints.thread is not None:
        checkpoints.drop_unstorable_metadata(saver)
        position.thread_id = checkpoints.thread.thread_id
        inner = yield from _load_inner(saver, position, checkpoints.thread)
        return checkpoints.program.renames.apply(inner), False
    place = place_of(settings.config)
    position.thread_id = place.thread_id
    fence = yield from _claim(saver, settings, place.thread_id, checkpoints.enclosing_writer)
    # After `_claim`, which raises for metadata of the thread that cannot be stored.
    checkpoints.drop_unstorable_metadata(saver)
    make = WatchedThreadWriter if checkpoints.events.observers else ThreadWriter
    thread = make(saver, place.thread_id, settings.durability or "async", fence)
    checkpoints.join(thread, owned=True)
    if in_place:
        position.ns = place.checkpoint_ns
    else:
        place = yield from _root_place(saver, settings, position, place)
    saved = yield from LoadCheckpoint(saver, place.config())
    saved = checkpoints.program.renames.apply(saved)
    explicit = place.checkpoint_id is not None
    if explicit and saved is None:
        raise no_such_checkpoint(place)
    if checkpoints.enclosing_writer is None:
        loaded = head = saved.checkpoint["id"] if saved else None
        if explicit or place.checkpoint_ns:
            head = yield from _head(saver, place.thread_id)
        fence.head, fence.forced = head, explicit and loaded != head
    return saved, explicit


def no_such_checkpoint(place: Place) -> CheckpointNotFoundError:
    """The error for a checkpoint id that a thread does not have."""
    return CheckpointNotFoundError(
        f"Thread '{place.thread_id}' has no checkpoint '{place.checkpoint_id}'. "
        "get_state_history(config) lists those that it has; without a checkpoint_id the latest "
        "is taken."
    )


def _claim(
    saver: Saver, settings: RunSettings, thread_id: str, enclosing: ThreadWriter | None
) -> EffectGenerator[Fence]:
    """The fence of a run; under `on_conflict="reject"`, the thread is claimed with it.

    An update inside a run shares the fence of that run, once the steps of the run are stored.
    """
    if enclosing is not None:
        if enclosing.deferred:
            yield Flush(enclosing, last=False)
        return enclosing.fence
    fence = Fence(None, thread_metadata=thread_metadata_in(saver, thread_id, settings.config))
    if settings.on_conflict == "reject":
        native = step_saver(saver)
        if native is None:
            raise CheckpointError(
                f"on_conflict='reject' needs a saver that knows which run owns a thread. "
                f"{type(saver).__name__} has only the methods of BaseCheckpointSaver. Use one "
                "of milepost's savers, or leave on_conflict out."
            )
        yield from _hold(native, thread_id, fence)
        if not native.instant:
            yield KeepClaim(native, thread_id, fence)
    return fence


def _hold(saver: StepSaver[Any], thread_id: str, fence: Fence) -> EffectGenerator[None]:
    try:
        yield HoldThread(saver, thread_id, fence)
    except ThreadConflict:
        log.info(log.THREADS, "Thread '%s': a run was refused; another has it.", thread_id)
        raise
    except GeneratorExit:
        raise  # the generator was dropped: no driver is left to carry out effects
    except BaseException:
        if fence.before is not None:  # cancelled, and the claim is stored
            fence.ended = True
            yield ReleaseThread(saver, thread_id, fence, fence.before)
        raise
    if fence.overtakes:
        taken = "Thread '%s': a run has taken it over from one whose lease is over."
        log.info(log.THREADS, taken, thread_id)
        fence.overtakes = False


def thread_metadata_in(saver: Saver, thread_id: str, config: RunnableConfig) -> dict[str, Any]:
    """The thread metadata in a run's config: what the checkpoints of the run have of these keys.

    Raises TypeError or ValueError for values that the registry cannot hold, before any node runs.
    """
    keys = saver.thread_metadata if isinstance(saver, StepSaver) else ()
    if not keys:
        return {}
    given = {**metadata_in_configurable(config), **(config.get("metadata") or {})}
    found = {key: given[key] for key in keys if key in given}
    if found:
        metadata_text(thread_id, found)
    return found


def _root_place(
    saver: Saver, settings: RunSettings, position: Position, place: Place
) -> EffectGenerator[Place]:
    """Where the root graph starts if the config names a checkpoint of an inner graph."""
    ns, checkpoint_id = place.checkpoint_ns, place.checkpoint_id
    if ns == "":
        return place
    if checkpoint_id is None:
        return Place(place.thread_id, "", None)
    configurable = settings.config.get("configurable") or {}
    around: Mapping[str, str] | None = configurable.get("checkpoint_map")
    if around is None:
        inner = yield from LoadCheckpoint(saver, place.config())
        around = inner.metadata.get("parents") if inner is not None else None
    travel = {**(around or {}), ns: checkpoint_id}
    root = travel.pop("", None)
    if root is None:
        raise CheckpointNotFoundError(
            f"Thread '{place.thread_id}' has no checkpoint '{checkpoint_id}' in the inner "
            f"graph '{ns}'. get_state_history lists those that it has."
        )
    position.inner_starts = travel
    return Place(place.thread_id, "", root)


def _head(saver: Saver, thread_id: str) -> EffectGenerator[str | None]:
    """The id of a thread's latest checkpoint."""
    if isinstance(saver, StepSaver):
        return (yield from LoadHead(saver, thread_id))
    latest = yield from LoadCheckpoint(saver, Place(thread_id, "", None).config())
    return latest.checkpoint["id"] if latest else None


# -- graphs inside a run


def _load_inner(
    saver: Saver, position: Position, thread: ThreadWriter
) -> EffectGenerator[CheckpointTuple | None]:
    """The checkpoint of an inner graph: of an earlier attempt, or of its own memory."""
    parent, ns = position.parent, position.ns
    assert parent is not None
    starts = parent.run.position.inner_starts
    is_repeated = parent.run.is_retry or parent.attempt > 1
    if position.is_transient and not is_repeated and not starts:
        return None  # the task is new, and so is everything inside it
    if thread.deferred:
        yield Flush(thread, last=False)

    def load(ns: str, id: str | None = None) -> LoadCheckpoint:
        return LoadCheckpoint(saver, Place(thread.thread_id, ns, id).config())

    if (old_ns := _same_graph(starts, position)) is not None:
        position.inner_starts = {n: id for n, id in starts.items() if n != old_ns}
        found = yield from load(old_ns, starts[old_ns])
        if found is not None:
            position.loaded_ns = old_ns
            return found
    latest = yield from load(ns)
    if latest is None or is_of_this_call(position, latest):
        return latest
    if is_repeated:
        mine = yield from _earlier_attempt(saver, position, thread.thread_id)
        if mine is not None:
            return mine
    memory = remembered(position)
    if memory is None:
        # The memory was made on another branch of history, after the branches split.
        return None
    if memory == latest.checkpoint["id"]:
        return latest
    past = yield from load(ns, memory)
    if past is None:
        raise checkpoint_gone(thread.thread_id, memory)
    return past


def _earlier_attempt(
    saver: Saver, position: Position, thread_id: str
) -> EffectGenerator[CheckpointTuple | None]:
    """The last checkpoint of this call, if other calls of the step used the memory since."""
    cursor = yield from ListCheckpoints(saver, Place(thread_id, position.ns, None).config())
    found = yield from NextCheckpoint(cursor)
    while found is not None and _is_of_this_step(position, found):
        if is_of_this_call(position, found):
            return found
        found = yield from NextCheckpoint(cursor)
    return None


def _is_of_this_step(position: Position, saved: CheckpointTuple) -> bool:
    assert position.parent is not None
    above = position.parent.run.position
    return saved.metadata.get("parents", {}).get(above.ns) == above.checkpoint_id


def is_of_this_call(position: Position, saved: CheckpointTuple) -> bool:
    """Whether an earlier attempt of the task around a graph has made a checkpoint of it."""
    if not _is_of_this_step(position, saved):
        return False
    assert position.parent is not None
    served = saved.checkpoint["versions_seen"].get(LINEAGE, {}).get(LINEAGE)
    # LangGraph does not store which call made a checkpoint.
    return position.is_transient or served is None or served == position.parent.task.id


def _same_graph(starts: Collection[str], position: Position) -> str | None:
    """The namespace among `starts` that is the position's but for task ids, which a fork changes,
    and for names that nodes had before."""
    if not starts or position.parent is None:
        return None
    run, task = position.parent.run, position.parent.task
    base = run.position.forked
    former = task.ns_before(base) + position.ns.removeprefix(task.ns)
    if former in starts:
        return former
    # The ids of renamed nodes differ, and so do LangGraph's. A namespace inside a task of this step
    # is that of another call: of a second Send to the same node, or of another task that it calls.
    here = tuple(other.ns_before(base) for other in run.tasks)
    starts = [old for old in starts if not old.startswith(here)]
    programs = [around.run.program for around in position.around()]
    programs.reverse()  # from the outermost in
    # The position's own namespace too: a Send keeps the name that it was stored with.
    ns = _under_present_names(position.ns, programs)
    return next((old for old in starts if _under_present_names(old, programs) == ns), None)


def _under_present_names(ns: str, programs: Sequence[ExecutableGraph]) -> str:
    """A namespace without task ids; `programs` have the nodes on its way."""
    around = iter(programs)
    parts = without_ids(ns).split(NS_SEP)
    for at, part in enumerate(parts):
        if not part.isdigit() and (program := next(around, None)) is not None:
            parts[at] = program.renames.node(part)
    return NS_SEP.join(parts)


# -- continuing from a checkpoint


def restore(
    saved: CheckpointTuple, position: Position, checkpoints: CheckpointWriter
) -> EffectGenerator[Any]:
    """Set position and checkpoint writer to a loaded checkpoint whose channels are open.

    Returns what the last run of an entrypoint returned.
    """
    checkpoint = saved.checkpoint
    position.present = position.stored_id = checkpoint["id"]
    position.previous_id = (
        place_of(saved.parent_config).checkpoint_id if saved.parent_config else None
    )
    position.step = saved.metadata.get("step", -1)
    checkpoints.metadata = saved.metadata
    checkpoints.pending = saved.pending_writes or ()
    thread = checkpoints.thread
    assert thread is not None
    if position.loaded_ns is None:
        thread.fence.load(position.ns, checkpoint["id"], checkpoints.pending)
    channels = checkpoints.channels
    yield from rebuild_deltas(thread.saver, checkpoints.program, channels, saved)
    previous = channels.live[PREVIOUS].get() if channels.available(PREVIOUS) else None
    for writes in null_writes(checkpoints.pending):
        apply_outside(checkpoints, writes)
    checkpoints.missing = missing_nodes(checkpoints.program, channels, saved)
    if (renamed := as_renamed(saved)) is not None:
        former = renamed.former_names
        channels.former_names = former
        channels.dirty |= former.keys() & checkpoints.program.channels.keys()
        channels.unsaved_seen |= renamed.changed_seen
        channels.drops_names = renamed.drops_names
        # The writes have the former names.
        checkpoints.deltas.not_in_writes.update(former, renamed.written_before())
    return previous


def apply_outside(checkpoints: CheckpointWriter, writes: Sequence[Write]) -> set[str]:
    """Apply writes of no task, between two steps; returns the channels that changed."""
    return apply_writes(
        checkpoints.program,
        checkpoints.channels,
        [ExternalWriter(INPUT, (), writes)],
        checkpoints.next_version,
        is_step=False,
    )
