"""StateGraph: the builder. Nodes and edges are added to it, and `compile` makes it runnable."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, Self, TypedDict, Unpack, get_args

from milepost._engine.context.config import check_interrupt_nodes, retry_policies
from milepost._engine.context.node_callable import (
    callee_of,
    function_of,
    is_generator,
    name_of,
)
from milepost._internal.lazy_imports import on_demand
from milepost._internal.older_names import older_names
from milepost._internal.texts import plain
from milepost._internal.warn import Strictness
from milepost._schema import has_fields, is_one_value, schema_of
from milepost.channels import BaseChannel, LastValue
from milepost.constants import END, NS_END, NS_SEP, RESERVED, ROOT, START
from milepost.errors import GraphBuildError
from milepost.graph._spec import (
    BranchSpec,
    NodeSpec,
    check_timeout,
    command_ends,
    first_parameter_schema,
    literal_answers,
)
from milepost.graph._typing import ContextT, InputT, OutputT, StateT
from milepost.managed.base import ManagedValueSpec
from milepost.types import (
    All,
    CachePolicy,
    Checkpointer,
    OnConflict,
    RetryPolicy,
    RunnableConfig,
    TimeoutPolicy,
    TracePolicy,
    ensure_valid_checkpointer,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from milepost.cache.base import BaseCache
    from milepost.graph._compiled_state import CompiledStateGraph
    from milepost.graph._typing import Node, NodeInputT, Path
    from milepost.store.base import BaseStore
    from milepost.stream._mux import TransformerFactory
else:
    __getattr__, __dir__ = on_demand(
        __name__, {"CompiledStateGraph": "milepost.graph._compiled_state"}
    )


class OlderGraphNames(TypedDict, total=False):
    """What parameters of StateGraph were called before LangGraph 1.0."""

    config_schema: Any
    input: Any
    output: Any


class OlderNodeNames(TypedDict, total=False):
    """What parameters of `add_node` were called before LangGraph 0.5."""

    retry: RetryPolicy | Sequence[RetryPolicy]
    input: Any


class StateGraph(Generic[StateT, ContextT, InputT, OutputT]):
    """A graph of nodes that read and write a shared state.

    Every method that adds something returns the builder, so calls can be chained.

    Args:
        state_schema: A TypedDict, dataclass or pydantic model; `Annotated[type, reducer]` says how
            a key takes several writes.
        context_schema: The type of `runtime.context`.
        input_schema: What a caller passes, if that is not the whole state.
        output_schema: What a caller gets, if that is not the whole state.
        strict: Refuse what is most likely a mistake, such as a key that the state does not have,
            instead of warning of it; by default the environment decides (MILEPOST_STRICT=1).
        **kwargs: Older names, which warn: `config_schema`, `input`, `output`.

    Examples:
        >>> import operator
        >>> from typing import Annotated
        >>> from typing_extensions import TypedDict
        >>> from milepost.graph import END, START, StateGraph
        >>> class State(TypedDict):
        ...     words: Annotated[list[str], operator.add]
        >>> def hello(state: State):
        ...     return {"words": ["hello"]}
        >>> def world(state: State):
        ...     return {"words": ["world"]}
        >>> builder = StateGraph(State).add_sequence([hello, world]).add_edge(START, "hello")
        >>> builder.compile().invoke({"words": []})
        {'words': ['hello', 'world']}
    """

    def __init__(
        self,
        state_schema: type[StateT],
        context_schema: type[ContextT] | None = None,
        *,
        input_schema: type[InputT] | None = None,
        output_schema: type[OutputT] | None = None,
        strict: bool | None = None,
        **kwargs: Unpack[OlderGraphNames],
    ) -> None:
        self.strictness = Strictness(strict)
        if kwargs:
            known = OlderGraphNames.__annotations__
            older = older_names("StateGraph", kwargs, known, self.strictness)
            context_schema = context_schema or older.get("context_schema")
            input_schema = input_schema or older.get("input_schema")
            output_schema = output_schema or older.get("output_schema")
        self.state_schema: Any = state_schema
        self.context_schema = context_schema
        self.input_schema: Any = input_schema or state_schema
        self.output_schema: Any = output_schema or state_schema
        self.nodes: dict[str, NodeSpec] = {}
        self.edges: set[tuple[str, str]] = set()
        self.waiting_edges: set[tuple[tuple[str, ...], str]] = set()
        """Joins: several sources, one target."""
        self.branches: dict[str, dict[str, BranchSpec]] = {}
        self.channels: dict[str, BaseChannel[Any, Any, Any]] = {}
        self.managed: dict[str, ManagedValueSpec] = {}
        self.defaults: dict[str, Any] = {}
        self.compiled = False
        """Whether a graph was compiled from it; later changes are not part of that graph."""
        self._schemas: dict[int, Any] = {}
        """Schemas whose keys are part of the state, by identity."""
        for schema in (self.state_schema, self.input_schema, self.output_schema):
            self._check_schema(schema)
            self.add_schema(schema)

    def _check_schema(self, schema: Any) -> None:
        """An object in place of a type is most likely a mistake, as LangGraph warns too."""
        if isinstance(schema, type) or get_args(schema):
            return
        wrong = GraphBuildError(
            f"The schema {schema!r} is no type: give a TypedDict, a dataclass, a pydantic "
            "model, or Annotated[a type, its reducer]."
        )
        self.strictness.check(("schema", id(schema)), wrong, "The state is one value.")

    def add_schema(self, schema: Any) -> None:
        """Make the keys of a schema part of the state.

        Args:
            schema: A TypedDict, dataclass or pydantic model.

        Raises:
            GraphBuildError: A key has another reducer or channel already.
        """
        if id(schema) in self._schemas:
            return  # most nodes have that of the state
        read = schema_of(schema)
        for key in (*read.channels, *read.managed):
            if key in RESERVED and key != ROOT:
                raise GraphBuildError(f"'{key}' is a reserved name: call the state key otherwise.")
        for key, channel in read.channels.items():
            known = self.channels.get(key)
            if known is None:
                self.channels[key] = channel
            elif known != channel and type(channel) is not LastValue:
                raise GraphBuildError(
                    f"Channel '{key}' already exists with a different type: two schemas give it "
                    "different reducers. Annotate it alike in both, or plainly in the second."
                )
        for key in read.passed_over:
            if type(self.channels[key]) is not LastValue:
                continue  # another schema gives the key its reducer
            message = (
                f"The reducer of '{key}' is inside a union, where it does not count: put the "
                "Annotated outside, `Annotated[list | None, reducer]`."
            )
            instead = "A write replaces the value."
            self.strictness.check(("union", key), GraphBuildError(message), instead)
        self.managed.update(read.managed)
        self._schemas[id(schema)] = schema

    @property
    def schemas(self) -> dict[Any, dict[str, Any]]:
        """Schema → its keys, with the channel or the managed value of each."""
        found = {}
        for schema in self._schemas.values():
            read = schema_of(schema)
            found[schema] = {**{key: self.channels[key] for key in read.channels}, **read.managed}
        return found

    # -- nodes

    def add_node(
        self,
        node: str | Node[StateT] | Node[NodeInputT],
        action: Node[StateT] | Node[NodeInputT] | None = None,
        *,
        defer: bool = False,
        metadata: dict[str, Any] | None = None,
        input_schema: type[NodeInputT] | None = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        error_handler: Callable[..., Any] | None = None,
        destinations: dict[str, str] | tuple[str, ...] | None = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
        trace_policy: TracePolicy | None = None,
        **kwargs: Unpack[OlderNodeNames],
    ) -> Self:
        """Add a node: a function, a callable object, or anything with `invoke` or `ainvoke`.

        Args:
            node: The name, or the function itself, whose name is taken then.
            action: The function, where `node` is the name.
            defer: Run it only when nothing else is left to run.
            metadata: Passed on to tracers, and to the function in its config.
            input_schema: What it reads; by default the annotation of its first parameter, or the
                state.
            retry_policy: When to try it again; of several the first that fits an error counts.
            cache_policy: Whether its result may be taken from the cache.
            error_handler: Called when the node has failed for good; what it returns is written as
                the node's update. The edges of the node are not followed: a Command says where to
                go.
            destinations: The nodes that its Commands go to, for validation and drawing.
            timeout: How long one attempt may take; for async nodes.
            trace_policy: What tracers record of input and output.
            **kwargs: Older names, which warn: `input`, `retry`.

        Raises:
            GraphBuildError: The name is taken, reserved or missing, or the action cannot be called.

        Examples:
            >>> from milepost.types import RetryPolicy
            >>> again = StateGraph(State).add_node(hello, retry_policy=RetryPolicy(max_attempts=2))
            >>> again = again.add_node("other", world, defer=True)
            >>> list(again.nodes)
            ['hello', 'other']
        """
        if kwargs:
            known = OlderNodeNames.__annotations__
            older = older_names("add_node", kwargs, known, self.strictness)
            retry_policy = retry_policy or older.get("retry_policy")
            input_schema = input_schema or older.get("input_schema")
        if isinstance(node, str):
            name = node
            if action is None:
                raise GraphBuildError(f"Node '{name}' has no action: add_node('{name}', function).")
        else:
            action = node
            name = self._name_of(action)
        name = plain(name)
        self._check_name(name)
        callee_of(action, name)  # raises if it cannot be called
        self._check_kind(name, action)
        limit = TimeoutPolicy.coerce(timeout)
        schema = self._input_schema_of(name, input_schema, action) or self.state_schema
        self.add_schema(schema)
        self.nodes[name] = NodeSpec(
            name=name,
            action=action,
            input_schema=schema,
            defer=defer,
            metadata=metadata,
            retry=None if retry_policy is None else retry_policies(retry_policy),
            cache=cache_policy,
            timeout=limit,
            trace=trace_policy,
            error_handler=error_handler,
            ends=_plain_ends(destinations if destinations is not None else command_ends(action)),
        )
        return self

    def set_node_defaults(
        self,
        *,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        error_handler: Callable[..., Any] | None = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
    ) -> Self:
        """Defaults for nodes that have no policy of their own; defaults of earlier calls stay.

        Graphs inside nodes have defaults of their own.

        Args:
            retry_policy: As for `add_node`; it is for error handlers too.
            cache_policy: As for `add_node`.
            error_handler: As for `add_node`.
            timeout: As for `add_node`; it is for error handlers too.

        Examples:
            >>> from milepost.types import RetryPolicy
            >>> builder = builder.set_node_defaults(retry_policy=RetryPolicy(max_attempts=5))
        """
        given = {
            "retry": None if retry_policy is None else retry_policies(retry_policy),
            "cache": cache_policy,
            "error_handler": error_handler,
            "timeout": TimeoutPolicy.coerce(timeout),
        }
        self.defaults.update((name, value) for name, value in given.items() if value is not None)
        return self

    def _name_of(self, action: Any) -> str:
        name = name_of(action)
        if name is None or name == "<lambda>":
            name = name or "node"
            self.strictness.check(
                ("name", name),
                GraphBuildError(
                    "The node's function has no name: give one, add_node('name', function)."
                ),
                f"The node is called '{name}', also where its threads are stored.",
                function_of(action),
            )
        return name

    def _check_kind(self, name: str, action: Any) -> None:
        if is_generator(action):
            self.strictness.check(
                ("generator", name),
                GraphBuildError(
                    f"{name} is a generator function, which cannot be a node: return the update, "
                    "and send what should arrive earlier through the stream writer."
                ),
                "What it yields is added up, or the last of it is taken.",
                function_of(action),
            )

    def _input_schema_of(self, name: str, schema: Any, action: Any) -> Any:
        """The schema that a node reads by: the given one, or that of its first parameter."""
        if isinstance(schema, FunctionType):
            self.strictness.check(
                ("input_schema", name),
                GraphBuildError(
                    f"Node '{name}' is given a function where its input schema belongs. To change "
                    "what a graph gets, let a function be the node, and call the graph in it."
                ),
                "The node gets the keys that the function annotates.",
                schema,
            )
            return schema
        if has_fields(schema):
            return schema
        if schema and not is_one_value(self.channels):
            self.strictness.check(
                ("input_schema", name),
                GraphBuildError(
                    f"The input_schema of node '{name}' is {schema!r}, which has no keys: give a "
                    "TypedDict, a dataclass or a pydantic model, or leave it out."
                ),
                "The node reads what its function is annotated with, or the whole state.",
                function_of(action),
            )
        return first_parameter_schema(action)

    def _check_name(self, name: str) -> None:
        if name in self.nodes:
            raise GraphBuildError(f"Node '{name}' already exists: give the second another name.")
        if name in RESERVED:
            raise GraphBuildError(f"'{name}' is a reserved name: call the node otherwise.")
        for character in (NS_SEP, NS_END):
            if character in name:
                raise GraphBuildError(
                    f"'{name}' contains '{character}', which separates the levels of checkpoint "
                    "namespaces: use another character in node names."
                )

    # -- edges

    def add_edge(self, start_key: str | Sequence[str], end_key: str) -> Self:
        """Run a node after another.

        Args:
            start_key: The node before; of several, all of them.
            end_key: The node after, or END.

        Raises:
            GraphBuildError: The edge leads from END, to START, or from or to an unknown node.

        Examples:
            >>> both = StateGraph(State).add_node(hello).add_node(world).add_edge(START, "hello")
            >>> both = both.add_edge("hello", "world").add_edge("world", END)
            >>> both.compile().invoke({"words": []})
            {'words': ['hello', 'world']}
        """
        if end_key == START:
            raise GraphBuildError("START cannot be the end of an edge: nothing runs before it.")
        _refuse_function(start_key)
        starts = (start_key,) if isinstance(start_key, str) else tuple(start_key)
        for key in (*starts, end_key):
            _refuse_function(key)
        starts, end_key = tuple(map(plain, starts)), plain(end_key)
        if END in starts:
            raise GraphBuildError("END cannot be the start of an edge: nothing runs after it.")
        if isinstance(start_key, str):
            self.edges.add((starts[0], end_key))
            return self
        for start in starts:
            if start not in self.nodes:
                raise GraphBuildError(f"Need to add_node('{start}') before an edge from it.")
        if end_key != END and end_key not in self.nodes:
            raise GraphBuildError(f"Need to add_node('{end_key}') before an edge to it.")
        self.waiting_edges.add((starts, end_key))
        return self

    def add_conditional_edges(
        self,
        source: str,
        path: Path,
        path_map: Mapping[Hashable, str] | Sequence[str] | None = None,
    ) -> Self:
        """Ask a function where to go after a node.

        Args:
            source: The node before, or START.
            path: Returns a node's name, a list of names, a Send, or END.
            path_map: Translates what `path` returns, and also lists the possible answers, as a
                return type does that is nothing but a `Literal`.

        Raises:
            GraphBuildError: The source has a branch of this name, or is END.

        Examples:
            >>> def is_long(state: State) -> bool:
            ...     return len(state["words"]) > 3
            >>> loop = StateGraph(State).add_node(hello).add_edge(START, "hello")
            >>> loop = loop.add_conditional_edges("hello", is_long, {True: END, False: "hello"})
            >>> len(loop.compile().invoke({"words": []})["words"])
            4
        """
        source, name = plain(source), name_of(path) or "condition"
        self._check_kind(name, path)
        if name in self.branches.get(source, {}):
            raise GraphBuildError(
                f"Node '{source}' already has a conditional edge named '{name}': give the "
                "second function another name."
            )
        ends: Mapping[Hashable, str] | None = None
        answers, is_all = literal_answers(path)
        if given := path_map or (answers if is_all else None):
            pairs = given if isinstance(given, Mapping) else {name: name for name in given}
            ends = {answer: plain(end) for answer, end in pairs.items()}
        schema = first_parameter_schema(path)
        if schema is not None:
            self.add_schema(schema)
        self.branches.setdefault(source, {})[name] = BranchSpec(
            name=name,
            path=path,
            ends=ends,
            likely=tuple(map(plain, answers)),
            input_schema=schema,
        )
        return self

    def add_sequence(self, nodes: Sequence[Node[Any] | tuple[str, Node[Any]]]) -> Self:
        """Add nodes with edges from each to the next.

        Args:
            nodes: Functions, or pairs of a name and a function.

        Raises:
            GraphBuildError: There is no node, or a name is taken.

        Examples:
            >>> pair = StateGraph(State).add_sequence([("one", hello), ("two", world)])
            >>> sorted(pair.edges)
            [('one', 'two')]
        """
        if not nodes:
            raise GraphBuildError("A sequence needs at least one node.")
        previous: str | None = None
        for item in nodes:
            if isinstance(item, tuple) and len(item) == 2:
                name, action = item
            else:
                name, action = self._name_of(item), item
            if name in self.nodes:
                raise GraphBuildError(f"Node names must be unique: '{name}' appears twice.")
            self.add_node(name, action)
            if previous is not None:
                self.add_edge(previous, name)
            previous = name
        return self

    def set_entry_point(self, key: str) -> Self:
        """Start with this node: `add_edge(START, key)`.

        Args:
            key: The name of the node.

        Examples:
            >>> one = StateGraph(State).add_node(hello).set_entry_point("hello")
            >>> one.compile().invoke({"words": []})
            {'words': ['hello']}
        """
        return self.add_edge(START, key)

    def set_conditional_entry_point(
        self, path: Path, path_map: Mapping[Hashable, str] | Sequence[str] | None = None
    ) -> Self:
        """Ask a function which node to start with.

        Args:
            path: As for `add_conditional_edges`.
            path_map: As for `add_conditional_edges`.

        Examples:
            >>> one = StateGraph(State).add_node(hello).add_node(world)
            >>> one = one.set_conditional_entry_point(lambda state: "world", ["hello", "world"])
            >>> one.compile().invoke({"words": []})
            {'words': ['world']}
        """
        return self.add_conditional_edges(START, path, path_map)

    def set_finish_point(self, key: str) -> Self:
        """End after this node: `add_edge(key, END)`.

        Args:
            key: The name of the node.

        Examples:
            >>> one = StateGraph(State).add_node(hello).add_edge(START, "hello")
            >>> one = one.set_finish_point("hello")
            >>> one.compile().invoke({"words": []})
            {'words': ['hello']}
        """
        return self.add_edge(key, END)

    # -- compiling

    def validate(self, interrupt: Sequence[str] | None = None) -> Self:
        """Check that the graph can run; `compile` does it too.

        Args:
            interrupt: Names of nodes to pause at, which have to be there.

        Raises:
            GraphBuildError: The graph has no entry, or an edge or a pause names an unknown node.
        """
        sources = {start for start, _ in self.edges}
        sources |= {start for starts, _ in self.waiting_edges for start in starts}
        sources |= set(self.branches)
        for source in sorted(sources):
            self._check_known(source, START, f"An edge starts at '{source}'")
        if START not in sources:
            raise GraphBuildError(
                "Graph must have an entrypoint: add at least one edge from START to another node, "
                "for example add_edge(START, 'first_node')."
            )
        for source, branches in self.branches.items():
            for branch in branches.values():
                edge = f"The conditional edge '{branch.name}' of '{source}'"
                for end in (branch.ends or {}).values():
                    self._check_known(end, END, f"{edge} may go to '{end}'")
        for node in self.nodes.values():
            check_timeout(node.name, node.timeout or self.defaults.get("timeout"), node.action)
            for end in node.ends:
                self._check_known(end, END, f"Node '{node.name}' names the destination '{end}'")
        for end in sorted({end for _, end in (*self.edges, *self.waiting_edges)}):
            self._check_known(end, END, f"An edge ends at '{end}'")
        check_interrupt_nodes(interrupt, self.nodes)
        return self

    def _check_known(self, name: str, virtual: str, reference: str) -> None:
        """Raise GraphBuildError if a name is neither a node nor the virtual one at its end."""
        if name != virtual and name not in self.nodes:
            raise GraphBuildError(f"{reference}, which is not a node: add_node('{name}', ...).")

    def compile(
        self,
        checkpointer: Checkpointer = None,
        *,
        cache: BaseCache[Any] | None = None,
        store: BaseStore | None = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        on_conflict: OnConflict = "newest",
        renamed_nodes: Mapping[str, str] | None = None,
        renamed_keys: Mapping[str, str] | None = None,
        debug: bool = False,
        name: str | None = None,
        transformers: Sequence[TransformerFactory] | None = None,
    ) -> CompiledStateGraph[StateT, ContextT, InputT, OutputT]:
        """Check the graph and make it runnable.

        Args:
            checkpointer: Saves every step of a thread.
            cache: Keeps results of nodes with a cache policy.
            store: Memory across threads.
            interrupt_before: Nodes to pause before, or "*" for all.
            interrupt_after: Nodes to pause after, or "*" for all.
            on_conflict: What a run does that finds another run on its thread: "newest" takes the
                thread over, "reject" raises ThreadConflict.
            renamed_nodes: What nodes were called before, {"old": "new"}: threads that were stored
                under the old names go on under the new ones.
            renamed_keys: The same for keys of the state.
            debug: Print what runs do.
            name: What the graph is called.
            transformers: Make streams of their own out of the events of
                `stream_events(version="v3")`.

        Raises:
            GraphBuildError: The graph has no entry, or an edge or a pause names an unknown node.

        Examples:
            >>> from milepost.checkpoint.memory import InMemorySaver
            >>> graph = builder.compile(checkpointer=InMemorySaver(), interrupt_before=["world"])
            >>> graph.invoke({"words": []}, {"configurable": {"thread_id": "1"}})
            {'words': ['hello']}
        """
        # The runtime is loaded with the first graph that is to run.
        from milepost.graph._compile import compile_program
        from milepost.graph._compiled_state import CompiledStateGraph
        from milepost.store._core.validation import ensure_valid_store

        ensure_valid_checkpointer(checkpointer)
        ensure_valid_store(store)
        self.validate()
        for names in (interrupt_before, interrupt_after):
            check_interrupt_nodes(names, self.nodes)
        self.compiled = True
        return CompiledStateGraph(
            program=compile_program(self, name or "graph", renamed_nodes, renamed_keys),
            builder=self,
            checkpointer=checkpointer,
            store=store,
            cache=cache,
            interrupt_before_nodes=interrupt_before or (),
            interrupt_after_nodes=interrupt_after or (),
            on_conflict=on_conflict,
            debug=debug,
            name=name or "LangGraph",
            stream_transformers=transformers,
        )


def _plain_ends(ends: Mapping[str, str] | Iterable[str]) -> Mapping[str, str] | tuple[str, ...]:
    if isinstance(ends, Mapping):
        return {plain(end): label for end, label in ends.items()}
    return tuple(map(plain, ends))


def _refuse_function(key: object) -> None:
    """Raise GraphBuildError if an edge is given a function in place of a node's name."""
    if callable(key):
        name = getattr(key, "__name__", type(key).__name__)
        raise GraphBuildError(f"An edge takes the name of a node, '{name}', and not {key}.")


__all__ = ["CompiledStateGraph", "RunnableConfig", "StateGraph"]
