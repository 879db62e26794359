"""Functions that LangGraph puts into a node's config, for programs that look for them there.

`deepagents` and `langgraph-prebuilt` read and write the state of the graph around them this way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from milepost._engine.context.task_context import TaskContext
    from milepost.channels.base import BaseChannel

READ: Final = "__pregel_read"
SEND: Final = "__pregel_send"


def graph_functions(context: TaskContext) -> dict[str, Any]:
    """What a node's config holds besides what milepost puts there."""
    channels = context.run.channels
    state = {name: channels.live[name] for name in channels.key_places}
    # Callers look for the channels in the arguments of the partial function.
    return {READ: partial(_read, context, state), SEND: partial(_send, context)}


def _read(
    context: TaskContext,
    channels: Mapping[str, BaseChannel[Any, Any, Any]],
    select: str | Sequence[str],
    fresh: bool = False,
) -> Any:
    """Keys of the state; `fresh` with what the task has sent already."""
    state = context.run.channels
    values: Mapping[str, Any] = state.values
    if fresh and context.pushed:
        values = state.preview(context.pushed)
    if isinstance(select, str):
        return values.get(select)
    return {key: values[key] for key in select if key in values and key in channels}


def _send(context: TaskContext, writes: Sequence[tuple[str, Any]]) -> None:
    """Write to keys of the state when the task ends, before what it returns."""
    context.pushed = [*context.pushed, *writes]
