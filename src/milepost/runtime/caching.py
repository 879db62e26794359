"""Keys of the node cache."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from milepost.types import CacheKey

if TYPE_CHECKING:
    from milepost.runtime.plan import Task
    from milepost.runtime.program import Program


def cache_key(program: Program, task: Task) -> CacheKey:
    """Where the result of a task is cached: by its node's code and its input."""
    policy = task.node.cache
    assert policy is not None
    key = policy.key_func(task.input)
    if isinstance(key, bytes):
        key = blake2b(key, digest_size=16).hexdigest()
    return CacheKey(cache_namespace(program, task.name), str(key), policy.ttl)


def cache_namespace(program: Program, node: str) -> tuple[str, ...]:
    """All cached results of one node."""
    target = program.nodes[node].callee.target
    module = getattr(target, "__module__", None) or type(target).__module__
    name = getattr(target, "__qualname__", None) or type(target).__qualname__
    return ("milepost", "nodes", node, f"{module}.{name}")
