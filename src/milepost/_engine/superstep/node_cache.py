"""The node cache: keys of task results, lookups and stores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from milepost._engine.drivers.effects import EffectGenerator, GetCached, SetCached
from milepost._internal.dataclass_tools import record
from milepost.constants import BRANCH_TO, JOIN, TASKS
from milepost.errors import SerdeError, SerializationError

if TYPE_CHECKING:
    from milepost._engine.superstep.plan import Task
    from milepost._engine.superstep.program import ExecutableGraph, Node, Write
    from milepost.cache.base import BaseCache, FullKey
    from milepost.types import CachePolicy


@record(frozen=False)
class CacheEntry:
    """The result of a task for the node cache."""

    cache: BaseCache[Any]
    key: FullKey
    """Made before the node runs, which may change its input."""
    ttl: int | None
    writes: Sequence[Write] | None = None
    """None if the node has not run to its end, or has asked for an answer."""

    def take(self, writes: Sequence[Write]) -> None:
        """Take a copy of the writes: a reducer may change their values in place."""
        serde = self.cache.serde
        self.writes = serde.loads_typed(serde.dumps_typed(list(writes)))


def recall_cached(
    cache: BaseCache[Any], tasks: Iterable[Task], program: ExecutableGraph
) -> EffectGenerator[None]:
    """Give tasks the results that the cache has, and mark these tasks as finished."""
    by_key: dict[FullKey, list[Task]] = {}
    for task in tasks:
        if (policy := task.node.cache) is not None:
            task.cache_entry = entry = CacheEntry(cache, _key(task, policy), policy.ttl)
            by_key.setdefault(entry.key, []).append(task)
    if not by_key:
        return
    found = yield from GetCached(cache, list(by_key))
    for full_key, equal_tasks in by_key.items():
        writes = found.get(full_key)
        if writes is not None and (usable := _under_present_names(writes, program)) is not None:
            for task in equal_tasks:
                task.writes = usable.copy()
                task.finished = True


def _under_present_names(writes: Sequence[Write], program: ExecutableGraph) -> list[Write] | None:
    """A cached result; None if it leads to a node that the graph does not have.

    Another graph has stored such a result, or an earlier version of this one.
    """
    renames = program.renames
    present = [(renames.channel(name), renames.value(name, value)) for name, value in writes]
    for name, value in present:
        if name == TASKS:
            if renames.node(value.node) not in program.nodes:
                return None
        elif name.startswith((BRANCH_TO, JOIN)) and name not in program.channels:
            return None
    return present


def keep_cached(cache: BaseCache[Any], tasks: Iterable[Task]) -> EffectGenerator[None]:
    """Give the cache the results of tasks that have finished."""
    results: dict[FullKey, tuple[Any, int | None]] = {}
    for task in tasks:
        entry = task.cache_entry
        if task.finished and entry is not None and entry.writes is not None:
            results[entry.key] = (entry.writes, entry.ttl)
    if results:
        yield from SetCached(cache, results)


def _key(task: Task, policy: CachePolicy) -> FullKey:
    """The cache key of a task: the names of its node and function, and its input. New code under
    the same names finds results of the old code."""
    try:
        if task.called:
            args, kwargs = task.input
            key = policy.key_func(*args, **kwargs)
        else:
            key = policy.key_func(task.input)
    except SerdeError as error:
        raise SerializationError(
            f"'{task.name}' has a cache policy, but no key can be made of its input: "
            f"{error.reason}. Give it one that picks what matters: CachePolicy(key_func=...)."
        ) from error
    if isinstance(key, bytes):
        from hashlib import blake2b

        key = blake2b(key, digest_size=16).hexdigest()
    return (namespace_of(task.node), str(key))


def namespace_of(node: Node) -> tuple[str, ...]:
    """The cache namespace of one node."""
    target = node.callee.target
    module = getattr(target, "__module__", None) or type(target).__module__
    name = getattr(target, "__qualname__", None) or type(target).__qualname__
    return ("milepost", "nodes", node.name, f"{module}.{name}")
