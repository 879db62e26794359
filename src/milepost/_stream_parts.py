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
    """A task has begun.

    Examples:
        >>> begun, ended = graph.stream({}, config, stream_mode="tasks")
        >>> begun["name"], begun["input"], begun["triggers"]
        ('work', {}, ('branch:to:work',))
    """

    id: str
    """The same in the payload of its end."""
    name: str
    """The name of its node."""
    input: Any
    """What the node is called with."""
    triggers: tuple[str, ...]
    """The channels whose writes have started it."""
    metadata: NotRequired[dict[str, Any]]
    """The metadata of its node."""


class TaskResultPayload(TypedDict):
    """A task has ended.

    Examples:
        >>> begun, ended = graph.stream({}, config, stream_mode="tasks")
        >>> ended["name"], ended["error"], ended["interrupts"]
        ('work', None, [])
    """

    id: str
    """The same as in the payload of its start."""
    name: str
    """The name of its node."""
    error: str | None
    """Why it failed."""
    interrupts: list[dict[str, Any]]
    """Its open questions."""
    result: dict[str, Any]
    """What it wrote, by key."""


class CheckpointTask(TypedDict):
    """A task in a `CheckpointPayload`.

    Examples:
        >>> payloads = list(graph.stream({}, config, stream_mode="checkpoints"))
        >>> [[task["name"] for task in payload["tasks"]] for payload in payloads]
        [['__start__'], ['work'], []]
    """

    id: str
    """The same for every attempt at the task."""
    name: str
    """The name of its node."""
    error: NotRequired[str]
    """Why its last attempt failed."""
    result: NotRequired[Any]
    """What it wrote, if it has finished."""
    interrupts: NotRequired[tuple[dict[str, Any], ...]]
    """Its open questions."""
    state: StateSnapshot | RunnableConfig | None
    """Of a graph inside: where its state is."""


class CheckpointPayload(TypedDict, Generic[StateT]):
    """A checkpoint was made.

    Examples:
        >>> [payload["next"] for payload in graph.stream({}, config, stream_mode="checkpoints")]
        [['__start__'], ['work'], []]
    """

    config: RunnableConfig | None
    """Names the checkpoint."""
    metadata: dict[str, Any]
    """How it came to be."""
    values: StateT
    """The state."""
    next: list[str]
    """Names of the nodes that run next."""
    parent_config: RunnableConfig | None
    """Names the checkpoint before."""
    tasks: list[CheckpointTask]
    """The tasks of the next step."""


class _DebugPayload(TypedDict):
    step: int
    timestamp: str


class _DebugCheckpointPayload(_DebugPayload, Generic[StateT]):
    type: Literal["checkpoint"]
    payload: CheckpointPayload[StateT]


class _DebugTaskPayload(_DebugPayload):
    type: Literal["task"]
    payload: TaskPayload


class _DebugTaskResultPayload(_DebugPayload):
    type: Literal["task_result"]
    payload: TaskResultPayload


DebugPayload = TypeAliasType(
    "DebugPayload",
    _DebugCheckpointPayload[StateT] | _DebugTaskPayload | _DebugTaskResultPayload,
    type_params=(StateT,),
)
"""What the `debug` mode carries; `type` tells which of the three it is."""


class _StreamPart(TypedDict):
    ns: tuple[str, ...]
    """The graph that it comes from: () for the outermost."""


class ValuesStreamPart(_StreamPart, Generic[OutputT]):
    """Of the `values` mode: the whole state after a step, as its schema where that has fields.

    Examples:
        >>> parts = graph.stream({"n": 0}, config, stream_mode="values", version="v2")
        >>> [part["data"] for part in parts]
        [{'n': 0}, {'n': 1}]
    """

    type: Literal["values"]
    """The mode."""
    data: OutputT
    """The state."""
    interrupts: tuple[Interrupt, ...]
    """The questions that the run has stopped at."""


class UpdatesStreamPart(_StreamPart):
    """Of the `updates` mode: what a node wrote, by its name.

    Examples:
        >>> [part["data"] for part in graph.stream({}, config, stream_mode="updates", version="v2")]
        [{'work': {'n': 1}}]
    """

    type: Literal["updates"]
    """The mode."""
    data: dict[str, Any]
    """The node's name and what it wrote."""


class MessagesStreamPart(_StreamPart):
    """Of the `messages` mode: a message or a piece of one, with metadata.

    Examples:
        >>> from milepost.graph import MessagesState
        >>> from milepost.messages import convert_to_messages
        >>> answer = lambda state: {"messages": convert_to_messages([("ai", "Hello")])}
        >>> builder = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
        >>> question = {"messages": [("user", "Hi")]}
        >>> [part] = builder.compile().stream(question, stream_mode="messages", version="v2")
        >>> message, metadata = part["data"]
        >>> message.content, metadata["langgraph_node"]
        ('Hello', 'answer')
    """

    type: Literal["messages"]
    """The mode."""
    data: tuple[Any, dict[str, Any]]
    """The message, and where it comes from."""


class CustomStreamPart(_StreamPart):
    """Of the `custom` mode: what a node gave its stream writer.

    Examples:
        >>> from milepost.runtime import Runtime
        >>> def work(state: dict, runtime: Runtime):
        ...     runtime.stream_writer("half done")
        >>> graph = StateGraph(dict).add_node("work", work).add_edge(START, "work").compile()
        >>> list(graph.stream({}, stream_mode="custom", version="v2"))
        [{'type': 'custom', 'ns': (), 'data': 'half done'}]
    """

    type: Literal["custom"]
    """The mode."""
    data: Any
    """What the node sent."""


class CheckpointStreamPart(_StreamPart, Generic[StateT]):
    """Of the `checkpoints` mode.

    Examples:
        >>> parts = graph.stream({}, config, stream_mode="checkpoints", version="v2")
        >>> [part["data"]["next"] for part in parts]
        [['__start__'], ['work'], []]
    """

    type: Literal["checkpoints"]
    """The mode."""
    data: CheckpointPayload[StateT]
    """The checkpoint."""


class TasksStreamPart(_StreamPart):
    """Of the `tasks` mode: a task has begun, or has ended.

    Examples:
        >>> parts = graph.stream({}, config, stream_mode="tasks", version="v2")
        >>> ["end" if "result" in part["data"] else "begin" for part in parts]
        ['begin', 'end']
    """

    type: Literal["tasks"]
    """The mode."""
    data: TaskPayload | TaskResultPayload
    """The task as it begins, or what it did; the second has a `result`."""


class DebugStreamPart(_StreamPart, Generic[StateT]):
    """Of the `debug` mode.

    Examples:
        >>> parts = graph.stream({}, config, stream_mode="debug", version="v2")
        >>> {part["data"]["type"] for part in parts} >= {"task", "task_result"}
        True
    """

    type: Literal["debug"]
    """The mode."""
    data: DebugPayload[StateT]
    """A checkpoint, or a task as it begins or ends."""


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
    """What `invoke(..., version="v2")` returns.

    Examples:
        >>> graph.invoke({}, config, version="v2")
        GraphOutput(value={'n': 1}, interrupts=())
    """

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
