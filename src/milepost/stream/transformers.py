"""The transformers that come with milepost.

Every run has `ValuesTransformer`, `MessagesTransformer`, `LifecycleTransformer` and
`SubgraphTransformer`. The others are added by name: `compile(transformers=[UpdatesTransformer])`.
Those here pass on one stream mode of a graph, without the events of its inner graphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from milepost._internal.supported import unsupported
from milepost.messages import langchain_messages
from milepost.stream._lifecycle import (
    LifecyclePayload,
    LifecycleTransformer,
    SubgraphStatus,
    SubgraphTransformer,
    _TasksLifecycleBase,  # noqa: F401  langchain derives its own from it
)
from milepost.stream._types import ProtocolEvent, StreamTransformer
from milepost.stream.stream_channel import Pump, StreamChannel

if TYPE_CHECKING:
    from typing import TypeAlias

    from langchain_core.language_models.chat_model_stream import (
        AsyncChatModelStream,
        ChatModelStream,
    )

    AnyModelStream: TypeAlias = ChatModelStream | AsyncChatModelStream

__all__ = [
    "CheckpointsTransformer",
    "CustomTransformer",
    "DebugTransformer",
    "LifecyclePayload",
    "LifecycleTransformer",
    "MessagesTransformer",
    "SubgraphStatus",
    "SubgraphTransformer",
    "TasksTransformer",
    "UpdatesTransformer",
    "ValuesTransformer",
]


class Projection(StreamTransformer):
    """The events of one mode as a stream of the mode's name."""

    _native = True
    mode: ClassVar[str]

    def __init_subclass__(cls, mode: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if mode is not None:
            cls.mode = mode
            cls.required_stream_modes = (mode,)

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        super().__init__(scope)
        self._log: StreamChannel[Any] = StreamChannel()
        self._scope_list = list(scope)

    def init(self) -> dict[str, Any]:
        """The one stream."""
        return {self.mode: self._log}

    def process(self, event: ProtocolEvent) -> bool:
        """Pass an event on if it is of this mode and this graph."""
        if event["method"] == self.mode and event["params"]["namespace"] == self._scope_list:
            self._take(event["params"]["data"])
        return True

    def _take(self, data: Any) -> None:
        self._log.push(data)


class ValuesTransformer(Projection, mode="values"):
    """`run.values`: the state after each step.

    Args:
        scope: The graph whose state it sees: () for the outermost.

    Examples:
        >>> list(graph.stream_events({"n": 0}, version="v3").values)
        [{'n': 0}, {'n': 1}]
    """

    @property
    def error(self) -> BaseException | None:
        """What the run failed with."""
        return self._log._error


class UpdatesTransformer(Projection, mode="updates"):
    """`run.updates`: what each node wrote, by its name.

    Examples:
        >>> from milepost.stream import UpdatesTransformer
        >>> graph = builder.compile(transformers=[UpdatesTransformer])
        >>> list(graph.stream_events({}, version="v3").updates)
        [{'work': {'n': 1}}]
    """


class CustomTransformer(Projection, mode="custom"):
    """`run.custom`: what nodes gave their stream writers.

    Examples:
        >>> from milepost.runtime import Runtime
        >>> from milepost.stream import CustomTransformer
        >>> def work(state: dict, runtime: Runtime):
        ...     runtime.stream_writer("half done")
        >>> builder = StateGraph(dict).add_node("work", work).add_edge(START, "work")
        >>> graph = builder.compile(transformers=[CustomTransformer])
        >>> list(graph.stream_events({}, version="v3").custom)
        ['half done']
    """


class CheckpointsTransformer(Projection, mode="checkpoints"):
    """`run.checkpoints`: checkpoints as they are made.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.stream import CheckpointsTransformer
        >>> graph = builder.compile(InMemorySaver(), transformers=[CheckpointsTransformer])
        >>> config = {"configurable": {"thread_id": "1"}}
        >>> [one["next"] for one in graph.stream_events({}, config, version="v3").checkpoints]
        [['__start__'], ['work'], []]
    """


class TasksTransformer(Projection, mode="tasks"):
    """`run.tasks`: tasks as they begin and end.

    Examples:
        >>> from milepost.stream import TasksTransformer
        >>> graph = builder.compile(transformers=[TasksTransformer])
        >>> ["result" in task for task in graph.stream_events({}, version="v3").tasks]
        [False, True]
    """


class DebugTransformer(Projection, mode="debug"):
    """`run.debug`: checkpoints and tasks, with step and time.

    Examples:
        >>> from milepost.stream import DebugTransformer
        >>> graph = builder.compile(transformers=[DebugTransformer])
        >>> {"task", "task_result"} <= {
        ...     event["type"] for event in graph.stream_events({}, version="v3").debug
        ... }
        True
    """


class MessagesTransformer(Projection, mode="messages"):
    """Collects the answers of chat models, block by block, into LangChain's ChatModelStream.

    A whole message that a node returns becomes a stream that has already ended. Where LangChain is
    not installed, the messages come as they are. Pieces of messages in the older form are left
    out, and so are tools' results.

    Args:
        scope: The graph whose messages it sees: () for the outermost.

    Examples:
        >>> from langchain_core.language_models.fake_chat_models import FakeListChatModel
        >>> from milepost.graph import MessagesState
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
        self._pump_fn: Pump | None = None

    def _bind_pump(self, fn: Pump) -> None:
        self._pump_fn = fn

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

        if self._log._is_async or self._pump_fn is None:
            astream = AsyncChatModelStream(namespace=[], node=node, message_id=message_id)
            astream.set_arequest_more(self._pump_fn)
            return astream
        stream = ChatModelStream(namespace=[], node=node, message_id=message_id)
        stream.set_request_more(self._pump_fn)
        return stream

    def finalize(self) -> None:
        """Forget what was not finished."""
        self._by_run.clear()

    def fail(self, err: BaseException) -> None:
        """Let those who wait for the rest of an answer know."""
        for stream in list(self._by_run.values()):
            stream.fail(err)
        self.finalize()
