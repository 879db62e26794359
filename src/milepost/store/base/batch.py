"""A base for async stores of your own: what is asked for in one tick goes into one batch."""

from __future__ import annotations

import asyncio
from typing import Any

from milepost.store._core.records import Op, PutOp
from milepost.store.base import BaseStore

__all__ = ["AsyncBatchedBaseStore"]


class AsyncBatchedBaseStore(BaseStore):
    """Collects the calls of its async methods, and hands them to `abatch` together.

    Implement `abatch`, and `batch` for sync callers. Equal reads are asked for once; of several
    puts to one key in a batch the last counts. Make it on the event loop that it is used on.

    Examples:
        >>> import asyncio
        >>> from milepost.store.base.batch import AsyncBatchedBaseStore
        >>> from milepost.store.memory import InMemoryStore
        >>> class Batched(AsyncBatchedBaseStore):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.inner = InMemoryStore()
        ...     def batch(self, ops):
        ...         return self.inner.batch(ops)
        ...     async def abatch(self, ops):
        ...         return await self.inner.abatch(ops)
        >>> async def main():
        ...     store = Batched()
        ...     await store.aput(("users", "ada"), "city", {"name": "Paris"})
        ...     return (await store.aget(("users", "ada"), "city")).value
        >>> asyncio.run(main())
        {'name': 'Paris'}
    """

    __slots__ = ("_loop", "_tasks", "_waiting")

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[Op, asyncio.Future[Any]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        """A loop keeps only weak references to its tasks."""

    async def _one(self, op: Op) -> Any:
        future: asyncio.Future[Any] = self._loop.create_future()
        if not self._waiting:
            self._loop.call_soon(self._start)
        self._waiting.append((op, future))
        return await future

    def _start(self) -> None:
        waiting, self._waiting = self._waiting, []
        wanted = [entry for entry in waiting if not entry[1].done()]
        if wanted:
            task = self._loop.create_task(self._carry_out(wanted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, waiting: list[tuple[Op, asyncio.Future[Any]]]) -> None:
        ops, places = _once_each([op for op, _ in waiting])
        futures = [future for _, future in waiting]
        try:
            results = await self.abatch(ops)
        except BaseException as error:
            # Cancelled too, when the loop is torn down: no caller may be left waiting for ever.
            for future in futures:
                if not future.done():
                    future.set_exception(error) if isinstance(error, Exception) else future.cancel()
            if not isinstance(error, Exception):
                raise
            return
        for future, at in zip(futures, places, strict=True):
            if not future.done():
                future.set_result(results[at])


def _once_each(ops: list[Op]) -> tuple[list[Op], list[int]]:
    """The operations that have to be done, and which of them has the result of each."""
    done: list[Op] = []
    places: list[int] = []
    puts: dict[tuple[tuple[str, ...], str], int] = {}
    for op in ops:
        if isinstance(op, PutOp):
            name = (op.namespace, op.key)
            at = puts.setdefault(name, len(done))
            if at < len(done):
                done[at] = op
            else:
                done.append(op)
        elif op in done:
            at = done.index(op)
        else:
            at = len(done)
            done.append(op)
        places.append(at)
    return done, places
