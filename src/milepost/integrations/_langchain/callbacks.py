"""Reports a run to LangChain's callbacks: a chain for the graph, one for each attempt of a task.

    graph                        name of the graph, or `run_name`; the input or Command of the call
      node                       tag graph:step:N, metadata langgraph_*
        models, tools, graphs    tag seq:step:1: what the node calls finds its run in the config
        branch                   tag seq:step:N: the function of a conditional edge
        task                     a call of a `@task` function, with its arguments by name

A node that fails, pauses or hands a command up ends with that as its error; so does a graph inside
a node. The outermost graph that pauses ends as usual, with the state so far.
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks.manager import AsyncCallbackManager, CallbackManager

from milepost._engine.context.config import METADATA_KEYS, node_config, shown_parts
from milepost._engine.context.langchain_bridge import callbacks_around, is_langchain_runnable
from milepost._engine.drivers.effects import Abandoned, EffectGenerator, Tell
from milepost._engine.observers import RunObserver
from milepost._internal import log
from milepost._internal.supported import RANGES
from milepost._internal.warn import warn_of
from milepost.constants import NS_END, NS_SEP, PUSH, START, TAG_HIDDEN
from milepost.integrations._langchain.sequences import steps_in, streams
from milepost.integrations.langchain import TokenStream

if TYPE_CHECKING:
    from milepost._engine.context.task_context import TaskContext
    from milepost._engine.run import GraphRun
    from milepost._engine.superstep.plan import Task
    from milepost._engine.superstep.program import Branch
    from milepost.types import TracePolicy

_SECRETS = ("key", "token", "secret", "password", "auth")
_TRACER = "langchain_core.tracers.langchain"
_GRAPH_CALLBACKS = "milepost.callbacks"
_TAKES_DEFAULTS = (
    "langsmith_inheritable_metadata" in inspect.signature(CallbackManager.configure).parameters
)


def follow(run: GraphRun) -> CallbackObserver | None:
    """An observer for a run that some handler listens to."""
    config = run.resources.config
    metadata = dict(config.get("metadata") or {})
    configurable = config.get("configurable") or {}
    nested = run.position.parent is not None
    for key in (*METADATA_KEYS, "checkpoint_ns"):
        if nested and key.startswith("checkpoint_"):
            continue  # that of the outer graph
        if key not in metadata and (value := configurable.get(key)):
            metadata[key] = value
    defaults: dict[str, Any] = {}
    if _TAKES_DEFAULTS and (found := _tracer_metadata(configurable)):
        defaults["langsmith_inheritable_metadata"] = found
    given = config.get("callbacks")
    manager = CallbackManager.configure(
        list(given) if isinstance(given, tuple) else given,
        inheritable_tags=list(config.get("tags") or ()),
        inheritable_metadata=metadata,
        **defaults,
    )
    # A graph streams the tokens of its own nodes itself.
    manager.handlers = _without_token_streams(manager.handlers)
    manager.inheritable_handlers = _without_token_streams(manager.inheritable_handlers)
    if not manager.handlers:
        return None
    if (parent := run.position.parent) is not None and "checkpoint_ns" not in manager.metadata:
        manager.add_metadata({"checkpoint_ns": parent.task.ns})
    if "ls_integration" not in manager.metadata:
        manager.add_metadata({"ls_integration": "langgraph"})
    return CallbackObserver(run, manager)


def _tracer_metadata(configurable: Mapping[str, Any]) -> dict[str, Any]:
    """What LangSmith also shows of the config: plain values that do not look secret."""
    return {
        key: value
        for key, value in configurable.items()
        if isinstance(value, (str, int, float, bool))
        and not key.startswith("__")
        and not any(word in key.casefold() for word in _SECRETS)
    }


def _without_token_streams(handlers: list[Any]) -> list[Any]:
    return [handler for handler in handlers if not isinstance(handler, TokenStream)]


class CallbackObserver(RunObserver):
    """Calls the handlers of one run."""

    def __init__(self, run: GraphRun, manager: CallbackManager) -> None:
        self._run = run
        self._manager = manager
        self._graph: Any = None
        """The chain of the graph."""
        self._chains: dict[TaskContext, Any] = {}
        """Chains of attempts that have not ended, in the order in which they began."""
        self._callers: dict[Task, Any] = {}
        """Called tasks, and what the code that called them reports to."""
        self._branches: dict[TaskContext, tuple[Any, Any]] = {}
        """Chains of branches that have not ended, with the callbacks of their nodes."""

    # -- the graph

    def run_begins(self, input: Any) -> EffectGenerator[None]:
        """Begin the chain of the graph."""
        settings = self._run.settings

        def begin(manager: Any) -> Any:
            return manager.on_chain_start(
                None, input, name=settings.run_name, run_id=settings.run_id
            )

        self._graph = yield from Tell(
            lambda: begin(self._manager), lambda: begin(_async_manager(self._manager))
        )

    def run_opened(self) -> EffectGenerator[None]:
        """Tell of a resume."""
        if self._run.resumed:
            yield from self._tell_graph_handlers("on_resume", "GraphResumeEvent", "pending")

    def run_ends(self, output: Any, error: BaseException | None) -> EffectGenerator[None]:
        """End the chain of the graph, and before it the chains of tasks that were cancelled."""
        if self._graph is None:
            return
        if isinstance(error, Abandoned):
            error = GeneratorExit()
        for context, chain in list(self._chains.items()):
            del self._chains[context]
            cut = error or RuntimeError("The run ended before this task did.")
            yield from _end(chain, None, cut)
        run = self._run
        if error is None and run.paused:
            try:
                yield from self._tell_graph_handlers(
                    "on_interrupt", "GraphInterruptEvent", run.paused_where, run.interrupts
                )
            except Exception as refused:
                yield from _end(self._graph, None, refused)
                raise
        yield from _end(self._graph, output, error)

    def _tell_graph_handlers(
        self, method: str, kind: str, status: str, *more: Any
    ) -> EffectGenerator[None]:
        """Tell of an event of `milepost.callbacks`, if some handler is of that module's class."""
        module: Any = sys.modules.get(_GRAPH_CALLBACKS)
        handlers = module.graph_handlers(self._graph.handlers) if module else ()
        if handlers:
            position = self._run.position
            ns = shown_parts(position.ns, position)
            make = getattr(module, kind)
            event = make(self._graph.run_id, status, position.checkpoint_id, ns, *more)
            yield from Tell(
                partial(module.handle_event, handlers, method, None, event),
                partial(module.ahandle_event, handlers, method, None, event),
            )

    # -- tasks

    def task_called(self, task: Task, context: TaskContext) -> None:
        """Remember the callbacks of the caller, which may be a runnable inside the node."""
        self._callers[task] = callbacks_around(context)

    def task_ends(self, task: Task, crash: BaseException | None) -> EffectGenerator[None]:
        """Forget the callbacks of the caller."""
        self._callers.pop(task, None)
        return super().task_ends(task, crash)

    def attempt_begins(self, context: TaskContext, handler: bool) -> EffectGenerator[None]:
        """Begin the chain of a node, and let what the node calls report to it."""
        task = context.task
        if task.node.silent or (task.name == START and not task.node.branches):
            return  # it belongs to the node that called it, or only passes the input on
        name, metadata = self._name_and_metadata(task, handler)
        manager = self._graph.get_child(f"graph:step:{metadata['langgraph_step']}")
        if (caller := self._callers.get(task)) is not None:
            manager = type(manager).configure(caller)
        tags = [*task.node.tags, *([TAG_HIDDEN] if task.name == START else ())]
        manager.add_tags(tags)
        manager.add_metadata(metadata)
        payload = _arguments(task) if task.called else task.input
        chain = yield from _begin(manager, name, payload, task.node.trace)
        self._chains[context] = chain
        context.report_to(chain.get_child("seq:step:1"))

    def _name_and_metadata(self, task: Task, handler: bool) -> tuple[str, dict[str, Any]]:
        """The name and metadata of a task's chain."""
        config = node_config({}, self._run.position, task)
        metadata = dict(config["metadata"])
        del metadata["checkpoint_ns"]  # that is of graphs inside the node
        if not handler:
            return task.name, metadata
        name = f"__error_handler__{task.name}"
        metadata.update(
            langgraph_node=name,
            langgraph_triggers=(PUSH,),
            langgraph_path=(*task.path[:2], "node_error_handler", False),
            langgraph_checkpoint_ns=f"{task.ns}{NS_SEP}{name}{NS_END}{task.id}",
        )
        return name, metadata

    def attempt_ends(
        self, context: TaskContext, output: Any, error: BaseException | None
    ) -> EffectGenerator[None]:
        """End the chain of a node."""
        chain = self._chains.pop(context, None)
        if chain is None:
            return
        if error is None:
            yield from Tell(lambda: None, partial(_show_in_streams, chain, output))
        yield from _end(chain, output, error, context.task.node.trace)

    def branch_begins(
        self, context: TaskContext, branch: Branch, state: Any
    ) -> EffectGenerator[None]:
        """Begin the chain of a branch; a runnable begins its own, or none."""
        node = context.task.node
        chain = self._chains[context]
        # After the node, the writing of its update, and its edges.
        steps = 0 if node.name == START else steps_in(node.callee.target)
        at = steps + 1 + len(node.edges) + node.branches.index(branch) + 1
        manager = chain.get_child(f"seq:step:{at}")
        inner = None
        outer = context.callbacks
        if is_langchain_runnable(branch.callee.target):
            context.report_to(manager)
        else:
            inner = yield from _begin(manager, branch.name, state)
            context.report_to(inner.get_child())
        self._branches[context] = (inner, outer)

    def branch_ends(
        self, context: TaskContext, answer: Any, error: BaseException | None
    ) -> EffectGenerator[None]:
        """End the chain of a branch."""
        chain, outer = self._branches.pop(context)
        context.report_to(outer)
        if chain is not None:
            yield from _end(chain, answer, error)

    def enter(self, variables: Context, context: TaskContext) -> None:
        """Let LangSmith's `traceable` functions find the node's run."""
        tracing = sys.modules.get(_TRACER)
        chain = self._chains.get(context)
        if tracing is None or chain is None:
            return
        for handler in chain.handlers:
            if isinstance(handler, tracing.LangChainTracer):
                run = handler.run_map.get(str(chain.run_id))
                if run is not None:
                    _trace_below(run, variables)
                return


def _trace_below(run: Any, variables: Context) -> None:
    """Let what is called with these context variables be traced below a run of LangSmith.

    `tracing_context`, which LangSmith documents, would have to be left in the same context later,
    when the node may still run in it.
    """
    try:
        from langsmith.run_helpers import _set_tracing_context
    except ImportError:
        warn_of(
            "Functions that LangSmith traces are not shown below their nodes: that needs "
            f"{RANGES['langchain'][1]}; run `pip install 'milepost[langchain]'`."
        )
    else:
        variables.run(_set_tracing_context, {"parent": run})


def _arguments(task: Task) -> dict[str, Any]:
    """The arguments of a task's call, by name."""
    args, kwargs = task.input
    try:
        signature = inspect.signature(task.node.callee.target)
        bound = signature.bind_partial(*args, **kwargs)
    except (TypeError, ValueError):
        return {"args": args, "kwargs": kwargs}
    bound.apply_defaults()
    named = dict(bound.arguments)
    for name in ("self", "cls"):
        named.pop(name, None)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            named.update(named.pop(parameter.name, {}))
    return named


# -- chains, with what tracers are to record of them


def _begin(
    manager: Any, name: str, payload: Any, policy: TracePolicy | None = None
) -> EffectGenerator[Any]:
    recorded = _recorded(payload, None if policy is None else policy.process_inputs)
    if recorded is payload:
        return (yield from Tell(partial(manager.on_chain_start, None, payload, name=name)))
    others, tracers = _split(manager)
    chain = yield from Tell(partial(others.on_chain_start, None, payload, name=name))
    again = partial(tracers.on_chain_start, None, recorded, name=name, run_id=chain.run_id)
    yield from Tell(again)
    chain.handlers = manager.handlers
    return chain


def _end(
    chain: Any, output: Any, error: BaseException | None, policy: TracePolicy | None = None
) -> EffectGenerator[None]:
    if error is not None:
        yield from Tell(partial(chain.on_chain_error, error))
        return
    recorded = _recorded(output, None if policy is None else policy.process_outputs)
    if recorded is output:
        yield from Tell(partial(chain.on_chain_end, output))
        return
    others, tracers = _split(chain)
    yield from Tell(partial(tracers.on_chain_end, recorded))
    yield from Tell(partial(others.on_chain_end, output))


def _recorded(value: Any, process: Callable[[Any], Any] | None) -> Any:
    """The form of a value that tracers record. A function that fails must not fail the node."""
    if process is None:
        return value
    try:
        return process(value)
    except Exception as error:
        log.warning(log.RUN, "A function of a TracePolicy has failed: %s.", type(error).__name__)
        return value


def _split(manager: Any) -> tuple[Any, Any]:
    """One manager as two: for other handlers, and for tracers, which store what they get."""
    from langchain_core.tracers.base import BaseTracer

    others, tracers = copy.copy(manager), copy.copy(manager)
    tracers.handlers = [
        handler
        for handler in manager.handlers
        if isinstance(handler, BaseTracer) and not streams(handler)
    ]
    others.handlers = [h for h in manager.handlers if h not in tracers.handlers]
    return others, tracers


async def _show_in_streams(chain: Any, output: Any) -> None:
    """Let `astream_events` and `astream_log` show what a node returned as its stream."""

    async def once() -> AsyncIterator[Any]:
        yield output

    for handler in chain.handlers:
        if streams(handler):
            async for _ in handler.tap_output_aiter(chain.run_id, once()):
                pass


def _async_manager(manager: CallbackManager) -> AsyncCallbackManager:
    """The same manager, with methods that are awaited."""
    return AsyncCallbackManager(
        manager.handlers,
        manager.inheritable_handlers,
        manager.parent_run_id,
        tags=manager.tags,
        inheritable_tags=manager.inheritable_tags,
        metadata=manager.metadata,
        inheritable_metadata=manager.inheritable_metadata,
    )
