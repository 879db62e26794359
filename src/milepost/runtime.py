"""What a node can ask of the run around it: Runtime, RunControl, ExecutionInfo, get_runtime."""

from typing import TYPE_CHECKING

from milepost._internal.lazy_imports import on_demand

if TYPE_CHECKING:
    from milepost._engine.context.runtime import (
        DEFAULT_RUNTIME,
        BaseUser,
        ExecutionInfo,
        RunControl,
        Runtime,
        ServerInfo,
    )
    from milepost._engine.context.task_context import get_runtime
else:
    __getattr__, __dir__ = on_demand(
        __name__,
        {
            "BaseUser": "milepost._engine.context.runtime",
            "DEFAULT_RUNTIME": "milepost._engine.context.runtime",
            "ExecutionInfo": "milepost._engine.context.runtime",
            "RunControl": "milepost._engine.context.runtime",
            "Runtime": "milepost._engine.context.runtime",
            "ServerInfo": "milepost._engine.context.runtime",
            "get_runtime": "milepost._engine.context.task_context",
        },
    )

__all__ = [
    "DEFAULT_RUNTIME",
    "BaseUser",
    "ExecutionInfo",
    "RunControl",
    "Runtime",
    "ServerInfo",
    "get_runtime",
]
