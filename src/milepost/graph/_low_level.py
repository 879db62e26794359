"""From nodes and channels to an ExecutableGraph: the way to make a graph without a state schema."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypedDict

from milepost._engine.context.config import retry_policies
from milepost._engine.context.node_callable import Callee, callee_of, same
from milepost._engine.superstep.program import ExecutableGraph, Node, StateReader, Write
from milepost._internal.asyncio_tools import in_thread
from milepost._internal.texts import plain
from milepost.channels import BaseChannel, DeltaChannel, Topic
from milepost.constants import BRANCH_TO, RESERVED, TASKS
from milepost.errors import InvalidUpdateError
from milepost.graph._node_builder import NodeBuilder, PregelNode
from milepost.graph._reachable import calls_tasks, graphs_in
from milepost.graph._spec import check_timeout
from milepost.types import CachePolicy, RetryPolicy, Send

Channels = Mapping[str, BaseChannel[Any, Any, Any]]


class ChannelGraph(TypedDict, total=False):
    """What `Pregel(...)` takes to make a graph from channels and nodes."""

    nodes: Mapping[str, PregelNode | NodeBuilder]
    channels: Mapping[str, Any] | None
    """Channels, and managed values, by name."""
    input_channels: str | Sequence[str]
    """Where the input goes: to one channel, or a dict to several."""
    output_channels: str | Sequence[str]
    """What `invoke` returns: the value of one channel, or a dict of several."""
    stream_channels: str | Sequence[str] | None
    """What streams and snapshots show; all channels by default."""
    retry_policy: RetryPolicy | Sequence[RetryPolicy]
    """For nodes without their own."""
    cache_policy: CachePolicy | None
    """For nodes without their own."""
    trigger_to_nodes: Mapping[str, Sequence[str]] | None
    """Not needed: which channel starts which node is read off the nodes."""
    stream_eager: bool
    """Not needed: events come as soon as there are any."""
    config_type: Any
    """What `context_schema` was called before LangGraph 1.0."""
    auto_validate: bool
    """Whether names are checked now; otherwise a wrong one fails when it is used."""


def channel_program(name: str, given: ChannelGraph) -> ExecutableGraph:
    """What the runtime needs to know of a graph that is made from channels and nodes."""
    built = {plain(key): _built(key, node) for key, node in given["nodes"].items()}
    specs = {plain(key): spec for key, spec in (given.get("channels") or {}).items()}
    channels = {k: c for k, c in specs.items() if isinstance(c, BaseChannel) and k != TASKS}
    managed = {key: spec for key, spec in specs.items() if not isinstance(spec, BaseChannel)}
    inputs, outputs = _named(given["input_channels"]), _named(given["output_channels"])
    streamed = given.get("stream_channels")
    shown = tuple(channels) if streamed is None else _named(streamed)
    if given.get("auto_validate", True):
        _check_nodes(built, channels, managed)
        _check_inputs(inputs, built, channels)
        for names in (outputs, shown):
            _check_known("Output channel", names, channels)
    if TASKS in specs and not isinstance(specs[TASKS], Topic):
        raise ValueError(f"Channel '{TASKS}' is reserved: it holds the tasks that Sends ask for.")
    keys = tuple(channels)
    channels[TASKS] = Topic(Send)
    retry, cache = retry_policies(given.get("retry_policy")), given.get("cache_policy")
    nodes = {key: _node(key, node, managed, retry, cache) for key, node in built.items()}
    delta = tuple(key for key in keys if isinstance(channels[key], DeltaChannel))
    writes_of_update: Callable[[Any], list[Write]] = partial(_writes_of_update, name)
    if delta:
        from milepost._engine.superstep.message_ids import with_message_ids

        writes_of_update = with_message_ids(writes_of_update, delta)
        for key, node in nodes.items():
            nodes[key] = replace(node, writes_of=with_message_ids(node.writes_of, delta))
    return ExecutableGraph(
        name=name,
        nodes=nodes,
        channels=channels,
        keys=keys,
        input_channel=inputs,
        output_keys=outputs,
        stream_keys=shown,
        delta=delta,
        goto=_goto,
        writes_of_update=writes_of_update,
    )


def _built(name: str, node: object) -> PregelNode:
    if isinstance(node, NodeBuilder):
        return node.build()
    if isinstance(node, PregelNode):
        return node
    raise TypeError(f"Node '{name}' is {node!r}: give a NodeBuilder, or what its build() returns.")


def _named(channels: str | Sequence[str]) -> str | tuple[str, ...]:
    return plain(channels) if isinstance(channels, str) else tuple(map(plain, channels))


# -- nodes


def _node(
    name: str,
    node: PregelNode,
    managed: Mapping[str, Any],
    retry: tuple[RetryPolicy, ...],
    cache: CachePolicy | None,
) -> Node:
    callee = _callee(name, node.actions)
    check_timeout(name, node.timeout, *node.actions)
    read = node.channels
    if isinstance(read, str):
        reader = StateReader(channel=read)
    else:
        reader = StateReader(
            keys=tuple(key for key in read if key not in managed),
            managed=tuple((key, _computed(managed[key])) for key in read if key in managed),
        )
    return Node(
        name=name,
        callee=callee,
        triggers=node.triggers,
        waits_for=read if isinstance(read, str) and {read} != set(node.triggers) else None,
        reader=reader,
        writes_of=node.writes_of,
        retry=node.retry_policy or retry,
        cache=node.cache_policy or cache,
        timeout=node.timeout,
        metadata=node.metadata,
        tags=node.tags,
        channels_written=tuple(e.channel for e in node.writes if not isinstance(e, Send)),
        subgraphs=tuple(graph for action in node.actions for graph in graphs_in(action)),
        starts_tasks=any(calls_tasks(action) for action in node.actions),
    )


def _computed(managed: Any) -> Any:
    """What computes a managed value, which may be given as `Annotated[..., Manager]`."""
    for manager in getattr(managed, "__metadata__", ()):
        if hasattr(manager, "get"):
            return manager.get
    return managed.get


def _callee(name: str, actions: Sequence[Any]) -> Callee:
    if not actions:
        return Callee(name, same, None)
    if len(actions) == 1:
        return callee_of(actions[0], name)
    return _chained(name, [callee_of(action) for action in actions])


def _chained(name: str, callees: Sequence[Callee]) -> Callee:
    """One callable out of several, each called with what the one before it returned."""

    def one_after_another(value: Any, **given: Any) -> Any:
        for callee in callees:
            assert callee.sync is not None
            value = callee.sync(value, **_own(callee, given))
        return value

    async def aone_after_another(value: Any, **given: Any) -> Any:
        for callee in callees:
            if callee.aio is not None:
                value = await callee.aio(value, **_own(callee, given))
            else:
                assert callee.sync is not None
                value = await in_thread(callee.sync, value, **_own(callee, given))
        return value

    return Callee(
        name,
        one_after_another if all(callee.sync is not None for callee in callees) else None,
        aone_after_another if any(callee.aio is not None for callee in callees) else None,
        tuple(dict(asked for callee in callees for asked in callee.inject).items()),
        callees[-1].target,
    )


def _own(callee: Callee, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of some keyword arguments that a callee asks for."""
    return {name: given[name] for name, _ in callee.inject}


# -- what comes from outside


def _goto(target: Any) -> Write:
    """The write for a target. Channels start the nodes of such a graph: a name starts none."""
    return (TASKS, target) if isinstance(target, Send) else (f"{BRANCH_TO}{target}", None)


def _writes_of_update(graph: str, update: Any) -> list[Write]:
    if isinstance(update, Mapping):
        return [(plain(channel), value) for channel, value in update.items()]
    if isinstance(update, (list, tuple)):
        return [(plain(channel), value) for channel, value in update]
    raise InvalidUpdateError(
        f"The command for graph '{graph}' has the update {update!r}: expected dict of channels, "
        "or pairs of channels and values."
    )


# -- checks


def _check_nodes(
    nodes: Mapping[str, PregelNode], channels: Channels, managed: Mapping[str, Any]
) -> None:
    for what, names in (("Channel", (*channels, *managed)), ("Node", tuple(nodes))):
        for name in names:
            if name in RESERVED:
                raise ValueError(f"{what} name '{name}' is reserved.")
    for name, node in nodes.items():
        # A managed value is read in a dict, never as the bare value of a channel.
        besides = () if isinstance(node.channels, str) else managed
        _check_known(f"Node '{name}' reads channel", node.channels, channels, besides)
        _check_known(f"Node '{name}' subscribes to channel", node.triggers, channels)


def _check_inputs(
    inputs: str | tuple[str, ...], nodes: Mapping[str, PregelNode], channels: Channels
) -> None:
    _check_known("Input channel", inputs, channels)
    subscribed = {channel for node in nodes.values() for channel in node.triggers}
    if subscribed.isdisjoint((inputs,) if isinstance(inputs, str) else inputs):
        raise ValueError(
            f"Input channel {inputs!r} is not subscribed to by any node, so no node would run: "
            "NodeBuilder().subscribe_only(...) or subscribe_to(...)."
        )


def _check_known(
    what: str, names: str | tuple[str, ...], channels: Channels, besides: Collection[str] = ()
) -> None:
    for name in (names,) if isinstance(names, str) else names:
        if name not in channels and name not in besides:
            raise ValueError(
                f"{what} '{name}', which the graph does not have. It has: {', '.join(channels)}."
            )
