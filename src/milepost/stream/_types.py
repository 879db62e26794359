"""The events of a run, and the base class of what makes streams of them."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, NotRequired

from typing_extensions import TypedDict

from milepost._internal import log

if TYPE_CHECKING:
    from milepost.stream._mux import StreamMux


class ProtocolEventParams(TypedDict):
    """The content of an event."""

    namespace: list[str]
    """The graph that it comes from: [] for the outermost."""
    timestamp: int
    """Milliseconds since the epoch, by a clock that may be set back: `seq` gives the order."""
    data: Any
    interrupts: NotRequired[tuple[Any, ...]]
    """Of a `values` event: the questions that the run has stopped at."""


class ProtocolEvent(TypedDict):
    """One event of a run, whatever its mode.

    Examples:
        >>> events = [event for event in graph.stream_events({}, version="v3")]
        >>> [event["params"]["data"] for event in events if event["method"] == "values"]
        [{}, {'n': 1}]
    """

    type: Literal["event"]
    """Always "event"."""
    event_id: NotRequired[str]
    """Set by servers."""
    seq: NotRequired[int]
    """The place of the event among all events of the run."""
    method: str
    """The stream mode, or the name of the channel that it was pushed to."""
    params: ProtocolEventParams
    """The graph that it comes from, the time, and what its mode carries."""


def convert_to_protocol_event(part: Any) -> ProtocolEvent:
    """A part of a stream of `version="v2"` in the envelope that transformers see."""
    event = new_event(part["type"], list(part["ns"]), part["data"])
    if "interrupts" in part:
        event["params"]["interrupts"] = part["interrupts"]
    return event


def new_event(method: str, namespace: list[str], data: Any) -> ProtocolEvent:
    """An event with the present time."""
    return {
        "type": "event",
        "method": method,
        "params": {
            "namespace": namespace,
            "timestamp": int(time.time() * 1000),
            "data": data,
        },
    }


class Hook(NamedTuple):
    """A method to be called on the sync way, or awaited under its async name."""

    owner: Any
    method: str
    arguments: tuple[Any, ...] = ()


def call_hook(hook: Hook) -> Any:
    """Carry out a hook in sync code."""
    return getattr(hook.owner, hook.method)(*hook.arguments)


async def await_hook(hook: Hook) -> Any:
    """Carry out a hook on an event loop: the method of the same name with an `a` before it."""
    return await getattr(hook.owner, f"a{hook.method}")(*hook.arguments)


class StreamTransformer(ABC):
    """Makes streams of its own out of the events of a run.

    `init` gives the streams by name, `process` is shown every event. A subclass that has to wait
    for something overrides `aprocess` instead, and then works under `astream_events` only; work
    that events need not wait for goes to `schedule`. Channels that `init` returns are closed, or
    failed, when the run ends.

    Args:
        scope: The graph whose events it sees: () for the outermost.

    Examples:
        >>> from milepost.stream import StreamChannel, StreamTransformer
        >>> class Names(StreamTransformer):
        ...     required_stream_modes = ("updates",)
        ...     def init(self):
        ...         self.names = StreamChannel()
        ...         return {"names": self.names}
        ...     def process(self, event):
        ...         if event["method"] == "updates":
        ...             self.names.push(next(iter(event["params"]["data"])))
        ...         return True
        >>> graph = builder.compile(transformers=[Names])
        >>> list(graph.stream_events({}, version="v3").extensions["names"])
        ['work']
    """

    requires_async: ClassVar[bool] = False
    """Whether it needs an event loop although no async method is overridden."""
    supports_sync: ClassVar[bool] = False
    """Whether it works in sync code although async methods are overridden."""
    required_stream_modes: ClassVar[tuple[str, ...]] = ()
    """The stream modes that the run has to produce for it."""
    before_builtins: ClassVar[bool] = False
    """Whether it sees events before the transformers that every run has: to change them.

    It must leave alone what those go by: the namespace, and ids, results, errors and interrupts of
    tasks.
    """

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        self.scope: tuple[str, ...] = scope
        """The namespace of the graph that it is for: () for the outermost."""

    @abstractmethod
    def init(self) -> dict[str, Any]:
        """The streams by name: they are in `run.extensions`, under these names.

        With a class attribute `_native = True` they are attributes of the run stream too.
        """

    def _on_register(self, mux: StreamMux) -> None:  # noqa: B027
        """The transformer belongs to this multiplexer from now on."""

    def process(self, event: ProtocolEvent) -> bool:
        """See an event; False keeps it out of the run's own stream of events.

        Args:
            event: What has happened.
        """
        raise NotImplementedError(f"{type(self).__name__} must override process() or aprocess().")

    async def aprocess(self, event: ProtocolEvent) -> bool:
        """`process`, where the next transformer has to wait for it."""
        return self.process(event)

    def finalize(self) -> None:  # noqa: B027
        """The run has ended."""

    async def afinalize(self) -> None:
        """The run has ended, and everything that was scheduled has."""
        self.finalize()

    def fail(self, err: BaseException) -> None:  # noqa: B027
        """The run has failed.

        Args:
            err: Why.
        """

    async def afail(self, err: BaseException) -> None:
        """The run has failed, and everything that was scheduled is cancelled.

        Args:
            err: Why.
        """
        self.fail(err)

    def schedule(
        self, coro: Coroutine[Any, Any, Any], *, on_error: Literal["log", "raise"] = "log"
    ) -> asyncio.Task[Any]:
        """Let a coroutine run beside the events; the run's end waits for it.

        Args:
            coro: The coroutine.
            on_error: An error in it is logged, or with "raise" fails the run's end.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            coro.close()
            raise RuntimeError(
                f"{type(self).__name__}.schedule() requires a running event loop: use "
                "astream_events, and set requires_async = True on the class to find this earlier."
            ) from None
        task = loop.create_task(_logged(coro, type(self).__name__) if on_error == "log" else coro)
        scheduled: set[asyncio.Task[Any]] = self.__dict__.setdefault("_scheduled", set())
        scheduled.add(task)

        def forget(ended: asyncio.Task[Any]) -> None:
            if ended.cancelled() or ended.exception() is None:
                scheduled.discard(ended)

        task.add_done_callback(forget)
        return task


def scheduled_by(transformer: StreamTransformer) -> set[asyncio.Task[Any]]:
    """The work that a transformer has scheduled, without what has ended well."""
    scheduled: set[asyncio.Task[Any]] = transformer.__dict__.get("_scheduled", set())
    return scheduled


async def _logged(coro: Coroutine[Any, Any, Any], transformer: str) -> Any:
    try:
        return await coro
    except Exception as error:
        log.warning(log.RUN, "Work that %s has scheduled has failed: %s.", transformer, error)
        return None


def transformer_requires_async(transformer: StreamTransformer) -> bool:
    """Whether a transformer cannot work in sync code."""
    if transformer.requires_async or transformer.supports_sync:
        return transformer.requires_async
    own = type(transformer)
    return any(
        getattr(own, name) is not getattr(StreamTransformer, name)
        for name in ("aprocess", "afinalize", "afail")
    )
