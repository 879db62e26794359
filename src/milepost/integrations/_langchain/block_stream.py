"""The answers of LangChain's chat models in content blocks, for `stream_events(version="v3")`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from milepost._internal.supported import unsupported
from milepost.integrations.langchain import TokenStream

try:
    from langchain_core.tracers._streaming import _V2StreamingCallbackHandler
except ImportError as error:
    raise unsupported('stream_events(version="v3")', "langchain") from error

if TYPE_CHECKING:
    from milepost._engine.context.task_context import TaskContext


class BlockStream(TokenStream, _V2StreamingCallbackHandler):
    """Streams the answers of the chat models of one task as events: begin, blocks, end.

    LangChain makes such events where a callback derives from its handler for them.
    """

    def __init__(self, context: TaskContext) -> None:
        super().__init__(context)
        self._streamed: set[UUID] = set()
        """Models whose answers are streamed in events."""

    def on_stream_event(self, event: Any, *, run_id: UUID, **_rest: Any) -> None:
        """A model has produced an event."""
        metadata = self._models.get(run_id)
        if metadata is None:
            return
        self._context.heartbeat()
        events = self._context.run.events
        if event.get("event") == "message-start":
            # The node will return the complete message, which is not to be streamed again.
            events.stream.know_messages([event.get("message_id")])
            self._streamed.add(run_id)
        events.message_event(event, {**metadata, "run_id": str(run_id)})

    def on_llm_new_token(self, token: Any, **_rest: Any) -> None:
        """Do nothing: an answer in the older form is streamed when the model has ended."""

    def on_llm_end(self, response: Any, *, run_id: UUID, **rest: Any) -> None:
        """A model has ended; what was streamed in events is not streamed again."""
        if run_id not in self._streamed:
            super().on_llm_end(response, run_id=run_id, **rest)
            return
        self._streamed.discard(run_id)
        self._models.pop(run_id, None)
        ids = [answer.message.id for answers in response.generations for answer in answers]
        self._context.run.events.stream.know_messages(ids)
