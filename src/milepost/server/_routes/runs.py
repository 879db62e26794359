"""Runs that the page starts: a new input, an answer, a replay, a fork."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

import msgspec
from starlette.concurrency import run_in_threadpool

from milepost.inspect.parts import records_of, refusing
from milepost.server._assistants import default_id
from milepost.server._errors import refused
from milepost.server._records import Checkpoint
from milepost.server._routes.state import Edit, refusals
from milepost.server._routing import Call, Empty, Routes
from milepost.server._runs import run_events
from milepost.server._sse import EventStream
from milepost.server._states import config_of

routes = Routes("milepost: runs")


class RunCreate(msgspec.Struct, kw_only=True):
    """What to run: an input, answers to open questions, or nothing to go on from here.

    `resume` is one answer, or answers by the ids of their questions.
    """

    graph_id: str
    input: Any = None
    resume: Any = msgspec.UNSET
    checkpoint_id: str | None = None
    checkpoint_ns: str = ""
    update: Edit | None = None
    context: dict[str, Any] | None = None
    on_disconnect: Literal["continue", "cancel"] = "continue"


@routes.route("POST", "/milepost/threads/{thread_id}/run", writes=True)
async def run(call: Call[RunCreate, Empty]) -> EventStream:
    """Run a graph in a thread and watch it: `values`, `updates`, `messages`, `checkpoint`, `end`.

    A thread that is not there is made. `interrupted` says what the run waits for, `error` why it
    failed.
    """
    body, server, thread_id = call.body, call.server, call.thread_id
    if body.resume is not msgspec.UNSET and body.input is not None:
        raise refused("Send an input or an answer, not both.")
    graph = server.graph(body.graph_id)
    server.runs.claim(thread_id)
    server.streams.check()
    config = await run_in_threadpool(_prepare, call, graph)
    options = refusing(graph)
    if body.context is not None:
        options["context"] = body.context
    given = body.input
    if body.resume is not msgspec.UNSET:
        given = import_module(records_of(graph)).Command(resume=body.resume)
    events = run_events(server.database, graph, given, config, server.limits.value, options)
    cancel = body.on_disconnect == "cancel"
    server.streams.check()  # before the run begins, which a refusal would not end
    return server.streams.response(server.runs.start(thread_id, events, cancel=cancel))


def _prepare(call: Call[RunCreate, Empty], graph: Any) -> dict[str, Any]:
    """Where the run begins. The thread exists afterwards, and its metadata names the graph."""
    body, server, thread_id = call.body, call.server, call.thread_id
    row = server.find_thread(thread_id)
    if row is not None:
        server.check_free(row, graph)
    place = Checkpoint(checkpoint_ns=body.checkpoint_ns, checkpoint_id=body.checkpoint_id)
    config = config_of(thread_id, place)
    if body.checkpoint_id is not None:
        graph.get_state(config)  # raises for one that is not there
    metadata = {"graph_id": body.graph_id, "assistant_id": default_id(body.graph_id)}
    server.threads.create(thread_id, metadata)
    if body.update is not None:
        with refusals():
            edit = body.update
            made = graph.update_state(config, edit.values, as_node=edit.as_node, **refusing(graph))
        config = {"configurable": dict(made["configurable"])}
    return config


class Cancelled(msgspec.Struct):
    """Whether there was a run."""

    cancelled: bool


@routes.route("POST", "/milepost/threads/{thread_id}/cancel", writes=True)
async def cancel(call: Call[Empty, Empty]) -> Cancelled:
    """End the run that this server has started in a thread. What it has saved stays."""
    return Cancelled(await call.server.runs.cancel(call.thread_id))
