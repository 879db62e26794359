"""Short reads that come at the same time share a transaction.

When many runs begin at once, each loads its thread. Separate reads would take a connection and a
round trip each, and commits would wait for those connections.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from milepost._db.engine import FAILURES_OF_THE_DATABASE
from milepost._db.operations import Operation, Queries, Query, Work
from milepost._internal.generators import GeneratorDriver

R = TypeVar("R")
_Waiting: TypeAlias = "tuple[Work[Any], asyncio.Future[Any]]"

LANES: Final = 2
"""Transactions at a time. Readers that come while all lanes are busy share the next transaction."""
MOST: Final = 32
"""Readers in one transaction. The bound is for memory, which holds all their rows at once."""


def together(works: Sequence[Work[Any]]) -> Operation[list[GeneratorDriver[Any, Any]]]:
    """Run several readers as one operation: the next queries of all readers are sent together.

    Each returned reader has its result, or the error that it raised.
    """
    readers = [GeneratorDriver(work()) for work in works]
    going = readers
    while True:
        asking: list[tuple[GeneratorDriver[Any, Any], Query | Queries]] = []
        for reader in going:
            try:
                for statement in reader:
                    assert isinstance(statement, (Query, Queries)), "a short read only asks"
                    asking.append((reader, statement))
                    break
            except Exception as error:
                reader.error = error
        if not asking:
            return readers
        places: dict[Query, int] = {}  # equal queries of two readers are sent once
        wanted = [
            [places.setdefault(query, len(places)) for query in _queries(asked)]
            for _, asked in asking
        ]
        answers = yield Queries(list(places), all(asked.last for _, asked in asking))
        for (reader, asked), at in zip(asking, wanted, strict=True):
            rows = [answers[place] for place in at]
            reader.answer = rows if isinstance(asked, Queries) else rows[0]
        going = [reader for reader, _ in asking]


def _queries(statement: Query | Queries) -> Sequence[Query]:
    return statement.queries if isinstance(statement, Queries) else (statement,)


class Readers:
    """The queue of short reads in front of one database, on one event loop."""

    def __init__(self, run: Callable[[Work[Any]], Awaitable[Any]]) -> None:
        self._run = run
        self._under_way = 0
        self._queue: deque[_Waiting] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(self, work: Work[R]) -> R:
        """The result of `work`, in its own transaction unless other readers wait."""
        if self._under_way >= LANES:
            future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
            self._queue.append((work, future))
            return await future
        self._under_way += 1
        try:
            result: R = await self._run(work)
            return result
        finally:
            self._leave()

    def _leave(self) -> None:
        """Give the lane to the waiting readers."""
        some: list[_Waiting] = []
        while self._queue and len(some) < MOST:
            waiting = self._queue.popleft()
            if not waiting[1].done():  # done already: the caller was cancelled
                some.append(waiting)
        if some:
            task = asyncio.ensure_future(self._share(some))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._under_way -= 1

    async def _share(self, some: Sequence[_Waiting]) -> None:
        try:
            works = [work for work, _ in some]
            try:
                readers = await self._run(lambda: together(works))
            except FAILURES_OF_THE_DATABASE as error:
                for _, future in some:
                    _fail(future, error)
            except Exception:  # probably caused by one reader: the others are read again alone
                for work, future in some:
                    await self._read_alone(work, future)
            else:
                for reader, (_, future) in zip(readers, some, strict=True):
                    if reader.error is not None:
                        _fail(future, reader.error)
                    elif not future.done():
                        future.set_result(reader.result)
        finally:
            for _, future in some:
                future.cancel()  # has an effect only when the event loop is shutting down
            self._leave()

    async def _read_alone(self, work: Work[Any], future: asyncio.Future[Any]) -> None:
        try:
            result = await self._run(work)
        except Exception as error:
            _fail(future, error)
        else:
            if not future.done():
                future.set_result(result)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
