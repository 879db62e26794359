"""The tool calls of a run as streams: one for each call, with the parts of its output."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from langchain_core.messages import ToolMessage

from milepost.stream.stream_channel import StreamChannel
from milepost.stream.transformers import Projection


class ToolCallStream:
    """One tool call: iterate over it for the parts of its output, as they come."""

    def __init__(
        self, tool_call_id: str, tool_name: str, input: dict[str, Any] | None = None
    ) -> None:
        self.tool_call_id = tool_call_id
        self.tool_name = tool_name
        self.input = input
        self.output: Any = None
        """What the tool returned, once the call has ended."""
        self.error: str | None = None
        """What went wrong, if the call has failed."""
        self.completed = False
        """Whether the call has ended."""
        self.output_deltas: StreamChannel[Any] = StreamChannel()
        """The parts of the output."""

    def __iter__(self) -> Iterator[Any]:
        return iter(self.output_deltas)

    def __aiter__(self) -> AsyncIterator[Any]:
        return aiter(self.output_deltas)

    def __repr__(self) -> str:
        status = "running" if not self.completed else "failed" if self.error else "completed"
        return (
            f"ToolCallStream(tool_call_id={self.tool_call_id!r}, tool_name={self.tool_name!r}, "
            f"status={status})"
        )

    def _end(self, output: Any = None, error: str | None = None) -> None:
        self.output, self.error, self.completed = output, error, True
        self.output_deltas.close()


class ToolCallTransformer(Projection, mode="tools"):
    """Adds `tool_calls` to the stream of a run: a ToolCallStream for each call that begins.

    Args:
        scope: The graph whose calls it sees: () for the outermost.

    Examples:
        >>> from langchain_core.messages import AIMessage
        >>> from milepost.graph import START, MessagesState, StateGraph
        >>> from milepost.prebuilt import ToolCallTransformer, ToolNode
        >>> def weather(city: str) -> str:
        ...     '''The weather in a city.'''
        ...     return f"Rain in {city}"
        >>> builder = StateGraph(MessagesState).add_node("tools", ToolNode([weather]))
        >>> graph = builder.add_edge(START, "tools").compile(transformers=[ToolCallTransformer])
        >>> call = {"name": "weather", "args": {"city": "Paris"}, "id": "1"}
        >>> asked = {"messages": [AIMessage("", tool_calls=[call])]}
        >>> run = graph.stream_events(asked, version="v3")
        >>> [stream.tool_name for stream in run.tool_calls]
        ['weather']
    """

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        super().__init__(scope)
        self._active: dict[str, ToolCallStream] = {}

    def init(self) -> dict[str, Any]:
        """The stream of calls."""
        return {"tool_calls": self._log}

    def _take(self, data: dict[str, Any]) -> None:
        id, kind = data.get("tool_call_id"), data.get("event")
        if id is None:
            return
        if kind == "tool-started":
            self._active[id] = stream = self._new(id, data)
            self._log.push(stream)
        elif kind == "tool-output-delta" and id in self._active:
            self._active[id].output_deltas.push(data.get("delta"))
        elif kind == "tool-finished" and id in self._active:
            self._active.pop(id)._end(_content(data.get("output")))
        elif kind == "tool-error" and id in self._active:
            self._active.pop(id)._end(error=data.get("message", ""))

    def _new(self, id: str, data: dict[str, Any]) -> ToolCallStream:
        stream = ToolCallStream(id, data.get("tool_name", ""), data.get("input"))
        parts = stream.output_deltas
        parts._bind(is_async=bool(self._log._is_async))
        parts._request_more = self._log._request_more
        return stream

    def finalize(self) -> None:
        """The run has ended: calls that were broken off have no output."""
        for stream in self._active.values():
            stream._end()
        self._active.clear()

    def fail(self, err: BaseException) -> None:
        """The run has failed, and the calls with it."""
        for stream in self._active.values():
            stream._end(error=str(err))
        self._active.clear()


def _content(output: Any) -> Any:
    """The output of a tool, taken out of its message."""
    if isinstance(output, ToolMessage):
        return output.content
    if (
        isinstance(output, dict)
        and output.get("type") == "constructor"
        and (output.get("id") or [None])[-1] == "ToolMessage"
    ):
        return (output.get("kwargs") or {}).get("content")
    return output
