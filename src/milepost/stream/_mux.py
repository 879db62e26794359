"""Shows every event of a run to the transformers, and keeps the streams that they make.

The logic is written once, as generators that yield hooks: sync methods call the hooks, async
methods await them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias

from milepost._internal.generators import adrive, drive
from milepost.stream._types import (
    Hook,
    ProtocolEvent,
    StreamTransformer,
    await_hook,
    call_hook,
    new_event,
    scheduled_by,
    transformer_requires_async,
)
from milepost.stream.stream_channel import Pump, StreamChannel

TransformerFactory: TypeAlias = Callable[[tuple[str, ...]], StreamTransformer]
"""Makes a transformer for the graph with this namespace: a transformer class is one."""
Hooks: TypeAlias = Generator[Hook, Any, None]


class StreamMux:
    """The events of one graph of a run, and the streams that transformers make of them."""

    def __init__(
        self,
        *,
        factories: Sequence[TransformerFactory],
        is_async: bool = False,
        scope: tuple[str, ...] = (),
        numbers_events: bool = True,
    ) -> None:
        """`factories` make the transformers, for this graph and for those inside it.

        Events of an inner graph are those of the outermost, which alone numbers them.
        """
        self.is_async = is_async
        self.scope = scope
        self.extensions: dict[str, Any] = {}
        """All streams by name."""
        self.native_keys: set[str] = set()
        """Those that are attributes of the run stream."""
        self._factories = factories
        self._numbers_events = numbers_events
        self._seq = 0
        self._push_seq = 0
        self._transformers: list[StreamTransformer] = []
        self._by_key: dict[str, StreamTransformer] = {}
        self._channels: list[StreamChannel[Any]] = []
        self._events: StreamChannel[ProtocolEvent] = StreamChannel()
        self._join(self._events)
        self._pump_fn: Pump | None = None
        made = [make(scope) for make in factories]
        for transformer in sorted(made, key=lambda t: not t.before_builtins):
            self._register(transformer)

    def _register(self, transformer: StreamTransformer) -> None:
        kind = type(transformer).__name__
        if transformer_requires_async(transformer) and not self.is_async:
            raise RuntimeError(
                f"{kind} requires an async run: it overrides aprocess, afinalize or afail, or has "
                "requires_async = True. Use astream_events."
            )
        streams = transformer.init()
        if not isinstance(streams, dict):
            raise TypeError(
                f"{kind}.init() must return a dict of streams, not {type(streams).__name__}."
            )
        for key in streams:
            if key in self.extensions:
                raise ValueError(
                    f"The streams of {kind} conflict with others: '{key}' is a stream of "
                    f"{type(self._by_key[key]).__name__}. Give it another name."
                )
        native = bool(getattr(transformer, "_native", False))
        for stream in streams.values():
            if isinstance(stream, StreamChannel):
                self._adopt(stream, native=native)
        self._transformers.append(transformer)
        self._by_key.update(dict.fromkeys(streams, transformer))
        self.extensions.update(streams)
        if native:
            self.native_keys.update(streams)
        transformer._on_register(self)

    def _adopt(self, channel: StreamChannel[Any], *, native: bool) -> None:
        self._join(channel)
        self._channels.append(channel)
        if channel.name is not None:
            method = channel.name if native else f"custom:{channel.name}"
            # Transformers are not shown it: one that pushes in `process` would see it again.
            channel._wire_fn = lambda item: self._append(new_event(method, [], item))

    def _join(self, channel: StreamChannel[Any]) -> None:
        channel._bind(is_async=self.is_async)
        channel._mux = self

    def _next_push_seq(self) -> int:
        self._push_seq += 1
        return self._push_seq

    # -- driving the run

    def bind_pump(self, fn: Pump) -> None:
        """Let everyone who waits for an item here drive the run with this function."""
        self._pump_fn = fn
        for channel in (self._events, *self._channels):
            channel._request_more = fn
        for transformer in self._transformers:
            if (bind := getattr(transformer, "_bind_pump", None)) is not None:
                bind(fn)

    def _make_child(self, scope: tuple[str, ...]) -> StreamMux:
        """One for a graph inside: it has transformers of its own, and drives the same run."""
        child = StreamMux(
            factories=self._factories, is_async=self.is_async, scope=scope, numbers_events=False
        )
        if self._pump_fn is not None:
            child.bind_pump(self._pump_fn)
        return child

    # -- events

    def push(self, event: ProtocolEvent) -> None:
        """Show an event to all transformers in turn, then keep it if none of them objects."""
        drive(self._pushing(event), call_hook)

    async def apush(self, event: ProtocolEvent) -> None:
        """`push`, for use on an event loop."""
        await adrive(self._pushing(event), await_hook)

    def _pushing(self, event: ProtocolEvent) -> Hooks:
        keep = True
        for transformer in self._transformers:
            if not (yield Hook(transformer, "process", (event,))):
                keep = False
        if keep:
            self._append(event)

    def _append(self, event: ProtocolEvent) -> None:
        if self._numbers_events:
            self._seq += 1
            event["seq"] = self._seq
        self._events.push(event)

    # -- the end

    def close(self) -> None:
        """The run has ended: everything is closed, whatever a transformer raises meanwhile."""
        drive(self._closing(), call_hook)

    async def aclose(self) -> None:
        """`close`, once everything that was scheduled has ended."""
        pending = self._pending()
        failed = [
            result
            for result in await asyncio.gather(*pending, return_exceptions=True)
            if isinstance(result, Exception)
        ]
        if failed:
            await self.afail(failed[0])
            raise failed[0]
        await adrive(self._closing(), await_hook)

    def _closing(self) -> Hooks:
        errors = yield from self._each("finalize")
        for channel in self._channels:
            channel.close()
        self._events.close()
        if errors:
            raise errors[0]

    def fail(self, err: BaseException) -> None:
        """The run has failed: every stream ends with this error."""
        drive(self._failing(err), call_hook)

    async def afail(self, err: BaseException) -> None:
        """`fail`, once everything that was scheduled is cancelled."""
        pending = self._pending()
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        await adrive(self._failing(err), await_hook)

    def _failing(self, err: BaseException) -> Hooks:
        yield from self._each("fail", err)
        for channel in (*self._channels, self._events):
            if not channel._closed:
                channel.fail(err)

    def _each(self, method: str, *arguments: Any) -> Generator[Hook, Any, list[Exception]]:
        """Call a method of every transformer; return what some of them raised."""
        errors: list[Exception] = []
        for transformer in self._transformers:
            try:
                yield Hook(transformer, method, arguments)
            except Exception as error:
                errors.append(error)
        return errors

    def _pending(self) -> list[asyncio.Task[Any]]:
        return [task for each in self._transformers for task in scheduled_by(each)]
