"""Running a compiled graph: `invoke`, `stream` and `batch`, in two colours.

Nothing is decided here. Every method builds the program of what is to be done and hands it to
the driver of its colour.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from milepost import workers
from milepost.graph.request import GraphCore, checked_control
from milepost.runtime.at_exit import end_async_at_exit, end_at_exit
from milepost.runtime.config import checked_config, concurrency, merge_configs
from milepost.runtime.driving import async_driver
from milepost.runtime.scope import RunControl, find_scope
from milepost.runtime.stream import Feed, shown
from milepost.runtime.sync import SyncDriver

if TYPE_CHECKING:
    from milepost.runtime.effects import RunProgram
    from milepost.runtime.stream import Part
    from milepost.types import RunnableConfig, StreamMode


class RunningGraph(GraphCore):
    """The methods that run a graph."""

    def invoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        **options: Any,
    ) -> Any:
        """Run the graph and return its output.

        `input` is the input, None to go on with the thread, or a Command. Options are those of
        `stream`. With another `stream_mode` than "values" the list of its events is returned.
        It returns and tells what is in the output schema, or what `output_keys` names.
        """
        self._show_output(options)
        if stream_mode != "values":
            return list(self.stream(input, config, stream_mode=stream_mode, **options))
        session = self._session(Feed(), config, options)
        driver = SyncDriver(session.feed)
        session.spawner = driver.spawn
        return driver.run(session.run(input))

    async def ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        **options: Any,
    ) -> Any:
        """`invoke`, for use on an event loop."""
        self._show_output(options)
        if stream_mode != "values":
            events = self.astream(input, config, stream_mode=stream_mode, **options)
            return [event async for event in events]
        session = self._session(Feed(), config, options)
        driver = async_driver(session.feed)
        session.spawner = driver.spawn
        return await driver.run(session.run(input))

    def stream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        subgraphs: bool = False,
        **options: Any,
    ) -> Iterator[Any]:
        """Run the graph and yield its events as they come.

        Options:
            context: what nodes find in `runtime.context`.
            output_keys: a key, or several, to show instead of the whole state.
            interrupt_before, interrupt_after: nodes to pause at, or "*", in this run.
            durability: "sync", "async" (default) or "exit"; see `milepost.types.Durability`.
            on_conflict: what to do if another run is at work on the thread: "newest" takes it
                over, "reject" raises ThreadConflict. The default is the graph's.
            control: a RunControl, to ask the run to stop.
        """
        feed, many = self._feed(stream_mode, subgraphs)
        session = self._session(feed, config, options)
        driver = SyncDriver(session.feed)
        session.spawner = driver.spawn
        return end_at_exit(self._shown(driver.stream(session.run(input)), many, subgraphs))

    @staticmethod
    def _shown(parts: Any, many: bool, subgraphs: bool) -> Generator[Any, None, None]:
        try:
            for part in parts:
                yield shown(part, many_modes=many, subgraphs=subgraphs)
        finally:
            parts.close()

    def astream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        subgraphs: bool = False,
        **options: Any,
    ) -> AsyncGenerator[Any, None]:
        """`stream`, for use on an event loop."""
        driver = async_driver()
        many = False

        def begin() -> RunProgram[Any]:
            nonlocal many
            feed, many = self._feed(stream_mode, subgraphs)
            session = self._session(feed, config, options, above=1)
            driver.feed = session.feed
            session.spawner = driver.spawn
            return session.run(input)

        def show(part: Part) -> Any:
            return shown(part, many_modes=many, subgraphs=subgraphs)

        return end_async_at_exit(driver.stream(begin, show), driver)

    # -- many runs

    def batch(
        self,
        inputs: Sequence[Any],
        config: RunnableConfig | Sequence[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> list[Any]:
        """Run the graph on several inputs at once; those for one thread run in order.

        Ctrl-C ends all of them: each finishes the tasks in flight, saves, and stops, and no other
        is begun. A second one does not wait for that.
        """
        configs = _configs(config, len(inputs))
        results: list[Any] = [None] * len(inputs)
        groups = self._by_thread(configs)
        at_once = threading.Semaphore(_at_once(configs))
        stop = RunControl()
        given: RunControl | None = checked_control(options.get("control"))
        if given is None and (scope := find_scope()) is not None:
            given = scope.session.control
        # Lists, and not counters: Ctrl-C may come between two of the main thread's instructions.
        begun: list[int] = []
        ended: list[int] = []
        news: SimpleQueue[None] = SimpleQueue()

        def work(group: list[int]) -> None:
            begun.append(group[0])
            for at in group:
                with at_once:
                    if stop.drain_requested:
                        break
                    try:
                        own = {**options, "control": _Stoppable(stop, given)}
                        results[at] = self.invoke(inputs[at], configs[at], **own)
                    except BaseException as error:
                        results[at] = error
            ended.append(group[0])
            news.put(None)

        try:
            for group in groups:
                context = contextvars.copy_context()
                workers.submit(partial(context.run, work, group))
            while len(ended) < len(groups):
                news.get()
        except BaseException:
            stop.request_drain("batch was interrupted")
            # One that begins from now on finds out by itself that it is not wanted.
            while len(ended) < len(begun):
                news.get()
            raise
        return _settled(results, return_exceptions)

    async def abatch(
        self,
        inputs: Sequence[Any],
        config: RunnableConfig | Sequence[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> list[Any]:
        """`batch`, for use on an event loop. A cancellation waits until its runs have ended."""
        import asyncio

        configs = _configs(config, len(inputs))
        results: list[Any] = [None] * len(inputs)
        at_once = asyncio.Semaphore(_at_once(configs))

        async def work(group: list[int]) -> None:
            for at in group:
                async with at_once:
                    try:
                        results[at] = await self.ainvoke(inputs[at], configs[at], **options)
                    except Exception as error:
                        results[at] = error

        running = [asyncio.ensure_future(work(group)) for group in self._by_thread(configs)]
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
        return _settled(results, return_exceptions)

    def _by_thread(self, configs: Sequence[RunnableConfig]) -> list[list[int]]:
        groups: dict[Any, list[int]] = {}
        for at, config in enumerate(configs):
            thread = None
            if self.checkpointer:
                merged = merge_configs(self.config, config)
                thread = (merged.get("configurable") or {}).get("thread_id")
            groups.setdefault(object() if thread is None else str(thread), []).append(at)
        return list(groups.values())


class _Stoppable(RunControl):
    """The control of one run of a batch: it stops with the batch, or as its caller says."""

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


def _configs(
    config: RunnableConfig | Sequence[RunnableConfig] | None, count: int
) -> list[RunnableConfig]:
    if config is None:
        return [{} for _ in range(count)]
    if isinstance(config, (list, tuple)):
        if len(config) != count:
            raise ValueError(
                f"{count} inputs need as many configs or one for all, not {len(config)}."
            )
        return list(map(checked_config, config))
    return [checked_config(config) for _ in range(count)]


def _at_once(configs: Sequence[RunnableConfig]) -> int:
    limit = concurrency(configs[0]) if configs else None
    return limit or max(1, len(configs))


def _settled(results: list[Any], return_exceptions: bool) -> list[Any]:
    for result in results:
        # Only errors may be returned: an exit or an interrupt is for whoever called.
        if isinstance(result, BaseException) and not (
            return_exceptions and isinstance(result, Exception)
        ):
            raise result
    return results
