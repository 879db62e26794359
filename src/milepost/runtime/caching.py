"""Keys of the node cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.errors import SerdeError, SerializationError
from milepost.types import CacheKey

if TYPE_CHECKING:
    from milepost.runtime.plan import Task
    from milepost.runtime.program import Node


def cache_key(task: Task) -> CacheKey:
    """Where the result of a task is cached: by its node's code and its input."""
    policy = task.node.cache
    assert policy is not None
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
    return CacheKey(namespace_of(task.node), str(key), policy.ttl)


def namespace_of(node: Node) -> tuple[str, ...]:
    """All cached results of one node."""
    target = node.callee.target
    module = getattr(target, "__module__", None) or type(target).__module__
    name = getattr(target, "__qualname__", None) or type(target).__qualname__
    return ("milepost", "nodes", node.name, f"{module}.{name}")
