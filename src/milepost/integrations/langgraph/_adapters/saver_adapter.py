"""What an adapted saver passes on as it is, sync and async."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any


class Upkeep:
    """Deleting, copying and pruning: for savers around another one."""

    _saver: Any

    @abstractmethod
    async def _wait(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call the inner saver from an event loop, whether it is sync, async or both."""

    def delete_thread(self, thread_id: str) -> None:
        self._saver.delete_thread(thread_id)

    async def adelete_thread(self, thread_id: str) -> None:
        await self._wait("delete_thread", thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._saver.delete_for_runs(run_ids)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._wait("delete_for_runs", run_ids)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._saver.copy_thread(source_thread_id, target_thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._wait("copy_thread", source_thread_id, target_thread_id)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._saver.prune(thread_ids, strategy=strategy)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._wait("prune", thread_ids, strategy=strategy)
