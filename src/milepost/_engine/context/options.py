"""What a run is started with, and what its tasks can use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from milepost._engine.context.task_context import RunControl
from milepost._internal.dataclass_tools import record

if TYPE_CHECKING:
    from uuid import UUID

    from milepost.cache.base import BaseCache
    from milepost.store.base import BaseStore
    from milepost.types import All, Checkpointer, Durability, OnConflict, RunnableConfig


@record(kw_only=True)
class RunSettings:
    """What a caller passes to a run, and what the graph was compiled with."""

    config: RunnableConfig
    checkpointer: Checkpointer = None
    durability: Durability | None = None
    on_conflict: OnConflict = "newest"
    context: Any = None
    interrupt_before: All | Sequence[str] = ()
    interrupt_after: All | Sequence[str] = ()
    output_keys: str | Sequence[str] | None = None
    control: RunControl | None = None
    step_timeout: float | None = None
    """How many seconds a super-step may take."""
    store: BaseStore | None = None
    cache: BaseCache[Any] | None = None
    run_name: str = "LangGraph"
    """What callbacks and traces call the run."""
    run_id: UUID | None = None
    """The id of this run for callbacks: given by the caller, not inherited."""


@record(frozen=False)
class RunResources:
    """What the tasks of a run can use: given by the caller, or inherited from the enclosing run."""

    config: RunnableConfig
    context: Any
    """What the caller passed as `context=`."""
    store: BaseStore | None
    cache: BaseCache[Any] | None
    control: RunControl
    previous: Any = None
    """For an entrypoint: what its last run on this thread returned."""


def resources_of(settings: RunSettings, above: RunResources | None) -> RunResources:
    """The resources of a run; what the settings lack is inherited from `above`."""
    if above is None:
        above = RunResources(settings.config, None, None, None, RunControl())
    return RunResources(
        settings.config,
        above.context if settings.context is None else settings.context,
        above.store if settings.store is None else settings.store,
        above.cache if settings.cache is None else settings.cache,
        settings.control or above.control,
    )
