"""The records that programs and the runtime hand to each other.

The examples of this module go on from here:

Examples:
    >>> from milepost.checkpoint.memory import InMemorySaver
    >>> from milepost.graph import START, StateGraph
    >>> builder = StateGraph(dict).add_node("work", lambda state: {"n": 1})
    >>> graph = builder.add_edge(START, "work").compile(checkpointer=InMemorySaver())
    >>> config = {"configurable": {"thread_id": "1"}}
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NamedTuple,
    TypeAlias,
    Union,
    final,
    overload,
)

from typing_extensions import TypedDict, TypeVar

from milepost._internal.lazy_imports import on_demand
from milepost._internal.other_root import advice
from milepost._internal.texts import plain
from milepost.errors import NodeTimeoutError, _repr_of

if TYPE_CHECKING:
    from collections import deque
    from datetime import timedelta

    from milepost._engine.context.runtime import RunControl
    from milepost._stream_parts import (
        CheckpointPayload,
        CheckpointStreamPart,
        CheckpointTask,
        CustomStreamPart,
        DebugPayload,
        DebugStreamPart,
        GraphOutput,
        MessagesStreamPart,
        StreamPart,
        TaskPayload,
        TaskResultPayload,
        TasksStreamPart,
        UpdatesStreamPart,
        ValuesStreamPart,
    )
    from milepost.checkpoint.base import BaseCheckpointSaver, CheckpointMetadata
else:
    try:  # without the second set of classes, in Python, that `datetime` defines first
        from _datetime import timedelta
    except ImportError:
        from datetime import timedelta

__all__ = [
    "All",
    "CacheKey",
    "CachePolicy",
    "CheckpointPayload",
    "CheckpointStreamPart",
    "CheckpointTask",
    "Checkpointer",
    "Command",
    "CustomStreamPart",
    "DebugPayload",
    "DebugStreamPart",
    "Durability",
    "GraphOutput",
    "Interrupt",
    "MessagesStreamPart",
    "OnConflict",
    "Overwrite",
    "PregelExecutableTask",
    "PregelTask",
    "RetryPolicy",
    "RunOptions",
    "RunnableConfig",
    "Send",
    "StateSnapshot",
    "StateUpdate",
    "StreamMode",
    "StreamPart",
    "StreamWriter",
    "TaskError",
    "TaskPayload",
    "TaskResultPayload",
    "TasksStreamPart",
    "TimeoutPolicy",
    "TracePolicy",
    "UpdatesStreamPart",
    "ValuesStreamPart",
    "ensure_valid_checkpointer",
    "interrupt",
    "omit_payload",
]

All: TypeAlias = Literal["*"]
"""In `interrupt_before` and `interrupt_after`: every node."""

Durability: TypeAlias = Literal["sync", "async", "exit"]
"""When a step is saved.

- `sync`: before the next step starts.
- `async`: while the next step runs; in order, and never more than a bounded queue behind.
- `exit`: once, when the run ends by success, error or interrupt.
"""

OnConflict: TypeAlias = Literal["newest", "reject"]
"""What a run does that finds another run on its thread: take the thread over, or be refused."""

StreamMode: TypeAlias = Literal[
    "values", "updates", "checkpoints", "tasks", "debug", "messages", "custom", "tools"
]
"""What a stream carries.

- `values`: the whole state after each step.
- `updates`: what each node wrote, as it finishes.
- `custom`: what nodes send through the stream writer.
- `messages`: tokens of chat models, with metadata.
- `tools`: calls of LangChain's tools as they begin, say something and end.
- `checkpoints`, `tasks`: saved checkpoints; tasks as they start and finish.
- `debug`: `checkpoints` and `tasks` together.
"""

StreamWriter: TypeAlias = Callable[[Any], None]
"""A function that a node is given; what it is called with goes to the `custom` stream."""

Checkpointer: TypeAlias = Union[None, bool, "BaseCheckpointSaver[Any]"]
"""What `compile(checkpointer=...)` takes.

- `None`: no checkpointer; as a subgraph, the parent's.
- `True`: as a subgraph, the parent's, with memory of its own that lasts across calls.
- `False`: none, not even the parent's.
- a saver: that one.
"""


class RunnableConfig(TypedDict, total=False):
    """The config of a run. Every key is optional.

    Examples:
        >>> from milepost.types import RunnableConfig
        >>> config: RunnableConfig = {"configurable": {"thread_id": "1"}, "recursion_limit": 50}
    """

    configurable: dict[str, Any]
    """`thread_id`, `checkpoint_id`, `checkpoint_ns`, and whatever the program's nodes read."""
    metadata: dict[str, Any]
    """Saved with every checkpoint of the run."""
    tags: list[str]
    """Passed on to LangChain runnables, and shown by tracers."""
    recursion_limit: int
    """How many super-steps the run may take."""
    max_concurrency: int | None
    """How many tasks may run at the same time."""
    run_id: Any
    """Names the run in its checkpoints and in traces; made by the run if it is not given."""
    run_name: str
    """What tracers call the run."""
    callbacks: Any
    """Passed on to LangChain runnables untouched."""


ContextT = TypeVar("ContextT", default=Any)
ResponseT = TypeVar("ResponseT")


class UnversionedRunOptions(TypedDict, Generic[ContextT], total=False):
    """`RunOptions` without the version, on which the type of a result depends."""

    context: ContextT | None
    """What nodes find in `runtime.context`."""
    output_keys: str | Sequence[str] | None
    """A key, or several, to show instead of the whole state."""
    interrupt_before: All | Sequence[str] | None
    """Nodes to pause before, or "*", in this run."""
    interrupt_after: All | Sequence[str] | None
    """Nodes to pause after, or "*", in this run."""
    durability: Durability | None
    """When steps are saved; "async" by default."""
    on_conflict: OnConflict | None
    """What to do if another run is on the thread; what the graph was compiled with by default."""
    control: RunControl | None
    """Lets other code ask the run to stop."""
    print_mode: StreamMode | Sequence[StreamMode]
    """Events of these modes are printed, for debugging; what is returned does not change."""
    debug: bool | None
    """Print updates and values; what the graph was compiled with by default."""
    checkpoint_during: bool | None
    """Deprecated: `durability` "async" or "exit"."""


class RunOptions(UnversionedRunOptions[ContextT], Generic[ContextT], total=False):
    """What `invoke`, `stream`, `batch` and their async forms take by keyword. All are optional.

    A function that passes them on declares `**options: Unpack[RunOptions]`.

    Examples:
        >>> from typing_extensions import Unpack
        >>> from milepost.types import RunOptions
        >>> def carefully(graph, value, config, **options: Unpack[RunOptions]):
        ...     return graph.invoke(value, config, durability="sync", **options)
    """

    version: Literal["v1", "v2", "v3"] | None
    """The form of events and results: with "v2" typed parts (`StreamPart`) and `GraphOutput`.

    With "v3" parts too, and answers of chat models in content blocks: `stream_events` uses it.
    """


class _Missing:
    """The type of MISSING, the value of "there is no value"."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


def _retry_by_default(exc: Exception) -> bool:
    """Retry what may pass: connections, timeouts, server errors; but no programming errors.

    Args:
        exc: What the node raised.

    Examples:
        >>> from milepost.types import RetryPolicy
        >>> decide = RetryPolicy().retry_on
        >>> decide(ConnectionError("refused")), decide(ValueError("typo"))
        (True, False)
    """
    if isinstance(exc, (ConnectionError, NodeTimeoutError)):
        return True
    httpx = sys.modules.get("httpx")
    if httpx is not None and isinstance(exc, httpx.HTTPStatusError):
        return bool(exc.response.status_code >= 500)
    requests = sys.modules.get("requests")
    if requests is not None and isinstance(exc, requests.HTTPError):
        return exc.response is None or bool(exc.response.status_code >= 500)
    permanent = (
        ValueError,
        TypeError,
        ArithmeticError,
        ImportError,
        LookupError,
        NameError,
        SyntaxError,
        RuntimeError,
        ReferenceError,
        StopIteration,
        StopAsyncIteration,
        OSError,
    )
    return not isinstance(exc, permanent)


class RetryPolicy(NamedTuple):
    """How often, and after which pauses, a failed node is tried again.

    Examples:
        >>> from milepost.types import RetryPolicy
        >>> policy = RetryPolicy(max_attempts=5, retry_on=ConnectionError)
        >>> builder = StateGraph(dict).add_node("call", lambda state: state, retry_policy=policy)
    """

    initial_interval: float = 0.5
    """Seconds before the first retry."""
    backoff_factor: float = 2.0
    """Each pause is this many times the one before it."""
    max_interval: float = 128.0
    """No pause is longer, in seconds."""
    max_attempts: int = 3
    """The first attempt counts."""
    jitter: bool = True
    """Add up to a second at random, so that many runs do not retry in step."""
    retry_on: type[Exception] | Sequence[type[Exception]] | Callable[[Exception], bool] = (
        _retry_by_default
    )
    """Which errors: a type, several types, or a function that decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutPolicy:
    """How long one attempt of an async node may take, in seconds or as a timedelta.

    Examples:
        >>> from milepost.types import TimeoutPolicy
        >>> async def call(state): ...
        >>> limits = TimeoutPolicy(run_timeout=60, idle_timeout=10)
        >>> builder = StateGraph(dict).add_node("call", call, timeout=limits)
    """

    run_timeout: float | timedelta | None = None
    """From the start of the attempt."""
    idle_timeout: float | timedelta | None = None
    """Since the node last wrote to a stream or called `runtime.heartbeat()`."""
    refresh_on: Literal["auto", "heartbeat"] = "auto"
    """What ends idleness: anything the node streams, or `runtime.heartbeat()` alone."""

    def __post_init__(self) -> None:
        for limit in (self.run_timeout, self.idle_timeout):
            if limit is None:
                continue
            if isinstance(limit, bool) or not isinstance(limit, (int, float, timedelta)):
                raise TypeError(f"A timeout is a number of seconds or a timedelta, not {limit!r}.")
            if (seconds(limit) or 0) <= 0:
                raise ValueError(f"A timeout must be longer than nothing, not {limit!r}.")

        if self.refresh_on not in ("auto", "heartbeat"):
            raise ValueError(f"refresh_on must be 'auto' or 'heartbeat', not {self.refresh_on!r}.")

    @classmethod
    def coerce(cls, value: float | timedelta | TimeoutPolicy | None) -> TimeoutPolicy | None:
        """The policy that a shorthand means, in seconds; None if it sets no limit.

        Args:
            value: Seconds, a timedelta or a policy; `None` for no limit.
        """
        if value is None:
            return None
        given = value if isinstance(value, TimeoutPolicy) else cls(run_timeout=value)
        run, idle = seconds(given.run_timeout), seconds(given.idle_timeout)
        if run is None and idle is None:
            return None
        return cls(run_timeout=run, idle_timeout=idle, refresh_on=given.refresh_on)


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePolicy:
    """What tracers record of a node's input and output. The node itself gets what it would get.

    A function returns what is recorded; if it fails, the value is recorded as it is. This saves
    space in traces. It is no way to keep secrets: models that the node calls record their own.

    Examples:
        >>> from milepost.types import TracePolicy, omit_payload
        >>> policy = TracePolicy(process_inputs=omit_payload)
        >>> builder = StateGraph(dict).add_node("read", lambda state: state, trace_policy=policy)
    """

    process_inputs: Callable[[Any], Any] | None = None
    """What is recorded of the node's input; `None` records it as it is."""
    process_outputs: Callable[[Any], Any] | None = None
    """What is recorded of the node's output; `None` records it as it is."""


def omit_payload(_value: Any) -> dict[str, Any]:
    """For a TracePolicy: record nothing of a value.

    Examples:
        >>> from milepost.types import TracePolicy, omit_payload
        >>> policy = TracePolicy(process_inputs=omit_payload, process_outputs=omit_payload)
    """
    return {}


def seconds(value: float | timedelta | None) -> float | None:
    """A duration in seconds."""
    if value is None:
        return None
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


class CacheKey(NamedTuple):
    """Where the result of a node or task is cached.

    Examples:
        >>> from milepost.types import CacheKey
        >>> CacheKey(namespace=("answers",), key="paris", ttl=60)
        CacheKey(namespace=('answers',), key='paris', ttl=60)
    """

    namespace: tuple[str, ...]
    """The group of results that it belongs to: `clear` takes namespaces."""
    key: str
    """What the `key_func` of the policy has made of the input."""
    ttl: int | None
    """Seconds until it expires."""


def _cache_key_by_default(*args: Any, **kwargs: Any) -> bytes:
    """The arguments in their stored form: equal arguments give equal keys, in every process."""
    from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer

    kind, data = JsonPlusSerializer().dumps_typed((args, sorted(kwargs.items())))
    return kind.encode() + data


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePolicy:
    """Whether a node's result may be taken from the graph's cache.

    Examples:
        >>> from milepost.cache.memory import InMemoryCache
        >>> from milepost.types import CachePolicy
        >>> builder = StateGraph(dict).add_edge(START, "work")
        >>> builder = builder.add_node("work", print, cache_policy=CachePolicy(ttl=60))
        >>> graph = builder.compile(cache=InMemoryCache())
        >>> _ = graph.invoke({"n": 1}), graph.invoke({"n": 1})  # the node runs once
        {'n': 1}
    """

    key_func: Callable[..., str | bytes] = _cache_key_by_default
    """Makes the key from the node's input; nodes with equal keys share a result."""
    ttl: int | None = None
    """Seconds until a result expires; `None` keeps it."""


@final
@dataclass(frozen=True, slots=True)
class Interrupt:
    """A question that a paused run is waiting to have answered.

    Examples:
        >>> from milepost.types import interrupt
        >>> builder = StateGraph(dict).add_node("ask", lambda state: interrupt("Go on?"))
        >>> graph = builder.add_edge(START, "ask").compile(checkpointer=InMemorySaver())
        >>> result = graph.invoke({}, {"configurable": {"thread_id": "1"}})
        >>> [question] = result["__interrupt__"]
        >>> question.value
        'Go on?'
    """

    value: Any
    """What `interrupt(value)` was called with."""
    id: str = "placeholder-id"
    """Names this interrupt in `Command(resume={id: answer})`; the same after every re-run,
    until the state is updated."""
    response_schema: Any = field(default=None, kw_only=True)
    """JSON Schema of the answer, if `interrupt(response_schema=)` gave one."""

    def __init__(
        self,
        value: Any,
        id: str = "placeholder-id",
        *,
        response_schema: Any = None,
        ns: Sequence[str] | None = None,
        **older: Any,
    ) -> None:
        """Older versions took `ns`, the namespace of the task that asks, in place of the id.

        `resumable` and `when` of older versions are ignored.
        """
        if unknown := older.keys() - {"resumable", "when"}:
            raise TypeError(f"Interrupt takes no argument {sorted(unknown)[0]!r}.")
        if ns is not None and id == "placeholder-id":
            from milepost._internal.ids import interrupt_id_of_ns

            id = interrupt_id_of_ns("|".join(ns))
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "id", id)
        object.__setattr__(self, "response_schema", response_schema)

    @classmethod
    def from_ns(cls, value: Any, ns: str, *, response_schema: Any = None) -> Interrupt:
        """The interrupt of the task that has this namespace, with the id that LangGraph gives.

        Args:
            value: What `interrupt` was called with.
            ns: The checkpoint namespace of the task.
            response_schema: JSON Schema of the answer.
        """
        return cls(value, ns=[ns], response_schema=response_schema)

    @property
    def interrupt_id(self) -> str:
        """Deprecated: `id`."""
        import warnings

        from milepost.warnings import LangGraphDeprecatedSinceV10

        message = "Interrupt.interrupt_id is deprecated: read `id`"
        warnings.warn(message, LangGraphDeprecatedSinceV10, stacklevel=2)
        return self.id


class StateUpdate(NamedTuple):
    """One update of `bulk_update_state`.

    Examples:
        >>> from milepost.types import StateUpdate
        >>> StateUpdate(values={"city": "Paris"}, as_node="find")
        StateUpdate(values={'city': 'Paris'}, as_node='find', task_id=None)
    """

    values: dict[str, Any] | Any | None
    """What the node would have returned."""
    as_node: str | None = None
    """The node that the update comes from."""
    task_id: str | None = None
    """The task that the update comes from, where a node has several."""


class TaskError(str):
    """Why a task failed, as text: what `repr` gives for its exception.

    Examples:
        >>> from milepost.types import TaskError
        >>> error = TaskError.of(ValueError("no city"))
        >>> error
        "ValueError('no city')"
        >>> error.exception
        ValueError('no city')
    """

    exception: BaseException | None = None
    """The exception itself, if the saver has kept it."""

    @classmethod
    def of(cls, error: BaseException | str) -> TaskError:
        """The text of an error that is stored as an exception or as text.

        Args:
            error: The exception, or its text.
        """
        if isinstance(error, str):
            return cls(error)
        text = cls(_repr_of(error))
        text.exception = error
        return text


class PregelTask(NamedTuple):
    """A task of a step, as `StateSnapshot.tasks` shows it.

    Examples:
        >>> builder = StateGraph(dict).add_node("work", lambda state: state).add_edge(START, "work")
        >>> graph = builder.compile(checkpointer=InMemorySaver(), interrupt_before=["work"])
        >>> _ = graph.invoke({}, config)
        >>> [task] = graph.get_state(config).tasks
        >>> task.name
        'work'
    """

    id: str
    """The same for every attempt at the task."""
    name: str
    """The name of its node."""
    path: tuple[Any, ...]
    """How the step came to it: an edge, or which `Send` of which task."""
    error: TaskError | None = None
    """Why its last attempt failed."""
    interrupts: tuple[Interrupt, ...] = ()
    """Its open interrupts."""
    state: Union[RunnableConfig, StateSnapshot, None] = None  # noqa: UP007
    """For a subgraph: where its state is, or with `subgraphs=True` the state itself."""
    result: Any | None = None
    """What it wrote, if it has finished and its step has not."""


@dataclass(frozen=True, slots=True)
class PregelExecutableTask:
    """A task with all that is needed to run it, for code that makes and runs tasks itself.

    Examples:
        >>> from collections import deque
        >>> from milepost.types import PregelExecutableTask
        >>> task = PregelExecutableTask(
        ...     name="work", input={}, proc=print, writes=deque(), config={}, triggers=["start"],
        ...     retry_policy=[], cache_key=None, id="1", path=(),
        ... )
        >>> task.proc(task.input)
        {}
    """

    name: str
    """The name of its node."""
    input: Any
    """What the node is called with."""
    proc: Any
    """What is called with the input."""
    writes: deque[tuple[str, Any]]
    """Pairs of a channel and what is written to it, in the order of writing."""
    config: RunnableConfig
    """The config that the node gets."""
    triggers: Sequence[str]
    """The channels whose writes have started it."""
    retry_policy: Sequence[RetryPolicy]
    """When to try again; the first that fits an error counts."""
    cache_key: CacheKey | None
    """Where its result is cached."""
    id: str
    """The same for every attempt at the task."""
    path: tuple[Any, ...]
    """How the step came to it: an edge, or which `Send` of which task."""
    writers: Sequence[Any] = ()
    """What turns the node's result into writes."""
    subgraphs: Sequence[Any] = ()
    """The graphs that the node calls."""
    timeout: TimeoutPolicy | None = None
    """How long one attempt may take."""


class StateSnapshot(NamedTuple):
    """The state of a thread at one of its checkpoints.

    Examples:
        >>> _ = graph.invoke({"n": 0}, config)
        >>> [(snapshot.values, snapshot.next) for snapshot in graph.get_state_history(config)]
        [({'n': 1}, ()), ({'n': 0}, ('work',)), (None, ('__start__',))]
    """

    values: dict[str, Any] | Any
    """The state: a dictionary of its keys, or the value of a state that has no keys."""
    next: tuple[str, ...]
    """Names of the nodes that run next; empty when the graph has come to its end."""
    config: RunnableConfig
    """Pass it to `invoke(None, config)` to replay from here."""
    metadata: CheckpointMetadata | None
    """How the checkpoint came to be: `source`, `step`, `writes`, and the metadata of the run."""
    created_at: str | None
    """When it was saved, in ISO 8601."""
    parent_config: RunnableConfig | None
    """The config of the checkpoint before this one."""
    tasks: tuple[PregelTask, ...]
    """The tasks of the next step, with what is known of them."""
    interrupts: tuple[Interrupt, ...]
    """The open interrupts of all tasks."""


@final
class Send:
    """Runs a node in the next step with an input of its own.

    Args:
        node: The name of the node.
        arg: What the node gets as its state.
        timeout: How long the task may take, in place of the node's own limit.

    Examples:
        >>> import operator
        >>> from typing import Annotated
        >>> from typing_extensions import TypedDict
        >>> from milepost.types import Send
        >>> class State(TypedDict):
        ...     sizes: Annotated[list[int], operator.add]
        >>> builder = StateGraph(State).add_node("size", lambda word: {"sizes": [len(word)]})
        >>> words = lambda state: [Send("size", word) for word in ("a", "four")]
        >>> graph = builder.add_conditional_edges(START, words).compile()
        >>> graph.invoke({})
        {'sizes': [1, 4]}
    """

    __slots__ = ("arg", "node", "timeout")

    node: str
    """The name of the node."""
    arg: Any
    """What the node gets as its state."""
    timeout: TimeoutPolicy | None
    """How long the task may take."""

    def __init__(
        self, /, node: str, arg: Any, *, timeout: float | timedelta | TimeoutPolicy | None = None
    ) -> None:
        self.node = plain(node)
        self.arg = arg
        self.timeout = TimeoutPolicy.coerce(timeout)

    def __hash__(self) -> int:
        return hash((Send, self.node))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Send)
            and self.node == other.node
            and self.arg == other.arg
            and self.timeout == other.timeout
        )

    def __repr__(self) -> str:
        return f"Send(node={self.node!r}, arg={self.arg!r})"


N = TypeVar("N", bound=Hashable)


class _Root:
    """A base that leaves the bases of its children open: those of a child of `object` are fixed."""

    __slots__ = ()


class _ToolOutput(_Root):
    """What a tool of LangChain may return as it is; see `_engine/context/langchain_bridge.py`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Generic[N], _ToolOutput):
    """Updates the state, answers interrupts and says where to go, in one value.

    A node may return it, and a run may be started with it.

    Examples:
        >>> from milepost.types import Command
        >>> builder = StateGraph(dict).add_edge(START, "look")
        >>> builder = builder.add_node("look", lambda state: Command(update={"n": 1}, goto="end"))
        >>> graph = builder.add_node("end", lambda state: {"n": state["n"] + 1}).compile()
        >>> graph.invoke({})
        {'n': 2}
    """

    graph: str | None = None
    """Which graph it is for: `None` for this one, `Command.PARENT` for the enclosing one."""
    update: Any | None = None
    """What the node writes, or what is written before the run goes on."""
    resume: Any | None = None
    """An answer to the open interrupt, or a dict of interrupt ids and their answers."""
    goto: Send | Sequence[Send | N] | N = ()
    """What runs next: the name of a node, a `Send`, or several of them."""

    PARENT: ClassVar[Literal["__parent__"]] = "__parent__"
    """For `graph`: the graph that this one is a subgraph of."""

    def __repr__(self) -> str:
        fields = [(name, getattr(self, name)) for name in ("graph", "update", "resume", "goto")]
        return f"Command({', '.join(f'{name}={value!r}' for name, value in fields if value)})"

    def targets(self) -> Sequence[Send | N]:
        """`goto` as a sequence."""
        if isinstance(self.goto, (Send, str)) or not isinstance(self.goto, Iterable):
            return [self.goto]
        return self.goto if isinstance(self.goto, Sequence) else list(self.goto)


@dataclass(frozen=True, slots=True)
class Overwrite:
    """A write that replaces the value of a reducer channel instead of passing through it.

    Examples:
        >>> import operator
        >>> from typing import Annotated
        >>> from typing_extensions import TypedDict
        >>> from milepost.types import Overwrite
        >>> class State(TypedDict):
        ...     log: Annotated[list[str], operator.add]
        >>> builder = StateGraph(State).add_node("clear", lambda state: {"log": Overwrite([])})
        >>> builder.add_edge(START, "clear").compile().invoke({"log": ["a", "b"]})
        {'log': []}
    """

    value: Any
    """The new value of the channel."""
    type: Literal["__overwrite__"] = field(default="__overwrite__", repr=False)
    """Distinguishes it from other values where it is stored as JSON."""


class _Answered(NamedTuple):
    """An interrupt that was answered, kept beside the open ones of its task."""

    interrupt: Interrupt


class _DeltaSnapshot(NamedTuple):
    """The whole value of a `DeltaChannel`, as stored when its chain of writes gets long."""

    value: Any


@overload
def interrupt(value: Any, *, response_schema: type[ResponseT]) -> ResponseT: ...
@overload
def interrupt(value: Any, *, response_schema: dict[str, Any] | None = None) -> Any: ...


def interrupt(value: Any, *, response_schema: type[Any] | dict[str, Any] | None = None) -> Any:
    """Pause the run here and show `value` to its caller; return their answer.

    The first call raises, and the run ends with the interrupt in its result. When the run is
    resumed with `Command(resume=answer)` the node starts again from its top, and this call
    returns the answer. Needs a checkpointer.

    Args:
        value: The question: anything that can be saved.
        response_schema: What the answer has to be; callers find it as JSON Schema in
            `Interrupt.response_schema`. A dict is JSON Schema, and is only shown. With a pydantic
            model, a TypedDict or a dataclass the answer is validated, and the validated object is
            returned.

    Raises:
        OutsideRunError: It is called outside of a node.
        ValidationError: Pydantic's, if an answer does not fit (`errors.is_invalid_resume` tells it
            from others); the interrupt waits for another one.

    Examples:
        >>> from milepost.types import Command, interrupt
        >>> builder = StateGraph(dict).add_node("ask", lambda state: {"name": interrupt("Name?")})
        >>> graph = builder.add_edge(START, "ask").compile(checkpointer=InMemorySaver())
        >>> graph.invoke({}, config)["__interrupt__"][0].value
        'Name?'
        >>> graph.invoke(Command(resume="Ada"), config)
        {'name': 'Ada'}
    """
    from milepost._engine.context.task_context import ResponseSchema, current_context

    context = current_context("interrupt")
    schema = None if response_schema is None else ResponseSchema(response_schema)
    return context.interrupt(value, schema)


def ensure_valid_checkpointer(checkpointer: Any) -> Checkpointer:
    """`checkpointer` itself if a graph can be compiled with it.

    Args:
        checkpointer: What a program would pass to `compile`.

    Raises:
        TypeError: It is no saver: a class, or a context manager that has not been entered.

    Examples:
        >>> from milepost.types import ensure_valid_checkpointer
        >>> saver = InMemorySaver()
        >>> ensure_valid_checkpointer(saver) is saver
        True
    """
    from milepost.checkpoint.base import BaseCheckpointSaver

    if checkpointer is None or isinstance(checkpointer, (bool, BaseCheckpointSaver)):
        return checkpointer
    if advice(checkpointer):
        raise TypeError(
            f"{type(checkpointer).__name__} is a saver of LangGraph's: pass from_langgraph(saver), "
            "from milepost.integrations.langgraph, or take the saver of milepost.checkpoint."
        )
    raise not_usable(
        "checkpointer", checkpointer, "BaseCheckpointSaver, True, False or None", "Saver"
    )


def not_usable(what: str, given: Any, wanted: str, kind: str) -> TypeError:
    """The error for what no graph can be compiled with as its checkpointer or store."""
    if isinstance(given, type):
        name = given.__name__
        return TypeError(f"A {what} must be an instance, not the class {name}: pass {name}(...).")
    hint, opened = "", f"Sqlite{kind}.from_conn_string(...) as {kind.lower()}:"
    for enter, prefix in (("__aenter__", "async with Async"), ("__enter__", "with ")):
        if hasattr(given, enter):
            hint = f" It is a context manager: enter it first, as in `{prefix}{opened}`."
    return TypeError(f"A {what} must be a {wanted}, not {type(given).__name__}.{hint}")


if not TYPE_CHECKING:
    # The other public names are the types of what streams carry, and are loaded when one is used.
    _PARTS = [name for name in __all__ if name not in globals()]
    __getattr__, __dir__ = on_demand(__name__, dict.fromkeys(_PARTS, "milepost._stream_parts"))
