"""Which checkpoints of a thread stay when the others are removed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, TypeAlias

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
    """The last `count` checkpoints of each graph, and those that `before` does not call older."""
    by_graph: dict[str, list[str]] = {}
    for ns, id in history:
        by_graph.setdefault(ns, []).append(id)
    return {
        (ns, id)
        for ns, ids in by_graph.items()
        for n, id in enumerate(sorted(ids, reverse=True))
        if n < count or (before is not None and not before(id))
    }
