"""Short reads that come at the same time share a transaction.

Many runs that begin at once each load their thread. One by one that is a connection and a round
trip for each, while everything else waits for a connection too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from milepost.sql.failures import ALL_THE_SAME
from milepost.sql.operations import Operation, Query, Several, Work
from milepost.stepper import Stepper

if TYPE_CHECKING:
    from milepost.sql.pg_held import Held

R = TypeVar("R")
_Waiting: TypeAlias = "tuple[Work[Any], asyncio.Future[Any]]"

LANES: Final = 2
"""Transactions at a time; whoever comes while so many are under way waits, and shares the next."""
MOST: Final = 32
"""Readers in one transaction: its answers are in memory at the same time."""


def together(works: Sequence[Work[Any]]) -> Operation[list[Stepper[Any, Any]]]:
    """Several readers as one: what they want at the same time is asked for together.

    Each has ended with a result, or with the error that it raised.
    """
    readers = [Stepper(work()) for work in works]
    going = readers
    while True:
        asking: list[tuple[Stepper[Any, Any], Query | Several]] = []
        for reader in going:
            try:
                for statement in reader:
                    assert isinstance(statement, (Query, Several)), "a short read only asks"
                    asking.append((reader, statement))
                    break
            except Exception as error:
                reader.error = error
        if not asking:
            return readers
        places: dict[Query, int] = {}  # what two want alike is asked for once
        wanted = [
            [places.setdefault(query, len(places)) for query in _queries(asked)]
            for _, asked in asking
        ]
        answers = yield Several(list(places), all(asked.last for _, asked in asking))
        for (reader, asked), at in zip(asking, wanted, strict=True):
            rows = [answers[place] for place in at]
            reader.answer = rows if isinstance(asked, Several) else rows[0]
        going = [reader for reader, _ in asking]


def _queries(statement: Query | Several) -> Sequence[Query]:
    return statement.queries if isinstance(statement, Several) else (statement,)


class Readers:
    """The queue of short reads in front of one database, on one event loop."""

    def __init__(
        self,
        run: Callable[[Work[Any], Held | None], Awaitable[Any]],
        hold: Callable[[], Held | None],
    ) -> None:
        self._run = run
        self._hold = hold
        self._under_way = 0
        self._queue: deque[_Waiting] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(self, work: Work[R]) -> R:
        """The result of `work`, alone as long as there is nobody to share with."""
        if self._under_way >= LANES:
            future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
            self._queue.append((work, future))
            return await future
        self._under_way += 1
        held = self._hold()
        try:
            result: R = await self._run(work, held)
            return result
        finally:
            await self._leave(held)

    async def _leave(self, held: Held | None) -> None:
        """Let those who wait have the lane, with its connection."""
        some: list[_Waiting] = []
        while self._queue and len(some) < MOST:
            waiting = self._queue.popleft()
            if not waiting[1].done():  # or whoever waited was cancelled
                some.append(waiting)
        if some:
            task = asyncio.ensure_future(self._share(some, held))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        self._under_way -= 1
        if held is not None:
            await held.release()

    async def _share(self, some: Sequence[_Waiting], held: Held | None) -> None:
        try:
            works = [work for work, _ in some]
            try:
                readers = await self._run(lambda: together(works), held)
            except ALL_THE_SAME as error:
                for _, future in some:
                    _fail(future, error)
            except Exception:  # of one of them, most likely: it must not take the others with it
                for work, future in some:
                    await self._alone(work, future, held)
            else:
                for reader, (_, future) in zip(readers, some, strict=True):
                    if reader.error is not None:
                        _fail(future, reader.error)
                    elif not future.done():
                        future.set_result(reader.result)
        finally:
            for _, future in some:
                future.cancel()  # nothing, unless the loop is being ended
            await self._leave(held)

    async def _alone(self, work: Work[Any], future: asyncio.Future[Any], held: Held | None) -> None:
        try:
            result = await self._run(work, held)
        except Exception as error:
            _fail(future, error)
        else:
            if not future.done():
                future.set_result(result)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
