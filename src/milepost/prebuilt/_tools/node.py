"""ToolNode: makes the tool calls that a model asked for.

Each call of a node in a run is a task like those of `@task` functions: the result is stored when
the call ends, interrupts belong to the call, and a node that runs again finds the calls that have
ended.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from langchain_core.messages import ToolCall
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import (
    ensure_config,
    get_config_list,
    get_executor_for_config,
)
from langchain_core.tools import BaseTool
from langchain_core.tools import tool as make_tool
from pydantic import ValidationError

from milepost._engine.context.config import concurrency
from milepost._engine.context.langchain_bridge import let_tools_return_commands
from milepost._engine.context.node_callable import Callee
from milepost._engine.context.runtime import GIVEN_RUNTIME, Runtime
from milepost._engine.context.task_context import TaskContext, find_context
from milepost._engine.drivers.futures import TaskFuture, new_future
from milepost._engine.superstep.program import Node, StateReader
from milepost._engine.superstep.subtasks import TaskStarter
from milepost._engine.superstep.subtasks import call as start_call
from milepost._internal.asyncio_tools import in_thread
from milepost._internal.dataclass_tools import record
from milepost._internal.noted_types import note_types
from milepost.constants import RETURN
from milepost.errors import GraphBubbleUp, GraphInterrupt
from milepost.prebuilt._effects import CallFunction, Effects, Invoke, drive_async, drive_sync
from milepost.prebuilt._tools.errors import (
    INVALID_TOOL_NAME_ERROR_TEMPLATE,
    HandleToolErrors,
    ToolInvocationError,
    correctable_errors,
    error_message,
    handles,
    is_control_flow,
    only_invocation_errors,
    text_of,
)
from milepost.prebuilt._tools.injection import Injected, ToolRuntime, injected_into, with_injected
from milepost.prebuilt._tools.input_output import checked, combined, parsed, state_of_run
from milepost.prebuilt._tools.request import (
    AsyncToolCallWrapper,
    ToolCallRequest,
    ToolCallWrapper,
    ToolOutput,
)
from milepost.store.base import BaseStore

let_tools_return_commands()


@record
class _PlannedCall:
    """One call that a node is about to make."""

    call: ToolCall
    as_list: bool
    state: Any
    config: RunnableConfig
    runtime: Runtime[Any] | None
    """If the caller of the node gave one; otherwise that of the task which makes the call."""
    caller: TaskContext | None
    """The task that the node runs in."""


class ToolNode(TaskStarter, Runnable[Any, Any]):
    """Makes the tool calls of the last message of a model, in parallel.

    Every call is a task of the run: it is stored as it ends, and a run that is resumed after a
    crash, a failure or an interrupt does not repeat it. Calls that ask have questions of their own,
    which can be answered in any order. Outside a run the node just calls the tools.

    The input is a state with messages, a list of messages, or a list of tool calls. The output is
    an update of the state, a list of messages, or a list with the Commands that tools returned.

    Args:
        tools: LangChain tools, or functions to make tools of.
        name: What the node is called.
        tags: Tags of its runs.
        handle_tool_errors: Which errors become messages to the model: True for all, False for none,
            exception types, a text to say instead, or a function of the error, which is asked about
            the errors that its parameter is annotated with. By default the model is told of wrong
            arguments, and other errors end the run.
        messages_key: Where the state has its messages.
        wrap_tool_call: Called around each call.
        awrap_tool_call: The same on an event loop.

    Examples:
        >>> from langchain_core.messages import AIMessage
        >>> from milepost.prebuilt import ToolNode
        >>> def weather(city: str) -> str:
        ...     '''The weather in a city.'''
        ...     return f"Rain in {city}"
        >>> call = {"name": "weather", "args": {"city": "Paris"}, "id": "1"}
        >>> result = ToolNode([weather]).invoke({"messages": [AIMessage("", tool_calls=[call])]})
        >>> [message.content for message in result["messages"]]
        ['Rain in Paris']
    """

    name: str = "tools"

    def __init__(
        self,
        tools: Sequence[BaseTool | Callable[..., Any]],
        *,
        name: str = "tools",
        tags: list[str] | None = None,
        handle_tool_errors: HandleToolErrors = only_invocation_errors,
        messages_key: str = "messages",
        wrap_tool_call: ToolCallWrapper | None = None,
        awrap_tool_call: AsyncToolCallWrapper | None = None,
    ) -> None:
        self.name = name
        self.tags = tags
        self._handle_tool_errors = handle_tool_errors
        self._messages_key = messages_key
        self._wrap_tool_call = wrap_tool_call
        self._awrap_tool_call = awrap_tool_call
        self._tools_by_name: dict[str, BaseTool] = {}
        self._injected: dict[str, Injected] = {}
        for given in tools:
            tool = given if isinstance(given, BaseTool) else make_tool(given)
            self._tools_by_name[tool.name] = tool
            self._injected[tool.name] = injected_into(tool)
        _allow_types(self._tools_by_name.values())

    @property
    def tools_by_name(self) -> dict[str, BaseTool]:
        """The tools that can be called."""
        return self._tools_by_name

    def inject_tool_args(
        self,
        tool_call: ToolCall,
        input: Any,  # noqa: ARG002
        store: BaseStore | None,  # noqa: ARG002
    ) -> ToolCall:
        """A call, to be sent here with `Send`: langgraph-bigtool, and agents from before 1.0, ask.

        Nothing is filled in yet. The state and the store are when the call is made, so that
        neither is stored with it.

        Args:
            tool_call: The call.
            input: The state.
            store: The store.
        """
        return tool_call

    # -- all calls

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Make the calls and wait for them.

        Args:
            input: A state with messages, a list of messages, or a list of tool calls.
            config: The config of the node.
            **kwargs: Not used.
        """
        as_list, calls, config = self._plan(input, config, kwargs)
        caller = find_context()
        # In an async node that calls `invoke`, waiting here without `await` would keep tasks from
        # being started: there the calls are no tasks.
        if caller is not None and not (
            _is_own_task(caller, self, calls) or caller.run.subtasks.wait_blocks()
        ):
            wait = concurrent.futures.wait
            outputs = drive_sync(self._as_tasks(caller, calls, config, TaskFuture, wait))
        elif len(calls) == 1:
            outputs = [self._perform(calls[0])]
        else:
            with get_executor_for_config({"max_concurrency": concurrency(config)}) as executor:
                outputs = list(executor.map(self._perform, calls))
        return combined(outputs, as_list, self._messages_key)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """`invoke`, for use on an event loop."""
        as_list, calls, config = self._plan(input, config, kwargs)
        caller = find_context()
        if caller is not None and not _is_own_task(caller, self, calls):
            starting = self._as_tasks(caller, calls, config, new_future, _await)
            outputs = await drive_async(starting)
        else:
            outputs = await self._gathered(calls, concurrency(config))
        return combined(outputs, as_list, self._messages_key)

    async def _gathered(self, calls: Sequence[_PlannedCall], limit: int | None) -> list[ToolOutput]:
        gate = asyncio.Semaphore(limit or max(len(calls), 1))

        async def perform(planned: _PlannedCall) -> ToolOutput:
            async with gate:
                return await self._aperform(planned)

        return await asyncio.gather(*map(perform, calls))

    def _plan(
        self, input: Any, config: RunnableConfig | None, options: dict[str, Any]
    ) -> tuple[bool, list[_PlannedCall], RunnableConfig]:
        config = ensure_config(config)
        given = parsed(input, self._messages_key)
        caller = find_context()
        runtime = options.get("runtime")
        if runtime is None and caller is None:
            runtime = config.get("configurable", {}).get(GIVEN_RUNTIME)
        state = state_of_run(caller, config) if given.state is None else given.state
        configs = get_config_list(config, len(given.calls)) if given.calls else []
        calls = [
            _PlannedCall(call, given.as_list, state, one, runtime, caller)
            for call, one in zip(given.calls, configs, strict=True)
        ]
        return given.as_list, calls, config

    def _as_tasks(
        self,
        context: TaskContext,
        calls: Sequence[_PlannedCall],
        config: RunnableConfig,
        future: Callable[[], TaskFuture[Any]],
        wait: Callable[..., Any],
    ) -> Effects[list[Any]]:
        """Make calls as tasks of the run, as many at a time as the config allows; their results
        in order."""
        node = Node(
            name=context.task.name,
            callee=Callee(self.name, self._perform, self._aperform, target=self),
            triggers=(),
            reader=StateReader(),
            writes_of=lambda output: [(RETURN, output)],
            silent=True,
        )
        limit = concurrency(config)
        futures: list[TaskFuture[Any]] = []
        for one in calls:
            while limit is not None and len(open := [f for f in futures if not f.done()]) >= limit:
                yield CallFunction(partial(wait, open, return_when=asyncio.FIRST_COMPLETED))
            futures.append(start_call(context, node, one, future()))
        if futures:
            yield CallFunction(partial(wait, futures))
        return _results(context, futures)

    # -- one call

    def _perform(self, planned: _PlannedCall) -> ToolOutput:
        def execute(request: ToolCallRequest) -> Any:
            return drive_sync(self._execute(request, planned))

        return drive_sync(self._wrapped(planned, self._wrap_tool_call, execute))

    async def _aperform(self, planned: _PlannedCall) -> ToolOutput:
        if self._awrap_tool_call is None and self._wrap_tool_call is not None:
            return await in_thread(self._perform, planned)

        async def execute(request: ToolCallRequest) -> Any:
            return await drive_async(self._execute(request, planned))

        return await drive_async(self._wrapped(planned, self._awrap_tool_call, execute))

    def _wrapped(
        self, planned: _PlannedCall, wrap: Callable[..., Any] | None, execute: Callable[..., Any]
    ) -> Effects[ToolOutput]:
        """Make a call, inside the function that wraps calls if there is one."""
        request = self._request(planned)
        if wrap is None:
            return (yield from self._execute(request, planned))
        try:
            output: ToolOutput = yield CallFunction(partial(wrap, request, execute))
        except Exception as error:
            if is_control_flow(error) or not self._handle_tool_errors:
                raise
            return error_message(request.tool_call, text_of(self._handle_tool_errors, error))
        return output

    def _request(self, planned: _PlannedCall) -> ToolCallRequest:
        own, caller = find_context(), planned.caller
        if caller is not None and own is not None and own is not caller:
            own.heartbeat = caller.heartbeat  # what a call streams keeps the waiting node alive
        runtime = planned.runtime or (Runtime() if own is None else own.runtime)
        tools = self._tools_by_name
        return ToolCallRequest(
            tool_call=planned.call,
            tool=tools.get(planned.call["name"]),
            state=planned.state,
            runtime=ToolRuntime(
                state=planned.state,
                context=runtime.context,
                config=planned.config,
                stream_writer=runtime.stream_writer,
                tool_call_id=planned.call["id"],
                store=runtime.store,
                tools=list(tools.values()),
                execution_info=runtime.execution_info,
                server_info=runtime.server_info,
            ),
        )

    def _execute(self, request: ToolCallRequest, planned: _PlannedCall) -> Effects[ToolOutput]:
        """Call the tool; what goes wrong in it may become a message."""
        call, tool = request.tool_call, request.tool
        name = call["name"]
        if tool is None:
            if name in self._tools_by_name:
                raise TypeError(f"The request to call tool '{name}' was overridden without a tool.")
            known = ", ".join(self._tools_by_name)
            text = INVALID_TOOL_NAME_ERROR_TEMPLATE.format(
                requested_tool=name, available_tools=known
            )
            return error_message(call, text)
        injected = self._injected.get(name) or injected_into(tool)
        filled = with_injected(call, injected, request.runtime, self._messages_key)
        try:
            try:
                response = yield Invoke(tool, {**filled, "type": "tool_call"}, planned.config)
            except ValidationError as error:
                if is_control_flow(error):
                    raise
                filtered = correctable_errors(error, injected.names)
                raise ToolInvocationError(name, error, call["args"], filtered) from error
            return checked(response, call, planned.as_list, self._messages_key)
        except Exception as error:
            if is_control_flow(error) or not handles(self._handle_tool_errors, error):
                raise
            return error_message(call, text_of(self._handle_tool_errors, error))


def _allow_types(tools: Any) -> None:
    """Allow what tools return to be stored: data types of the modules that they are defined in."""
    for tool in tools:
        function = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or type(tool)
        module = sys.modules.get(getattr(function, "__module__", None) or "")
        if module is not None:
            note_types(module)


# -- calls as tasks of the run


def _results(context: TaskContext, futures: Sequence[TaskFuture[Any]]) -> list[Any]:
    """What the calls returned; if some have failed or wait for answers, that is raised."""
    errors = [error for future in futures if (error := future.exception()) is not None]
    paused = [error for error in errors if isinstance(error, GraphInterrupt)]
    failed = [error for error in errors if not isinstance(error, GraphInterrupt)]
    questions = tuple(question for pause in paused for question in pause.interrupts)
    if failed:
        # What the others ask can still be answered, though the node fails.
        context.open_inside = questions
        raise min(failed, key=lambda error: isinstance(error, GraphBubbleUp))
    if paused:
        raise GraphInterrupt(questions)
    return [future.result() for future in futures]


async def _await(
    futures: Sequence[asyncio.Future[Any]], return_when: str = asyncio.ALL_COMPLETED
) -> None:
    try:
        await asyncio.wait(futures, return_when=return_when)
    except asyncio.CancelledError:
        for future in futures:
            future.cancel()
        raise


def _is_own_task(context: TaskContext, node: object, calls: Sequence[object]) -> bool:
    """Whether a `Send` gave a node a single call: the node's task is then the call's task."""
    task = context.task
    return len(calls) == 1 and task.is_sent and task.node.callee.target is node
