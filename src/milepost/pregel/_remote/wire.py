"""Records of this library to what is sent to a server, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from milepost.checkpoint._contract.records import CheckpointMetadata
from milepost.graph._drawing.picture import Edge, Graph, Node
from milepost.types import (
    Command,
    Interrupt,
    PregelTask,
    RunnableConfig,
    Send,
    StateSnapshot,
    TaskError,
)

_PLACE: Final = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")
_OURS: Final = frozenset({*_PLACE[1:], "checkpoint_during"})
"""Keys that name a place in the caller's thread, which the server does not know."""


# -- to the server


def sent_config(config: RunnableConfig) -> dict[str, Any]:
    """The part of a config that can be sent: texts, numbers, and lists and dicts of them.

    Callbacks, savers and other objects stay here.
    """
    sent: dict[str, Any] = {}
    if "recursion_limit" in config:
        sent["recursion_limit"] = config["recursion_limit"]
    if "tags" in config:
        sent["tags"] = [tag for tag in config["tags"] if isinstance(tag, str)]
    if "metadata" in config:
        sent["metadata"] = _plain(config["metadata"])
    if "configurable" in config:
        own = {k: v for k, v in config["configurable"].items() if k not in _OURS}
        sent["configurable"] = _plain(own)
    return sent


def _plain(value: Any) -> Any:
    if isinstance(value, (str, int, float, UUID)):
        return value
    if isinstance(value, Mapping):
        pairs = ((key, _plain(one)) for key, one in value.items() if isinstance(key, str))
        return {key: one for key, one in pairs if one is not None}
    if isinstance(value, (list, tuple)):
        return [one for one in map(_plain, value) if one is not None]
    return None


def sent_checkpoint(config: RunnableConfig) -> dict[str, Any] | None:
    """The checkpoint that a config names, in the form of the API."""
    configurable = config.get("configurable") or {}
    place = {key: configurable[key] for key in _PLACE if configurable.get(key) is not None}
    return place or None


def sent_command(command: Command[Any]) -> dict[str, Any]:
    """A command in the form of the server."""
    targets = [
        {"node": target.node, "input": target.arg} if isinstance(target, Send) else target
        for target in command.targets()
    ]
    fields = {"update": command.update, "resume": command.resume, "goto": targets or None}
    return {name: value for name, value in fields.items() if value is not None}


# -- from the server


def interrupts_of(given: Any) -> tuple[Interrupt, ...]:
    """Interrupts, of whichever version the server is."""
    return tuple(
        one
        if isinstance(one, Interrupt)
        else Interrupt(
            one.get("value"),
            one.get("id") or one.get("interrupt_id") or "",
            response_schema=one.get("response_schema"),
        )
        for one in given or ()
    )


def command_of(data: Mapping[str, Any]) -> Command[Any]:
    """A command that a graph on the server has for the graph around it."""
    goto = data.get("goto") or ()
    targets = [goto] if isinstance(goto, (str, Mapping)) else goto
    return Command(
        graph=data.get("graph"),
        update=data.get("update"),
        resume=data.get("resume"),
        goto=[
            Send(target["node"], target.get("input", target.get("arg")))
            if isinstance(target, Mapping)
            else target
            for target in targets
        ],
    )


def config_of(checkpoint: Mapping[str, Any]) -> RunnableConfig:
    """The config that points to a checkpoint of the server."""
    return {
        "configurable": {
            "thread_id": checkpoint["thread_id"],
            "checkpoint_ns": checkpoint["checkpoint_ns"],
            "checkpoint_id": checkpoint["checkpoint_id"],
            "checkpoint_map": checkpoint.get("checkpoint_map") or {},
        }
    }


def snapshot_of(state: Mapping[str, Any]) -> StateSnapshot:
    """The state of a thread."""
    tasks = tuple(_task_of(task) for task in state.get("tasks") or ())
    parent = state.get("parent_checkpoint")
    metadata: CheckpointMetadata = {**(state.get("metadata") or {})}  # type: ignore[typeddict-item]
    return StateSnapshot(
        values=state["values"],
        next=tuple(state.get("next") or ()),
        config=config_of(state["checkpoint"]),
        metadata=metadata,
        created_at=state.get("created_at"),
        parent_config=config_of(parent) if parent else None,
        tasks=tasks,
        interrupts=tuple(i for task in tasks for i in task.interrupts),
    )


def _task_of(task: Mapping[str, Any]) -> PregelTask:
    inner, checkpoint, error = task.get("state"), task.get("checkpoint"), task.get("error")
    state: StateSnapshot | RunnableConfig | None = None
    if inner:
        state = snapshot_of(inner)
    elif checkpoint:
        state = {"configurable": dict(checkpoint)}
    return PregelTask(
        id=task["id"],
        name=task["name"],
        path=(),
        error=TaskError(error) if error else None,
        interrupts=interrupts_of(task.get("interrupts")),
        state=state,
        result=task.get("result"),
    )


def picture_of(graph: Mapping[str, Any]) -> Graph:
    """The picture of a graph."""
    nodes = {}
    for node in graph["nodes"]:
        id, data = str(node["id"]), node.get("data", {})
        named = node.get("name") or (data.get("name") if isinstance(data, Mapping) else None)
        nodes[id] = Node(id, named or id, data, node.get("metadata"))
    edges = [
        Edge(str(e["source"]), str(e["target"]), e.get("data"), bool(e.get("conditional")))
        for e in graph["edges"]
    ]
    return Graph(nodes, edges)
