"""The node cache: keys of task results, lookups and stores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from milepost._engine.drivers.effects import EffectGenerator
from milepost._engine.drivers.saver_effects import GetCached, SetCached
from milepost.errors import SerdeError, SerializationError

if TYPE_CHECKING:
    from milepost._engine.superstep.plan import Task
    from milepost._engine.superstep.program import Node
    from milepost.cache.base import BaseCache, FullKey
    from milepost.types import CachePolicy

    Entries: TypeAlias = dict[FullKey, tuple[Any, int | None]]
    """What the cache is given: key → writes and lifetime."""


def recall_cached(cache: BaseCache[Any], tasks: Iterable[Task]) -> EffectGenerator[None]:
    """Give tasks the results that the cache has, and mark these tasks as finished."""
    by_key: dict[FullKey, list[Task]] = {}
    for task in tasks:
        if task.node.cache is not None:
            by_key.setdefault(_key(task, task.node.cache), []).append(task)
    if not by_key:
        return
    found = yield from GetCached(cache, list(by_key))
    for full_key, equal_tasks in by_key.items():
        writes = found.get(full_key)
        if writes is not None:
            for task in equal_tasks:
                task.writes = [(name, value) for name, value in writes]
                task.finished = True


def detached_results(cache: BaseCache[Any], tasks: Iterable[Task]) -> Entries:
    """The results of finished tasks as entries of the cache, apart from the tasks: reducers may
    change values in place when the writes are applied."""
    serde = cache.serde
    return {
        key: (serde.loads_typed(serde.dumps_typed(writes)), ttl)
        for key, (writes, ttl) in _results(tasks).items()
    }


def keep_cached(cache: BaseCache[Any], tasks: Iterable[Task]) -> EffectGenerator[None]:
    """Give the cache the results of finished tasks whose writes are not applied yet."""
    if entries := _results(tasks):
        yield from SetCached(cache, entries)


def _results(tasks: Iterable[Task]) -> Entries:
    entries: Entries = {}
    for task in tasks:
        if (policy := task.node.cache) is not None:
            entries[_key(task, policy)] = (list(task.writes), policy.ttl)
    return entries


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
