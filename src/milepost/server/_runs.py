"""Runs that the page starts, and their events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from starlette.concurrency import run_in_threadpool

from milepost.inspect import as_data
from milepost.inspect.parts import settle
from milepost.server._errors import HttpError
from milepost.server._sse import Event, end_task

if TYPE_CHECKING:
    from milepost.inspect import Database

_THREAD: Final = ("thread_id", "checkpoint_ns")
_LAST: Final = ("end", "error")
"""The events that end a stream."""
_ENDED: Final = Event("", None)
_WAITING: Final = 1_000
"""Events that may wait for a client; a run does not wait for a client that is slower."""


class Runs:
    """The runs of this process, one for each thread."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def claim(self, thread_id: str) -> None:
        """Raise a 409 if a run of this process is on the thread."""
        if thread_id in self._tasks:
            raise HttpError(409, f"A run is going on in thread '{thread_id}'.")

    def start(
        self, thread_id: str, events: AsyncGenerator[Event], *, cancel: bool
    ) -> AsyncGenerator[Event]:
        """Run to the end, whether or not there is a client; with `cancel`, only while there is."""
        self.claim(thread_id)
        waiting: asyncio.Queue[Event] = asyncio.Queue(_WAITING)

        def put(event: Event) -> None:
            if waiting.full():
                waiting.get_nowait()
            waiting.put_nowait(event)

        async def pump() -> None:
            last: list[Event] = []
            try:
                async for event in events:
                    if event.name in _LAST:
                        last.append(event)
                    else:
                        put(event)
            finally:
                # A client that hears of the end may start the next run.
                self._tasks.pop(thread_id, None)
                for event in (*last, _ENDED):
                    put(event)

        task = asyncio.ensure_future(pump())
        self._tasks[thread_id] = task
        return _received(waiting, task, cancel)

    async def cancel(self, thread_id: str) -> bool:
        """End the run of a thread; whether there was one."""
        task = self._tasks.get(thread_id)
        if task is None:
            return False
        await end_task(task)
        return True

    async def aclose(self) -> None:
        """End all of them."""
        for task in list(self._tasks.values()):
            await end_task(task)


async def _received(
    waiting: asyncio.Queue[Event], task: asyncio.Task[None], cancel: bool
) -> AsyncGenerator[Event]:
    try:
        while (event := await waiting.get()) is not _ENDED:
            yield event
    finally:
        if cancel:
            await end_task(task)


async def run_events(
    database: Database,
    graph: Any,
    input: Any,
    config: Mapping[str, Any],
    limit: int,
    options: Mapping[str, Any],
) -> AsyncGenerator[Event]:
    """The events of a run: `values`, `updates`, `messages`, `checkpoint`, and how it ended.

    Events of inner graphs have their namespace in the name: `updates|outer|inner`. The last event
    comes after the registry says how the run has ended.
    """
    try:
        stream = graph.astream(input, config, stream_mode=list(_SHOWN), subgraphs=True, **options)
        async for namespace, mode, payload in stream:
            name = "checkpoint" if mode == "checkpoints" else mode
            shown = _SHOWN[mode](payload, limit=limit)
            yield Event("|".join((name, *namespace)), shown)
        # Where the run has come to, which is not where it began if that was an older checkpoint.
        thread = {key: value for key, value in config["configurable"].items() if key in _THREAD}
        state = await graph.aget_state({"configurable": thread})
        if state.next:
            asked = [{"id": one.id, "value": as_data(one.value)} for one in state.interrupts]
            yield Event("interrupted", {"next": list(state.next), "interrupts": asked})
        place = state.config["configurable"]
        last = Event("end", {"checkpoint_id": place.get("checkpoint_id")})
    except Exception as error:
        last = Event("error", {"error": type(error).__name__, "message": str(error)})
    finally:
        await run_in_threadpool(settle, database, graph, config["configurable"]["thread_id"])
    yield last


def _message(payload: Any, *, limit: int) -> Any:
    """A message or a part of one, with where it comes from."""
    chunk, metadata = payload
    kept = ("langgraph_node", "langgraph_step", "langgraph_checkpoint_ns", "tags")
    shown = as_data(chunk, limit=limit)
    if isinstance(shown, dict) and isinstance(kind := shown.get("type"), str):
        # The role, as in a complete message.
        shown["type"] = kind.removesuffix("MessageChunk").lower()
    return [shown, {key: as_data(metadata[key]) for key in kept if key in metadata}]


def _checkpoint(payload: Any, *, limit: int) -> Any:
    """A checkpoint as the log has it, as far as a run knows."""
    place = (payload["config"] or {}).get("configurable", {})
    before = (payload["parent_config"] or {}).get("configurable", {})
    tasks = [
        {
            "id": task["id"],
            "name": task["name"],
            "error": task.get("error"),
            "interrupts": as_data(list(task.get("interrupts") or ()), limit=limit),
        }
        for task in payload["tasks"]
    ]
    return {
        "checkpoint_id": place.get("checkpoint_id"),
        "parent_id": before.get("checkpoint_id"),
        "namespace": place.get("checkpoint_ns", ""),
        "step": payload["metadata"].get("step"),
        "source": payload["metadata"].get("source"),
        "next": list(payload["next"]),
        "tasks": tasks,
    }


_SHOWN: Final[Mapping[str, Callable[..., Any]]] = {
    "values": as_data,
    "updates": as_data,
    "messages": _message,
    "checkpoints": _checkpoint,
}
"""Stream modes of a run → what the page is shown of them."""
