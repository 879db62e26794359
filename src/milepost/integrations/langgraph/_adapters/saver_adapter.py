"""The base of a saver around another library's: each method is written once for sync and async.

A method is a generator that yields calls of the inner saver and is sent their results. A pair of
methods, one sync and one async, is made of it:

    def _delete_thread(self, thread_id: str) -> Calls[None]:
        yield Call("delete_thread", thread_id)

    delete_thread, adelete_thread = sync_and_async(_delete_thread)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from milepost._internal.generators import adrive, drive, method_pairs

R = TypeVar("R")


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
    """A saver around another one. Deleting, copying and pruning are passed on as they are."""

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
