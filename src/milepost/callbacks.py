"""Handlers that are called when a graph pauses at an interrupt and when it is resumed.

A handler derives from GraphCallbackHandler and is passed in `config["callbacks"]`, beside or
instead of LangChain's own. It is called for chain events too if it has the methods for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias
from uuid import UUID

from milepost._internal.supported import required
from milepost.types import Interrupt, RunnableConfig

with required("milepost.callbacks needs LangChain: run `pip install 'milepost[langchain]'`."):
    from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
    from langchain_core.callbacks.manager import ahandle_event, handle_event

__all__ = [
    "GraphCallbackHandler",
    "GraphInterruptEvent",
    "GraphLifecycleEvent",
    "GraphLifecycleStatus",
    "GraphResumeEvent",
    "get_async_graph_callback_manager_for_config",
    "get_sync_graph_callback_manager_for_config",
]

GraphLifecycleStatus: TypeAlias = Literal[
    "input", "pending", "done", "interrupt_before", "interrupt_after", "out_of_steps"
]
"""Where a run is at the time of an event."""


@dataclass(frozen=True)
class GraphInterruptEvent:
    """A graph has paused.

    Examples:
        >>> from milepost.callbacks import GraphInterruptEvent
        >>> def questions(event: GraphInterruptEvent) -> list:
        ...     return [one.value for one in event.interrupts]
    """

    run_id: UUID | None
    """The id of the graph's run, as chain events have it."""
    status: GraphLifecycleStatus
    """`pending` if a node asked; otherwise which kind of breakpoint it was."""
    checkpoint_id: str
    """The checkpoint that the graph has paused at."""
    checkpoint_ns: tuple[str, ...]
    """Which graph: () for the outermost one."""
    interrupts: tuple[Interrupt, ...]
    """What was asked; nothing at a breakpoint."""


@dataclass(frozen=True)
class GraphResumeEvent:
    """A graph goes on from a checkpoint.

    Examples:
        >>> from milepost.callbacks import GraphResumeEvent
        >>> def is_outermost(event: GraphResumeEvent) -> bool:
        ...     return event.checkpoint_ns == ()
    """

    run_id: UUID | None
    """The id of the graph's run, as chain events have it."""
    status: GraphLifecycleStatus
    """How the graph was left: as in `GraphInterruptEvent`."""
    checkpoint_id: str
    """The checkpoint that it goes on from."""
    checkpoint_ns: tuple[str, ...]
    """Which graph: () for the outermost one."""


GraphLifecycleEvent: TypeAlias = GraphInterruptEvent | GraphResumeEvent
"""All events of a GraphCallbackHandler."""


class GraphCallbackHandler(BaseCallbackHandler):
    """Base class of handlers for interrupts and resumes. Methods may be `async def`.

    Examples:
        >>> from milepost.callbacks import GraphCallbackHandler
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.graph import START, StateGraph
        >>> from milepost.types import interrupt
        >>> class Ring(GraphCallbackHandler):
        ...     def on_interrupt(self, event):
        ...         print("asked:", event.interrupts[0].value)
        >>> builder = StateGraph(dict).add_node("ask", lambda state: interrupt("Go on?"))
        >>> graph = builder.add_edge(START, "ask").compile(checkpointer=InMemorySaver())
        >>> config = {"configurable": {"thread_id": "1"}, "callbacks": [Ring()]}
        >>> _ = graph.invoke({}, config)
        asked: Go on?
    """

    def on_interrupt(self, event: GraphInterruptEvent) -> Any:
        """A graph has paused.

        Args:
            event: Where, and what was asked.
        """

    def on_resume(self, event: GraphResumeEvent) -> Any:
        """A graph goes on from a checkpoint.

        Args:
            event: Where.
        """


def graph_handlers(handlers: Sequence[Any]) -> list[Any]:
    """The handlers that are called for interrupts and resumes."""
    return [handler for handler in handlers if isinstance(handler, GraphCallbackHandler)]


class _Manager(BaseCallbackManager):
    """Hands events to the graph handlers among the callbacks of a config."""

    run_id: UUID | None = None

    def __init__(
        self,
        handlers: Sequence[BaseCallbackHandler] | None = None,
        inheritable_handlers: Sequence[BaseCallbackHandler] | None = None,
        parent_run_id: UUID | None = None,
        *,
        run_id: UUID | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(
            list(handlers or ()), list(inheritable_handlers or ()), parent_run_id, **rest
        )
        self.run_id = run_id

    def copy(self, **changes: Any) -> Self:
        """A copy, perhaps for another run."""
        return self._of(self, changes.get("run_id", self.run_id))

    @classmethod
    def configure(cls, callbacks: object = None, *, run_id: UUID | None = None) -> Self:
        """A manager for a handler, a list of handlers, or another manager."""
        if isinstance(callbacks, BaseCallbackManager):
            return cls._of(callbacks, run_id)
        if isinstance(callbacks, GraphCallbackHandler):
            callbacks = [callbacks]
        if callbacks is None:
            callbacks = ()
        if isinstance(callbacks, (str, bytes)) or not isinstance(callbacks, Sequence):
            raise TypeError(
                "callbacks must be a handler, a list of handlers or a callback manager, not "
                f"{type(callbacks).__name__}."
            )
        return cls(graph_handlers(callbacks), run_id=run_id)

    @classmethod
    def _of(cls, other: BaseCallbackManager, run_id: UUID | None) -> Self:
        return cls(
            graph_handlers(other.handlers),
            graph_handlers(other.inheritable_handlers),
            other.parent_run_id,
            tags=other.tags.copy(),
            inheritable_tags=other.inheritable_tags.copy(),
            metadata=other.metadata.copy(),
            inheritable_metadata=other.inheritable_metadata.copy(),
            run_id=run_id,
        )


class _GraphCallbackManager(_Manager):
    """For sync code."""

    def on_interrupt(self, event: GraphInterruptEvent) -> None:
        """Tell of an interrupt."""
        handle_event(self.handlers, "on_interrupt", None, event)

    def on_resume(self, event: GraphResumeEvent) -> None:
        """Tell of a resume."""
        handle_event(self.handlers, "on_resume", None, event)


class _AsyncGraphCallbackManager(_Manager):
    """For an event loop."""

    @property
    def is_async(self) -> bool:
        """Its methods are awaited."""
        return True

    async def on_interrupt(self, event: GraphInterruptEvent) -> None:
        """Tell of an interrupt."""
        await ahandle_event(self.handlers, "on_interrupt", None, event)

    async def on_resume(self, event: GraphResumeEvent) -> None:
        """Tell of a resume."""
        await ahandle_event(self.handlers, "on_resume", None, event)


def get_sync_graph_callback_manager_for_config(
    config: RunnableConfig, *, run_id: UUID | None = None
) -> _GraphCallbackManager:
    """A manager of the graph handlers in a config, for sync code.

    Args:
        config: What it finds under `callbacks`.
        run_id: The id of the graph's run.

    Examples:
        >>> from milepost.callbacks import get_sync_graph_callback_manager_for_config
        >>> manager = get_sync_graph_callback_manager_for_config({"callbacks": []})
    """
    return _GraphCallbackManager.configure(config.get("callbacks"), run_id=run_id)


def get_async_graph_callback_manager_for_config(
    config: RunnableConfig, *, run_id: UUID | None = None
) -> _AsyncGraphCallbackManager:
    """A manager of the graph handlers in a config, for an event loop.

    Args:
        config: What it finds under `callbacks`.
        run_id: The id of the graph's run.

    Examples:
        >>> from milepost.callbacks import get_async_graph_callback_manager_for_config
        >>> manager = get_async_graph_callback_manager_for_config({"callbacks": []})
    """
    return _AsyncGraphCallbackManager.configure(config.get("callbacks"), run_id=run_id)
