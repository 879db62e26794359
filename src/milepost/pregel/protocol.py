"""What every graph has, whether it runs here or elsewhere; and where its events can be sent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Generic, Self, TypeAlias

from milepost.graph._compiled import Pregel
from milepost.graph._typing import ContextT, InputT, OutputT, StateT
from milepost.types import Command, RunnableConfig, StateSnapshot, StateUpdate, StreamMode

__all__ = ["PregelProtocol", "StreamProtocol"]

StreamChunk: TypeAlias = tuple[tuple[str, ...], str, Any]
"""An event: the graph that it comes from, its mode, and what it says."""


class PregelProtocol(ABC, Generic[StateT, ContextT, InputT, OutputT]):
    """A graph. `Pregel` is one; another class derives from this, or has the same methods.

    Examples:
        >>> from milepost.pregel.protocol import PregelProtocol
        >>> def answer(graph: PregelProtocol, question: str):
        ...     return graph.invoke({"question": question})
    """

    @abstractmethod
    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> Self:
        """A copy that runs with this config where the caller says nothing else.

        Args:
            config: What runs are told.
            **kwargs: Keys of the config.
        """

    @abstractmethod
    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Any:
        """A picture of the graph.

        Args:
            config: What the picture may depend on.
            xray: Shows inner graphs too: a number of levels, or True for all.
        """

    @abstractmethod
    async def aget_graph(
        self, config: RunnableConfig | None = None, *, xray: int | bool = False
    ) -> Any:
        """`get_graph`, for use on an event loop."""

    @abstractmethod
    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """The state of a thread.

        Args:
            config: Names the thread, and perhaps a checkpoint.
            subgraphs: Whether tasks that are graphs show their own state.
        """

    @abstractmethod
    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """`get_state`, for use on an event loop."""

    @abstractmethod
    def get_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[StateSnapshot]:
        """The states of a thread, newest first.

        Args:
            config: Names the thread.
            filter: Metadata that a checkpoint must have.
            before: Names a checkpoint; only older ones are given.
            limit: How many at most.
        """

    @abstractmethod
    def aget_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """`get_state_history`, for use on an event loop."""

    @abstractmethod
    def bulk_update_state(
        self, config: RunnableConfig, updates: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Several updates: one checkpoint for each inner sequence.

        Args:
            config: Names the thread, and perhaps a checkpoint to go on from.
            updates: Updates in the order of their steps.
        """

    @abstractmethod
    async def abulk_update_state(
        self, config: RunnableConfig, updates: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """`bulk_update_state`, for use on an event loop."""

    @abstractmethod
    def update_state(
        self,
        config: RunnableConfig,
        values: dict[str, Any] | Any | None,
        as_node: str | None = None,
    ) -> RunnableConfig:
        """Write to a thread as if a node had.

        Args:
            config: Names the thread, and perhaps a checkpoint to go on from.
            values: What the node would have returned.
            as_node: The node.
        """

    @abstractmethod
    async def aupdate_state(
        self,
        config: RunnableConfig,
        values: dict[str, Any] | Any | None,
        as_node: str | None = None,
    ) -> RunnableConfig:
        """`update_state`, for use on an event loop."""

    @abstractmethod
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> Iterator[Any]:
        """Run the graph and yield its events.

        Args:
            input: The input, None to go on with the thread, or a Command.
            config: Names the thread, and what else a caller says about a run.
            **options: See `RunOptions`.
        """

    @abstractmethod
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """`stream`, for use on an event loop."""

    @abstractmethod
    def invoke(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> Any:
        """Run the graph and return its output.

        Args:
            input: The input, None to go on with the thread, or a Command.
            config: Names the thread, and what else a caller says about a run.
            **options: See `RunOptions`.
        """

    @abstractmethod
    async def ainvoke(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> Any:
        """`invoke`, for use on an event loop."""


PregelProtocol.register(Pregel)


class StreamProtocol:
    """Somewhere that events of some modes can be sent to.

    Args:
        send: Called with each event.
        modes: The modes whose events are wanted.

    Examples:
        >>> from milepost.pregel.protocol import StreamProtocol
        >>> events = []
        >>> stream = StreamProtocol(events.append, {"updates"})
        >>> stream(((), "updates", {"work": None}))
        >>> events
        [((), 'updates', {'work': None})]
    """

    __slots__ = ("_send", "modes")

    def __init__(self, send: Callable[[StreamChunk], None], modes: set[StreamMode]) -> None:
        self._send = send
        self.modes = modes

    def __call__(self, chunk: StreamChunk) -> None:
        """Send an event."""
        self._send(chunk)
