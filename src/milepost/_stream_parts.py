"""What `version="v2"` gives: the parts of a stream, one type for each mode, and `GraphOutput`.

`milepost.types` has these names; they are loaded when a program asks for one.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Generic, Literal, NotRequired

from typing_extensions import TypeAliasType, TypedDict, TypeVar

from milepost.constants import INTERRUPT
from milepost.types import Interrupt, RunnableConfig, StateSnapshot
from milepost.warnings import LangGraphDeprecatedSinceV11

StateT = TypeVar("StateT", default=Any)
OutputT = TypeVar("OutputT", default=Any)


class TaskPayload(TypedDict):
    """A task has begun."""

    id: str
    name: str
    input: Any
    triggers: tuple[str, ...]
    metadata: NotRequired[dict[str, Any]]


class TaskResultPayload(TypedDict):
    """A task has ended."""

    id: str
    name: str
    error: str | None
    interrupts: list[dict[str, Any]]
    """Its open questions."""
    result: dict[str, Any]
    """What it wrote, by key."""


class CheckpointTask(TypedDict):
    """A task in a `CheckpointPayload`."""

    id: str
    name: str
    error: NotRequired[str]
    result: NotRequired[Any]
    interrupts: NotRequired[tuple[dict[str, Any], ...]]
    state: StateSnapshot | RunnableConfig | None
    """Of a graph inside: where its state is."""


class CheckpointPayload(TypedDict, Generic[StateT]):
    """A checkpoint was made."""

    config: RunnableConfig | None
    metadata: dict[str, Any]
    values: StateT
    next: list[str]
    parent_config: RunnableConfig | None
    tasks: list[CheckpointTask]


class _DebugCheckpointPayload(TypedDict, Generic[StateT]):
    step: int
    timestamp: str
    type: Literal["checkpoint"]
    payload: CheckpointPayload[StateT]


class _DebugTaskPayload(TypedDict):
    step: int
    timestamp: str
    type: Literal["task"]
    payload: TaskPayload


class _DebugTaskResultPayload(TypedDict):
    step: int
    timestamp: str
    type: Literal["task_result"]
    payload: TaskResultPayload


DebugPayload = TypeAliasType(
    "DebugPayload",
    _DebugCheckpointPayload[StateT] | _DebugTaskPayload | _DebugTaskResultPayload,
    type_params=(StateT,),
)
"""What the `debug` mode carries; `type` tells which of the three it is."""


class ValuesStreamPart(TypedDict, Generic[OutputT]):
    """Of the `values` mode: the whole state after a step, as its schema where that has fields."""

    type: Literal["values"]
    ns: tuple[str, ...]
    """The graph that it comes from: () for the outermost."""
    data: OutputT
    interrupts: tuple[Interrupt, ...]
    """The questions that the run has stopped at."""


class UpdatesStreamPart(TypedDict):
    """Of the `updates` mode: what a node wrote, by its name."""

    type: Literal["updates"]
    ns: tuple[str, ...]
    data: dict[str, Any]


class MessagesStreamPart(TypedDict):
    """Of the `messages` mode: a message or a piece of one, with metadata."""

    type: Literal["messages"]
    ns: tuple[str, ...]
    data: tuple[Any, dict[str, Any]]


class CustomStreamPart(TypedDict):
    """Of the `custom` mode: what a node gave its stream writer."""

    type: Literal["custom"]
    ns: tuple[str, ...]
    data: Any


class CheckpointStreamPart(TypedDict, Generic[StateT]):
    """Of the `checkpoints` mode."""

    type: Literal["checkpoints"]
    ns: tuple[str, ...]
    data: CheckpointPayload[StateT]


class TasksStreamPart(TypedDict):
    """Of the `tasks` mode: a task has begun, or has ended."""

    type: Literal["tasks"]
    ns: tuple[str, ...]
    data: TaskPayload | TaskResultPayload


class DebugStreamPart(TypedDict, Generic[StateT]):
    """Of the `debug` mode."""

    type: Literal["debug"]
    ns: tuple[str, ...]
    data: DebugPayload[StateT]


StreamPart = TypeAliasType(
    "StreamPart",
    ValuesStreamPart[OutputT]
    | UpdatesStreamPart
    | MessagesStreamPart
    | CustomStreamPart
    | CheckpointStreamPart[StateT]
    | TasksStreamPart
    | DebugStreamPart[StateT],
    type_params=(StateT, OutputT),
)
"""What `stream(..., version="v2")` yields; `part["type"]` tells which one it is."""


@dataclass(frozen=True)
class GraphOutput(Generic[OutputT]):
    """What `invoke(..., version="v2")` returns."""

    value: OutputT
    """The output, as its schema where that has fields."""
    interrupts: tuple[Interrupt, ...] = ()
    """The questions that the run has stopped at."""

    def __getitem__(self, key: str) -> Any:
        """As if it were the dict that `version="v1"` returns. Deprecated."""
        _warn("result[key]")
        if key == INTERRUPT:
            return self.interrupts
        if isinstance(self.value, dict):
            return self.value[key]
        try:
            return getattr(self.value, key)
        except AttributeError:
            raise KeyError(key) from None

    def __contains__(self, key: object) -> bool:
        """As if it were the dict that `version="v1"` returns. Deprecated."""
        _warn("key in result")
        if key == INTERRUPT:
            return bool(self.interrupts)
        if isinstance(self.value, dict):
            return key in self.value
        return isinstance(key, str) and hasattr(self.value, key)


def _warn(usage: str) -> None:
    warnings.warn(
        f"`{usage}` of a GraphOutput is deprecated: use `result.value` and `result.interrupts`",
        LangGraphDeprecatedSinceV11,
        stacklevel=3,
    )
