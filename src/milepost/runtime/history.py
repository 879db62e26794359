"""Reading threads: `get_state` and `get_state_history`, as generators of effects."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from milepost.checkpoint.records import CheckpointTuple, place_of
from milepost.errors import BrokenChainError, CheckpointNotFoundError, SerdeError
from milepost.record import record
from milepost.runtime.effects import Ask, Effect, Flush, Listing, Next, RunProgram
from milepost.runtime.loading import rebuild_deltas
from milepost.runtime.plan import Task
from milepost.runtime.snapshot import (
    board_of,
    child_config,
    empty_snapshot,
    snapshot,
    snapshot_later,
    tasks_at,
    with_null_writes,
)
from milepost.types import RunnableConfig, StateSnapshot

if TYPE_CHECKING:
    from milepost.checkpoint.base import BaseCheckpointSaver
    from milepost.runtime.board import Board
    from milepost.runtime.program import Program
    from milepost.runtime.saving import Ledger


@record
class View:
    """A graph's way to look at a saver."""

    program: Program
    saver: BaseCheckpointSaver[Any]
    writing: Ledger | None
    """The run that the caller is part of, if it writes to this saver: it reads what it wrote."""
    inside: Callable[[str], View | None]
    """The view of the graph inside a node."""


def read_state(view: View, config: RunnableConfig, *, subgraphs: bool) -> RunProgram[StateSnapshot]:
    """The state at one checkpoint, or at the latest."""
    place = place_of(config)
    if view.writing is not None:
        yield Flush(view.writing, last=False)
    saved = yield Ask(view.saver, "get_tuple", (place.config(),))
    if saved is None:
        if place.checkpoint_id is not None:
            raise CheckpointNotFoundError(
                f"Thread '{place.thread_id}' has no checkpoint '{place.checkpoint_id}'. "
                "get_state_history(config) lists those that it has."
            )
        return empty_snapshot(config)
    return (
        yield from _show(view, saved, None, latest=place.checkpoint_id is None, subgraphs=subgraphs)
    )


def read_history(
    view: View,
    config: RunnableConfig,
    *,
    filter: dict[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
    emit: Callable[[StateSnapshot], None],
) -> Generator[Effect, Any, None]:
    """The states of a thread, newest first; `emit` takes each as it is read."""
    place = place_of(config)
    if view.writing is not None:
        yield Flush(view.writing, last=False)
    # One more: the next in the list is mostly the parent, whose tasks tell what made this one.
    more = None if limit is None else limit + 1
    cursor = yield Listing(
        view.saver, (place.config(),), {"filter": filter, "before": before, "limit": more}
    )
    saved = yield Next(cursor)
    given = 0
    while saved is not None and given != limit:
        following = yield Next(cursor)
        if view.program.delta:
            emit((yield from _show(view, saved, following, latest=False, subgraphs=False)))
        else:
            parent = yield from _parent(view, saved, following)
            emit(snapshot_later(view.program, saved, parent))
        given += 1
        saved = following


def _show(
    view: View,
    saved: CheckpointTuple,
    following: CheckpointTuple | None,
    *,
    latest: bool,
    subgraphs: bool,
) -> RunProgram[StateSnapshot]:
    board, tasks = yield from _open(view, saved)
    states: dict[str, RunnableConfig | StateSnapshot] = {}
    place = place_of(saved.config)
    for task in tasks:
        where = child_config(place.thread_id, task)
        if where is None:
            continue
        if not subgraphs:
            states[task.id] = where
        elif (inner := view.inside(task.name)) is not None:
            found = yield from read_state(inner, where, subgraphs=True)
            if found.metadata is not None:
                states[task.id] = found
    parent = yield from _parent(view, saved, following)
    return snapshot(view.program, board, saved, tasks, parent, latest=latest, states=states)


def _open(view: View, saved: CheckpointTuple) -> RunProgram[tuple[Board, list[Task]]]:
    board = board_of(view.program, saved)
    yield from rebuild_deltas(view.saver, view.program, board, saved)
    with_null_writes(board, saved, board.specs)
    return board, tasks_at(view.program, board, saved.checkpoint, saved)


def _parent(
    view: View, saved: CheckpointTuple, candidate: CheckpointTuple | None
) -> RunProgram[CheckpointTuple | None]:
    """The checkpoint before this one, where that tells what made this one."""
    try:
        before, source = saved.parent_config, saved.metadata.get("source")
    except (BrokenChainError, SerdeError):
        return None  # whoever looks at this one will be told
    if before is None or source not in ("loop", "update"):
        return None
    wanted = place_of(before)
    # Our own savers fetch it along.
    for parent in (candidate, getattr(saved, "parent", None)):
        if parent is not None and place_of(parent.config) == wanted:
            found: CheckpointTuple = parent
            return found
    # From a listing, it is read when it is looked at, and if it cannot be, others still can.
    cursor = yield Listing(view.saver, (before,), {"limit": 1})
    asked: CheckpointTuple | None = yield Next(cursor)
    return asked
