"""Programs that treat what a `@task` returns as the future that it looks like.

Each is a function of the tasks and returns what it saw. `quick` returns at once, `fails` fails at
once, `held` waits until the program opens the gate; what has to be cancelled waits for ever.
"""

from __future__ import annotations

import asyncio
import concurrent.futures as cf
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

SYNC: list[Callable[[Any], Any]] = []
ASYNC: list[Callable[[Any], Any]] = []
LONG = 10.0
"""Seconds that nothing here takes."""
SHORT = 0.02


def tasks_of(task: Any) -> Any:
    """The tasks, made with a library's decorator."""
    gate = threading.Event()

    @task
    def quick(value: Any) -> Any:
        return value

    @task
    def fails(value: Any) -> Any:
        raise ValueError(value)

    @task
    def held(value: Any) -> Any:
        assert gate.wait(LONG)
        return value

    @task
    async def aquick(value: Any) -> Any:
        return value

    @task
    async def afails(value: Any) -> Any:
        raise ValueError(value)

    @task
    async def endless(value: Any) -> Any:
        await asyncio.Event().wait()

    return SimpleNamespace(**locals(), open=gate.set)


def shown(value: Any) -> Any:
    return f"{type(value).__name__}({value})" if isinstance(value, BaseException) else value


# -- in sync code


@SYNC.append
def wait_for_all(t: Any) -> Any:
    done, left = cf.wait([t.quick(1), t.quick(2)])
    return sorted(future.result() for future in done), len(left)


@SYNC.append
def wait_for_the_first(t: Any) -> Any:
    slow = t.held(2)
    done, left = cf.wait([t.quick(1), slow], return_when=cf.FIRST_COMPLETED)
    t.open()
    return [future.result() for future in done], len(left), slow.result()


@SYNC.append
def wait_for_a_failure(t: Any) -> Any:
    slow = t.held(2)
    done, left = cf.wait([t.fails("no"), slow], return_when=cf.FIRST_EXCEPTION)
    t.open()
    slow.result()
    return [shown(future.exception()) for future in done], len(left)


@SYNC.append
def wait_with_a_timeout(t: Any) -> Any:
    slow = t.held(1)
    done, left = cf.wait([slow], timeout=SHORT)
    t.open()
    return len(done), len(left), slow.result()


@SYNC.append
def as_they_complete(t: Any) -> Any:
    return sorted(future.result() for future in cf.as_completed([t.quick(2), t.quick(1)]))


@SYNC.append
def a_result_with_a_timeout(t: Any) -> Any:
    slow = t.held(1)
    try:
        slow.result(timeout=SHORT)
    except TimeoutError as error:
        t.open()
        return type(error).__name__, slow.result()


@SYNC.append
def an_exception(t: Any) -> Any:
    future = t.fails("no")
    return shown(future.exception()), future.done(), future.cancelled()


@SYNC.append
def a_callback(t: Any) -> Any:
    told, heard = [], threading.Event()
    future = t.quick(1)
    future.add_done_callback(lambda done: (told.append(done is future), heard.set()))
    future.result()
    assert heard.wait(LONG)
    return told


@SYNC.append
def done_or_running(t: Any) -> Any:
    slow = t.held(1)
    before = slow.done()
    t.open()
    return before, slow.result(), slow.done(), slow.running()


@SYNC.append
def cancel_what_is_done(t: Any) -> Any:
    future = t.quick(1)
    future.result()
    return future.cancel(), future.cancelled()


# -- on an event loop


@ASYNC.append
async def gather(t: Any) -> Any:
    return await asyncio.gather(t.aquick(1), t.aquick(2))


@ASYNC.append
async def gather_failures(t: Any) -> Any:
    found = await asyncio.gather(t.aquick(1), t.afails("no"), return_exceptions=True)
    return [shown(one) for one in found]


@ASYNC.append
async def gather_sync_and_async(t: Any) -> Any:
    return await asyncio.gather(t.quick(1), t.aquick(2))


@ASYNC.append
async def wait_on_the_loop(t: Any) -> Any:
    done, left = await asyncio.wait([t.aquick(1), t.aquick(2)])
    return sorted(future.result() for future in done), len(left)


@ASYNC.append
async def wait_for_the_first_on_the_loop(t: Any) -> Any:
    slow = t.endless(2)
    done, left = await asyncio.wait([t.aquick(1), slow], return_when=asyncio.FIRST_COMPLETED)
    slow.cancel()
    return [future.result() for future in done], len(left)


@ASYNC.append
async def wait_for_one(t: Any) -> Any:
    return await asyncio.wait_for(t.aquick(1), LONG)


@ASYNC.append
async def wait_for_one_too_long(t: Any) -> Any:
    try:
        return await asyncio.wait_for(t.endless(1), SHORT)
    except TimeoutError as error:
        return type(error).__name__


@ASYNC.append
async def a_timeout_around_it(t: Any) -> Any:
    try:
        async with asyncio.timeout(SHORT):
            return await t.endless(1)
    except TimeoutError as error:
        return type(error).__name__


@ASYNC.append
async def a_sync_task_too_long(t: Any) -> Any:
    try:
        return await asyncio.wait_for(t.held(1), SHORT)
    except TimeoutError as error:
        return type(error).__name__
    finally:
        t.open()


@ASYNC.append
async def anyio_moves_on(t: Any) -> Any:
    import anyio

    with anyio.move_on_after(SHORT) as scope:
        await t.endless(1)
    return scope.cancelled_caught


@ASYNC.append
async def as_they_complete_on_the_loop(t: Any) -> Any:
    return sorted([await one for one in asyncio.as_completed([t.aquick(2), t.aquick(1)])])


@ASYNC.append
async def a_task_group(t: Any) -> Any:
    async def wait(future: Any) -> Any:
        return await future

    async with asyncio.TaskGroup() as group:
        made = [group.create_task(wait(t.aquick(n))) for n in (1, 2)]
    return [one.result() for one in made]


@ASYNC.append
async def a_task_group_that_fails(t: Any) -> Any:
    async def wait(future: Any) -> Any:
        return await future

    made: list[Any] = []
    try:
        async with asyncio.TaskGroup() as group:
            made += [group.create_task(wait(one)) for one in (t.afails("no"), t.endless(1))]
    except BaseExceptionGroup as failed:
        return [shown(one) for one in failed.exceptions], made[1].cancelled()


@ASYNC.append
async def cancel(t: Any) -> Any:
    future = t.endless(1)
    asked = future.cancel()
    try:
        await future
    except asyncio.CancelledError:
        return asked, future.cancelled(), future.done()


@ASYNC.append
async def a_callback_on_the_loop(t: Any) -> Any:
    told = []
    future = t.aquick(1)
    future.add_done_callback(lambda done: told.append(done is future))
    await future
    await asyncio.sleep(0)
    return told


@ASYNC.append
async def a_callback_taken_back(t: Any) -> Any:
    told: list[int] = []
    future = t.aquick(1)

    def tell(_: Any) -> None:
        told.append(1)

    future.add_done_callback(tell)
    removed = future.remove_done_callback(tell)
    await future
    await asyncio.sleep(0)
    return removed, told


@ASYNC.append
async def an_exception_on_the_loop(t: Any) -> Any:
    future = t.afails("no")
    try:
        await future
    except ValueError as error:
        return shown(error), shown(future.exception()), future.done()


@ASYNC.append
async def asked_before_it_is_done(t: Any) -> Any:
    future = t.endless(1)
    names = []
    for ask in (future.result, future.exception):
        try:
            ask()
        except Exception as error:
            names.append(type(error).__name__)
    future.cancel()
    return names


@ASYNC.append
async def shielded(t: Any) -> Any:
    return await asyncio.shield(t.aquick(1))


@ASYNC.append
async def it_is_a_future(t: Any) -> Any:
    future = t.aquick(1)
    return asyncio.isfuture(future), await asyncio.ensure_future(future)


@ASYNC.append
async def its_loop(t: Any) -> Any:
    future = t.aquick(1)
    same = future.get_loop() is asyncio.get_running_loop()
    await future
    return same
