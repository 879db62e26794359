"""Which checkpoints of a thread stay when the others are removed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeAlias

from milepost.constants import NS_END

CheckpointKey: TypeAlias = tuple[str, str]
"""A checkpoint in its thread: namespace and id."""


class Lineage(NamedTuple):
    """What decides whether a checkpoint can be removed."""

    parent_id: str | None
    run_id: str | None
    needs_parent: bool
    """A delta channel has no value stored at this checkpoint: it is rebuilt from the parent's."""
    inner: Mapping[str, str]
    """The checkpoints of inner graphs: namespace → checkpoint id."""
    enclosing: Mapping[str, str]
    """The checkpoints of the graphs around this one, at which it was called: namespace → id."""


def enclosing_of(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The checkpoints of enclosing graphs in stored metadata, where a program may put anything."""
    found = metadata.get("parents")
    if not isinstance(found, Mapping):
        return {}
    return {ns: id for ns, id in found.items() if isinstance(ns, str) and isinstance(id, str)}


History: TypeAlias = "Mapping[CheckpointKey, Lineage]"
"""All checkpoints of a thread."""
Choice: TypeAlias = "Callable[[History], Collection[CheckpointKey]]"
"""Chooses the checkpoints of a thread to keep."""


def with_ancestors(history: History, wanted: Collection[CheckpointKey]) -> set[CheckpointKey]:
    """The wanted checkpoints, and those that they need for delta channels and inner graphs."""
    kept: set[CheckpointKey] = set()
    pending = [checkpoint for checkpoint in wanted if checkpoint in history]
    while pending:
        checkpoint = pending.pop()
        if checkpoint in kept:
            continue
        kept.add(checkpoint)
        line = history[checkpoint]
        needed = list(line.inner.items())
        if line.needs_parent and line.parent_id is not None:
            needed.append((checkpoint[0], line.parent_id))
        pending += [other for other in needed if other in history]
    return kept


def latest(
    history: History, count: int, before: Callable[[str], bool] | None
) -> set[CheckpointKey]:
    """The last `count` checkpoints of each graph, and those that `before` does not call older.

    A call of an inner graph has a namespace of its own. It is over when the graph around it has
    gone on, and what it has stored goes with the checkpoint at which it was called.
    """
    by_graph: dict[str, list[str]] = {}
    for ns, id in history:
        by_graph.setdefault(ns, []).append(id)
    for ids in by_graph.values():
        ids.sort(reverse=True)
    kept: set[CheckpointKey] = set()

    def is_over(ns: str, id: str) -> bool:
        return NS_END in ns and any(
            outer in by_graph and at < by_graph[outer][0] and (outer, at) not in kept
            for outer, at in history[ns, id].enclosing.items()
        )

    for ns in sorted(by_graph, key=len):  # that of an enclosing graph is shorter
        for n, id in enumerate(by_graph[ns]):
            is_young = before is not None and not before(id)
            if is_young or (n < count and not is_over(ns, id)):
                kept.add((ns, id))
    return kept
