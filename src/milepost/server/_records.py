"""Assistants, threads, states and items, as clients of an Agent Server read them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Limit = Annotated[int, Meta(ge=1, le=1000)]
"""How many records an answer has at most."""
Offset = Annotated[int, Meta(ge=0, lt=2**31)]
Length = Annotated[int, Meta(ge=0, le=64 * 1024 * 1024)]
"""How many bytes of a value are shown."""
SortOrder = Literal["asc", "desc"]
IfExists = Literal["raise", "do_nothing"]
ThreadStatus = Literal["idle", "busy", "interrupted", "error"]


class Assistant(msgspec.Struct, kw_only=True):
    """A graph with a configuration of its own."""

    assistant_id: str
    graph_id: str
    config: dict[str, Any]
    context: dict[str, Any]
    created_at: str
    updated_at: str
    metadata: dict[str, Any]
    version: int
    name: str
    description: str | None = None


class GraphNode(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A node in a drawing."""

    id: str | int
    type: str | None = None
    data: Any = None
    metadata: dict[str, Any] | None = None


class GraphEdge(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An edge in a drawing. RemoteGraph knows these keys and no other."""

    source: str
    target: str
    data: str | None = None
    conditional: bool = False


class Drawing(msgspec.Struct):
    """The nodes and edges of a graph."""

    nodes: list[GraphNode]
    edges: list[GraphEdge]


class Schemas(msgspec.Struct, kw_only=True):
    """JSON schemas of a graph; null where there is none."""

    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    state_schema: dict[str, Any] | None = None
    config_schema: dict[str, Any] | None = None
    context_schema: dict[str, Any] | None = None


class GraphSchemas(Schemas, kw_only=True):
    """The same, with the graph's name."""

    graph_id: str


class Interrupt(msgspec.Struct):
    """A question that a task asks."""

    value: Any
    id: str


class ThreadTtl(msgspec.Struct, kw_only=True):
    """When a thread is removed, if it is not used before."""

    strategy: Literal["delete"]
    ttl_minutes: float
    expires_at: str | None


class Thread(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A thread with its latest state."""

    thread_id: str
    created_at: str | None
    updated_at: str | None
    state_updated_at: str | None
    metadata: dict[str, Any]
    config: dict[str, Any]
    status: ThreadStatus
    values: Any
    interrupts: dict[str, list[Interrupt]]
    extracted: dict[str, Any] | None = None
    ttl: ThreadTtl | None = None


class Checkpoint(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Names a state: thread, namespace and id."""

    thread_id: str | None = None
    checkpoint_ns: str = ""
    checkpoint_id: str | None = None
    checkpoint_map: dict[str, Any] | None = None


class Task(msgspec.Struct, kw_only=True):
    """A task that follows a state."""

    id: str
    name: str
    error: str | None
    interrupts: list[Interrupt]
    checkpoint: Checkpoint | None
    state: ThreadState | None
    result: Any
    path: list[Any]


class ThreadState(msgspec.Struct, kw_only=True):
    """A state of a thread."""

    values: Any
    next: list[str]
    tasks: list[Task]
    checkpoint: Checkpoint
    parent_checkpoint: Checkpoint | None
    metadata: dict[str, Any] | None
    created_at: str | None
    interrupts: list[Interrupt]


class Item(msgspec.Struct, kw_only=True):
    """A value in the store."""

    namespace: list[str]
    key: str
    value: dict[str, Any]
    created_at: str
    updated_at: str


class FoundItem(Item, kw_only=True):
    """A value that a search has found; the score says how near it is in meaning."""

    score: float | None = None
