"""Several runs of a graph at once: `batch` and `abatch`."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from milepost._engine.context.config import checked_config, concurrency, run_config
from milepost._engine.context.runtime import RunControl
from milepost._engine.context.task_context import find_context
from milepost._internal import threads
from milepost.graph._options import checked_control

if TYPE_CHECKING:
    from milepost.graph._typing import AnyGraph
    from milepost.types import RunnableConfig


def batch(
    graph: AnyGraph,
    inputs: Sequence[Any],
    config: RunnableConfig | Sequence[RunnableConfig] | None,
    options: Mapping[str, Any],
    return_exceptions: bool,
) -> list[Any]:
    """Run a graph on threads, one for each thread of the graph."""
    configs, groups, limit = _plan(graph, config, len(inputs))
    results: list[Any] = [None] * len(inputs)
    slots = threading.Semaphore(limit)
    stop = RunControl()
    given: RunControl | None = checked_control(options.get("control"))
    if given is None and (task := find_context()) is not None:
        given = task.run.resources.control
    # Lists, and not counters: Ctrl-C may come between two of the main thread's instructions.
    begun: list[int] = []
    ended: list[int] = []
    news: SimpleQueue[None] = SimpleQueue()

    def work(group: list[int]) -> None:
        begun.append(group[0])
        for at in group:
            with slots:
                if stop.drain_requested:
                    break
                try:
                    own = {**options, "control": _Stoppable(stop, given)}
                    results[at] = graph.invoke(inputs[at], configs[at], **own)
                except BaseException as error:
                    results[at] = error
        ended.append(group[0])
        news.put(None)

    try:
        for group in groups:
            context = contextvars.copy_context()
            threads.submit(partial(context.run, work, group))
        while len(ended) < len(groups):
            news.get()
    except BaseException:
        stop.request_drain("batch was interrupted")
        # One that begins from now on finds out by itself that it is not wanted.
        while len(ended) < len(begun):
            news.get()
        raise
    return _raise_errors(results, return_exceptions)


async def abatch(
    graph: AnyGraph,
    inputs: Sequence[Any],
    config: RunnableConfig | Sequence[RunnableConfig] | None,
    options: Mapping[str, Any],
    return_exceptions: bool,
) -> list[Any]:
    """Run a graph in asyncio tasks, one for each thread of the graph."""
    import asyncio

    configs, groups, limit = _plan(graph, config, len(inputs))
    results: list[Any] = [None] * len(inputs)
    slots = asyncio.Semaphore(limit)

    async def work(group: list[int]) -> None:
        for at in group:
            async with slots:
                try:
                    results[at] = await graph.ainvoke(inputs[at], configs[at], **options)
                except Exception as error:
                    results[at] = error

    running = [asyncio.ensure_future(work(group)) for group in groups]
    try:
        await asyncio.gather(*running)
    except BaseException:
        # If it was cancelled, so are they, and once is enough. It waits for the first of them
        # only; the others still save what they have.
        for run in running:
            if not run.cancelling():
                run.cancel()
        if running:
            await asyncio.wait(running)
        raise
    return _raise_errors(results, return_exceptions)


def _plan(
    graph: AnyGraph, config: RunnableConfig | Sequence[RunnableConfig] | None, count: int
) -> tuple[list[RunnableConfig], list[list[int]], int]:
    """A config for each input, groups of inputs for one thread, and how many may run at once.

    A group has the positions of its inputs.
    """
    config = {} if config is None else config
    given = config if isinstance(config, (list, tuple)) else [config] * count
    if len(given) != count:
        raise ValueError(f"{count} inputs need as many configs or one for all, not {len(given)}.")
    configs = list(map(checked_config, given))
    groups: dict[Any, list[int]] = {}
    for at, own in enumerate(configs):
        thread = None
        if graph.checkpointer:
            merged = run_config(graph.config, own)
            thread = (merged.get("configurable") or {}).get("thread_id")
        groups.setdefault(object() if thread is None else str(thread), []).append(at)
    limit = concurrency(configs[0]) if configs else None
    return configs, list(groups.values()), limit or max(1, count)


class _Stoppable(RunControl):
    """The control of one run of a batch: the batch stops it, and so does the caller's control."""

    __slots__ = ("_batch", "_given")

    def __init__(self, batch: RunControl, given: RunControl | None) -> None:
        super().__init__()
        self._batch = batch
        self._given = given

    def request_drain(self, reason: str = "shutdown") -> None:
        if self._given is not None:
            self._given.request_drain(reason)
        else:
            super().request_drain(reason)

    @property
    def drain_requested(self) -> bool:
        return self.drain_reason is not None

    @property
    def drain_reason(self) -> str | None:
        given = None if self._given is None else self._given.drain_reason
        return given or self._batch.drain_reason or self._reason


def _raise_errors(results: list[Any], return_exceptions: bool) -> list[Any]:
    for result in results:
        # Only errors may be returned: an exit or an interrupt is for the caller.
        if isinstance(result, BaseException) and not (
            return_exceptions and isinstance(result, Exception)
        ):
            raise result
    return results
