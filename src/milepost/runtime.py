"""What a node can ask of the run around it: Runtime, RunControl, ExecutionInfo, get_runtime."""

from milepost._engine.context.runtime import (
    DEFAULT_RUNTIME,
    BaseUser,
    ExecutionInfo,
    RunControl,
    Runtime,
    ServerInfo,
)
from milepost._engine.context.task_context import get_runtime

__all__ = [
    "DEFAULT_RUNTIME",
    "BaseUser",
    "ExecutionInfo",
    "RunControl",
    "Runtime",
    "ServerInfo",
    "get_runtime",
]
