"""Threads: created, found, described, copied, pruned, removed."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from milepost.inspect import ThreadRow
from milepost.server._errors import HttpError, refused
from milepost.server._records import IfExists, Thread
from milepost.server._routes.state import refusals
from milepost.server._routing import Call, Empty, Routes, list_response
from milepost.server._search import (
    ThreadFilter,
    ThreadSearch,
    extract,
    find,
    parse_path,
    shown,
    ttl_of,
)
from milepost.server._states import selected
from milepost.types import Command, StateUpdate

if TYPE_CHECKING:
    from milepost.server._server import Server

routes = Routes("Threads")


class Update(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What one node wrote."""

    values: dict[str, Any] | list[Any] | None = None
    command: dict[str, Any] | None = None
    as_node: str | None = None


class Superstep(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What the nodes of one step wrote."""

    updates: list[Update]


class Ttl(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How long a thread lives after its last use, in minutes."""

    ttl: Annotated[float, Meta(gt=0, le=52_560_000)] | None = None
    strategy: Literal["delete", "keep_latest"] = "delete"


class ThreadPatch(msgspec.Struct, kw_only=True):
    """Metadata to add or replace, key by key."""

    metadata: dict[str, Any] | None = None
    ttl: Ttl | None = None


class ThreadCreate(ThreadPatch, kw_only=True):
    """A new thread; `supersteps` are written to it, one checkpoint each."""

    thread_id: str | None = None
    if_exists: IfExists = "raise"
    supersteps: list[Superstep] | None = None


@routes.route("POST", "/threads", writes=True)
def create(call: Call[ThreadCreate, Empty]) -> Thread:
    """Make a thread."""
    body, server = call.body, call.server
    minutes = _minutes(server, body.ttl)
    thread_id = body.thread_id or str(uuid.uuid4())
    metadata = body.metadata or {}
    if body.supersteps:
        graph = server.needed_graph(thread_id, metadata)
    with server.changing:
        if (row := server.find_thread(thread_id)) is not None:
            if body.if_exists == "do_nothing":
                return shown(server, row)
            raise HttpError(409, f"Thread '{thread_id}' exists already.")
        with refusals():
            server.threads.create(thread_id, metadata)
            if minutes is not None:
                server.threads.set_ttl(thread_id, minutes)
    if body.supersteps:
        steps = [[_state_update(one) for one in step.updates] for step in body.supersteps]
        try:
            with refusals():
                graph.bulk_update_state({"configurable": {"thread_id": thread_id}}, steps)
        except BaseException:
            server.threads.delete(thread_id)
            raise
    return shown(server, server.thread(thread_id))


def _state_update(update: Update) -> StateUpdate:
    if update.command is None:
        return StateUpdate(update.values, update.as_node)
    known = {"update", "resume", "goto"}
    if unknown := update.command.keys() - known:
        raise refused(f"A command has no '{sorted(unknown)[0]}': it has goto, resume and update.")
    given = {key: value for key, value in update.command.items() if value is not None}
    return StateUpdate(Command(**given), update.as_node)


def _minutes(server: Server, ttl: Ttl | None) -> float | None:
    """How long a thread lives after its last use; a refusal if the database cannot do that."""
    if ttl is None or ttl.ttl is None:
        return None
    if not hasattr(server.threads, "set_ttl"):
        raise refused(
            f"Threads in this database ({server.database.kind}) are kept until they are removed: "
            "leave `ttl` out. Redis lets single threads expire."
        )
    if ttl.strategy != "delete":
        raise refused("A thread that expires is removed as a whole: ttl.strategy is delete.")
    return ttl.ttl


@routes.route("POST", "/threads/search", answer=list[Thread], is_partial=True)
def search(call: Call[ThreadSearch, Empty]) -> Response:
    """Find threads."""
    body, server = call.body, call.server
    if len(body.extract or {}) > 10:
        raise refused("At most 10 paths can be extracted.")
    paths = {alias: parse_path(path) for alias, path in (body.extract or {}).items()}
    rows, total = find(server, body)
    needed = {*(body.select or ("values",)), *(path[0] for path in paths.values())}
    state = not needed.isdisjoint({"values", "interrupts"})
    fields = [*body.select, *(["extracted"] if paths else [])] if body.select else None

    def part(row: ThreadRow) -> Any:
        thread = shown(server, row, state=state)
        if paths:
            thread.extracted = {alias: extract(thread, path) for alias, path in paths.items()}
        return selected(thread, fields)

    return list_response(map(part, rows), server.limits.answer, total, body.offset)


@routes.route("POST", "/threads/count")
def count(call: Call[ThreadFilter, Empty]) -> int:
    """How many threads there are."""
    wanted = ThreadSearch(**msgspec.structs.asdict(call.body), limit=1)
    return find(call.server, wanted)[1]


class Prune(msgspec.Struct, kw_only=True):
    """Which threads to remove, or of which to keep the latest state alone."""

    thread_ids: Annotated[list[str], Meta(max_length=1000)]
    strategy: Literal["delete", "keep_latest"] = "delete"


class Pruned(msgspec.Struct):
    """How many threads there were."""

    pruned_count: int


@routes.route("POST", "/threads/prune", writes=True)
def prune(call: Call[Prune, Empty]) -> Pruned:
    """Remove threads, or their older checkpoints."""
    server = call.server
    there = [id for id in dict.fromkeys(call.body.thread_ids) if server.find_thread(id) is not None]
    server.threads.prune(there, strategy=call.body.strategy)
    return Pruned(len(there))


class ThreadQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What to include besides: `ttl`."""

    include: str | None = None


@routes.get("/threads/{thread_id}")
def get(call: Call[Empty, ThreadQuery]) -> Thread:
    """A thread with its latest values."""
    included = (call.query.include or "").split(",")
    for name in included:
        if name not in ("", "ttl"):
            raise refused(f"A thread cannot include '{name}'.")
    server = call.server
    row = server.thread(call.thread_id)
    found = shown(server, row)
    if "ttl" in included:
        found.ttl = ttl_of(server, row)
    return found


@routes.route("PATCH", "/threads/{thread_id}", writes=True, answer=Thread)
def update(call: Call[ThreadPatch, Empty]) -> Any:
    """Say more about a thread."""
    server = call.server
    minutes = _minutes(server, call.body.ttl)
    row = server.thread(call.thread_id)
    with refusals():
        server.threads.create(row.thread_id, call.body.metadata or {})
        if minutes is not None:
            server.threads.set_ttl(row.thread_id, minutes)
    if "return=minimal" in call.request.headers.get("prefer", ""):
        return Response(status_code=204)
    return shown(server, server.thread(call.thread_id))


@routes.route("DELETE", "/threads/{thread_id}", writes=True, status=204)
def delete(call: Call[Empty, Empty]) -> None:
    """Remove a thread with all that it holds."""
    call.server.threads.delete(call.server.thread(call.thread_id).thread_id)


@routes.route("POST", "/threads/{thread_id}/copy", writes=True)
def copy(call: Call[Empty, Empty]) -> Thread:
    """Copy a thread with its history."""
    server = call.server
    row = server.find_thread(call.thread_id)
    if row is None:
        raise HttpError(409, f"There is no thread '{call.thread_id}' to copy.")
    target = str(uuid.uuid4())
    server.threads.copy(row.thread_id, target)
    if "thread_id" in row.metadata:
        server.threads.create(target, {"thread_id": target})
    return shown(server, server.thread(target))
