"""The records that programs and the runtime hand to each other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
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

from milepost._internal.dataclass_tools import frozen
from milepost._internal.lazy_imports import on_demand
from milepost.errors import NodeTimeoutError

if TYPE_CHECKING:
    from collections import deque
    from datetime import timedelta

    from milepost._engine.context.task_context import RunControl
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

    _PARTS = (
        "CheckpointPayload",
        "CheckpointStreamPart",
        "CheckpointTask",
        "CustomStreamPart",
        "DebugPayload",
        "DebugStreamPart",
        "GraphOutput",
        "MessagesStreamPart",
        "StreamPart",
        "TaskPayload",
        "TaskResultPayload",
        "TasksStreamPart",
        "UpdatesStreamPart",
        "ValuesStreamPart",
    )
    __getattr__, __dir__ = on_demand(__name__, dict.fromkeys(_PARTS, "milepost._stream_parts"))

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
    """What a caller says about a run. Every key is optional."""

    configurable: dict[str, Any]
    """`thread_id`, `checkpoint_id`, `checkpoint_ns`, and whatever the program's nodes read."""
    metadata: dict[str, Any]
    """Saved with every checkpoint of the run."""
    tags: list[str]
    recursion_limit: int
    """How many super-steps the run may take."""
    max_concurrency: int | None
    """How many tasks may run at the same time."""
    run_id: Any
    run_name: str
    callbacks: Any
    """Passed on to LangChain runnables untouched."""


ContextT = TypeVar("ContextT", default=Any)
ResponseT = TypeVar("ResponseT")


class RunOptions(TypedDict, Generic[ContextT], total=False):
    """What `invoke`, `stream`, `batch` and their async forms take by keyword. All are optional.

    A function that passes them on declares `**options: Unpack[RunOptions]`.
    """

    context: ContextT | None
    """What nodes find in `runtime.context`."""
    output_keys: str | Sequence[str] | None
    """A key, or several, to show instead of the whole state."""
    interrupt_before: All | Sequence[str] | None
    """Nodes to pause before, or "*", in this run."""
    interrupt_after: All | Sequence[str] | None
    """Nodes to pause after, or "*", in this run."""
    durability: Durability | None
    """When steps are saved; "async" unless the run says otherwise."""
    on_conflict: OnConflict | None
    """What to do if another run is on the thread; what the graph was compiled with by default."""
    control: RunControl | None
    """Lets other code ask the run to stop."""
    version: Literal["v1", "v2", "v3"] | None
    """The form of events and results: with "v2" typed parts (`StreamPart`) and `GraphOutput`.

    With "v3" parts too, and answers of chat models in content blocks: `stream_events` uses it.
    """
    print_mode: StreamMode | Sequence[StreamMode]
    """Events of these modes are printed, for debugging; what is returned does not change."""
    debug: bool | None
    """Print updates and values; what the graph was compiled with by default."""
    checkpoint_during: bool | None
    """Deprecated: `durability` "async" or "exit"."""


class _Missing:
    """The type of MISSING, the value of "there is no value"."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


def _retry_by_default(exc: Exception) -> bool:
    """Retry what may pass: connections, timeouts, server errors; but no programming errors."""
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
    """How often, and after which pauses, a failed node is tried again."""

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


@frozen(kw_only=True)
class TimeoutPolicy:
    """How long one attempt of an async node may take, in seconds or as a timedelta."""

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
        """The policy that a shorthand means, in seconds; None if it sets no limit."""
        if value is None:
            return None
        given = value if isinstance(value, TimeoutPolicy) else cls(run_timeout=value)
        run, idle = seconds(given.run_timeout), seconds(given.idle_timeout)
        if run is None and idle is None:
            return None
        return cls(
            run_timeout=None if run is None else float(run),
            idle_timeout=None if idle is None else float(idle),
            refresh_on=given.refresh_on,
        )


@frozen(kw_only=True)
class TracePolicy:
    """What tracers record of a node's input and output. The node itself gets what it would get.

    A function returns what is recorded; if it fails, the value is recorded as it is. This saves
    space in traces. It is no way to keep secrets: models that the node calls record their own.
    """

    process_inputs: Callable[[Any], Any] | None = None
    process_outputs: Callable[[Any], Any] | None = None


def omit_payload(_value: Any) -> dict[str, Any]:
    """For a TracePolicy: record nothing of a value."""
    return {}


def seconds(value: float | timedelta | None) -> float | None:
    """A duration in seconds, however the user gave it."""
    return value.total_seconds() if isinstance(value, timedelta) else value


class CacheKey(NamedTuple):
    """Where the result of a node or task is cached."""

    namespace: tuple[str, ...]
    key: str
    ttl: int | None
    """Seconds until it expires."""


def _cache_key_by_default(*args: Any, **kwargs: Any) -> bytes:
    """The arguments in their stored form: equal arguments give equal keys, in every process."""
    from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer

    kind, data = JsonPlusSerializer().dumps_typed((args, sorted(kwargs.items())))
    return kind.encode() + data


@frozen(kw_only=True)
class CachePolicy:
    """Whether a node's result may be taken from the graph's cache."""

    key_func: Callable[..., str | bytes] = _cache_key_by_default
    """Makes the key from the node's input; nodes with equal keys share a result."""
    ttl: int | None = None
    """Seconds until a result expires; `None` keeps it."""


@final
@frozen()
class Interrupt:
    """A question that a paused run is waiting to have answered."""

    value: Any
    """What `interrupt(value)` was called with."""
    id: str = "placeholder-id"
    """Names this interrupt in `Command(resume={id: answer})`; the same after every re-run."""
    response_schema: Any = field(default=None, kw_only=True)
    """JSON Schema of the answer, if `interrupt(response_schema=)` said what it has to be."""

    def __init__(
        self,
        value: Any,
        id: str = "placeholder-id",
        *,
        response_schema: Any = None,
        ns: Sequence[str] | None = None,
        **older: Any,
    ) -> None:
        """`ns`, the namespace of the task that asks, stood in place of the id in older versions.

        So did `resumable` and `when`, which say nothing any more.
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
        """The interrupt of the task that has this namespace, with the id that LangGraph gives."""
        from milepost._internal.ids import interrupt_id_of_ns

        return cls(value, interrupt_id_of_ns(ns), response_schema=response_schema)

    @property
    def interrupt_id(self) -> str:
        """Deprecated: `id`."""
        import warnings

        from milepost.warnings import LangGraphDeprecatedSinceV10

        message = "Interrupt.interrupt_id is deprecated: read `id`"
        warnings.warn(message, LangGraphDeprecatedSinceV10, stacklevel=2)
        return self.id


class StateUpdate(NamedTuple):
    """One update of `bulk_update_state`."""

    values: dict[str, Any] | Any | None
    as_node: str | None = None
    task_id: str | None = None


class TaskError(str):
    """Why a task failed, as text: what `repr` gives for its exception."""

    exception: BaseException | None = None
    """The exception itself, if the saver has kept it."""

    @classmethod
    def of(cls, error: BaseException | str) -> TaskError:
        """The text of an error that is stored as an exception or as text."""
        if isinstance(error, str):
            return cls(error)
        text = cls(repr(error))
        text.exception = error
        return text


class PregelTask(NamedTuple):
    """A task of a step, as `StateSnapshot.tasks` shows it."""

    id: str
    name: str
    path: tuple[Any, ...]
    error: TaskError | None = None
    interrupts: tuple[Interrupt, ...] = ()
    state: Union[RunnableConfig, StateSnapshot, None] = None  # noqa: UP007
    """For a subgraph: where its state is, or with `subgraphs=True` the state itself."""
    result: Any | None = None


@dataclass(frozen=True, slots=True)
class PregelExecutableTask:
    """A task with all that is needed to run it, for code that makes and runs tasks itself."""

    name: str
    input: Any
    proc: Any
    """What is called with the input."""
    writes: deque[tuple[str, Any]]
    config: RunnableConfig
    triggers: Sequence[str]
    retry_policy: Sequence[RetryPolicy]
    cache_key: CacheKey | None
    id: str
    path: tuple[Any, ...]
    writers: Sequence[Any] = ()
    subgraphs: Sequence[Any] = ()
    timeout: TimeoutPolicy | None = None


class StateSnapshot(NamedTuple):
    """The state of a thread at one of its checkpoints."""

    values: dict[str, Any] | Any
    next: tuple[str, ...]
    """Names of the nodes that run next; empty when the graph has come to its end."""
    config: RunnableConfig
    """Pass it to `invoke(None, config)` to replay from here."""
    metadata: CheckpointMetadata | None
    created_at: str | None
    parent_config: RunnableConfig | None
    tasks: tuple[PregelTask, ...]
    interrupts: tuple[Interrupt, ...]
    """The open interrupts of all tasks."""


@final
class Send:
    """Runs a node in the next step with an input of its own."""

    __slots__ = ("arg", "node", "timeout")

    node: str
    arg: Any
    timeout: TimeoutPolicy | None

    def __init__(
        self, /, node: str, arg: Any, *, timeout: float | timedelta | TimeoutPolicy | None = None
    ) -> None:
        self.node = node
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
    """What a tool of LangChain may return as it is; see `_engine/context/tool_commands.py`."""

    __slots__ = ()


@frozen(kw_only=True)
class Command(Generic[N], _ToolOutput):
    """Updates the state, answers interrupts and says where to go, in one value.

    A node may return it, and a run may be started with it.
    """

    graph: str | None = None
    """Which graph it is for: `None` for this one, `Command.PARENT` for the enclosing one."""
    update: Any | None = None
    resume: Any | None = None
    """An answer to the open interrupt, or a dict of interrupt ids and their answers."""
    goto: Send | Sequence[Send | N] | N = ()

    PARENT: ClassVar[Literal["__parent__"]] = "__parent__"

    def __repr__(self) -> str:
        said = [
            f"{name}={value!r}"
            for name, value in (
                ("graph", self.graph),
                ("update", self.update),
                ("resume", self.resume),
                ("goto", self.goto),
            )
            if value
        ]
        return f"Command({', '.join(said)})"

    def targets(self) -> Sequence[Send | N]:
        """`goto` as a sequence, whichever way it was given."""
        if isinstance(self.goto, (Send, str)) or not isinstance(self.goto, Sequence):
            return [self.goto]
        return self.goto


@frozen()
class Overwrite:
    """A write that replaces the value of a reducer channel instead of passing through it."""

    value: Any
    type: Literal["__overwrite__"] = field(default="__overwrite__", repr=False)


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

    `response_schema` says what the answer has to be; callers find it as JSON Schema in
    `Interrupt.response_schema`. A dict is JSON Schema, and is only shown. With a pydantic model, a
    TypedDict or a dataclass the answer is validated, and the validated object is returned. An
    answer that does not fit raises pydantic's ValidationError (`errors.is_invalid_resume` tells
    it from others), and the interrupt waits for another one.
    """
    from milepost._engine.context.task_context import current_context

    context = current_context("interrupt")
    if response_schema is None:
        return context.interrupt(value)
    from milepost._engine.context.response_schema import ResponseSchema

    return context.interrupt(value, ResponseSchema(response_schema))


def ensure_valid_checkpointer(checkpointer: Any) -> Checkpointer:
    """`checkpointer` itself if a graph can be compiled with it; TypeError otherwise."""
    from milepost.checkpoint.base import BaseCheckpointSaver

    if checkpointer is None or isinstance(checkpointer, (bool, BaseCheckpointSaver)):
        return checkpointer
    hint = ""
    if isinstance(checkpointer, type):
        raise TypeError(
            f"A checkpointer must be an instance, not the class {checkpointer.__name__}: pass "
            f"{checkpointer.__name__}(...)."
        )
    for enter, example in (
        ("__enter__", "with SqliteSaver.from_conn_string(...) as saver:"),
        ("__aenter__", "async with AsyncSqliteSaver.from_conn_string(...) as saver:"),
    ):
        if hasattr(checkpointer, enter):
            hint = f" It is a context manager: enter it first, as in `{example}`."
            break
    raise TypeError(
        "A checkpointer must be a BaseCheckpointSaver, True, False or None, not "
        f"{type(checkpointer).__name__}.{hint}"
    )
