"""Savers whose writing methods a program has overridden.

A run stores its steps in our savers by `commit`. A subclass that overrides `put` expects calls of
its `put`. So the runtime treats the subclass like a saver of another library: it calls `put` and
`put_writes` step by step, without a fence.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final
from weakref import WeakKeyDictionary

from milepost._internal.warn import warn_of
from milepost.checkpoint._contract.step_saver import StepSaver
from milepost.checkpoint.base import BaseCheckpointSaver

_WRITING: Final = ("put", "put_writes", "aput", "aput_writes", "get_next_version")
_OURS: Final = __name__.partition(".")[0] + "."
_known: WeakKeyDictionary[type, bool] = WeakKeyDictionary()
"""Saver class → whether it overrides a writing method."""


def step_saver(saver: BaseCheckpointSaver[Any]) -> StepSaver[Any] | None:
    """The saver, if runs store steps by its `commit`; None if they must call its `put`."""
    if not isinstance(saver, StepSaver):
        return None
    cls = type(saver)
    overridden = _known.get(cls)
    if overridden is None:
        overridden = _known[cls] = _overrides(cls)
    if overridden:
        return None
    # A test may have put a mock in place of a method.
    return saver if vars(saver).keys().isdisjoint(_WRITING) else None


def _overrides(cls: type) -> bool:
    """Whether a class outside milepost overrides writing methods; warns if so."""
    for base in cls.__mro__:
        if base.__module__.startswith(_OURS):
            return False
        own = [name for name in _WRITING if name in base.__dict__]
        if own:
            warn_of(
                f"{base.__qualname__} overrides {', '.join(own)}, so its checkpoints are stored by "
                "calls of these methods: a step is not one transaction, and two runs on one thread "
                "do not notice each other."
            )
            return True
    return False


def takes_task_path(put_writes: Callable[..., Any]) -> bool:
    """Whether a `put_writes` has the parameter `task_path`, which older savers lack."""
    return _takes_task_path(getattr(put_writes, "__func__", put_writes))


@lru_cache(maxsize=64)
def _takes_task_path(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.name == "task_path" or p.kind is p.VAR_POSITIONAL for p in parameters)
