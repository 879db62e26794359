"""What type checkers know of a graph: its type parameters, and what may be a node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import TypeVar

StateT = TypeVar("StateT", default=Any)
ContextT = TypeVar("ContextT", default=Any)
"""By default any: `CompiledStateGraph` alone is a graph with whatever context."""
InputT = TypeVar("InputT", default=StateT)
OutputT = TypeVar("OutputT", default=StateT)

if TYPE_CHECKING:
    from dataclasses import Field
    from typing import ClassVar, Concatenate, Protocol, TypeAlias

    from milepost.graph._compiled import Pregel
    from milepost.graph.state import StateGraph

    AnyBuilder: TypeAlias = StateGraph[Any, Any, Any, Any]
    AnyGraph: TypeAlias = Pregel[Any, Any, Any, Any]

    class _Dataclass(Protocol):
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    class _Model(Protocol):
        @property
        def model_dump(self) -> Any: ...

    class _Invoked(Protocol):
        @property
        def invoke(self) -> Any: ...

    class _AsyncInvoked(Protocol):
        @property
        def ainvoke(self) -> Any: ...

    NodeInputT = TypeVar("NodeInputT", bound=Mapping[str, Any] | _Dataclass | _Model)
    """What a node reads that does not read the state: another schema."""

    ReadT = TypeVar("ReadT")
    Node: TypeAlias = Callable[Concatenate[ReadT, ...], Any] | _Invoked | _AsyncInvoked
    """A function of what the node reads, or an object with `invoke` or `ainvoke`."""

    Path: TypeAlias = (
        Callable[..., Hashable | Sequence[Hashable]]
        | Callable[..., Awaitable[Hashable | Sequence[Hashable]]]
        | _Invoked
        | _AsyncInvoked
    )
    """What says where to go: nodes' names, Sends, or keys of a path map."""
