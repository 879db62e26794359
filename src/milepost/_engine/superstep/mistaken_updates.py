"""What nodes write that is most likely a mistake, and that LangGraph passes over."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from milepost._engine.superstep.plan import Task
from milepost.errors import InvalidUpdateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost._engine.superstep.program import ExecutableGraph, Writer
    from milepost.channels.binop import BinaryOperatorAggregate


def check_for_itself(
    program: ExecutableGraph,
    name: str,
    channel: BinaryOperatorAggregate[Any],
    values: Sequence[Any],
    writers: Sequence[Writer],
) -> None:
    """Warn of a write to a key that is added up, if the write is the value so far."""
    old = channel.value
    if channel.operator is not operator.add or type(old) is not list or not old:
        return
    if not any(value is old for value in values):
        return
    tasks = [w for w in writers if any(n == name for n, _ in w.writes)]
    if any(isinstance(w, Task) and w.node.graph is not None for w in tasks):
        return  # a graph inside returns its whole state
    names = ", ".join(f"'{task.name}'" for task in tasks)
    program.strictness.check(
        ("for itself", name),
        InvalidUpdateError(
            f"Node {names} of graph '{program.name}' returned for key '{name}' the list that it "
            "was given. Its reducer adds what is returned to that list: return only what is new."
        ),
        "The key has its elements twice.",
    )
