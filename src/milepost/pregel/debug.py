"""What the `tasks`, `checkpoints` and `debug` streams carry, and how printed events look.

The engine makes its own events (`_engine/streaming/payloads.py`). A server that runs tasks of
`PregelExecutableTask`, or shows what a saver has stored of them, makes the same payloads here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from milepost._engine.reading.snapshot import shown_result
from milepost._engine.streaming.payloads import as_dict, written
from milepost._engine.streaming.printing import bold as get_bolded_text
from milepost._stream_parts import CheckpointPayload, TaskPayload, TaskResultPayload
from milepost.checkpoint._contract.records import Place
from milepost.checkpoint.base import EXCLUDED_METADATA_KEYS
from milepost.constants import (
    ERROR,
    INTERRUPT,
    NS_END,
    NS_SEP,
    RESUME,
    SCHEDULED,
    TAG_HIDDEN,
)
from milepost.errors import EmptyChannelError
from milepost.types import Interrupt, PregelTask, RunnableConfig, StateSnapshot, TaskError

if TYPE_CHECKING:
    from milepost.channels.base import BaseChannel
    from milepost.checkpoint.base import CheckpointMetadata, PendingWrite
    from milepost.types import PregelExecutableTask

__all__ = [
    "CheckpointPayload",
    "TaskPayload",
    "TaskResultPayload",
    "get_bolded_text",
    "is_multiple_channel_write",
    "map_debug_checkpoint",
    "map_debug_task_results",
    "map_debug_tasks",
    "map_task_result_writes",
    "rm_pregel_keys",
    "tasks_w_writes",
]

_NO_RESULT = frozenset({ERROR, INTERRUPT, RESUME, SCHEDULED})
"""Writes that a task may have before it has finished."""


def map_debug_tasks(tasks: Iterable[PregelExecutableTask]) -> Iterator[TaskPayload]:
    """The payloads of tasks that start, but for hidden ones.

    Args:
        tasks: The tasks.

    Examples:
        >>> from milepost.pregel.debug import map_debug_tasks
        >>> list(map_debug_tasks([]))
        []
    """
    for task in tasks:
        config: Mapping[str, Any] = task.config or {}
        tags = [tag for tag in config.get("tags") or () if not tag.startswith("seq:step")]
        if TAG_HIDDEN in tags:
            continue
        payload: TaskPayload = {
            "id": task.id,
            "name": task.name,
            "input": task.input,
            "triggers": tuple(task.triggers),
        }
        metadata = {
            key: value
            for key, value in (config.get("metadata") or {}).items()
            if key not in EXCLUDED_METADATA_KEYS
        }
        if tags:
            metadata["tags"] = tags
        if metadata:
            payload["metadata"] = metadata
        yield payload


def is_multiple_channel_write(value: Any) -> bool:
    """Whether a result is that of several writes to one channel.

    Args:
        value: A value of what `map_task_result_writes` returns.

    Examples:
        >>> from milepost.pregel.debug import is_multiple_channel_write
        >>> is_multiple_channel_write({"$writes": [1, 2]}), is_multiple_channel_write(1)
        (True, False)
    """
    return isinstance(value, dict) and isinstance(value.get("$writes"), list)


def map_task_result_writes(writes: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Channel → what was written to it; several writes to one channel: {"$writes": [...]}.

    Args:
        writes: Pairs of a channel and what was written to it.

    Examples:
        >>> from milepost.pregel.debug import map_task_result_writes
        >>> map_task_result_writes([("a", 1), ("b", 2), ("b", 3)])
        {'a': 1, 'b': {'$writes': [2, 3]}}
    """
    return written([name for name, _ in writes], writes)


def map_debug_task_results(
    task_tup: tuple[PregelExecutableTask, Sequence[tuple[str, Any]]],
    stream_keys: str | Sequence[str],
) -> Iterator[TaskResultPayload]:
    """The payload of a task that has ended, with what it wrote.

    Args:
        task_tup: The task, and what it wrote.
        stream_keys: The keys to show.

    Examples:
        >>> from collections import deque
        >>> from milepost.pregel.debug import map_debug_task_results
        >>> from milepost.types import PregelExecutableTask
        >>> task = PregelExecutableTask(
        ...     name="work", input={}, proc=print, writes=deque(), config={}, triggers=[],
        ...     retry_policy=[], cache_key=None, id="1", path=(),
        ... )
        >>> [payload] = map_debug_task_results((task, [("n", 1), ("hidden", 2)]), ["n"])
        >>> payload["name"], payload["result"]
        ('work', {'n': 1})
    """
    task, writes = task_tup
    yield {
        "id": task.id,
        "name": task.name,
        "error": next((value for name, value in writes if name == ERROR), None),
        "result": written(stream_keys, writes),
        "interrupts": [as_dict(interrupt) for interrupt in _asked(writes)],
    }


def rm_pregel_keys(config: RunnableConfig | None) -> RunnableConfig | None:
    """A config with only those keys of `configurable` that a caller may know.

    Args:
        config: The config that a node gets.

    Examples:
        >>> from milepost.pregel.debug import rm_pregel_keys
        >>> rm_pregel_keys({"configurable": {"thread_id": "1", "__pregel_send": print}})
        {'configurable': {'thread_id': '1'}}
    """
    if config is None:
        return None
    given = config.get("configurable") or {}
    return {"configurable": {k: v for k, v in given.items() if not k.startswith("__pregel_")}}


def map_debug_checkpoint(
    config: RunnableConfig,
    channels: Mapping[str, BaseChannel[Any, Any, Any]],
    stream_channels: str | Sequence[str],
    metadata: CheckpointMetadata,
    tasks: Iterable[PregelExecutableTask],
    pending_writes: list[PendingWrite],
    parent_config: RunnableConfig | None,
    output_keys: str | Sequence[str],
) -> Iterator[CheckpointPayload]:
    """The payload of a checkpoint, with the tasks that follow it and what is stored of them.

    Args:
        config: Names the checkpoint.
        channels: The channels as it has stored them.
        stream_channels: The keys to show.
        metadata: How the checkpoint came to be.
        tasks: The tasks of the next step.
        pending_writes: What is stored of them.
        parent_config: Names the checkpoint before.
        output_keys: The keys to show of a task's result.

    Examples:
        >>> from milepost.pregel.debug import map_debug_checkpoint
        >>> config = {"configurable": {"thread_id": "1", "checkpoint_id": "a"}}
        >>> [payload] = map_debug_checkpoint(config, {}, [], {"step": 0}, [], [], None, [])
        >>> payload["values"], payload["metadata"]
        ({}, {'step': 0})
    """
    place, tasks = config["configurable"], list(tasks)
    outer = place.get("checkpoint_ns")
    states: dict[str, RunnableConfig | StateSnapshot] = {}
    for task in tasks:
        if task.subgraphs:
            own = f"{task.name}{NS_END}{task.id}"
            inner = Place(place["thread_id"], f"{outer}{NS_SEP}{own}" if outer else own, None)
            states[task.id] = inner.config()
    shown = tasks_w_writes(tasks, pending_writes, states, output_keys)
    yield {
        "config": rm_pregel_keys(_with_map(config, metadata)),
        "parent_config": rm_pregel_keys(_with_map(parent_config, metadata)),
        "values": _values(channels, stream_channels),
        "metadata": {**metadata},
        "next": [task.name for task in tasks],
        "tasks": [_checkpoint_task(task) for task in shown],
    }


def tasks_w_writes(
    tasks: Iterable[PregelTask | PregelExecutableTask],
    pending_writes: list[PendingWrite] | None,
    states: Mapping[str, RunnableConfig | StateSnapshot] | None,
    output_keys: str | Sequence[str],
    *,
    live: bool = False,
) -> tuple[PregelTask, ...]:
    """Tasks as a state shows them, with what is stored of each.

    Args:
        tasks: The tasks of a step.
        pending_writes: What is stored of them.
        states: Task id → the state of the graph inside, or where it is.
        output_keys: The keys to show of a task's result.
        live: Leave out questions that a finished task had asked.

    Examples:
        >>> from milepost.pregel.debug import tasks_w_writes
        >>> from milepost.types import PregelTask
        >>> [task] = tasks_w_writes([PregelTask("1", "work", ())], [("1", "n", 1)], None, ["n"])
        >>> task.result
        {'n': 1}
    """
    by_task: dict[str, list[tuple[str, Any]]] = {}
    for task_id, name, value in pending_writes or ():
        by_task.setdefault(task_id, []).append((name, value))
    found = []
    for task in tasks:
        writes = by_task.get(task.id, [])
        error = next((value for name, value in writes if name == ERROR), None)
        result = _result(writes, output_keys)
        asked = () if live and result is not None else tuple(_asked(writes))
        found.append(
            PregelTask(
                task.id,
                task.name,
                task.path,
                None if error is None else TaskError.of(error),
                asked,
                (states or {}).get(task.id),
                result,
            )
        )
    return tuple(found)


def _result(writes: Sequence[tuple[str, Any]], keys: str | Sequence[str]) -> Any:
    """What a task wrote to these keys or returned; None for one that has not finished."""
    if all(name in _NO_RESULT for name, _ in writes):
        return None
    return shown_result(keys, writes)


def _asked(writes: Iterable[tuple[str, Any]]) -> Iterator[Interrupt]:
    for name, value in writes:
        if name == INTERRUPT:
            yield from value if isinstance(value, Sequence) else [value]


def _checkpoint_task(task: PregelTask) -> Any:
    payload: dict[str, Any] = {"id": task.id, "name": task.name, "state": task.state}
    if task.error:
        return {**payload, "error": task.error}
    payload["interrupts"] = tuple(map(as_dict, task.interrupts))
    return {**payload, "result": task.result} if task.result else payload


def _values(channels: Mapping[str, BaseChannel[Any, Any, Any]], keys: str | Sequence[str]) -> Any:
    if isinstance(keys, str):
        return _values(channels, [keys]).get(keys)
    found: dict[str, Any] = {}
    for key in keys:
        try:
            found[key] = channels[key].get()
        except EmptyChannelError:
            continue
    return found


def _with_map(config: RunnableConfig | None, metadata: CheckpointMetadata) -> RunnableConfig | None:
    """A config that leads back through the graphs around a checkpoint."""
    parents = metadata.get("parents") if metadata else None
    if config is None or not parents:
        return config
    place = config["configurable"]
    if not place.get("checkpoint_ns"):
        return config
    around = {**parents, place["checkpoint_ns"]: place.get("checkpoint_id")}
    return {**config, "configurable": {**place, "checkpoint_map": around}}
