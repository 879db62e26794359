"""Threads as the page shows them: the log, states in parts, differences, authorship, live."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from starlette.concurrency import run_in_threadpool

from milepost import inspect
from milepost.checkpoint._contract.records import place_of
from milepost.inspect import Blame, Change, Database, LogEntry, Path, Ref, ThreadRow, ThreadView
from milepost.inspect.parts import Follower, limited, load, parent_of, resolve, state_of
from milepost.server._errors import HttpError, refused
from milepost.server._records import Length, Limit, Offset
from milepost.server._routing import Call, Empty, Routes
from milepost.server._sse import Event, EventStream

if TYPE_CHECKING:
    from milepost.server._server import Server

routes = Routes("milepost")


_MOST: Final = 1000
"""Checkpoints that one look may find; a client that has missed more reads the log."""


class ThreadsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which threads, in what order. `metadata` is a JSON object."""

    search: str | None = None
    status: Literal["idle", "interrupted", "error", "running", "stale"] | None = None
    metadata: str | None = None
    unfinished: bool = False
    sort: Literal["updated_at", "created_at", "thread_id"] = "updated_at"
    order: Literal["asc", "desc"] | None = None
    limit: Limit = 100
    offset: Offset = 0


class Threads(msgspec.Struct):
    """A part of the threads, and how many there are."""

    threads: list[ThreadRow]
    total: int


@routes.get("/milepost/threads")
def threads(call: Call[Empty, ThreadsQuery]) -> Threads:
    """Threads, those that were used last at first."""
    query = call.query
    metadata = _json("metadata", query.metadata, {})
    if not isinstance(metadata, dict):
        raise refused("metadata must be a JSON object.")
    page = inspect.threads(
        call.server.database,
        metadata=metadata,
        status=query.status,
        unfinished=query.unfinished,
        search=query.search,
        sort=query.sort,
        descending=None if query.order is None else query.order == "desc",
        limit=query.limit,
        offset=query.offset,
    )
    return Threads(list(page.items), page.total)


@routes.get("/milepost/threads/{thread_id}")
def thread(call: Call[Empty, Empty]) -> ThreadRow:
    """One thread, with the number of its checkpoints and its size."""
    return inspect.thread(call.server.database, call.thread_id)


class LogQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which checkpoints: those before `before`, newest first."""

    checkpoint_ns: str = ""
    limit: Limit = 200
    before: str | None = None


class Log(msgspec.Struct):
    """A part of the log, and whether there is more."""

    entries: list[LogEntry]
    more: bool


@routes.get("/milepost/threads/{thread_id}/log")
def log(call: Call[Empty, LogQuery]) -> Log:
    """The checkpoints of a thread, newest first, with what made them and what follows."""
    query = call.query
    found = inspect.log(
        call.server.database,
        call.thread_id,
        namespace=query.checkpoint_ns,
        limit=query.limit + 1,
        before=query.before,
    )
    entries = list(islice(found, query.limit + 1))
    return Log(entries[: query.limit], len(entries) > query.limit)


class Namespaces(msgspec.Struct):
    """The graphs of a thread: "" is the outermost."""

    namespaces: list[str]


@routes.get("/milepost/threads/{thread_id}/namespaces")
def namespaces(call: Call[Empty, Empty]) -> Namespaces:
    """The graphs of a thread that have checkpoints."""
    return Namespaces(list(inspect.namespaces(call.server.database, call.thread_id)))


class ChangesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which state, and how much of each value."""

    checkpoint_id: str | None = None
    checkpoint_ns: str = ""
    limit: Length | None = None


class StateQuery(ChangesQuery, frozen=True, kw_only=True):
    """Which state, which part of it, and how much of that."""

    path: str | None = None


@routes.get("/milepost/threads/{thread_id}/state")
def state(call: Call[Empty, StateQuery]) -> ThreadView:
    """The state at a checkpoint. Large parts are left out, with the paths to ask for them."""
    path = _path(call.query.path)
    return inspect.show(call.server.database, _ref(call), path=path, limit=_limit(call))


class Changes(msgspec.Struct):
    """Differences, by path."""

    changes: list[Change]


@routes.get("/milepost/threads/{thread_id}/changes")
def changes(call: Call[Empty, ChangesQuery]) -> Changes:
    """What a step has changed: a state against its parent's."""
    changed = step_changes(call.server.database, _ref(call))
    return Changes(bounded_changes(changed, _limit(call)))


class DiffQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Two states: THREAD, THREAD@CHECKPOINT, THREAD@TAG, THREAD@~3, THREAD/NAMESPACE@…"""

    a: str
    b: str
    limit: Length | None = None


@routes.get("/milepost/diff")
def diff(call: Call[Empty, DiffQuery]) -> Changes:
    """What leads from one state to another, of the same thread or of two."""
    a, b = Ref.parse(call.query.a), Ref.parse(call.query.b)
    return Changes(bounded_changes(inspect.diff(call.server.database, a, b), _limit(call)))


class BlameQuery(ChangesQuery, frozen=True, kw_only=True):
    """Which value, in which state."""

    path: str


class Blames(msgspec.Struct):
    """Who wrote the parts of a value."""

    parts: list[Blame]


@routes.get("/milepost/threads/{thread_id}/blame")
def blame(call: Call[Empty, BlameQuery]) -> Blames:
    """Which step, node and run wrote each part of a value."""
    path = _path(call.query.path)
    if not path:
        raise refused('path begins with a key of the state: ["messages", 0].')
    parts = inspect.blame(call.server.database, _ref(call), path)
    limit = _limit(call)
    return Blames([replace(one, value=_bounded(one.value, one.path, limit)) for one in parts])


class LiveQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What the client knows: events after this checkpoint are sent."""

    checkpoint_ns: str = ""
    after: str | None = None


@routes.get("/milepost/threads/{thread_id}/live")
async def live(call: Call[Empty, LiveQuery]) -> EventStream:
    """Follow a thread: `checkpoint`, `thread` and `deleted` events."""
    server = call.server
    await run_in_threadpool(server.thread, call.thread_id)
    after = call.request.headers.get("last-event-id") or call.query.after
    return server.streams.response(follow(server, call.thread_id, call.query.checkpoint_ns, after))


def _ref(call: Call[Empty, Any]) -> Ref:
    return Ref(call.thread_id, call.query.checkpoint_ns, call.query.checkpoint_id)


def _limit(call: Call[Any, Any]) -> int:
    limit: int | None = call.query.limit
    return call.server.limits.value if limit is None else limit


def _json(name: str, text: str | None, absent: Any) -> Any:
    if text is None:
        return absent
    try:
        return msgspec.json.decode(text.encode(errors="replace"))
    except (msgspec.DecodeError, RecursionError):
        raise refused(f"{name} must be JSON.") from None


def _path(text: str | None) -> tuple[str | int, ...]:
    path = _json("path", text, [])
    if not isinstance(path, list) or any(
        isinstance(step, bool) or not isinstance(step, (str, int)) for step in path
    ):
        raise refused('path must be a JSON list of keys and positions: ["messages", 0].')
    return tuple(path)


# -- differences and authorship: values that are too large are left out


def step_changes(database: Database, ref: Ref) -> list[Change]:
    """What a step has changed: a state against its parent's, or against nothing."""
    saved = resolve(database, ref)
    parent_id = parent_of(saved)
    before = place_of(saved.config)._replace(checkpoint_id=parent_id)
    parent = None if parent_id is None else load(database, before)
    if parent is None:
        return inspect.compare({}, state_of(database, saved))
    return inspect.changes(database, parent, saved)


def bounded_changes(changes: Sequence[Change], limit: int) -> list[Change]:
    """Changes whose values are bounded; of long texts the lines stay, if they are not longer."""
    return [
        replace(
            change,
            before=_bounded(change.before, change.path, limit),
            after=_bounded(change.after, change.path, limit),
            lines=change.lines if sum(map(len, change.lines or ())) <= limit else None,
        )
        for change in changes
    ]


def _bounded(data: Any, path: Path, limit: int) -> Any:
    return limited(data, limit, path or ("",))[0]


# -- a thread that is followed: another process may run it, so the database is polled


async def follow(
    server: Server, thread_id: str, namespace: str, after: str | None
) -> AsyncGenerator[Event]:
    """Events of a thread.

    `thread` when its row is another, `checkpoint` for each entry of its log after `after` (without
    it: after the present one), and again for the newest when more is known of its tasks; `deleted`
    at the end if the thread is removed.
    """
    row: ThreadRow | None = None
    follower = Follower(server.database, thread_id, namespace=namespace, after=after, most=_MOST)
    while True:
        try:
            found = await run_in_threadpool(server.thread, thread_id)
            entries = await run_in_threadpool(follower.look)
        except (inspect.ThreadNotFoundError, HttpError):
            yield Event("deleted", {"thread_id": thread_id})
            return
        if found != row:
            row = found
            yield Event("thread", row)
        for entry in entries:
            yield Event("checkpoint", entry, entry.checkpoint_id)
        await asyncio.sleep(server.limits.poll)
