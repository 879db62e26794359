"""ToolRuntime: what a tool can ask of the run around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.tools.base import _DirectlyInjectedToolArg
from typing_extensions import TypeVar

from milepost._engine.streaming.tool_calls import current_writer
from milepost.runtime import ExecutionInfo
from milepost.store.base import BaseStore
from milepost.types import StreamWriter

# LangChain checks the arguments of tools with pydantic, which reads these defaults.
StateT = TypeVar("StateT", default=Any)
ContextT = TypeVar("ContextT", default=Any)


@dataclass
class ToolRuntime(_DirectlyInjectedToolArg, Generic[ContextT, StateT]):
    """What a tool gets for a parameter that is annotated so; models never see that parameter.

    Examples:
        >>> from langchain_core.tools import tool
        >>> from milepost.prebuilt import ToolRuntime
        >>> @tool
        ... def who(runtime: ToolRuntime) -> str:
        ...     '''Who the user is.'''
        ...     return runtime.state["user"]
    """

    state: StateT
    """The state of the graph."""
    context: ContextT
    """What the caller of the graph passed as `context=`."""
    config: RunnableConfig
    """The config of the call."""
    stream_writer: StreamWriter
    """Sends to the `custom` stream."""
    tool_call_id: str | None
    """The id that the model gave the call."""
    store: BaseStore | None
    """The store that the graph was compiled with."""
    tools: list[BaseTool] = field(default_factory=list)
    """All tools of the node."""
    execution_info: ExecutionInfo | None = None
    """Which task this call is; None outside a run."""
    server_info: Any = None
    """What the server that runs the graph says about the call; None if there is no server."""

    @property
    def idempotency_key(self) -> str:
        """The same whenever this call is made again: after a retry, a crash or an answer.

        Pass it to services that deduplicate requests. It is empty outside a run.
        """
        return "" if self.execution_info is None else self.execution_info.idempotency_key

    def emit_output_delta(self, delta: Any) -> None:
        """Stream a part of the output; without effect unless such parts are listened to.

        Args:
            delta: The part.
        """
        write = current_writer.get()
        if write is not None:
            write(delta)
