"""One task: call the node, try again if it fails, follow its branches.

`perform` is a generator of effects. It leaves the outcome in the task: writes, an error, or open
interrupts. It raises only what must end the run at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import time
from typing import TYPE_CHECKING, Any, Final

from milepost._engine.context.node_callable import callee_of, same
from milepost._engine.context.task_context import TaskContext
from milepost._engine.drivers.effects import Call, EffectGenerator, Pause, TaskGenerator
from milepost._engine.observers import observed
from milepost._engine.superstep.node_cache import keep_cached, recall_cached
from milepost._internal import log
from milepost._internal.ids import getrandbits, interrupt_id
from milepost._internal.notes import add_note
from milepost._internal.other_root import is_from_their_call
from milepost._internal.warn import warn_of
from milepost.channels.binop import BinaryOperatorAggregate, overwrite_of
from milepost.channels.delta import DeltaChannel
from milepost.channels.topic import Topic
from milepost.errors import (
    GraphBubbleUp,
    GraphInterrupt,
    InvalidUpdateError,
    MissingNodeError,
    NodeCancelledError,
    NodeError,
    ParentCommand,
)
from milepost.types import MISSING, Command, RetryPolicy

if TYPE_CHECKING:
    from milepost._engine.run import GraphRun
    from milepost._engine.superstep.channel_state import ChannelState
    from milepost._engine.superstep.plan import Task
    from milepost._engine.superstep.program import Branch, Node, Write


class ReturnedRunnable(Exception):
    """A node returned a runnable: the result of the runnable replaces it."""

    def __init__(self, runnable: Any) -> None:
        super().__init__(runnable)
        self.runnable = runnable


def perform_observed(run: GraphRun, task: Task) -> TaskGenerator:
    """Run a task of an observed run."""
    return observed(
        run.events.observers,
        perform(run, task),
        lambda o: o.task_begins(task),
        lambda o, _, crash: o.task_ends(task, crash),
    )


def perform(run: GraphRun, task: Task) -> TaskGenerator:
    """Run a task to its end."""
    node, observers = task.node, run.events.observers
    # A step looks up its own tasks in the cache together; a called task looks itself up.
    cache = run.resources.cache if task.caller is not None else None
    if cache is not None:
        yield from recall_cached(cache, [task], run.program)
        if task.finished:
            return
    if task.started is None:
        task.started = time()
    attempt = 0
    while not task.finished:
        attempt += 1
        context = TaskContext(run, task, attempt)
        work = _attempt(context)
        if observers:
            work = _observed_attempt(work, context)
        try:
            _, task.writes = yield from work
            task.finished = True
        except GraphInterrupt as pause:
            task.pause(pause.interrupts)
            return
        except (GraphBubbleUp, MissingNodeError) as leaving:
            # A missing node is an error of the deployment, not of the node: neither tried again
            # nor handled.
            task.error = leaving
            return
        except Exception as error:
            delay = _pause_before_retry(node.retry, error, attempt)
            if delay is None:
                yield from _give_up(task, context, error)
                return
            retry = "%s '%s' of %s has failed with %s in attempt %d; the next one is in %.1f s."
            log.info(log.RUN, retry, *_names(run, task), error, attempt, delay)
            yield Pause(delay)
    if run.answers and not context.interrupts_asked and _is_answered_early(run, task):
        kind, name, where = _names(run, task)
        warn_of(f"{kind} '{name}' of {where} was given an answer, and has asked nothing.")
    if context.interrupts_asked > len(task.answers):
        try:
            _check_question(run, task)
        except InvalidUpdateError as error:
            task.finished, task.writes, task.error = False, (), error
            return
    # What one caller has answered is not for the threads of others.
    if task.cache_entry is not None and not task.has_asked:
        try:
            task.cache_entry.take(task.writes)
        except Exception as error:
            # Not a failure of the node, which is neither tried again nor handled.
            task.finished, task.writes, task.error = False, (), error
            return
    if not (run.events.quiet or node.silent) and "messages" in run.events.stream.wanted:
        # Streamed here, not when the run collects the task: tasks that are started with this
        # result must not stream their messages first.
        run.events.returned_messages(task, shown=context.came_up is None)
    if cache is not None:
        yield from keep_cached(cache, [task])


def _attempt(context: TaskContext) -> EffectGenerator[tuple[Any, list[Write]]]:
    """Call the node of a task, and follow its edges; return its output and its writes."""
    task, node, callee = context.task, context.task.node, context.task.node.callee
    try:
        if callee.sync is same:
            output = task.input
        else:
            output = yield Call(callee, task.input, context, node.timeout)
    except ParentCommand as up:
        if up.command.graph is not None:
            raise
        # A graph inside this node addressed the command to this graph, or several of its tasks did.
        output = [up.command, *up.others] if up.others else up.command
        context.came_up = up
    while True:
        try:
            writes = node.writes_of(output)
            break
        except ReturnedRunnable as returned:
            runnable = callee_of(returned.runnable, task.name)
            output = yield Call(runnable, task.input, context, node.timeout)
    if context.came_up is not None and context.came_up.others:
        writes = _last_of_plain_keys(context.run.channels, writes)
    if context.pushed:
        writes[:0] = context.pushed
    writes += node.edges
    if node.branches:
        run, observers = context.run, context.run.events.observers
        # A branch sees the state as it is with what the node wrote.
        values = run.channels.preview(writes, step_ends=run.program.has_volatile_keys)
        for branch in node.branches:
            state = branch.reader.read(run.channels, task.base[2], run.stop, values)
            if branch.sees_output and isinstance(output, dict):
                state = {**output, **state} if isinstance(state, dict) else state
            decide = Call(branch.callee, state, context)
            if observers:
                answer = yield from _observed_branch(decide, branch, context)
            else:
                answer = yield decide
            writes += branch.route(answer)
    return output, writes


def _last_of_plain_keys(channels: ChannelState, writes: Sequence[Write]) -> list[Write]:
    """Writes of several commands: a key without a reducer takes one value, the last, and any key
    one Overwrite."""
    last = {(name, _overwrites(value)): at for at, (name, value) in enumerate(writes)}
    return [
        (name, value)
        for at, (name, value) in enumerate(writes)
        if last[name, _overwrites(value)] == at
        or (
            not _overwrites(value)
            and (name not in channels.key_places or isinstance(channels.channel(name), _ADDING))
        )
    ]


_ADDING: Final = (BinaryOperatorAggregate, DeltaChannel, Topic)
"""Channels that take several writes of a step."""


def _overwrites(value: Any) -> bool:
    return overwrite_of(value) is not MISSING


def _observed_attempt(
    work: EffectGenerator[tuple[Any, list[Write]]], context: TaskContext
) -> EffectGenerator[tuple[Any, list[Write]]]:
    return observed(
        context.run.events.observers,
        work,
        lambda o: o.attempt_begins(context, False),
        lambda o, done, error: o.attempt_ends(
            context, done and done[0], context.came_up if error is None else error
        ),
    )


def _observed_branch(decide: Call, branch: Branch, context: TaskContext) -> EffectGenerator[Any]:
    return observed(
        context.run.events.observers,
        iter(decide),
        lambda o: o.branch_begins(context, branch, decide.argument),
        lambda o, answer, error: o.branch_ends(context, answer, error),
    )


def _give_up(task: Task, context: TaskContext, error: Exception) -> TaskGenerator:
    """A node has failed for good: call its error handler, if it has one."""
    task.fail(context.open_inside, context.run.answers)
    add_note(error, f"During task '{task.name}' with id '{task.id}'")
    if is_from_their_call(error):
        add_note(
            error,
            "A function of LangGraph's was called in a node of milepost: import interrupt, "
            "get_stream_writer and the like from milepost, or use `milepost run --as-langgraph`.",
        )
    handler = task.node.error_handler
    if handler is None:
        task.error = error
        return
    handled = "%s '%s' of %s has failed with %s; its error handler runs."
    log.info(log.RUN, handled, *_names(context.run, task), error)
    context.failure = NodeError(task.name, error, task.input)
    attempt = 0
    while not task.finished:
        attempt += 1
        try:
            output = yield from _handle(handler, context.for_handler(attempt))
            # The node has not run to its end, so its edges are not followed: the handler says where
            # to go, with a Command, or the path ends here.
            task.writes = task.node.writes_of(output)
            task.finished = True
        except GraphInterrupt as pause:
            task.pause(pause.interrupts)
            return
        except (GraphBubbleUp, MissingNodeError) as leaving:
            task.error = leaving
            return
        except Exception as worse:
            delay = _pause_before_retry(handler.retry, worse, attempt)
            if delay is None:
                task.error = worse
                return
            again = (
                "The error handler of %s '%s' of %s has failed with %s in attempt %d; the next one "
                "is in %.1f s."
            )
            kind, *names = _names(context.run, task)
            log.info(log.RUN, again, kind.lower(), *names, worse, attempt, delay)
            yield Pause(delay)


def _handle(handler: Node, context: TaskContext) -> EffectGenerator[Any]:
    call = Call(handler.callee, context.task.input, context, handler.timeout)
    return observed(
        context.run.events.observers,
        iter(call),
        lambda o: o.attempt_begins(context, True),
        lambda o, output, error: o.attempt_ends(context, output, error),
    )


def _check_question(run: GraphRun, task: Task) -> None:
    """Warn of a node that has asked, and has gone on without the answer."""
    kind, name, where = _names(run, task)
    run.program.strictness.check(
        ("unanswered", name),
        InvalidUpdateError(
            f"{kind} '{name}' of {where} called interrupt() and went on without an answer: an "
            "`except` has caught the GraphInterrupt that stops the node. Let it through: `except "
            "GraphInterrupt: raise`, before other exceptions."
        ),
        "Nothing is asked.",
        task.node.callee.target,
    )


def _is_answered_early(run: GraphRun, task: Task) -> bool:
    """Whether the caller has answered after an update what the task would ask first."""
    after_update = run.checkpoints.metadata.get("source") == "update"
    return after_update and interrupt_id(task.ns, 0) in run.answers


def _names(run: GraphRun, task: Task) -> tuple[str, str, str]:
    """What the log calls a task: whether it is a node or a `@task`, its name, its thread."""
    thread_id = run.position.thread_id
    where = "a run without a thread" if thread_id is None else f"thread '{thread_id}'"
    return "Node" if task.caller is None else "Task", task.name, where


def _pause_before_retry(
    policies: Sequence[RetryPolicy], error: Exception, attempt: int
) -> float | None:
    """Seconds to wait before the next attempt; None if there is none."""
    for policy in policies:
        if not _covers(policy, error):
            continue
        if attempt >= policy.max_attempts:
            return None
        delay = policy.initial_interval * policy.backoff_factor ** (attempt - 1)
        jitter = getrandbits(20) / (1 << 20) if policy.jitter else 0.0
        if delay + jitter <= policy.max_interval:
            return delay + jitter
        # No longer than the limit, and still not all at one moment.
        return policy.max_interval * (1 - jitter / 2)
    return None


def _covers(policy: RetryPolicy, error: Exception) -> bool:
    on = policy.retry_on
    if isinstance(on, type):
        return isinstance(error, on)
    if isinstance(on, Sequence):
        return isinstance(error, tuple(on))
    return on(error)


def outcome_of(
    task: Task, crash: BaseException | None, ended: Callable[[], None] | None
) -> BaseException | None:
    """Tell the caller of a task that the task has ended; return an error that is to end the run.

    This never raises: the run waits until the driver reports the end of the task.
    """
    if crash is not None and task.was_cancelled and is_cancellation(crash):
        task.give_up(crash)
        crash = None
    if ended is not None:
        try:
            ended()
        except BaseException as error:
            return crash or error
    return crash


def is_cancellation(error: BaseException) -> bool:
    """Whether this is asyncio's CancelledError."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(error, asyncio.CancelledError)


def raise_own_cancellation(error: BaseException, context: TaskContext) -> None:
    """Raise NodeCancelledError for a CancelledError that a node, or its error handler, raised of
    its own accord.

    A caller on asyncio would take the original for a cancellation of the caller.
    """
    if is_cancellation(error):
        node = context.task.name
        message = None
        if context.failure is not None:
            message = (
                f"The error handler of node '{node}' raised asyncio.CancelledError: something "
                "inside it was cancelled, not the run. Catch it in the error handler."
            )
        raise NodeCancelledError(node, message) from error


def addressed_here(command: Command[Any]) -> Command[Any]:
    """The command without `graph`, for the graph that receives it."""
    return replace(command, graph=None)
