"""Every error that milepost raises.

    MilepostError
    ├── GraphBuildError (ValueError)        the graph, as built, cannot run
    ├── GraphRecursionError (RecursionError) the run needed more super-steps than allowed
    ├── InvalidUpdateError                  a write that the state cannot take
    │   └── NoParentError (ParentCommand)   a command for the enclosing graph, where there is none
    ├── EmptyChannelError                   a channel was read before it had a value
    ├── EmptyInputError                     a run was started with nothing to do
    ├── NodeError                           the failure of a node, as an error handler gets it
    ├── NodeTimeoutError (TimeoutError)     an async node ran longer than its timeout
    ├── StepTimeoutError (TimeoutError)     a super-step ran longer than the graph's step_timeout
    ├── NodeCancelledError                  something inside a node was cancelled, not the run
    ├── UnknownInterruptError (RuntimeError) an answer that fits no open interrupt
    ├── TaskNotFound                        a task id that this step does not have
    ├── OutsideRunError (RuntimeError)      a function that works only inside a running node
    ├── ColourError (RuntimeError)          sync and async were mixed where that cannot work
    ├── MissingDependencyError (ImportError) an optional part is not installed
    ├── ProcessBoundError (TypeError)       a saver or store was to be pickled or deep-copied
    ├── CheckpointError
    │   ├── MissingThreadError (ValueError) a checkpointed call without a thread_id
    │   ├── CheckpointNotFoundError (ValueError)  no such checkpoint in this thread
    │   ├── MissingNodeError                a thread waits for a node that was renamed or removed
    │   ├── InvalidIdError (ValueError)     an id or a name that a database cannot hold
    │   ├── BrokenChainError                an ancestor that a value depends on is gone
    │   ├── ThreadConflict                  another run has taken the thread
    │   └── SaverError                      the saver failed while a step was saved
    │       ├── NotSetUpError               the tables are not there yet
    │       ├── ForeignDatabaseError        the tables are another program's
    │       ├── StorageError                the database's files cannot be read or written
    │       │   └── StorageFullError        the disk or a quota is used up
    │       ├── NotErasedError              rows are gone, but their bytes are still in the files
    │       ├── OutcomeUnknownError         the connection was lost while a change was on its way
    │       ├── DatabaseBusyError           others hold the database, or all connections to it
    │       └── ConnectionUnusableError     the connection is closed, busy or of another thread
    │           ├── ForkedProcessError      the connection is the parent process's
    │           └── ReadOnlyError           the database can only be read
    ├── SerdeError
    │   ├── SerializationError (TypeError)  a value that could not be read back is refused
    │   └── DeserializationError (ValueError)  stored bytes that do not decode
    │       ├── DamagedRowError             stored bytes are not those that were written
    │       ├── UnregisteredTypeError       stored bytes name a type that is not registered
    │       │   └── InvalidModuleError      the same, in LangGraph's older JSON
    │       └── DecryptionError             a wrong key, or a row that was altered or moved
    ├── StoreError
    │   ├── InvalidNamespaceError (ValueError)  a namespace that no item can have
    │   ├── InvalidKeyError (ValueError)    a key that no item can have
    │   ├── ValueTooLargeError (ValueError) a value that the database could not hold
    │   ├── FilterError (ValueError)        a filter that cannot be understood
    │   ├── VersionConflict                 the item is not at the version that was asked for
    │   ├── EmbeddingError                  what `embed` returned cannot be used
    │   ├── IndexMismatchError              the vectors were made by another model
    │   └── ReindexConflict                 a later reindex() to another model took its place
    └── GraphBubbleUp                       control flow, not a failure
        ├── GraphInterrupt                  the run pauses and can be resumed
        │   └── NodeInterrupt               the older way for a node to ask for that
        ├── GraphDrained                    the run was asked to stop and can be resumed
        └── ParentCommand                   a command addressed to the enclosing graph

The docstring of an error says what to do about it.
"""

from __future__ import annotations

import warnings
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from milepost.warnings import LangGraphDeprecatedSinceV10

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.types import Command, Interrupt


class ErrorCode(Enum):
    """Short names of mistakes that programs share, for messages and for searching.

    Examples:
        >>> from milepost.errors import ErrorCode
        >>> ErrorCode.GRAPH_RECURSION_LIMIT.value
        'GRAPH_RECURSION_LIMIT'
    """

    GRAPH_RECURSION_LIMIT = "GRAPH_RECURSION_LIMIT"
    INVALID_CONCURRENT_GRAPH_UPDATE = "INVALID_CONCURRENT_GRAPH_UPDATE"
    INVALID_GRAPH_NODE_RETURN_VALUE = "INVALID_GRAPH_NODE_RETURN_VALUE"
    MULTIPLE_SUBGRAPHS = "MULTIPLE_SUBGRAPHS"
    INVALID_CHAT_HISTORY = "INVALID_CHAT_HISTORY"


def create_error_message(*, message: str, error_code: ErrorCode) -> str:
    """The text of an error, with its code on a line below.

    Args:
        message: What went wrong, and how to repair it.
        error_code: The name of the mistake.

    Examples:
        >>> from milepost.errors import ErrorCode, create_error_message
        >>> code = ErrorCode.GRAPH_RECURSION_LIMIT
        >>> create_error_message(message="Too many steps.", error_code=code).splitlines()[0]
        'Too many steps.'
    """
    return f"{message}\nError code: {error_code.value}"


class MilepostError(Exception):
    """The root of every error that milepost raises."""

    # A copy gets the attributes of the error and not a call of `__init__`, whose parameters are
    # others than `args` in several classes.
    def __reduce__(self) -> tuple[Any, ...]:
        return _copied, (type(self), self.args), *super().__reduce__()[2:]


def _copied(cls: type[MilepostError], args: tuple[Any, ...]) -> MilepostError:
    error = cls.__new__(cls, *args)
    error.args = args
    return error


class GraphBuildError(MilepostError, ValueError):
    """The graph cannot run as it was built. The message says what to add or change.

    Examples:
        >>> from milepost.errors import GraphBuildError
        >>> from milepost.graph import StateGraph
        >>> try:
        ...     StateGraph(dict).add_node("work", print).compile()  # no edge from START
        ... except GraphBuildError:
        ...     print("not built")
        not built
    """


class GraphRecursionError(MilepostError, RecursionError):
    """The run reached its limit of super-steps before it came to an end.

    Pass a larger `recursion_limit` in the config, or look for a loop that has no way out.

    Examples:
        >>> from milepost.errors import GraphRecursionError
        >>> from milepost.graph import START, StateGraph
        >>> loop = StateGraph(dict).add_node("work", lambda state: state).add_edge(START, "work")
        >>> graph = loop.add_edge("work", "work").compile()
        >>> try:
        ...     graph.invoke({}, {"recursion_limit": 5})
        ... except GraphRecursionError:
        ...     print("an endless loop")
        an endless loop
    """


class InvalidUpdateError(MilepostError):
    """A node, an input or `update_state` wrote something that the state cannot take.

    Examples:
        >>> from milepost.errors import InvalidUpdateError
        >>> from milepost.graph import START, StateGraph
        >>> from typing_extensions import TypedDict
        >>> class State(TypedDict):
        ...     n: int
        >>> builder = StateGraph(State)
        >>> for name in ("left", "right"):
        ...     _ = builder.add_node(name, lambda state: {"n": 1}).add_edge(START, name)
        >>> try:
        ...     builder.compile().invoke({"n": 0})  # both write n, which has no reducer
        ... except InvalidUpdateError:
        ...     print("give n a reducer")
        give n a reducer
    """


class EmptyChannelError(MilepostError):
    """A channel was read that has no value yet."""


class EmptyInputError(MilepostError):
    """The run has nothing to do: no usable input, and nothing saved to go on from."""


def _repr_of(error: BaseException) -> str:
    """The repr of a node's exception; one that fails must hide neither it nor the thread."""
    try:
        return repr(error)
    except Exception as second:
        return f"{type(error).__name__}(<its __repr__ raised {type(second).__name__}>)"


class NodeError(MilepostError):
    """The failure of a node, as its error handler gets it.

    `node` is its name, `error` what it raised in its last attempt, `input` what it was given.
    """

    def __init__(self, node: str, error: Exception, input: Any = None) -> None:
        super().__init__(f"node '{node}' failed: {_repr_of(error)}")
        self.node = node
        self.error = error
        self.input = input


class NodeTimeoutError(MilepostError, TimeoutError):
    """A node, or its error handler, ran longer than its timeout and was cancelled.

    `kind` says which of its timeouts it was, `timeout` how long that is, in seconds.
    `in_error_handler` is True for the error handler of `node`.
    """

    def __init__(
        self,
        node: str,
        elapsed: float,
        *,
        kind: Literal["idle", "run"],
        idle_timeout: float | None = None,
        run_timeout: float | None = None,
        in_error_handler: bool = False,
    ) -> None:
        self.timeout = idle_timeout if kind == "idle" else run_timeout
        who = f"The error handler of node '{node}'" if in_error_handler else f"Node '{node}'"
        super().__init__(
            f"{who} went over its {kind} timeout of {self.timeout} s and was cancelled."
        )
        self.node = node
        self.elapsed = elapsed
        self.kind = kind
        self.idle_timeout = idle_timeout
        self.run_timeout = run_timeout
        self.in_error_handler = in_error_handler


class StepTimeoutError(MilepostError, TimeoutError):
    """A super-step took longer than the graph's `step_timeout`.

    Tasks of the step that had ended are stored, and do not run again when the thread goes on:
    `invoke(None, config)`. Async nodes were cancelled; a sync node cannot be stopped, and goes on
    in its thread without effect on the state.
    """


class NodeCancelledError(MilepostError):
    """A node raised `asyncio.CancelledError` although the run was not cancelled.

    Catch it in the node, or give the node a retry policy. `node` is its name.
    """

    def __init__(self, node: str, message: str | None = None) -> None:
        super().__init__(
            message
            or f"Node '{node}' raised asyncio.CancelledError: something inside it was cancelled, "
            "not the run. Catch it in the node, or give the node a retry policy."
        )
        self.node = node


Mismatch: TypeAlias = Literal["not_pending", "empty_map", "ambiguous"]
"""How an answer does not match: it names interrupts that are not open, or none, or is one value
for several."""


class UnknownInterruptError(MilepostError, RuntimeError):
    """An answer that cannot be matched with an open interrupt. Nothing was stored of it.

    `reason` says how it does not match, `interrupt_ids` are those that it names, `pending_ids`
    those that are open. `get_state(config).interrupts` lists the open ones too.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.errors import UnknownInterruptError
        >>> from milepost.graph import START, StateGraph
        >>> from milepost.types import Command, interrupt
        >>> builder = StateGraph(dict)
        >>> for name in ("left", "right"):
        ...     _ = builder.add_node(name, lambda state: interrupt("?")).add_edge(START, name)
        >>> graph = builder.compile(checkpointer=InMemorySaver())
        >>> config = {"configurable": {"thread_id": "1"}}
        >>> _ = graph.invoke({}, config)
        >>> try:
        ...     graph.invoke(Command(resume="yes"), config)  # to which of the two?
        ... except UnknownInterruptError:
        ...     print("answer by id")
        answer by id
    """

    def __init__(
        self,
        message: str,
        *,
        reason: Mismatch,
        interrupt_ids: Sequence[str] = (),
        pending_ids: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.reason: Mismatch = reason
        self.interrupt_ids = tuple(interrupt_ids)
        self.pending_ids = tuple(pending_ids)


class TaskNotFound(MilepostError):
    """A task id that does not belong to this step."""


class OutsideRunError(MilepostError, RuntimeError):
    """A function was called that works only inside a node or task of a running graph."""


class ColourError(MilepostError, RuntimeError):
    """Sync and async were mixed in a way that cannot work. The message names what to call."""


class MissingDependencyError(MilepostError, ImportError):
    """An optional part of milepost is not installed. The message has the install command."""


class ProcessBoundError(MilepostError, TypeError):
    """A saver or store belongs to its process: make another one where it is needed."""


class CheckpointError(MilepostError):
    """Something about threads and checkpoints."""


class MissingThreadError(CheckpointError, ValueError):
    """A graph with a checkpointer was called without saying which thread.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.errors import MissingThreadError
        >>> from milepost.graph import START, StateGraph
        >>> builder = StateGraph(dict).add_node("work", lambda state: state).add_edge(START, "work")
        >>> try:
        ...     builder.compile(checkpointer=InMemorySaver()).invoke({})
        ... except MissingThreadError:
        ...     print("pass config={'configurable': {'thread_id': ...}}")
        pass config={'configurable': {'thread_id': ...}}
    """


class CheckpointNotFoundError(CheckpointError, ValueError):
    """The thread has no checkpoint with this id.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.errors import CheckpointNotFoundError
        >>> from milepost.graph import START, StateGraph
        >>> builder = StateGraph(dict).add_node("work", lambda state: state).add_edge(START, "work")
        >>> graph = builder.compile(checkpointer=InMemorySaver())
        >>> try:
        ...     graph.get_state({"configurable": {"thread_id": "1", "checkpoint_id": "a"}})
        ... except CheckpointNotFoundError:
        ...     print("it may have been pruned")
        it may have been pruned
    """


class MissingNodeError(CheckpointError):
    """A thread waits for a node that the graph does not have: it was renamed or removed.

    Compile the graph with `renamed_nodes={"old name": "new name"}`: the thread goes on there.
    If the node is gone for good, a new input drops what waits for it, and so does
    `update_state(config, None, as_node=END)`. Two nodes that have become one are an error too, for
    a thread that waits for both.
    """

    nodes: Sequence[str] = ()
    thread: str | None = None

    @classmethod
    def of(cls, nodes: Sequence[str], thread: str, graph: str) -> Self:
        """The error for these nodes.

        Args:
            nodes: Nodes that the thread waits for and the graph does not have.
            thread: The thread.
            graph: The name of the graph.
        """
        names = " and ".join(f"'{node}'" for node in nodes)
        error = cls(
            f"Thread '{thread}' waits for {names}, which graph '{graph}' does not have. Say what "
            f"the node is called now: compile(renamed_nodes={{'{nodes[0]}': ...}}). If it is gone "
            "for good, a new input or update_state(config, None, as_node=END) drops what waits "
            "for it."
        )
        error.nodes, error.thread = tuple(nodes), thread
        return error

    @classmethod
    def of_merged(cls, nodes: Sequence[str], node: str, thread: str, graph: str) -> Self:
        """The error for several waiting nodes that are one node now.

        Args:
            nodes: The names under which the thread waits.
            node: What all of them are called now.
            thread: The thread.
            graph: The name of the graph.
        """
        names = " and ".join(f"'{name}'" for name in nodes)
        error = cls(
            f"Thread '{thread}' waits for {names}, which are one node '{node}' of graph '{graph}': "
            "only one of them could go on. Let the thread go on in a graph that has both, or drop "
            "what waits, by a new input or update_state(config, None, as_node=END)."
        )
        error.nodes, error.thread = tuple(nodes), thread
        return error


class InvalidIdError(CheckpointError, ValueError):
    """An id or a name that cannot be stored. The message says which, and why."""


class BrokenChainError(CheckpointError):
    """A stored value depends on an ancestor that is no longer there.

    Restore the missing rows from a backup; until then the value cannot be rebuilt.
    """


class ThreadConflict(CheckpointError):
    """Another run has taken the thread since this one loaded it; nothing was changed.

    Load the thread again and repeat the call, or give each run its own thread.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.errors import ThreadConflict
        >>> from milepost.graph import START, StateGraph
        >>> nodes = [("one", lambda state: {"n": 1}), ("two", lambda state: {"n": 2})]
        >>> builder = StateGraph(dict).add_sequence(nodes).add_edge(START, "one")
        >>> graph = builder.compile(checkpointer=InMemorySaver())
        >>> config = {"configurable": {"thread_id": "1"}}
        >>> first = graph.stream({"n": 0}, config, durability="sync")
        >>> next(first)
        {'one': {'n': 1}}
        >>> graph.invoke({"n": 0}, config)  # another run takes the thread
        {'n': 2}
        >>> try:
        ...     list(first)
        ... except ThreadConflict:
        ...     print("overtaken")
        overtaken
    """


class SaverError(CheckpointError):
    """The saver failed while the run was saving. The cause is chained."""


class NotSetUpError(SaverError):
    """The tables do not exist yet: call `setup()` once, before the first use."""


class ForeignDatabaseError(SaverError):
    """The database belongs to another program. Nothing in it was touched."""


class StorageError(SaverError):
    """The database could not read or write its files. The message says what is known of it."""


class StorageFullError(StorageError):
    """There is no room left. What was saved before is intact; make room and resume."""


class NotErasedError(SaverError):
    """What was removed cannot be read any more, but its bytes are still in the database's files.

    Do what the message says, then call `vacuum()`, or `erase()` again.
    """


class OutcomeUnknownError(SaverError):
    """The connection was lost during a change: whether the change was stored is unknown.

    Read the current rows, and decide.
    """


class ConnectionUnusableError(SaverError):
    """The connection cannot be used as it is. The message says what to change."""


class ForkedProcessError(ConnectionUnusableError):
    """The saver or store was made before this process was forked, and its connection is the
    parent's. Make it after the fork, in each process, or use `from_conn_string`. On SQLite, also:
    another connection to the same file was open at the fork. Close that one before."""


class ReadOnlyError(ConnectionUnusableError):
    """The database can be read, and not written to. The message says what to change."""


class DatabaseBusyError(SaverError):
    """Others hold the database or all connections to it, or it is restarting. Repeat the call
    later."""


class SerdeError(MilepostError):
    """Something about writing values to bytes or reading them back.

    `path` says where inside the value (`a.b[3].c`; empty for the value itself). A caller
    that knows more about the place adds it with `at`.
    """

    def __init__(self, reason: str = "", *, path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path
        self.thread: str | None = None
        self.node: str | None = None
        self.channel: str | None = None

    def at(
        self, *, thread: str | None = None, node: str | None = None, channel: str | None = None
    ) -> Self:
        """This error, with what is known about the place; what it knew already stays.

        Args:
            thread: The thread.
            node: The node whose write it is.
            channel: The key of the state.
        """
        self.thread = self.thread if self.thread is not None else thread
        self.node = self.node if self.node is not None else node
        self.channel = self.channel if self.channel is not None else channel
        return self

    def __str__(self) -> str:
        places = [("path", self.path or None), ("channel", self.channel)]
        places += [("node", self.node), ("thread", self.thread)]
        known = ", ".join(f"{name} {place!r}" for name, place in places if place is not None)
        return f"{self.reason} (at {known})" if known else self.reason


class SerializationError(SerdeError, TypeError):
    """A value was refused because it could not be read back exactly.

    Examples:
        >>> from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
        >>> from milepost.errors import SerializationError
        >>> try:
        ...     JsonPlusSerializer().dumps_typed({"file": open})
        ... except SerializationError:
        ...     print("it could not be read back")
        it could not be read back
    """


class DeserializationError(SerdeError, ValueError):
    """Stored bytes could not be decoded. They are left as they are."""


class DamagedRowError(DeserializationError):
    """A stored cell is not what was written there: its checksum does not fit.

    Restore the row from a backup. `verify()` names every damaged row of a database, and
    `salvage()` returns what is sound.
    """


class UnregisteredTypeError(DeserializationError):
    """Stored bytes name a type that this program has not registered."""


class InvalidModuleError(UnregisteredTypeError):
    """Stored JSON names a type that is not allowed. `allowed_json_modules` allows it."""

    @property
    def message(self) -> str:
        """The text of the error."""
        return str(self)


class DecryptionError(DeserializationError):
    """An encrypted value did not open: a wrong key, or bytes that were altered or moved."""


class StoreError(MilepostError):
    """Something about a store and its items."""


class InvalidNamespaceError(StoreError, ValueError):
    """A namespace that no item can have. The message says which label is wrong, and why."""


class InvalidKeyError(StoreError, ValueError):
    """A key that no item can have."""


class ValueTooLargeError(StoreError, ValueError):
    """A value that is larger than the store's database can hold; nothing was written.

    Keep large contents in files or an object store, and put their addresses here.
    """


class FilterError(StoreError, ValueError):
    """A filter that cannot be understood. The message says which part, and what is allowed."""


class VersionConflict(StoreError):
    """The item has changed since the caller read it; nothing was written.

    Get the item again, apply the change to what it is now, and put it with its new version.

    Examples:
        >>> from milepost.errors import VersionConflict
        >>> from milepost.store.memory import InMemoryStore
        >>> store = InMemoryStore()
        >>> store.put(("users",), "ada", {"n": 1})
        >>> seen = store.get(("users",), "ada").version
        >>> store.put(("users",), "ada", {"n": 2})  # by another program
        >>> try:
        ...     store.put(("users",), "ada", {"n": 3}, if_version=seen)
        ... except VersionConflict:
        ...     print("read it again")
        read it again
    """


class EmbeddingError(StoreError):
    """The vectors that `embed` returned cannot be used."""


class IndexMismatchError(StoreError):
    """The store's vectors were made by another model, so they cannot be compared with new ones.

    Call `reindex()` to rebuild them, or open the store with the index that it was made with.
    """


class ReindexConflict(StoreError):
    """A later `reindex()` to another model has taken the place of this one.

    Call it again after the other one has ended, if this store's model is the one to keep.
    """


class GraphBubbleUp(MilepostError):
    """Control flow that passes through nodes and graphs. Do not swallow it."""


class GraphInterrupt(GraphBubbleUp):
    """The run pauses here until it is resumed with `Command(resume=...)`."""

    def __init__(self, interrupts: Sequence[Interrupt] = ()) -> None:
        super().__init__(interrupts)
        self.interrupts: tuple[Interrupt, ...] = tuple(interrupts)


class NodeInterrupt(GraphInterrupt):
    """A node raises it to pause the run, and runs again when the run goes on.

    Deprecated: call `milepost.types.interrupt`, which also brings the answer.
    """

    def __init__(self, value: Any, id: str | None = None) -> None:
        from milepost.types import Interrupt

        warnings.warn(
            "NodeInterrupt is deprecated: call milepost.types.interrupt",
            LangGraphDeprecatedSinceV10,
            stacklevel=2,
        )
        super().__init__([Interrupt(value) if id is None else Interrupt(value, id)])


class GraphDrained(GraphBubbleUp):
    """The run was asked to stop and has saved where it is. Resume with `invoke(None, config)`.

    Examples:
        >>> from milepost.errors import GraphDrained
        >>> from milepost.graph import StateGraph
        >>> from milepost.runtime import RunControl
        >>> nodes = [("one", lambda state: {"n": 1}), ("two", lambda state: {"n": 2})]
        >>> graph = StateGraph(dict).add_sequence(nodes).set_entry_point("one").compile()
        >>> control = RunControl()
        >>> control.request_drain("deploy")
        >>> try:
        ...     graph.invoke({"n": 0}, control=control)
        ... except GraphDrained as drained:
        ...     print(drained)
        Graph drained: deploy
    """

    def __init__(self, reason: str = "shutdown") -> None:
        super().__init__(f"Graph drained: {reason}")
        self.reason = reason


class ParentCommand(GraphBubbleUp):
    """Carries a `Command(graph=...)` out of a subgraph to the graph that it addresses.

    `others` are the commands of tasks beside that of the first.
    """

    def __init__(self, command: Command[Any], *others: Command[Any]) -> None:
        super().__init__(command, *others)
        self.command = command
        self.others = others


class NoParentError(InvalidUpdateError, ParentCommand):
    """A `Command(graph=Command.PARENT)` in a graph that no graph is around.

    It is a ParentCommand too, so that a test of a subgraph by itself can look at the command.
    """

    def __init__(self, command: Command[Any], graph: str = "") -> None:
        ParentCommand.__init__(self, command)
        self.graph = graph

    def __str__(self) -> str:
        return (
            f"A node returned {self.command!r}, but '{self.graph}' runs on its own: there is no "
            "parent graph to take the command."
        )


_INVALID_RESUME = "_milepost_invalid_resume"


def mark_invalid_resume(error: BaseException) -> None:
    """Remember that an answer which does not fit its `response_schema` has caused an error.

    Args:
        error: What the validation raised.

    Examples:
        >>> from milepost.errors import is_invalid_resume, mark_invalid_resume
        >>> error = ValueError("not a number")
        >>> mark_invalid_resume(error)
        >>> is_invalid_resume(error)
        True
    """
    setattr(error, _INVALID_RESUME, True)


def is_invalid_resume(error: BaseException) -> bool:
    """Whether `interrupt(..., response_schema=)` raised it because the answer does not fit.

    The interrupt is still open then, and waits for another answer.

    Args:
        error: What a run raised.

    Examples:
        >>> from milepost.errors import is_invalid_resume
        >>> is_invalid_resume(ValueError("of the program itself"))
        False
    """
    return getattr(error, _INVALID_RESUME, False) is True
