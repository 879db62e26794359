"""The base of a saver around another library's: each method is written once for sync and async.

A method is a generator that yields calls of the inner saver and is sent their results. A pair of
methods, one sync and one async, is made of it:

    def _delete_thread(self, thread_id: str) -> Calls[None]:
        yield Call("delete_thread", thread_id)

    delete_thread, adelete_thread = sync_and_async(_delete_thread)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Generator, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from milepost._internal.generators import GeneratorDriver, adrive, drive, method_pairs

R = TypeVar("R")
_PAGE: Final = 64
"""Checkpoints that are listed at once."""


class Call:
    """A call of the inner saver: the sync method's name, and its arguments."""

    def __init__(self, method: str, *arguments: Any, **named: Any) -> None:
        self.method, self.arguments, self.named = method, arguments, named


Calls: TypeAlias = Generator[Call, Any, R]


sync_and_async = method_pairs(
    lambda adapter, calls, _: drive(calls, adapter._call),
    lambda adapter, calls, _: adrive(calls, adapter._acall),
)


class SaverAdapter:
    """A saver around another one. Deleting, copying and pruning are passed on as they are, and what
    is listed comes in pages."""

    _saver: Any
    """Any: the two libraries' configs and checkpoints are the same dicts with other names."""

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self._saver.get_next_version(current, channel)

    def _call(self, wanted: Call) -> Any:
        """Call the inner saver. What it lists is read to the end."""
        answer = getattr(self._saver, wanted.method)(*wanted.arguments, **wanted.named)
        return [*answer] if isinstance(answer, Iterator) else answer

    @abstractmethod
    async def _acall(self, wanted: Call) -> Any:
        """Call the inner saver from an event loop, whether it is sync, async or both."""

    # Any: the two libraries have the same signatures, with classes of their own.

    @abstractmethod
    def _page(self, config: Any, wanted: dict[str, Any]) -> Calls[Sequence[Any]]:
        """Checkpoints of the inner saver."""

    def _shown(self, found: Any) -> Any:
        """One of them as this saver gives it, made when it is asked for: a damaged checkpoint does
        not hide those before it."""
        return found

    def list(
        self, config: Any, *, filter: Any = None, before: Any = None, limit: int | None = None
    ) -> Iterator[Any]:
        pages = GeneratorDriver(_pages(config, filter, before, limit))
        for wanted in pages:
            pages.answer = found = drive(self._page(config, wanted), self._call)
            yield from map(self._shown, found)

    async def alist(
        self, config: Any, *, filter: Any = None, before: Any = None, limit: int | None = None
    ) -> AsyncIterator[Any]:
        pages = GeneratorDriver(_pages(config, filter, before, limit))
        for wanted in pages:
            pages.answer = found = await adrive(self._page(config, wanted), self._acall)
            for one in found:
                yield self._shown(one)

    def _delete_thread(self, thread_id: str) -> Calls[None]:
        yield Call("delete_thread", thread_id)

    def _delete_for_runs(self, run_ids: Sequence[str]) -> Calls[None]:
        yield Call("delete_for_runs", run_ids)

    def _copy_thread(self, source_thread_id: str, target_thread_id: str) -> Calls[None]:
        yield Call("copy_thread", source_thread_id, target_thread_id)

    def _prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> Calls[None]:
        yield Call("prune", thread_ids, strategy=strategy)

    delete_thread, adelete_thread = sync_and_async(_delete_thread)
    delete_for_runs, adelete_for_runs = sync_and_async(_delete_for_runs)
    copy_thread, acopy_thread = sync_and_async(_copy_thread)
    prune, aprune = sync_and_async(_prune)


async def completed(answer: Any) -> Any:
    """What an async method has returned: what it lists is read to the end."""
    return [one async for one in answer] if isinstance(answer, AsyncIterable) else await answer


def _pages(
    config: Any, filter: Any, before: Any, limit: int | None
) -> Generator[dict[str, Any], Sequence[Any], None]:
    """A long listing in parts, so that a thread's history need not fit into memory.

    Not one by one: LangGraph's SQLite saver is locked until its listing has ended, and the caller
    may want to read something in between.

    Yields what to ask for, and is sent the checkpoints.
    """
    configurable = (config or {}).get("configurable") or {}
    # Only within one graph of one thread is the order the same in all of LangGraph's savers.
    in_parts = "thread_id" in configurable and "checkpoint_ns" in configurable
    while limit is None or limit > 0:
        size = limit
        if in_parts:
            size = _PAGE if limit is None else min(_PAGE, limit)
        found = yield {"filter": filter, "before": before, "limit": size}
        if not in_parts or len(found) != size:
            return
        before = found[-1].config
        limit = None if limit is None else limit - len(found)
