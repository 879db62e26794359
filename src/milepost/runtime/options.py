"""What a run is started with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from milepost.record import record

if TYPE_CHECKING:
    from milepost.cache.base import BaseCache
    from milepost.runtime.scope import RunControl
    from milepost.store.base import BaseStore
    from milepost.types import All, Checkpointer, Durability, OnConflict, RunnableConfig


@record(kw_only=True)
class Options:
    """What a caller says about a run, and what the graph was compiled with."""

    config: RunnableConfig
    checkpointer: Checkpointer = None
    durability: Durability | None = None
    on_conflict: OnConflict = "newest"
    context: Any = None
    interrupt_before: All | Sequence[str] = ()
    interrupt_after: All | Sequence[str] = ()
    output_keys: str | Sequence[str] | None = None
    control: RunControl | None = None
    store: BaseStore | None = None
    cache: BaseCache[Any] | None = None
