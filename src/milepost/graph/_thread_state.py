"""Reads threads and changes them, for `get_state`, `update_state` and so on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from milepost._engine.checkpoint_writer import metadata_in_configurable
from milepost._engine.context.config import merge_configs, run_config
from milepost._engine.context.task_context import find_context
from milepost._engine.loading import no_parent
from milepost._engine.position import node_names
from milepost._engine.reading.history import View, read_history, read_state
from milepost._engine.run import GraphRun
from milepost._engine.streaming.events import Event, EventStream
from milepost._engine.update import update_thread
from milepost._internal.operations import Operation, followed
from milepost.checkpoint._contract.records import place_of
from milepost.errors import CheckpointNotFoundError, GraphBuildError
from milepost.graph._options import run_settings, without_saver
from milepost.graph._reachable import graphs_in_tools

if TYPE_CHECKING:
    from milepost._engine.drivers.effects import EffectGenerator
    from milepost._engine.thread_writer import ThreadWriter
    from milepost.checkpoint._contract.records import Place
    from milepost.checkpoint.base import BaseCheckpointSaver
    from milepost.graph._typing import AnyGraph
    from milepost.types import OnConflict, RunnableConfig, RunOptions, StateSnapshot, StateUpdate


def state(
    graph: AnyGraph, config: RunnableConfig, subgraphs: bool
) -> EffectGenerator[StateSnapshot]:
    """Read the state that `config` names."""
    view, config, place = _view(graph, config)
    reading = read_state(view, config, place, subgraphs=subgraphs)
    return followed(Operation("get_state", place.thread_id, view.program.name), reading)


def history(
    graph: AnyGraph,
    config: RunnableConfig,
    filter: dict[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
) -> tuple[EventStream, EffectGenerator[None]]:
    """Read the states of a thread, newest first; where they come out, and the program."""
    view, config, place = _view(graph, config)
    stream = EventStream()

    def emit(snapshot: StateSnapshot) -> None:
        stream.undelivered.append(Event((), "values", snapshot))

    reading = read_history(view, config, filter=filter, before=before, limit=limit, emit=emit)
    name, program = "get_state_history", view.program.name
    return stream, followed(Operation(name, place.thread_id, program, yields=True), reading)


def update(
    graph: AnyGraph,
    config: RunnableConfig,
    supersteps: Sequence[Sequence[StateUpdate]],
    on_conflict: OnConflict | None,
    context: Any,
) -> EffectGenerator[RunnableConfig]:
    """Write to a thread from outside."""
    view, config, place = _view(graph, config)
    if view.is_guess:
        raise CheckpointNotFoundError(
            f"Tools call several graphs in the place of '{place.checkpoint_ns}', and what is "
            "stored does not say which of them it is of: it can be read, and not updated. Update "
            "it through that graph, with the same config."
        )
    merged = merge_configs(_metadata_around(config), config)
    options: RunOptions[Any] = {"on_conflict": on_conflict, "context": context}
    settings = run_settings(graph, merged, options, None)
    settings = replace(settings, checkpointer=view.saver, durability="sync")
    run = GraphRun(view.program, settings, EventStream())
    updating = update_thread(run, supersteps, _thread_around(), config)
    return followed(Operation("update_state", place.thread_id, view.program.name), updating)


def saver_of(graph: AnyGraph) -> BaseCheckpointSaver[Any]:
    """The saver that has the graph's threads: its own, or that of the run around the caller."""
    saver = graph.checkpointer
    if saver is not None and not isinstance(saver, bool):
        return saver
    thread = _thread_around()
    if saver is True and thread is None:
        raise no_parent()
    if saver is False or thread is None:
        raise GraphBuildError(
            "No checkpointer set: threads need one. Compile the graph with "
            "`compile(checkpointer=InMemorySaver())` or another saver."
        )
    return thread.saver


def _thread_around() -> ThreadWriter | None:
    """The writer of the run that the caller is part of, if the caller is inside a run."""
    context = find_context()
    return context.run.checkpoints.thread if context is not None else None


def _metadata_around(config: RunnableConfig) -> RunnableConfig:
    """The metadata of the run that the caller is part of. An update there has it, as a graph that
    is called there has; what the caller says with `configurable` comes first."""
    context = find_context()
    if context is None:
        return {}
    around = context.run.resources.config
    metadata = {**metadata_in_configurable(around), **(around.get("metadata") or {})}
    own = config.get("configurable") or {}
    return {"metadata": {key: metadata[key] for key in metadata if key not in own}}


def _view(graph: AnyGraph, config: RunnableConfig) -> tuple[View, RunnableConfig, Place]:
    """How to read the thread that `config` names, and the graph in it; where that is."""
    config, saver = without_saver(run_config(graph.config, config))
    view = _own_view(graph, saver or saver_of(graph))
    place = place_of(config)
    for name in node_names(place.checkpoint_ns) if place.checkpoint_ns else ():
        inner = view.inside(name)
        if inner is None:
            raise CheckpointNotFoundError(
                f"Subgraph '{place.checkpoint_ns}' was not found: '{name}' is not a node of "
                f"graph '{view.program.name}' with a saved graph inside."
            )
        view = replace(inner, is_guess=inner.is_guess or view.is_guess)
    return view, config, place


def _own_view(graph: AnyGraph, saver: BaseCheckpointSaver[Any]) -> View:
    """How to read a graph's own checkpoints, and those of the graphs in its nodes."""

    def inside(name: str) -> View | None:
        node = graph.program.nodes.get(graph.program.renames.node(name))
        if node is None:
            return None
        saved = [inner for inner in node.subgraphs if inner.checkpointer is not False]
        if saved:
            return _own_view(saved[0], saver)
        called = [
            one for one in graphs_in_tools(node.callee.target) if one.checkpointer is not False
        ]
        views = [_own_view(inner, saver) for inner in called]
        return _in_a_tool_call(node.name, _the_one(node.name, views)) if views else None

    thread = _thread_around()
    writing = thread if thread is not None and thread.saver is saver else None
    return View(graph.program, saver, writing, inside)


def _in_a_tool_call(node: str, view: View) -> View:
    """The view of a graph that a tool calls.

    Calls that came by a Send are the task of the node. Others are tasks inside of that, which have
    a name in the namespace, the node's again.
    """

    def inside(name: str) -> View | None:
        deeper = view.inside(name)
        return deeper if name != node else _the_one(node, [view, *([deeper] if deeper else [])])

    return replace(view, inside=inside)


def _the_one(node: str, views: Sequence[View]) -> View:
    """The last of several views of what a tool called, if all have the same form.

    What is stored does not say which graph it is of: one of another form would show less than is
    there, and an update through that one would change what it does not know.
    """
    forms = {(frozenset(view.program.nodes), frozenset(view.program.channels)) for view in views}
    if len(forms) > 1:
        names = ", ".join(f"'{view.program.name}'" for view in views)
        raise CheckpointNotFoundError(
            f"The tools of node '{node}' call several graphs with different nodes or keys "
            f"({names}), and what is stored does not say which of them it is of. Read it with "
            "`checkpointer.get_tuple(config)`."
        )
    is_guess = len({id(view.program) for view in views}) > 1
    return replace(views[-1], is_guess=is_guess or views[-1].is_guess)
