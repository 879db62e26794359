"""A base for async stores of your own: what is asked for in one tick goes into one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from milepost.store._core.batching import Batcher
from milepost.store._core.records import Op, PutOp
from milepost.store.base import BaseStore

__all__ = ["AsyncBatchedBaseStore"]


class AsyncBatchedBaseStore(BaseStore):
    """Collects the calls of its async methods, and hands them to `abatch` together.

    Implement `abatch`, and `batch` for sync callers. Equal reads are asked for once; of several
    puts to one key in a batch the last counts, but a put with `if_version` is never left out. Make
    it on the event loop that it is used on.

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

    __slots__ = ("_batcher",)

    def __init__(self) -> None:
        super().__init__()
        asyncio.get_running_loop()  # an error where there is none, as in LangGraph
        self._batcher: Batcher[Op] = Batcher(self._carry_out)

    async def _one(self, op: Op) -> Any:
        return await self._batcher.submit(op)

    async def _carry_out(self, ops: Sequence[Op]) -> list[Any]:
        wanted, places = _once_each(ops)
        results = await self.abatch(wanted)
        return [results[at] for at in places]


def _once_each(ops: Sequence[Op]) -> tuple[list[Op], list[int]]:
    """The operations that have to be done, and which of them has the result of each."""
    done: list[Op] = []
    places: list[int] = []
    puts: dict[tuple[tuple[str, ...], str], int] = {}
    for op in ops:
        at = len(done)
        if isinstance(op, PutOp):
            name = (op.namespace, op.key)
            if op.if_version is None:
                at = puts.setdefault(name, at)
            else:
                # Its caller has to hear of a conflict: it replaces no other put, and none does it.
                puts.pop(name, None)
        elif op in done:
            at = done.index(op)
        done[at : at + 1] = [op]  # in place of an equal one, or at the end
        places.append(at)
    return done, places
