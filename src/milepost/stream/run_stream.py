"""A run as its caller sees it: streams to iterate over, and the output.

Iterating over any of the streams drives the run, event by event. Nothing runs in the background.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from milepost._engine.drivers.run_driver import NOT_STORED
from milepost.stream._types import convert_to_protocol_event
from milepost.stream.stream_channel import StreamChannel
from milepost.types import MISSING

if TYPE_CHECKING:
    from milepost.stream._lifecycle import LifecyclePayload, SubgraphStatus
    from milepost.stream._mux import StreamMux
    from milepost.stream._types import ProtocolEvent


@contextmanager
def _passed_over() -> Iterator[None]:
    """Pass over failures of a run that is stopped, unless something was not stored."""
    try:
        yield
    except Exception as failure:
        if isinstance(failure, NOT_STORED):
            raise


class _RunStream:
    """The parts that the sync and the async run stream have in common."""

    values: StreamChannel[Any]
    messages: StreamChannel[Any]
    """One stream for each answer of a chat model."""
    lifecycle: StreamChannel[LifecyclePayload]
    # The following exist if their transformers were asked for.
    updates: StreamChannel[dict[str, Any]]
    custom: StreamChannel[Any]
    checkpoints: StreamChannel[dict[str, Any]]
    debug: StreamChannel[dict[str, Any]]
    tasks: StreamChannel[dict[str, Any]]

    def __init__(self, mux: StreamMux) -> None:
        self._mux = mux
        self.extensions: Mapping[str, Any] = MappingProxyType(mux.extensions)
        """All streams by name."""
        self._exhausted = False
        self._latest: Any = None
        self._interrupts: list[Any] = []
        self._scope_list = list(mux.scope)
        for key in mux.native_keys:
            setattr(self, key, mux.extensions[key])

    def __getattr__(self, name: str) -> Any:
        """Raise for a name that is no stream: streams are attributes of the object itself."""
        mux = self.__dict__.get("_mux")
        streams = ", ".join(sorted(mux.native_keys)) if mux is not None else "none"
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}. Registered projections: "
            f"{streams}. compile(transformers=[...]) and stream_events(transformers=[...]) add "
            "more."
        )

    def _observe_event(self, event: ProtocolEvent) -> None:
        """Keep the latest state, which is the output in the end, and the interrupts."""
        params = event["params"]
        if event["method"] == "values" and params["namespace"] == self._scope_list:
            self._latest = params["data"]
            self._interrupts.extend(params.get("interrupts", ()))

    def _raise_error(self) -> None:
        if (error := self._mux._events._error) is not None:
            raise error


class GraphRunStream(_RunStream):
    """A run in sync code: what `stream_events(version="v3")` returns.

    As a context manager it stops the run when the block is left.

    Args:
        graph_iter: The parts of the run; None for a graph inside another run.
        mux: Gives the events to transformers.
        wire_pump: Whether consumers of its streams drive the run.

    Examples:
        >>> with graph.stream_events({"n": 0}, version="v3") as run:
        ...     print(list(run.values), run.output)
        [{'n': 0}, {'n': 1}] {'n': 1}
    """

    subgraphs: StreamChannel[SubgraphRunStream]

    def __init__(
        self, graph_iter: Iterator[Any] | None, mux: StreamMux, *, wire_pump: bool = True
    ) -> None:
        super().__init__(mux)
        self._graph_iter = graph_iter
        if wire_pump:
            mux.bind_pump(self._pump_next)

    def _pump_next(self) -> bool:
        """Take one part of the run; False if there is none left."""
        if self._exhausted or self._graph_iter is None:
            return False
        try:
            part = next(self._graph_iter, MISSING)
            if part is not MISSING:
                event = convert_to_protocol_event(part)
                self._observe_event(event)
                self._mux.push(event)
                return True
        except Exception as error:
            self._exhausted = True
            self._mux.fail(error)
            return False
        self._exhausted = True
        self._mux.close()
        return False

    def abort(self) -> None:
        """Stop the run; what it has done is saved. A second call does nothing.

        Raises:
            CheckpointError: What it has done could not be saved.
            SerdeError: What it has done cannot be stored.
        """
        if self._exhausted:
            return
        self._exhausted = True
        graph_iter, self._graph_iter = self._graph_iter, None
        try:
            with _passed_over():
                if (close := getattr(graph_iter, "close", None)) is not None:
                    close()
        finally:
            with suppress(Exception):
                self._mux.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.abort()

    def _finish(self) -> None:
        while self._pump_next():
            pass
        self._raise_error()

    @property
    def output(self) -> Any:
        """Run to the end; the final state. Raises what the run failed with."""
        self._finish()
        return self._latest

    @property
    def interrupted(self) -> bool:
        """Run to the end; whether it stopped at a question."""
        self._finish()
        return bool(self._interrupts)

    @property
    def interrupts(self) -> list[Any]:
        """Run to the end; the questions that it stopped at."""
        self._finish()
        return self._interrupts

    def __iter__(self) -> Iterator[ProtocolEvent]:
        """All events of the run."""
        return iter(self._mux._events)

    def interleave(self, *names: str) -> Iterator[tuple[str, Any]]:
        """Items of several streams in the order in which they came, each with its stream's name.

        Args:
            *names: The streams.
        """
        channels: dict[str, StreamChannel[Any]] = {}
        try:
            for name in names:
                channel = self.extensions[name]
                if not isinstance(channel, StreamChannel):
                    raise TypeError(
                        f"interleave() takes streams: '{name}' is a {type(channel).__name__}."
                    )
                channel._subscribe(is_async=False)
                channels[name] = channel
            while open_channels := {n: c for n, c in channels.items() if not c._is_at_end()}:
                waiting = {n: c._items[0][0] for n, c in open_channels.items() if c._items}
                if waiting:
                    first = min(waiting, key=waiting.__getitem__)
                    yield first, channels[first]._items.popleft()[1]
                    continue
                pump = self._mux._pump_fn
                if (pump is None or not pump()) and not any(
                    c._items or c._closed for c in open_channels.values()
                ):
                    return
        finally:
            for channel in channels.values():
                channel._subscribed = False


class AsyncGraphRunStream(_RunStream):
    """A run on an event loop: what `await astream_events(version="v3")` returns.

    Several tasks may consume streams of it at once: one of them drives the run at a time, and the
    others wait for what it brings. As an async context manager it stops the run when the block is
    left.

    Args:
        graph_aiter: The parts of the run; None for a graph inside another run.
        mux: Gives the events to transformers.
        wire_pump: Whether consumers of its streams drive the run.

    Examples:
        >>> import asyncio
        >>> async def main():
        ...     async with await graph.astream_events({"n": 0}, version="v3") as run:
        ...         return [values async for values in run.values]
        >>> asyncio.run(main())
        [{'n': 0}, {'n': 1}]
    """

    subgraphs: StreamChannel[AsyncSubgraphRunStream]

    def __init__(
        self, graph_aiter: AsyncIterator[Any] | None, mux: StreamMux, *, wire_pump: bool = True
    ) -> None:
        super().__init__(mux)
        self._graph_aiter = graph_aiter
        self._progress = asyncio.Condition()
        """Notified when the run has been driven by one event."""
        self._is_driven = False
        self._pull: asyncio.Future[Any] | None = None
        self._is_aborted = False
        if wire_pump:
            mux.bind_pump(self._apump_next)

    async def _apump_next(self) -> bool:
        """Take one part of the run, or wait until another task has; False if none is left."""
        async with self._progress:
            if self._exhausted or self._graph_aiter is None:
                return False
            if self._is_driven:
                await self._progress.wait()
                return not self._exhausted
            self._is_driven = True
        try:
            return await self._take_next(self._graph_aiter)
        finally:
            async with self._progress:
                self._is_driven = False
                self._progress.notify_all()

    async def _take_next(self, graph_aiter: AsyncIterator[Any]) -> bool:
        try:
            # A task of its own, so that `abort` can cancel it and the nodes that it waits for.
            pull = self._pull = asyncio.ensure_future(anext(graph_aiter, MISSING))
            try:
                part = await pull
            except asyncio.CancelledError:
                if self._is_aborted:
                    self._exhausted = True
                    return False
                pull.cancel()
                raise
            finally:
                self._pull = None
            if part is not MISSING:
                event = convert_to_protocol_event(part)
                self._observe_event(event)
                await self._mux.apush(event)
                return True
        except Exception as error:
            self._exhausted = True
            await self._mux.afail(error)
            return False
        self._exhausted = True
        await self._mux.aclose()
        return False

    async def abort(self) -> None:
        """Stop the run; what it has done is saved. A second call does nothing.

        Raises:
            CheckpointError: What it has done could not be saved.
            SerdeError: What it has done cannot be stored.
        """
        async with self._progress:
            if self._exhausted:
                return
            self._exhausted = self._is_aborted = True
            graph_aiter, self._graph_aiter = self._graph_aiter, None
            pull = self._pull
            self._progress.notify_all()
        if pull is not None and not pull.done():
            pull.cancel()
            await asyncio.wait([pull])
        try:
            with _passed_over():
                if (aclose := getattr(graph_aiter, "aclose", None)) is not None:
                    await aclose()
        finally:
            with suppress(Exception):
                await self._mux.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.abort()

    async def _finish(self) -> None:
        while await self._apump_next():
            pass
        self._raise_error()

    async def output(self) -> Any:
        """Run to the end; the final state. Raises what the run failed with."""
        await self._finish()
        return self._latest

    async def interrupted(self) -> bool:
        """Run to the end; whether it stopped at a question."""
        await self._finish()
        return bool(self._interrupts)

    async def interrupts(self) -> list[Any]:
        """Run to the end; the questions that it stopped at."""
        await self._finish()
        return self._interrupts

    def __aiter__(self) -> AsyncIterator[ProtocolEvent]:
        """All events of the run."""
        return aiter(self._mux._events)


class _InnerRunStream(_RunStream):
    """The parts that the sync and the async stream of an inner graph have in common."""

    def __init__(
        self,
        mux: StreamMux,
        *,
        path: tuple[str, ...],
        graph_name: str | None = None,
        trigger_call_id: str | None = None,
    ) -> None:
        # That of the sync or async run stream: each subclass derives from one of them.
        init: Any = super().__init__
        init(None, mux, wire_pump=False)
        self.path = path
        """The namespace of the graph."""
        self.graph_name = graph_name
        self.trigger_call_id = trigger_call_id
        """The id of the task that the graph runs in."""
        self.status: SubgraphStatus = "started"
        self.error: str | None = None
        self._seen_terminal = False

    def _is_over(self) -> bool:
        return self._exhausted or self._seen_terminal or self._mux._events._closed


class SubgraphRunStream(_InnerRunStream, GraphRunStream):
    """A graph inside a run; iterating over its streams drives the whole run.

    Args:
        mux: Gives the events to transformers.
        path: The namespace of the graph.
        graph_name: What the graph is called.
        trigger_call_id: The id of the task that it runs in.

    Examples:
        >>> run = outer.stream_events({}, version="v3")
        >>> [(one.graph_name, list(one.values)) for one in run.subgraphs]
        [('inner', [{'n': 1}])]
    """

    def _pump_next(self) -> bool:
        pump = None if self._is_over() else self._mux._pump_fn
        return pump is not None and pump()


class AsyncSubgraphRunStream(_InnerRunStream, AsyncGraphRunStream):
    """A graph inside a run on an event loop; iterating over its streams drives the whole run.

    Args:
        mux: Gives the events to transformers.
        path: The namespace of the graph.
        graph_name: What the graph is called.
        trigger_call_id: The id of the task that it runs in.

    Examples:
        >>> import asyncio
        >>> async def main():
        ...     run = await outer.astream_events({}, version="v3")
        ...     return [one.graph_name async for one in run.subgraphs]
        >>> asyncio.run(main())
        ['inner']
    """

    async def _apump_next(self) -> bool:
        pump = None if self._is_over() else self._mux._pump_fn
        return pump is not None and await pump()
