"""What the workers do and the parent checks: threads, the store, or both."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

from attack import (
    checks,
    children,
    limits,
    mishaps,
    operations,
    programs,
    surroundings,
    vandal,
)
from attack.operation import Context, Operation, Steps


class Workload(NamedTuple):
    """Operations that belong together, and the checks of what they leave."""

    operations: list[Operation]
    observe: Callable[[Context], Steps]
    checks: Callable[[], Any]
    settings: dict[str, Any]
    """Of the store that a worker opens."""
    tidy: Callable[[Context], Steps] | None = None


WORKLOADS = {
    "threads": Workload(
        [
            *operations.OPERATIONS,
            *programs.OPERATIONS,
            *mishaps.OPERATIONS,
            *limits.OPERATIONS,
            *vandal.OPERATIONS,
            *surroundings.OPERATIONS,
            *children.OPERATIONS,
        ],
        operations.observe,
        checks.Checks,
        {},
        operations.tidy,
    )
}

if importlib.util.find_spec("attack.store_checks"):
    from attack import store_checks, store_operations, store_probes

    WORKLOADS["store"] = Workload(
        [*store_operations.OPERATIONS, *store_probes.OPERATIONS],
        store_operations.observe,
        store_checks.Checks,
        store_operations.SETTINGS,
        getattr(store_operations, "tidy", None),
    )
