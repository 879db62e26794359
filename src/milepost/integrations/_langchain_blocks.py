"""The answers of LangChain's chat models in content blocks, for `stream_events(version="v3")`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from langchain_core.tracers._streaming import _V2StreamingCallbackHandler

from milepost.integrations.langchain import TokenStream


class BlockStream(TokenStream, _V2StreamingCallbackHandler):
    """Streams what the chat models of one task say, as events: begin, blocks, end.

    LangChain makes such events where a callback derives from its handler for them.
    """

    def on_stream_event(self, event: Any, *, run_id: UUID, **_rest: Any) -> None:
        """A model says something."""
        metadata = self._models.get(run_id)
        if metadata is None:
            return
        self._context.heartbeat()
        events = self._context.run.events
        if event.get("event") == "message-start" and (id := event.get("message_id")):
            # The node will return the same message as a whole.
            events.stream.know_messages([id])
        events.message_event(event, {**metadata, "run_id": str(run_id)})

    def on_llm_new_token(self, token: Any, **_rest: Any) -> None:
        """Nothing: a model that is streamed in the older form is heard when it has ended."""
