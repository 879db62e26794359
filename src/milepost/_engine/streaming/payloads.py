"""The payloads of the stream modes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from milepost.constants import RETURN
from milepost.messages import is_message

if TYPE_CHECKING:
    from milepost._engine.superstep.plan import Task
    from milepost.types import Interrupt, RunnableConfig


_OF_THE_RUN = frozenset(("thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map"))
"""Metadata keys that task events leave out: other fields say where a task belongs."""


def result_of(keys: str | Sequence[str], writes: Sequence[tuple[str, Any]]) -> Any:
    """The part of some writes that concerns these keys; None if there is none."""
    if isinstance(keys, str):
        found = [value for name, value in writes if name in (keys, RETURN)]
        if not found:
            return None
        return found[0] if len(found) == 1 else found
    for name, value in writes:
        if name == RETURN:
            return value
    shown = [(name, value) for name, value in writes if name in keys]
    result = dict(shown)
    if len(result) < len(shown):
        # The node wrote a key several times: there is one update for each write.
        return [{name: value} for name, value in shown]
    return result or None


def written(keys: str | Sequence[str], writes: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Key → what was written to it; several writes to one key: {"$writes": [...]}."""
    names = (keys, RETURN) if isinstance(keys, str) else (*keys, RETURN)
    values: dict[str, list[Any]] = {}
    for name, value in writes:
        if name in names:
            values.setdefault(name, []).append(value)
    return {
        name: found[0] if len(found) == 1 else {"$writes": found} for name, found in values.items()
    }


def is_cached(task: Task) -> bool:
    """Whether a task was never called, because the node cache had its result."""
    return task.finished and task.started is None


def update_of(keys: str | Sequence[str], task: Task) -> dict[str, Any]:
    """The `updates` event of a finished task."""
    update = {task.name: result_of(keys, task.writes)}
    if is_cached(task):
        update["__metadata__"] = {"cached": True}
    return update


def task_started(config: RunnableConfig, task: Task) -> dict[str, Any]:
    """The first `tasks` event of a task, in a run with this config."""
    payload = {
        "id": task.id,
        "name": task.name,
        "input": task.input,
        "triggers": tuple(task.triggers),
    }
    metadata = {
        key: value
        for key, value in {**(config.get("metadata") or {}), **task.node.metadata}.items()
        if key not in _OF_THE_RUN and not key.startswith("langgraph_")
    }
    if tags := [tag for tag in tags_of(config, task) if not tag.startswith("seq:step")]:
        metadata["tags"] = tags
    if metadata:
        payload["metadata"] = metadata
    return payload


def task_ended(keys: str | Sequence[str], task: Task) -> dict[str, Any]:
    """The last `tasks` event of a task."""
    waiting = () if task.finished else task.interrupts
    return {
        "id": task.id,
        "name": task.name,
        "error": task.error,
        "result": written(keys, task.writes),
        "interrupts": [as_dict(interrupt) for interrupt in waiting],
    }


def as_dict(interrupt: Interrupt) -> dict[str, Any]:
    """An interrupt as events show it: a copy with dicts for dataclasses, as LangGraph's.

    A value that cannot be copied is shown itself, so that the run can go on to store it.
    """
    try:
        return asdict(interrupt)
    except Exception:
        return {field.name: getattr(interrupt, field.name) for field in fields(interrupt)}


def tags_of(config: RunnableConfig, task: Task) -> list[str]:
    """The tags of a task, in a run with this config."""
    return [*config.get("tags", ()), *task.node.tags]


# -- the `messages` stream
#
# A consumer gets every message once. A message that was streamed in pieces is not sent again when
# the node returns it. A message that a node only passes on was sent before.


def messages_of(state: Any) -> Iterator[Any]:
    """The messages at the top of a state, whatever its schema."""
    yield from messages_in(state)
    if isinstance(state, Mapping):
        values: Iterable[Any] = state.values()
    elif is_message(state):
        values = ()
    elif is_dataclass(state):
        values = [getattr(state, spec.name, None) for spec in fields(state)]
    else:
        values = getattr(state, "__dict__", {}).values()
    for value in values:
        yield from messages_in(value)


def messages_in(value: Any) -> Iterator[Any]:
    """The messages in one value of a state."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        yield from (one for one in value if is_message(one))
    elif is_message(value):
        yield value
