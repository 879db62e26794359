"""States of threads: read, listed, changed from outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from starlette.responses import Response

from milepost.checkpoint._contract.records import Place
from milepost.inspect.parts import refusing
from milepost.server._errors import as_http_error, refused
from milepost.server._records import Checkpoint, Limit, ThreadState
from milepost.server._routing import Call, Empty, Routes, list_response
from milepost.server._states import (
    check_selection,
    checkpoint_of,
    config_of,
    from_snapshot,
    read_state,
    selected,
    stored_history,
)

routes = Routes("Thread state")


class StateQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a state is wanted."""

    subgraphs: bool = False
    select: list[str] | None = None


class StateAt(StateQuery, frozen=True, kw_only=True):
    """Which state is wanted, and how much of it."""

    checkpoint: Checkpoint


def _state(call: Call[Any, Any], at: Checkpoint, wanted: StateQuery) -> Any:
    check_selection(wanted.select)
    row = call.server.thread(call.thread_id)
    return selected(read_state(call.server, row, at, subgraphs=wanted.subgraphs), wanted.select)


@routes.get("/threads/{thread_id}/state", answer=ThreadState, is_partial=True)
def get_state(call: Call[Empty, StateQuery]) -> Any:
    """The latest state of a thread."""
    return _state(call, Checkpoint(), call.query)


@routes.route("POST", "/threads/{thread_id}/state/checkpoint", answer=ThreadState, is_partial=True)
def get_state_at(call: Call[StateAt, Empty]) -> Any:
    """The state at a checkpoint."""
    return _state(call, call.body.checkpoint, call.body)


@routes.get("/threads/{thread_id}/state/{checkpoint_id}", answer=ThreadState, is_partial=True)
def get_state_by_id(call: Call[Empty, StateQuery]) -> Any:
    """The state at a checkpoint, by its id."""
    return _state(call, Checkpoint(checkpoint_id=call.path["checkpoint_id"]), call.query)


class Edit(msgspec.Struct, kw_only=True):
    """What to write before the run, as if a node had."""

    values: dict[str, Any] | list[Any] | None = None
    as_node: str | None = None


class StateUpdate(Edit, kw_only=True):
    """Values to write to a thread as a node. At an older checkpoint the update forks."""

    checkpoint: Checkpoint | None = None
    checkpoint_id: str | None = None


class Updated(msgspec.Struct):
    """The checkpoint that the update has made."""

    checkpoint: Checkpoint


@routes.route("POST", "/threads/{thread_id}/state", writes=True)
def update_state(call: Call[StateUpdate, Empty]) -> Updated:
    """Write to a thread as if a node had returned the values."""
    body, server = call.body, call.server
    row = server.thread(call.thread_id)
    graph = server.needed_graph(row.thread_id, row.metadata)
    server.check_free(row, graph)
    place = body.checkpoint or Checkpoint(checkpoint_id=body.checkpoint_id)
    config = config_of(row.thread_id, place)
    with refusals():
        made = graph.update_state(config, body.values, as_node=body.as_node, **refusing(graph))
    return Updated(checkpoint_of(made) or Checkpoint())


@contextmanager
def refusals() -> Iterator[None]:
    """Turn errors of the user's reducers into a refusal of the values that a client sent."""
    try:
        yield
    except Exception as error:
        if as_http_error(error) is not None:
            raise
        reason = f"{type(error).__name__}: {error}"
        raise refused(f"The graph refuses the values: {reason}") from error


class HistoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How many states, and those before which checkpoint."""

    limit: Limit = 10
    before: str | None = None


class HistorySearch(msgspec.Struct, kw_only=True):
    """Which states."""

    limit: Limit = 10
    before: str | Checkpoint | None = None
    metadata: dict[str, Any] | None = None
    checkpoint: Checkpoint | None = None
    select: list[str] | None = None


@routes.get("/threads/{thread_id}/history", answer=list[ThreadState])
def get_history(call: Call[Empty, HistoryQuery]) -> Response:
    """The states of a thread, newest first."""
    return _history(call, HistorySearch(limit=call.query.limit, before=call.query.before))


@routes.route("POST", "/threads/{thread_id}/history", answer=list[ThreadState], is_partial=True)
def search_history(call: Call[HistorySearch, Empty]) -> Response:
    """The states of a thread or of a graph inside of it, newest first."""
    return _history(call, call.body)


def _history(call: Call[Any, Any], wanted: HistorySearch) -> Response:
    check_selection(wanted.select)
    server = call.server
    row = server.thread(call.thread_id)
    where = Place(row.thread_id, (wanted.checkpoint or Checkpoint()).checkpoint_ns, None)
    before = wanted.before
    before_id = before.checkpoint_id if isinstance(before, Checkpoint) else before
    end = where._replace(checkpoint_id=before_id).config() if before_id else None
    page: Any = {"filter": wanted.metadata or None, "before": end, "limit": wanted.limit}
    graph = server.graph_of_thread(row.metadata)
    if graph is not None:
        snapshots = graph.get_state_history(where.config(), **page)
    else:
        snapshots = stored_history(server.database, row, where, **page)
    shown = (selected(from_snapshot(snapshot), wanted.select) for snapshot in snapshots)
    return list_response(shown, server.limits.answer)
