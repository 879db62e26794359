"""The tokens of LangChain's chat models in the `messages` stream.

LangChain reports to callbacks what a model does. While the stream has a consumer, every node's
config gets a callback of milepost, which models inherit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID

from milepost.constants import TAG_NOSTREAM

try:
    from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk
except ImportError as error:
    raise ImportError(
        "milepost.integrations.langchain needs LangChain: run `pip install 'milepost[langchain]'`."
    ) from error

if TYPE_CHECKING:
    from milepost._engine.context.task_context import TaskContext
    from milepost.types import RunnableConfig

T = TypeVar("T")

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
        callbacks = BaseCallbackManager(handlers, list(handlers))
    if context.callbacks is None:  # otherwise they are in the callbacks already
        callbacks.add_tags(list(config.get("tags") or ()))
        callbacks.add_metadata(dict(config.get("metadata") or {}))
    if context.run.events.stream.wants("messages"):
        callbacks.add_handler(_token_stream(context))
    if context.run.events.stream.wants("tools"):
        from milepost.integrations._langchain.tool_stream import ToolStream

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

    def _is_streamed(self, tags: list[str] | None, metadata: Mapping[str, Any]) -> bool:
        """Whether a model or tool belongs to this task, and no tag excludes it from streams."""
        if tags and TAG_NOSTREAM in tags:
            return False
        here = self._context.task.ns
        # A graph inside this node may have been given our config, but has a stream of its own.
        return bool(metadata.get("langgraph_checkpoint_ns", here) == here)


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
        """A model has ended. The answer of a model that did not stream is sent now."""
        metadata = self._models.pop(run_id, None)
        if metadata is None:
            return
        self._context.heartbeat()
        answers: Sequence[Any] = response.generations[0] if response.generations else ()
        if answers and isinstance(answers[0], ChatGeneration):
            self._push(answers[0].message, metadata, once=True)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_rest: Any) -> None:  # noqa: ARG002
        """A model has failed."""
        self._models.pop(run_id, None)

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
