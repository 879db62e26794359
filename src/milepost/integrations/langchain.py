"""The tokens of LangChain's chat models in the `messages` stream, calls of its tools in `tools`.

LangChain reports to callbacks what a model or a tool does. While a stream has a consumer, every
node's config gets a callback of milepost, which models and tools inherit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import Token
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast
from uuid import UUID

from milepost._engine.context.config import shown_parts
from milepost._engine.streaming.tool_calls import Writer, current_writer
from milepost._internal.supported import required
from milepost.constants import NS_SEP, TAG_NOSTREAM
from milepost.errors import GraphDrained, GraphInterrupt

with required(
    "milepost.integrations.langchain needs LangChain: run `pip install 'milepost[langchain]'`."
):
    from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager, CallbackManager
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk

if TYPE_CHECKING:
    from milepost._engine.context.task_context import TaskContext
    from milepost.types import RunnableConfig

T = TypeVar("T")
_Call: TypeAlias = "tuple[str, Token[Writer | None]]"

__all__ = ["TokenStream", "listening"]


def listening(config: RunnableConfig, context: TaskContext) -> RunnableConfig:
    """The config of a node, with callbacks that stream what its models and tools do.

    Tags and metadata go into the callbacks too: the events of a model that is called with tags or
    metadata of its own would otherwise not name the node that the model runs in.

    Args:
        config: The config of the node.
        context: The task, whose run says which events are wanted.

    Examples:
        >>> from langchain_core.language_models.fake_chat_models import FakeListChatModel
        >>> from milepost.graph import START, MessagesState, StateGraph
        >>> model = FakeListChatModel(responses=["Hi"])
        >>> answer = lambda state: {"messages": model.invoke(state["messages"])}
        >>> builder = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
        >>> events = builder.compile().stream({"messages": ["Hello"]}, stream_mode="messages")
        >>> "".join(piece.content for piece, metadata in events)
        'Hi'
    """
    given = config.get("callbacks")
    if isinstance(given, BaseCallbackManager):
        callbacks = given.copy()
        for handler in [h for h in callbacks.handlers if isinstance(h, TaskStream)]:
            callbacks.remove_handler(handler)  # of the outer graph, where the config comes from
    else:
        handlers = list(given or ())
        # As if the task had a run of its own: events of the program name the run they belong to.
        callbacks = CallbackManager(handlers, list(handlers), UUID(context.task.id))
    if context.callbacks is None:  # otherwise they are in the callbacks already
        callbacks.add_tags(list(config.get("tags") or ()))
        callbacks.add_metadata(dict(config.get("metadata") or {}))
    if "messages" in context.run.events.stream.wanted:
        callbacks.add_handler(_token_stream(context))
    if "tools" in context.run.events.stream.wanted:
        callbacks.add_handler(ToolStream(context))
    return cast("RunnableConfig", {**config, "callbacks": callbacks})


def _token_stream(context: TaskContext) -> TokenStream:
    if not context.run.events.stream.takes_blocks:
        return TokenStream(context)
    from milepost.integrations._langchain.block_stream import BlockStream

    return BlockStream(context)


class TaskStream(BaseCallbackHandler):
    """Streams what happens in one task."""

    run_inline = True
    """Tokens must not overtake each other on the way through a thread pool."""
    ignore_llm = False
    """LangChain reads this for every token: an attribute is quicker than LangChain's property."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        task = context.task
        self._ns = NS_SEP.join(shown_parts(task.ns, context.run.position, task))

    def _is_streamed(self, tags: list[str] | None, metadata: Mapping[str, Any]) -> bool:
        """Whether a model or tool belongs to this task, and no tag excludes it from streams."""
        if tags and TAG_NOSTREAM in tags:
            return False
        # A graph inside this node may have been given our config, but has a stream of its own.
        return bool(metadata.get("langgraph_checkpoint_ns", self._ns) == self._ns)


class TokenStream(TaskStream):
    """Streams the answers of the chat models of one task.

    Args:
        context: The task.

    Examples:
        >>> from langchain_core.language_models.fake_chat_models import FakeListChatModel
        >>> from milepost.graph import START, MessagesState, StateGraph
        >>> model = FakeListChatModel(responses=["Hi"])
        >>> answer = lambda state: {"messages": model.invoke(state["messages"])}
        >>> builder = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
        >>> events = builder.compile().stream({"messages": ["Hello"]}, stream_mode="messages")
        >>> [metadata["langgraph_node"] for piece, metadata in events if piece.content]
        ['answer', 'answer']
    """

    def __init__(self, context: TaskContext) -> None:
        super().__init__(context)
        self._models: dict[UUID, dict[str, Any]] = {}
        """The metadata of models that have begun and not ended."""
        self._left_out: set[UUID] = set()
        """Models that have begun and not ended, and that a tag excludes."""
        self._push = context.run.events.message

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002
        messages: list[list[Any]],  # noqa: ARG002
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **_rest: Any,
    ) -> None:
        """A model begins: remember the model if its answer is streamed."""
        known: Mapping[str, Any] = metadata or {}
        if not self._is_streamed(tags, known):
            if tags and TAG_NOSTREAM in tags:
                self._left_out.add(run_id)
            return
        own = [tag for tag in tags or () if not tag.startswith("seq:step")]
        self._models[run_id] = {**known, "tags": own} if own else dict(known)

    def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]],  # noqa: ARG002
        *,
        chunk: Any = None,
        run_id: UUID,
        **_rest: Any,
    ) -> None:
        """A model has produced a token."""
        metadata = self._models.get(run_id)
        if metadata is not None and isinstance(chunk, ChatGenerationChunk):
            self._context.heartbeat()
            self._push(chunk.message, metadata, once=False)

    def on_llm_end(self, response: Any, *, run_id: UUID, **_rest: Any) -> None:
        """A model has ended. The answer of a model that did not stream is sent now, unless a tag
        excludes the model."""
        metadata = self._models.pop(run_id, None)
        answers: Sequence[Any] = response.generations[0] if response.generations else ()
        if run_id in self._left_out:
            # The node may return the answer, which is not to be streamed then either.
            self._left_out.discard(run_id)
            messages = [one.message for one in answers if isinstance(one, ChatGeneration)]
            self._context.run.events.stream.know_messages([message.id for message in messages])
        if metadata is None:
            return
        self._context.heartbeat()
        if answers and isinstance(answers[0], ChatGeneration):
            self._push(answers[0].message, metadata, once=True)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_rest: Any) -> None:  # noqa: ARG002
        """A model has failed."""
        self._models.pop(run_id, None)
        self._left_out.discard(run_id)

    # LangChain streams a model that was merely invoked if some callback has these two methods.

    def tap_output_iter(self, run_id: UUID, output: Iterator[T]) -> Iterator[T]:  # noqa: ARG002
        """Leave a runnable's stream as it is.

        Args:
            run_id: The call of the runnable.
            output: What it yields.
        """
        return output

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[T]) -> AsyncIterator[T]:  # noqa: ARG002
        """Leave a runnable's stream as it is.

        Args:
            run_id: The call of the runnable.
            output: What it yields.
        """
        return output


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
