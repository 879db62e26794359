"""One stream of items that its consumer pulls."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from milepost.stream._mux import StreamMux

T = TypeVar("T")
Pump: TypeAlias = Callable[[], Any]
"""Drives the run by one event; False if there is no more. Awaited, if the run is on an event loop.
"""


class StreamChannel(Generic[T]):
    """A stream for one consumer: items are kept from the moment that it begins to iterate.

    When the channel is empty, its consumer drives the run until there is another item. With a
    `name`, everything that is pushed is also an event of the run. A channel is bound to sync or
    async iteration when its transformer is registered; `tee` and `atee` serve several consumers.

    Args:
        name: Under which what is pushed is an event of the run.
        maxlen: Is checked and has no effect: a consumer that drives the run bounds the rest.

    Examples:
        >>> from milepost.stream import StreamChannel, StreamTransformer
        >>> class Steps(StreamTransformer):
        ...     def init(self):
        ...         self.steps = StreamChannel("steps")
        ...         return {"steps": self.steps}
        ...     def process(self, event):
        ...         if event["method"] == "values":
        ...             self.steps.push(event["params"]["data"])
        ...         return True
    """

    def __init__(self, name: str | None = None, *, maxlen: int | None = None) -> None:
        if maxlen is not None and maxlen <= 0:
            raise ValueError(f"maxlen must be a positive int or None, not {maxlen!r}.")
        self.name = name
        self._items: deque[tuple[int, T]] = deque()
        """What waits for the consumer, each with its place among all pushes of the run."""
        self._closed = False
        self._error: BaseException | None = None
        self._is_async: bool | None = None
        self._subscribed = False
        self._request_more: Pump | None = None
        self._wire_fn: Callable[[T], None] | None = None
        """Makes an event of the run out of an item."""
        self._mux: StreamMux | None = None

    def _bind(self, *, is_async: bool) -> None:
        if self._is_async is not None:
            raise RuntimeError("This StreamChannel is already bound to a run.")
        self._is_async = is_async

    # -- what transformers call

    def push(self, item: T) -> None:
        """Add an item, if the channel has a consumer; with a name, also as an event of the run.

        Args:
            item: What is added.
        """
        if self._subscribed:
            if self._closed:
                raise RuntimeError("Cannot push to a closed StreamChannel.")
            place = 0 if self._mux is None else self._mux._next_push_seq()
            self._items.append((place, item))
        if self._wire_fn is not None:
            self._wire_fn(item)

    def close(self) -> None:
        """Nothing more will come."""
        self._closed = True

    def fail(self, err: BaseException) -> None:
        """Nothing more will come: the consumer gets this error after what waits for it.

        Args:
            err: What the consumer gets.
        """
        self._error = err
        self._closed = True

    # -- what the consumer calls

    def __iter__(self) -> Iterator[T]:
        """Begin to consume."""
        self._subscribe(is_async=False)
        return self._sync_items()

    def __aiter__(self) -> AsyncIterator[T]:
        """Begin to consume, on an event loop."""
        self._subscribe(is_async=True)
        return self._async_items()

    def _subscribe(self, *, is_async: bool) -> None:
        if self._is_async is None:
            raise TypeError("This StreamChannel has not been bound yet: it belongs to no run.")
        if self._is_async != is_async:
            use = "async for" if self._is_async else "for"
            kind = "async" if self._is_async else "sync"
            raise TypeError(f"This StreamChannel is bound to {kind} mode: use `{use}`.")
        if self._subscribed:
            fan_out = "atee" if is_async else "tee"
            raise RuntimeError(
                f"This StreamChannel already has a subscriber: .{fan_out}(n) serves several."
            )
        self._subscribed = True

    def _is_at_end(self) -> bool:
        """Whether a consumer that finds no item is done; raises what the channel failed with."""
        if self._items or not self._closed:
            return False
        if self._error is not None:
            raise self._error
        return True

    def _sync_items(self) -> Iterator[T]:
        while not self._is_at_end():
            if self._items:
                yield self._items.popleft()[1]
                continue
            more = self._request_more is not None and self._request_more()
            if not more and not self._items and not self._closed:
                return

    async def _async_items(self) -> AsyncIterator[T]:
        while not self._is_at_end():
            if self._items:
                yield self._items.popleft()[1]
                continue
            more = self._request_more is not None and await self._request_more()
            if not more and not self._items and not self._closed:
                return

    def tee(self, n: int = 2) -> tuple[Iterator[T], ...]:
        """As many iterators over the same items; each keeps what the others are ahead by.

        Args:
            n: How many.
        """
        if n < 1:
            raise ValueError(f"tee() needs at least one iterator, not {n}.")
        source = iter(self)

        def outcomes() -> Iterator[tuple[Any, BaseException | None]]:
            try:
                for item in source:
                    yield item, None
            except Exception as error:
                yield None, error

        def branch(own: Iterator[tuple[Any, BaseException | None]]) -> Iterator[T]:
            for item, error in own:
                if error is not None:
                    raise error
                yield item

        return tuple(map(branch, itertools.tee(outcomes(), n)))

    def atee(self, n: int = 2) -> tuple[AsyncIterator[T], ...]:
        """`tee`, for use on an event loop."""
        if n < 1:
            raise ValueError(f"atee() needs at least one iterator, not {n}.")
        source = aiter(self)
        waiting: list[deque[T]] = [deque() for _ in range(n)]
        ended: list[BaseException] = []
        turn = asyncio.Lock()

        async def branch(own: deque[T]) -> AsyncIterator[T]:
            while True:
                if own:
                    yield own.popleft()
                    continue
                async with turn:
                    if own:
                        continue
                    if not ended:
                        try:
                            item = await anext(source)
                        except Exception as failure:
                            ended.append(failure)
                        else:
                            for each in waiting:
                                each.append(item)
                            continue
                    if isinstance(ended[0], StopAsyncIteration):
                        return
                    raise ended[0]

        return tuple(branch(own) for own in waiting)
