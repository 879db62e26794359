"""A compiled graph as the runtime sees it: nodes, channels, and which triggers which.

Builders (`StateGraph`, `@entrypoint`) make an ExecutableGraph once; runs only read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from milepost._engine.superstep.channel_state import ChannelState
from milepost._engine.superstep.older_formats import EDGES_HAVE_ONE_NAME, with_edges_of_today
from milepost._engine.superstep.renames import Renames
from milepost._engine.superstep.storable import StorableCheck
from milepost._internal.dataclass_tools import record
from milepost._internal.warn import Strictness
from milepost.channels.base import BaseChannel
from milepost.channels.ephemeral_value import EphemeralValue
from milepost.channels.last_value import LastValue
from milepost.channels.untracked_value import UntrackedValue
from milepost.checkpoint._contract.records import SENDS_ARE_A_CHANNEL, is_older, with_sends
from milepost.constants import PULL, START, TASKS
from milepost.errors import EmptyInputError

if TYPE_CHECKING:
    from milepost._engine.context.node_callable import Callee
    from milepost.checkpoint._contract.records import Checkpoint
    from milepost.types import (
        CachePolicy,
        RetryPolicy,
        RunnableConfig,
        TimeoutPolicy,
        TracePolicy,
    )

Write = tuple[str, Any]
"""A channel and what is written to it."""


class Writer(Protocol):
    """The origin of writes that are applied: a task, the input, an update from outside."""

    @property
    def name(self) -> str:
        """The node that it counts as."""

    @property
    def triggers(self) -> Sequence[str]:
        """The channels that made it run."""

    @property
    def writes(self) -> Sequence[Write]:
        """What it wrote, in order."""


@record(frozen=False)
class ExternalWriter:
    """A writer that is no task."""

    name: str
    triggers: Sequence[str]
    writes: Sequence[Write]


class StepsLeft(NamedTuple):
    """What managed values are computed from."""

    step: int
    stop: int


@record
class StateReader:
    """How a node's input is made from the state."""

    keys: tuple[str, ...] | None = None
    """The keys to read; None for all."""
    channel: str | None = None
    """Or: the bare value of this channel."""
    managed: tuple[tuple[str, Callable[[StepsLeft], Any]], ...] = ()
    build: Callable[[dict[str, Any]], Any] | None = None
    """Makes the schema's own type out of the values."""

    def read(
        self,
        channels: ChannelState,
        step: int,
        stop: int,
        values: Mapping[str, Any] | None = None,
    ) -> Any:
        """The input of a node, in a mapping that the node may keep; `values` replaces the values of
        the present state."""
        if self.channel is not None:
            if values is not None:
                return values.get(self.channel)
            return channels.live[self.channel].get()
        if values is None:
            values = channels.values
        if self.keys is None:
            picked = dict(values)
        else:
            picked = {key: values[key] for key in self.keys if key in values}
        if self.managed:
            steps = StepsLeft(step, stop)
            for key, compute in self.managed:
                picked[key] = compute(steps)
        return picked if self.build is None else self.build(picked)


@record
class Branch:
    """A conditional edge: asks a function where to go."""

    name: str
    callee: Callee
    reader: StateReader
    route: Callable[[Any], list[Write]]
    """Turns what the function returned into writes."""
    sees_output: bool = False
    """Whether the function also gets what its node returned besides the keys of the state."""


@record(kw_only=True)
class Node:
    """A node and everything that happens around its call."""

    name: str
    callee: Callee
    triggers: tuple[str, ...]
    waits_for: str | None = None
    """The node runs only if this channel has a value, whichever channel triggers it."""
    reader: StateReader
    writes_of: Callable[[Any], list[Write]]
    """Turns what the node returned into writes; raises InvalidUpdateError."""
    edges: tuple[Write, ...] = ()
    """Written whenever the node has run: its unconditional edges."""
    branches: tuple[Branch, ...] = ()
    retry: tuple[RetryPolicy, ...] = ()
    cache: CachePolicy | None = None
    timeout: TimeoutPolicy | None = None
    error_handler: Node | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    channels_written: tuple[str, ...] = ()
    """In a graph that is made from channels: the channels that the node may write to."""
    trace: TracePolicy | None = None
    """What tracers record of the node's input and output."""
    subgraphs: tuple[Any, ...] = ()
    """Compiled graphs that the node is, or that its function refers to."""
    starts_tasks: bool = False
    """Whether its function may call tasks, which end and are stored while the function runs."""
    silent: bool = False
    """For a called task: whether streams show only its caller."""

    path: tuple[str, str] = field(init=False)
    """The path of a task that a channel started."""
    path_text: str = field(init=False)
    """The path as text, as it is stored."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", (PULL, self.name))
        object.__setattr__(self, "path_text", f"~{PULL}, {self.name}")

    @property
    def bound(self) -> Any:
        """What was given to `add_node`."""
        return self.callee.target

    @property
    def graph(self) -> Any:
        """The compiled graph that the node is; None if the node is a function, which may call any
        graph."""
        return next((graph for graph in self.subgraphs if graph is self.bound), None)

    def invoke(self, input: Any, config: RunnableConfig | None = None) -> Any:
        """Call the node alone, outside a run, as a unit test does; return what it returns."""
        if self.callee.sync is None:
            raise TypeError(f"Node '{self.name}' is async: call it with ainvoke.")
        return self.callee.sync(input, **self.callee.arguments_alone(config))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None) -> Any:
        """Like `invoke`; a sync node is called on a thread."""
        if self.callee.aio is None:
            from milepost._internal.asyncio_tools import in_thread

            return await in_thread(self.invoke, input, config)
        return await self.callee.aio(input, **self.callee.arguments_alone(config))


@record(kw_only=True)
class ExecutableGraph:
    """What a graph compiles to."""

    name: str
    nodes: Mapping[str, Node]
    channels: Mapping[str, BaseChannel[Any, Any, Any]]
    """Each learns its name here."""
    keys: tuple[str, ...]
    """The channels that make up the state, in the schema's order."""
    key_places: Mapping[str, int] = field(init=False)
    """Key → its place in `keys`."""
    input_channel: str | tuple[str, ...] = START
    """Where the input goes: to this channel, or a dict to several."""
    output_keys: str | tuple[str, ...] = ()
    """What `invoke` returns: these keys, or the bare value of one channel."""
    stream_keys: str | tuple[str, ...] = ()
    """What the `values` stream and snapshots show."""
    triggers: Mapping[str, tuple[str, ...]] = field(init=False)
    """Channel → nodes that a new version of it may start. No channel starts tasks of Sends."""
    finish_channels: tuple[str, ...] = field(init=False)
    """Channels whose `finish` is called when nothing is left to run."""
    delta: tuple[str, ...] = ()
    """Channels whose checkpoints hold only what was written."""
    consumed: frozenset[str] = field(init=False)
    """Channels that may change when a node that they triggered has run."""
    starts_tasks: bool = field(init=False)
    """Whether one of the nodes may call tasks."""
    untracked: frozenset[str] = field(init=False)
    """Channels of which nothing is ever stored."""
    has_volatile_keys: bool = field(init=False)
    """Whether a key of the state may lose its value in a step that does not write it."""
    overwriting: frozenset[str] = field(init=False)
    """Channels that store any single write of a step unchanged."""
    planning_channels: frozenset[str] = field(init=False)
    """Channels that decide which tasks come next."""
    goto: Callable[[Any], Write | None]
    """Turns a target of a Command into a write; None for a target that is ignored."""
    writes_of_update: Callable[[Any], list[Write]]
    """Turns an update that came from outside into writes."""
    strictness: Strictness = field(default_factory=Strictness)
    """Whether a likely mistake is an error or a warning."""
    renames: Renames = field(default_factory=Renames)
    """Old names of nodes and keys."""
    storable: StorableCheck = field(default_factory=StorableCheck, compare=False)
    """Checks the writes of runs without a checkpointer."""

    def __post_init__(self) -> None:
        kinds = [(name, type(channel)) for name, channel in self.channels.items()]
        plain = (LastValue, EphemeralValue)
        triggers: dict[str, tuple[str, ...]] = {TASKS: ()} if TASKS in self.channels else {}
        for node in self.nodes.values():
            for trigger in node.triggers:
                triggers[trigger] = (*triggers.get(trigger, ()), node.name)
        for name, channel in self.channels.items():
            channel.key = name
        derived = {
            "triggers": triggers,
            "finish_channels": tuple(n for n, c in self.channels.items() if c.waits_for_finish),
            "key_places": {name: at for at, name in enumerate(self.keys)},
            "consumed": frozenset(n for n, c in kinds if c.consume is not BaseChannel.consume),
            "starts_tasks": any(node.starts_tasks for node in self.nodes.values()),
            "untracked": frozenset(n for n, c in kinds if issubclass(c, UntrackedValue)),
            "has_volatile_keys": any(self.channels[name].volatile for name in self.keys),
            "overwriting": frozenset(n for n, c in kinds if c in plain),
            "planning_channels": frozenset((*triggers, TASKS)),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def writes_of_input(self, input: Any) -> list[Write]:
        """What an input writes."""
        writes = self._writes_of_input(input)
        if not self.delta:
            return writes
        from milepost._engine.superstep.message_ids import identified

        return identified(writes, self.delta)

    def _writes_of_input(self, input: Any) -> list[Write]:
        if isinstance(self.input_channel, str):
            return [(self.input_channel, input)]
        if not isinstance(input, Mapping):
            raise TypeError(
                f"The input of graph '{self.name}' is {input!r}: expected dict of its input "
                f"channels, {', '.join(self.input_channel)}."
            )
        writes = [(name, input[name]) for name in input if name in self.input_channel]
        if not writes:
            raise EmptyInputError(
                f"The input of graph '{self.name}' has none of its input channels, "
                f"{', '.join(self.input_channel)}."
            )
        return writes

    def open_channels(self, checkpoint: Checkpoint | None) -> ChannelState:
        """The channels as a checkpoint has them, or as they are at the beginning."""
        if checkpoint is not None and is_older(checkpoint["v"], SENDS_ARE_A_CHANNEL):
            if is_older(checkpoint["v"], EDGES_HAVE_ONE_NAME):
                checkpoint = with_edges_of_today(self, checkpoint)
            checkpoint = with_sends(checkpoint, ())
        return ChannelState(self.channels, self.keys, self.key_places, checkpoint)
