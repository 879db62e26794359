"""The graph that workers run. Its state says the same thing in five ways, so that a wrong read shows.

Every task writes a token that is nowhere else into a list, a delta channel, a dict and a counter.
In every state that can be read, whole or not at all, the four agree, no token is there twice, and
the text is the one that its first line describes.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import operator
import random
import time
from typing import Annotated, Any

from typing_extensions import TypedDict

from attack.history import Recorder, digest
from milepost.channels import DeltaChannel
from milepost.graph import END, START, StateGraph
from milepost.runtime import Runtime
from milepost.types import Send, interrupt


def joined(old: list[str], writes: Any) -> list[str]:
    return [*old, *(token for write in writes for token in write)]


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    delta: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=7)]
    table: Annotated[dict[str, int], operator.or_]
    count: Annotated[int, operator.add]
    text: str
    inner: list[str]
    todo: dict[str, Any]
    """What the run is to do: `parts`, `ask`, `inner`, `size`, `slow`."""


class Part(TypedDict):
    part: int
    todo: dict[str, Any]


class Inner(TypedDict, total=False):
    inner: Annotated[list[str], operator.add]
    todo: dict[str, Any]


def marked(token: str, size: int = 0) -> dict[str, Any]:
    """An update that says a token in all ways."""
    update: dict[str, Any] = {"log": [token], "delta": [token], "table": {token: 1}, "count": 1}
    if size:
        update["text"] = text_of(token, size)
    return update


def text_of(token: str, size: int) -> str:
    """A text that cannot be confused with another one, nor with a part of itself."""
    noise = random.Random(token).randbytes(size // 2).hex()
    return f"{token} {hashlib.sha256(noise.encode()).hexdigest()}\n{noise}"


def torn(values: dict[str, Any]) -> str | None:
    """Why no run can have left these values; None if they agree."""
    log = values.get("log") or []
    if len(set(log)) != len(log):
        twice = sorted({token for token in log if log.count(token) > 1})
        return f"the log has {twice} more than once"
    if (values.get("delta") or []) != log:
        return f"the delta channel has {_short(values.get('delta'))}, the log {_short(log)}"
    if (values.get("count") or 0) != len(log):
        return f"the counter says {values.get('count')}, the log has {len(log)}"
    if set(values.get("table") or {}) != set(log):
        return f"the table has {_short(sorted(values.get('table') or {}))}, the log {_short(log)}"
    if text := values.get("text"):
        head, _, noise = text.partition("\n")
        if hashlib.sha256(noise.encode()).hexdigest() != head.split()[-1]:
            return f"the text of {head.split()[0]} has other bytes"
    return None


def _short(found: Any) -> str:
    found = found or []
    return f"{len(found)} tokens ending in {list(found)[-3:]}"


def told(values: dict[str, Any]) -> dict[str, Any]:
    """What a history records of a state."""
    parts = [values.get(key) or None for key in ("log", "delta", "table", "count", "inner")]
    head = (values.get("text") or "").partition("\n")[0]
    found = {"digest": digest([*parts, head]), "length": len(values.get("log") or [])}
    return found if (why := torn(values)) is None else {**found, "torn": why}


class Nodes:
    """The nodes of one colour. They note what they saw and what they wrote."""

    _numbers = itertools.count()

    def __init__(self, recorder: Recorder, is_async: bool) -> None:
        self._recorder = recorder
        self._is_async = is_async

    def _ran(self, name: str, state: Any, runtime: Any) -> str:
        info = runtime.execution_info
        token = f"{self._recorder.worker}-n{next(self._numbers)}"
        self._recorder.note(
            "node",
            node=name,
            token=token,
            task=info.task_id,
            checkpoint=info.checkpoint_id,
            thread=info.thread_id,
            run=info.run_id,
            key=info.idempotency_key,
            seen=told(state) if "log" in state else None,
        )
        return token

    def _update(self, name: str, state: Any, runtime: Any) -> dict[str, Any]:
        token = self._ran(name, state, runtime)
        todo = state.get("todo") or {}
        return marked(token, todo.get("size", 0) if name == "begin" else 0)

    def _asked(self, state: Any, runtime: Any) -> dict[str, Any]:
        if not (state.get("todo") or {}).get("ask"):
            return self._update("ask", state, runtime)
        answer = interrupt("go on?")
        self._recorder.note("answered", answer=str(answer), thread=runtime.execution_info.thread_id)
        return self._update("ask", state, runtime)

    def _inside(self, name: str, state: Any, runtime: Any) -> dict[str, Any]:
        token = self._ran(name, state, runtime)
        if name == "second" and (state.get("todo") or {}).get("inner") == "ask":
            interrupt("inside?")
        return {"inner": [token]}

    def make(self, function: Any, *first: str) -> Any:
        """A node that takes a moment, in the colour of these nodes."""
        if self._is_async:

            async def arun(state: Any, runtime: Runtime) -> Any:
                if wait := (state.get("todo") or {}).get("slow"):
                    await asyncio.sleep(wait)
                return function(*first, state, runtime)

            return arun

        def run(state: Any, runtime: Runtime) -> Any:
            if wait := (state.get("todo") or {}).get("slow"):
                time.sleep(wait)
            return function(*first, state, runtime)

        return run


def _after_begin(state: State) -> Any:
    parts = (state.get("todo") or {}).get("parts", 0)
    todo = state.get("todo")
    return [Send("part", {"part": at, "todo": todo}) for at in range(parts)] or "left"


def _after_ask(state: State) -> str:
    return "inside" if (state.get("todo") or {}).get("inner") else "end"


def build(recorder: Recorder, *, is_async: bool) -> StateGraph:
    """begin; parts by Send, or left and right; ask, which may pause; inside, a graph; end."""
    nodes = Nodes(recorder, is_async)
    inner = StateGraph(Inner)
    inner.add_node("first", nodes.make(nodes._inside, "first"))
    inner.add_node("second", nodes.make(nodes._inside, "second"))
    inner.add_edge(START, "first").add_edge("first", "second").add_edge("second", END)
    builder = StateGraph(State)
    for name in ("begin", "part", "left", "right", "end"):
        builder.add_node(name, nodes.make(nodes._update, name))
    builder.add_node("ask", nodes.make(nodes._asked))
    builder.add_node("inside", inner.compile())
    builder.add_edge(START, "begin")
    builder.add_conditional_edges("begin", _after_begin, ["part", "left"])
    builder.add_edge("begin", "right")
    builder.add_edge("part", "ask").add_edge("left", "ask").add_edge("right", "ask")
    builder.add_conditional_edges("ask", _after_ask, ["inside", "end"])
    builder.add_edge("inside", "end").add_edge("end", END)
    return builder


NODES = ("begin", "left", "right", "ask", "end")
"""As which node an update from outside may come."""
