"""Calls of LangChain's tools in the `tools` stream."""

from __future__ import annotations

from contextlib import suppress
from contextvars import Token
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from milepost._engine.streaming.tool_calls import Writer, current_writer
from milepost.errors import GraphDrained, GraphInterrupt
from milepost.integrations.langchain import TaskStream

if TYPE_CHECKING:
    from milepost._engine.context.task_context import TaskContext

_Call: TypeAlias = "tuple[str, Token[Writer | None]]"


class ToolStream(TaskStream):
    """Streams the begin, the output and the end of the tool calls of one task."""

    def __init__(self, context: TaskContext) -> None:
        super().__init__(context)
        self._calls: dict[UUID, _Call] = {}
        """The calls in progress: their ids, and the token that resets the writer."""

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,  # noqa: ARG002
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **rest: Any,
    ) -> None:
        """A call begins."""
        if not self._is_streamed(tags, metadata or {}):
            return
        id = rest.get("tool_call_id") or str(run_id)
        name = (serialized or {}).get("name") or rest.get("name") or ""

        def write(delta: Any) -> None:
            self._push({"event": "tool-output-delta", "tool_call_id": id, "delta": delta})

        self._calls[run_id] = (id, current_writer.set(write))
        started = {"event": "tool-started", "tool_call_id": id, "tool_name": name}
        self._push(started if inputs is None else {**started, "input": inputs})

    def on_tool_end(self, output: Any, *, run_id: UUID, **_rest: Any) -> None:
        """A call has ended."""
        if (id := self._end(run_id)) is not None:
            self._push({"event": "tool-finished", "tool_call_id": id, "output": output})

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_rest: Any) -> None:
        """A call has failed. A call that pauses has not: a resumed run makes it again."""
        id = self._end(run_id)
        if id is not None and not isinstance(error, (GraphInterrupt, GraphDrained)):
            self._push({"event": "tool-error", "tool_call_id": id, "message": str(error)})

    def _end(self, run_id: UUID) -> str | None:
        id, before = self._calls.pop(run_id, (None, None))
        if before is not None:
            # A call may end in another context than it began in: that context is gone.
            with suppress(ValueError):
                current_writer.reset(before)
        return id

    def _push(self, payload: dict[str, Any]) -> None:
        self._context.heartbeat()
        self._context.run.events.push("tools", payload)
