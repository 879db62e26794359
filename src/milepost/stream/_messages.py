"""`run.messages`: a stream for each answer of a chat model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from milepost._internal.supported import unsupported
from milepost.messages import langchain_messages
from milepost.stream._projections import Projection

if TYPE_CHECKING:
    from typing import TypeAlias

    from langchain_core.language_models.chat_model_stream import (
        AsyncChatModelStream,
        ChatModelStream,
    )

    AnyModelStream: TypeAlias = ChatModelStream | AsyncChatModelStream


class MessagesTransformer(Projection, mode="messages"):
    """Collects the answers of chat models, block by block, into LangChain's ChatModelStream.

    A whole message that a node returns becomes a stream that has already ended. Where LangChain is
    not installed, the messages come as they are. Pieces of messages in the older form are left
    out, and so are tools' results.

    Args:
        scope: The graph whose messages it sees: () for the outermost.

    Examples:
        >>> from langchain_core.language_models.fake_chat_models import FakeListChatModel
        >>> from milepost.graph import START, MessagesState, StateGraph
        >>> model = FakeListChatModel(responses=["Hi"])
        >>> answer = lambda state: {"messages": model.invoke(state["messages"])}
        >>> builder = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
        >>> run = builder.compile().stream_events({"messages": ["Hello"]}, version="v3")
        >>> [str(message.text) for message in run.messages]
        ['Hi']
    """

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        super().__init__(scope)
        self._by_run: dict[str, AnyModelStream] = {}
        """The answers that are still being given, by the run id of their model."""
        self._pump_fn: Callable[[], bool] | None = None
        self._apump_fn: Callable[[], Awaitable[bool]] | None = None

    def _bind_pump(self, fn: Callable[[], bool]) -> None:
        self._pump_fn = fn

    def _bind_apump(self, fn: Callable[[], Awaitable[bool]]) -> None:
        self._apump_fn = fn

    def _take(self, data: Any) -> None:
        """Take an event of an answer, or a complete message."""
        message, metadata = data
        node = metadata.get("langgraph_node")
        if isinstance(message, dict) and "event" in message:
            self._take_event(message, str(metadata.get("run_id", "")), node)
        else:
            self._take_message(message, node)

    def _take_event(self, event: Any, run_id: str, node: str | None) -> None:
        kind = event.get("event")
        if kind == "message-start":
            if event.get("role") == "tool":
                return
            id = event.get("message_id")
            stream = self._by_run[run_id] = self._new(node, None if id is None else str(id))
            self._log.push(stream)
        if run_id in self._by_run:
            self._by_run[run_id].dispatch(event)
        if kind == "message-finish":
            self._by_run.pop(run_id, None)

    def _take_message(self, message: Any, node: str | None) -> None:
        if langchain_messages() is None:
            self._log.push(message)
            return
        from langchain_core.messages import AIMessageChunk, BaseMessage, ToolMessage

        try:
            from langchain_core.language_models._compat_bridge import message_to_events
        except ImportError as error:
            raise unsupported('stream_events(version="v3")', "langchain") from error

        if not isinstance(message, BaseMessage) or isinstance(
            message, (AIMessageChunk, ToolMessage)
        ):
            return
        stream = self._new(node, message.id)
        for event in message_to_events(message, message_id=message.id):
            stream.dispatch(event)
        self._log.push(stream)

    def _new(self, node: str | None, message_id: str | None) -> AnyModelStream:
        """A stream for one answer, whose consumer can drive the run."""
        from langchain_core.language_models.chat_model_stream import (
            AsyncChatModelStream,
            ChatModelStream,
        )

        if self._apump_fn is None and self._pump_fn is not None:
            stream = ChatModelStream(namespace=[], node=node, message_id=message_id)
            stream.set_request_more(self._pump_fn)
            return stream
        astream = AsyncChatModelStream(namespace=[], node=node, message_id=message_id)
        if self._apump_fn is not None:
            astream.set_arequest_more(self._apump_fn)
        return astream

    def finalize(self) -> None:
        """Forget what was not finished."""
        self._by_run.clear()

    def fail(self, err: BaseException) -> None:
        """Let those who wait for the rest of an answer know."""
        for stream in list(self._by_run.values()):
            stream.fail(err)
        self.finalize()
