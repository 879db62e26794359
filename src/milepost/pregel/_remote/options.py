"""What the methods of a RemoteGraph take by keyword and pass on to the client of the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from milepost.types import Durability


class RemoteEventOptions(TypedDict, total=False):
    """What `stream_events(version="v3")` passes on."""

    metadata: Mapping[str, Any] | None
    """Kept with the run on the server."""


class RemoteRunOptions(RemoteEventOptions, total=False):
    """What `invoke`, `stream` and their async forms pass on to the client's `runs.stream`.

    A client of an older version may lack some: it then raises a TypeError.
    """

    durability: Durability | None
    """When the server saves steps."""
    checkpoint_during: bool | None
    """Deprecated: `durability` "async" or "exit"."""
    checkpoint_id: str | None
    """The checkpoint to go on from."""
    multitask_strategy: Literal["reject", "interrupt", "rollback", "enqueue"] | None
    """What the server does if another run is on the thread."""
    on_completion: Literal["delete", "keep"] | None
    """What becomes of the thread that the server made for a run without one."""
    on_disconnect: Literal["cancel", "continue"] | None
    """What becomes of the run if the caller goes away."""
    on_run_created: Callable[[Any], None] | None
    """Called with the ids of the run and its thread."""
    stream_resumable: bool
    """Whether the server keeps the events, so that they can be read again."""
    strict_resume: bool | None
    """Whether an answer that nothing waits for is refused."""
    after_seconds: int | None
    """How long the server waits before the run begins."""
    webhook: str | None
    """An address that the server calls when the run has ended."""
    feedback_keys: Sequence[str] | None
    """Keys of feedback that LangSmith asks for."""
    langsmith_tracing: Mapping[str, Any] | None
    """The project and example of LangSmith's trace."""
