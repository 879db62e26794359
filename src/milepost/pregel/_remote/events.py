"""What a RemoteGraph has because compiled graphs have it: events of a run, LangChain's methods.

The streams of `stream_events(version="v3")` are those of the client's thread (`langgraph_sdk`),
under the names that they have in a run here. The run starts when the object is entered, with `with`
or `async with`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import suppress
from functools import partial
from operator import attrgetter, call
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, Unpack

from milepost._engine.context.config import merge_configs
from milepost._internal.generators import adrive, drive
from milepost.graph._runnable import RunnableMethods, from_langchain, runnable_class
from milepost.pregel._remote import wire
from milepost.pregel._remote.requests import RemoteClients
from milepost.types import Command

if TYPE_CHECKING:
    from milepost.pregel._remote.requests import RemoteEventOptions
    from milepost.types import RunnableConfig

Call: TypeAlias = Callable[..., Any]

_TYPED: Final = ("values", "messages", "tool_calls", "subgraphs")
"""Streams that the client makes itself."""
_PLAIN: Final = ("updates", "checkpoints", "tasks", "custom")
"""Channels of the server of which the client only passes on the events."""


class ChannelEvents:
    """The events of a channel of the server, one after the other."""

    def __init__(self, thread: Any, channel: str) -> None:
        self._thread = thread
        self._channel = channel

    def __iter__(self) -> Iterator[Any]:
        decoder = self._decoder()
        for event in self._thread.subscribe([self._channel]):
            yield from decoder.feed(event)

    async def __aiter__(self) -> AsyncIterator[Any]:
        decoder = self._decoder()
        async for event in self._thread.subscribe([self._channel]):
            for data in decoder.feed(event):
                yield data

    def _decoder(self) -> Any:
        from langgraph_sdk.stream.decoders import DataDecoder

        return DataDecoder(self._channel)


class Streams(Mapping[str, Any]):
    """The streams of a run by name; a name that none has is one of the program's own."""

    def __init__(self, thread: Any) -> None:
        self._thread = thread

    def __getitem__(self, name: str) -> Any:
        if name in _TYPED:
            return getattr(self._thread, name)
        if name in _PLAIN:
            return ChannelEvents(self._thread, name)
        return self._thread.extensions[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*_TYPED, *_PLAIN))

    def __len__(self) -> int:
        return len(_TYPED) + len(_PLAIN)


class _RemoteRun:
    """The streams of a run on a server, for sync code and for an event loop."""

    def __init__(self, client: Any, thread: Any, start_kwargs: dict[str, Any]) -> None:
        self._client = client
        self._thread = thread
        self._start_kwargs = start_kwargs
        self._run_id: str | None = None
        self._closed = False
        self._events: Any = None

    values = property(attrgetter("_thread.values"), doc="The state as it changes.")
    messages = property(
        attrgetter("_thread.messages"), doc="The answers of chat models, each as a stream."
    )
    subgraphs = property(
        attrgetter("_thread.subgraphs"), doc="Inner graphs as they begin, each with its streams."
    )
    tool_calls = property(attrgetter("_thread.tool_calls"), doc="Calls of tools as they are made.")

    @property
    def extensions(self) -> Mapping[str, Any]:
        """All streams by name."""
        return Streams(self._thread)

    def _close(self) -> bool:
        """Note that the stream is closed; return whether it was open before."""
        was_closed, self._closed = self._closed, True
        return not was_closed

    # -- generators of calls of the client, which are made in sync code or awaited

    def _starting(self, enter: Call, leave: Call) -> Generator[Call, Any, Self]:
        """Enter the client's thread, and start the run; leave the thread if that fails."""
        if self._closed:
            raise RuntimeError("This stream of a run on a server was closed: start another one.")
        yield enter
        try:
            started = yield partial(self._thread.run.start, **self._start_kwargs)
            self._run_id = started["run_id"]
        except BaseException as error:
            yield partial(leave, type(error), error, error.__traceback__)
            raise
        return self

    def _aborting(self) -> Generator[Call, Any, None]:
        """Cancel the run, and close the thread."""
        if not self._close():
            return
        # The run is given up either way: the server may be gone.
        if self._run_id is not None:
            with suppress(Exception):
                cancel = self._client.runs.cancel
                yield partial(cancel, self._thread.thread_id, self._run_id, wait=False)
        with suppress(Exception):
            yield self._thread.close


class RemoteGraphRunStream(_RemoteRun):
    """A run on a server, in sync code."""

    def __enter__(self) -> Self:
        starting = self._starting(self._thread.__enter__, self._thread.__exit__)
        return drive(starting, call, BaseException)

    def __exit__(self, *error: object) -> None:
        if self._close():
            self._thread.__exit__(*error)

    @property
    def output(self) -> Any:
        """The last state; waits for the end of the run."""
        return self._thread.output

    @property
    def interrupted(self) -> bool:
        """Whether the run waits for an answer now. Does not wait for the run."""
        return bool(self._thread.interrupted)

    @property
    def interrupts(self) -> list[Any]:
        """What the run asks now."""
        return list(self._thread.interrupts)

    def abort(self) -> None:
        """Cancel the run on the server, and close the stream."""
        drive(self._aborting(), call)

    def __iter__(self) -> Iterator[Any]:
        if self._events is None:
            self._events = iter(self._thread.events)
        events: Iterator[Any] = self._events
        return events

    def interleave(self, *names: str) -> Iterator[tuple[str, Any]]:
        """Items of several streams as they come, each with the name of its stream."""
        yield from self._thread.interleave_projections(list(names))


class AsyncRemoteGraphRunStream(_RemoteRun):
    """A run on a server, on an event loop."""

    async def __aenter__(self) -> Self:
        starting = self._starting(self._thread.__aenter__, self._thread.__aexit__)
        return await adrive(starting, call, BaseException)

    async def __aexit__(self, *error: object) -> None:
        if self._close():
            await self._thread.__aexit__(*error)

    async def output(self) -> Any:
        """The last state; waits for the end of the run."""
        return await self._thread.output

    async def interrupted(self) -> bool:
        """Whether the run waits for an answer now. Does not wait for the run."""
        return bool(self._thread.interrupted)

    async def interrupts(self) -> list[Any]:
        """What the run asks now."""
        return list(self._thread.interrupts)

    async def abort(self) -> None:
        """Cancel the run on the server, and close the stream."""
        await adrive(self._aborting(), call)

    def __aiter__(self) -> AsyncIterator[Any]:
        if self._events is None:
            self._events = aiter(self._thread.events)
        events: AsyncIterator[Any] = self._events
        return events


def _property_of_runnable(name: str) -> property:
    def get(self: Any) -> Any:
        return getattr(runnable_class(name), name).fget(self)

    get.__name__ = name
    get.__doc__ = f"LangChain's `Runnable.{name}`."
    return property(get)


class RemoteRunnable(RemoteClients, RunnableMethods):
    """A graph on a server as a LangChain Runnable."""

    batch = from_langchain("batch")
    abatch = from_langchain("abatch")
    get_input_schema = from_langchain("get_input_schema")
    get_output_schema = from_langchain("get_output_schema")
    get_input_jsonschema = from_langchain("get_input_jsonschema")
    get_output_jsonschema = from_langchain("get_output_jsonschema")
    get_config_jsonschema = from_langchain("get_config_jsonschema")
    config_schema = from_langchain("config_schema")
    InputType = _property_of_runnable("InputType")
    OutputType = _property_of_runnable("OutputType")
    input_schema = _property_of_runnable("input_schema")
    output_schema = _property_of_runnable("output_schema")

    def stream_events(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        version: Literal["v1", "v2", "v3"] = "v2",
        **options: Unpack[RemoteEventOptions],
    ) -> Any:
        """With `version="v3"` the run on the server as streams; enter it with `with`.

        Args:
            input: The input, None to go on with the thread, or a Command.
            config: Names the thread, and what else a caller says about a run.
            version: "v3"; others are LangChain's, and async.
            **options: See `RemoteEventOptions`.
        """
        if version != "v3":
            return runnable_class("stream_events").stream_events(
                self, input, config, version=version, **options
            )
        return RemoteGraphRunStream(*self._open(self._sync(), input, config, options))

    async def astream_events(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        version: Literal["v1", "v2", "v3"] = "v2",
        **options: Unpack[RemoteEventOptions],
    ) -> Any:
        """`stream_events`, for use on an event loop; enter it with `async with`."""
        if version != "v3":
            raise NotImplementedError(
                f"astream_events(version={version!r}) of a RemoteGraph is not implemented: use "
                "astream(), or version='v3'."
            )
        return AsyncRemoteGraphRunStream(*self._open(self._async(), input, config, options))

    def _open(
        self,
        client: Any,
        input: Any,
        config: RunnableConfig | None,
        options: RemoteEventOptions,
    ) -> tuple[Any, Any, dict[str, Any]]:
        """The client, its thread, and the arguments that its run is started with."""
        own = ("headers", "metadata")
        refused = [name for name, value in options.items() if value is not None and name not in own]
        if refused:
            raise NotImplementedError(
                f"stream_events(version='v3') of a RemoteGraph does not support "
                f"{', '.join(refused)}: use stream(), or leave it out."
            )
        sent = wire.sent_config(merge_configs(self.config, config))
        thread_id = sent.get("configurable", {}).pop("thread_id", None)
        headers = self._headers(options.get("headers"))
        thread = client.threads.stream(
            thread_id=thread_id, assistant_id=self.assistant_id, headers=headers
        )
        started = {"input": _sent_input(input), "config": sent, "metadata": options.get("metadata")}
        return client, thread, started


def _sent_input(input: Any) -> Any:
    """The input of a run as the server takes it: of a Command only the answer.

    The server knows whether its thread waits for an answer.
    """
    if not isinstance(input, Command):
        return input
    if input.goto or input.update:
        raise NotImplementedError(
            "stream_events(version='v3') of a RemoteGraph takes Command(resume=...), and neither "
            "goto nor update: use stream() for those."
        )
    return input.resume
