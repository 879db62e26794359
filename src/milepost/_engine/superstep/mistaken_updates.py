"""What nodes do to the state that is most likely a mistake, and that LangGraph passes over."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

from milepost._engine.superstep.plan import Task
from milepost.channels.binop import BinaryOperatorAggregate
from milepost.errors import InvalidUpdateError

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from milepost._engine.superstep.channel_state import ChannelState
    from milepost._engine.superstep.program import ExecutableGraph, Writer

_SCALARS: Final[frozenset[type]] = frozenset({str, int, float, bool, bytes, type(None)})
"""Types of which equal values may be one object."""


def changed_in_place(
    program: ExecutableGraph,
    channels: ChannelState,
    changed: Container[str],
    writers: Sequence[Writer],
) -> Iterator[str]:
    """The keys whose list, dict or set has grown or shrunk though no task wrote them.

    The run goes on with such a value, so it is stored like one that was written: a run that is
    resumed sees the same state. Changes that leave the size as it was are not seen.
    """
    for name, size in channels.sizes.items():
        now = len(channels.values[name])
        if now == size or name in changed or name in program.triggers:
            continue
        if name in program.untracked or name in program.delta:
            continue
        names = ", ".join(f"'{writer.name}'" for writer in writers)
        program.strictness.check(
            ("in place", name),
            InvalidUpdateError(
                f"Key '{name}' of graph '{program.name}' was changed in place in the step of "
                f"{names}, and not returned: it has {now} elements, and had {size}. Return what "
                "changes."
            ),
            "The change is stored.",
        )
        yield name


def check_for_itself(
    program: ExecutableGraph,
    name: str,
    channel: BinaryOperatorAggregate[Any],
    values: Sequence[Any],
    writers: Sequence[Writer],
) -> None:
    """Warn of a write to a key that is added up, if the write holds the value so far."""
    old = channel.value
    if channel.operator is not operator.add or type(old) is not list or not old:
        return
    for value in values:
        if value is old or _begins_with(value, old):
            tasks = [w for w in writers if any(n == name for n, _ in w.writes)]
            if any(isinstance(w, Task) and w.node.graph is not None for w in tasks):
                continue  # a graph inside returns its whole state
            names = ", ".join(f"'{task.name}'" for task in tasks)
            program.strictness.check(
                ("for itself", name),
                InvalidUpdateError(
                    f"Node {names} of graph '{program.name}' returned for key '{name}' the list "
                    "that the key has, and perhaps more. Its reducer adds what is returned to that "
                    "list: return only what is new."
                ),
                "The key has its elements twice.",
            )


def _begins_with(value: Any, old: Sequence[Any]) -> bool:
    """Whether the first elements of a list are the objects of another list."""
    return (
        type(value) is list
        and len(value) >= len(old)
        and type(old[0]) not in _SCALARS
        and value[0] is old[0]
        and all(map(operator.is_, value, old))
    )
