"""Futures of called tasks do what futures do, cancelled ones too, on both libraries.

A task that is cancelled sees CancelledError where it awaits, and the run goes on. Each program runs
on a thread of its own and is given up after a while: a run that hangs is a failure.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import operator
import threading
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from both import names_of
from graphs import PATIENCE
from milepost._engine.drivers.aio import AsyncDriver
from milepost._engine.drivers.futures import TaskFuture
from milepost._engine.drivers.thread_pool import TaskThreadPool

CONFIG = {"configurable": {"thread_id": "t"}}
SOON = 0.01
"""Seconds after which a program loses patience with a task that never ends."""


class Told(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


class Tasks:
    """Tasks for programs, and what became of them."""

    def __init__(self, lib: Any) -> None:
        self.lib = lib
        self.saw: list[str] = []
        self.started = asyncio.Event()
        """A task that never ends has begun."""
        self.release = threading.Event()
        """Lets tasks go on that block a thread."""

        @lib.task
        async def never() -> str:
            self.started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.saw.append("cancelled")
                raise
            return "never"

        @lib.task
        async def quick(value: Any = "quick") -> Any:
            return value

        @lib.task
        async def fails() -> None:
            await self.started.wait()
            raise ValueError("fails")

        @lib.task
        async def outer() -> Any:
            try:
                return await never()
            except asyncio.CancelledError:
                self.saw.append("outer cancelled")
                raise

        @lib.task
        async def stubborn() -> str:
            self.started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.saw.append("went on")
            return "stubborn"

        @lib.task
        async def breaks() -> None:
            self.started.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.saw.append("broke")
                raise ValueError("while it was cancelled")

        @lib.task(retry_policy=lib.RetryPolicy(initial_interval=0.01, retry_on=BaseException))
        async def retried() -> None:
            self.saw.append("began")
            self.started.set()
            await asyncio.Event().wait()

        @lib.task
        def blocks() -> str:
            self.saw.append("began")
            self.release.wait(PATIENCE)
            self.saw.append("ended")
            return "blocks"

        @lib.task
        def plain(value: Any = "plain") -> Any:
            return value

        @lib.task
        def fails_plainly() -> None:
            raise ValueError("fails")

        self.never, self.quick, self.fails, self.outer = never, quick, fails, outer
        self.stubborn, self.breaks, self.retried = stubborn, breaks, retried
        self.blocks, self.plain, self.fails_plainly = blocks, plain, fails_plainly


async def outcome(work: Awaitable[Any]) -> Any:
    """What came of it, or the name of what it raised."""
    try:
        return await work
    except (Exception, asyncio.CancelledError) as error:
        return type(error).__name__


# -- programs on an event loop: (what it does, what it returns, what its tasks saw)


async def wait_for(tasks: Tasks) -> Any:
    future = tasks.never()
    await tasks.started.wait()
    return [await outcome(asyncio.wait_for(future, SOON)), await tasks.quick()]


async def wait_for_at_once(tasks: Tasks) -> Any:
    return [await outcome(asyncio.wait_for(tasks.quick(), PATIENCE)), await tasks.quick()]


async def timeout(tasks: Tasks) -> Any:
    future = tasks.never()
    await tasks.started.wait()
    try:
        async with asyncio.timeout(SOON):
            await future
    except TimeoutError:
        return [await tasks.quick(), asyncio.current_task().cancelling()]  # type: ignore[union-attr]


async def task_group(tasks: Tasks) -> Any:
    async def wait(future: Any) -> Any:
        return await future

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(wait(tasks.never()))
            group.create_task(wait(tasks.fails()))
    except ExceptionGroup as failed:
        return [await tasks.quick(), [str(error) for error in failed.exceptions]]


async def cancel(tasks: Tasks) -> Any:
    future = tasks.never()
    await tasks.started.wait()
    told = [future.done(), future.cancelled(), future.cancel(), future.cancel()]
    return [told, await outcome(future), future.done(), future.cancelled(), await tasks.quick()]


async def cancel_before_it_starts(tasks: Tasks) -> Any:
    future = tasks.never()
    return [future.cancel(), await outcome(future), future.cancelled(), await tasks.quick()]


async def cancel_afterwards(tasks: Tasks) -> Any:
    future = tasks.quick()
    await future
    return [future.cancel(), future.cancelled(), await future]


async def cancel_and_leave(tasks: Tasks) -> Any:
    future = tasks.never()
    await tasks.started.wait()
    return [future.cancel()]


async def first_completed(tasks: Tasks) -> Any:
    futures = [tasks.never(), tasks.quick()]
    await tasks.started.wait()
    done, pending = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    for future in pending:
        future.cancel()
    await asyncio.wait(pending)
    return [[future.result() for future in done], [future.cancelled() for future in pending]]


async def first_exception(tasks: Tasks) -> Any:
    futures = {tasks.never(), tasks.fails()}
    done, pending = await asyncio.wait(futures, return_when=asyncio.FIRST_EXCEPTION)
    for future in pending:
        future.cancel()
    return [[str(future.exception()) for future in done], len(pending), await tasks.quick()]


async def wait_times_out(tasks: Tasks) -> Any:
    future = tasks.never()
    await tasks.started.wait()
    done, pending = await asyncio.wait([future], timeout=SOON)
    return [len(done), [future.cancel() for future in pending]]


async def gather(tasks: Tasks) -> Any:
    never = tasks.never()
    failed = await outcome(asyncio.gather(never, tasks.fails()))
    return [failed, never.cancel(), await tasks.quick()]


async def gather_results(tasks: Tasks) -> Any:
    never = tasks.never()
    await tasks.started.wait()
    asyncio.get_running_loop().call_soon(never.cancel)
    results = await asyncio.gather(never, tasks.quick(), tasks.fails(), return_exceptions=True)
    return [value if isinstance(value, str) else type(value).__name__ for value in results]


async def cancelled_gather(tasks: Tasks) -> Any:
    both = asyncio.gather(tasks.never(), tasks.never())
    await tasks.started.wait()
    both.cancel()
    return [await outcome(both), await tasks.quick()]


async def as_completed(tasks: Tasks) -> Any:
    futures = [tasks.quick(at) for at in range(3)]
    return sorted([await future for future in asyncio.as_completed(futures)])


async def as_completed_times_out(tasks: Tasks) -> Any:
    never, quick, found = tasks.never(), tasks.quick(), []
    await tasks.started.wait()
    await quick
    for future in asyncio.as_completed([never, quick], timeout=SOON):
        found.append(await outcome(future))
    return [found, never.cancel()]


async def shield(tasks: Tasks) -> Any:
    future = tasks.stubborn()
    await tasks.started.wait()
    timed_out = await outcome(asyncio.wait_for(asyncio.shield(future), SOON))
    return [timed_out, future.done(), future.cancel()]


async def ensure_future(tasks: Tasks) -> Any:
    future = tasks.never()
    same = asyncio.ensure_future(future) is future
    await tasks.started.wait()
    return [same, asyncio.isfuture(future), future.cancel(), future.get_loop().is_running()]


async def awaited_by_another(tasks: Tasks) -> Any:
    async def wait() -> Any:
        return await tasks.never()

    waiting = asyncio.create_task(wait())
    await tasks.started.wait()
    waiting.cancel()
    return [await outcome(waiting), await tasks.quick()]


async def anyio_moves_on(tasks: Tasks) -> Any:
    anyio = pytest.importorskip("anyio")
    future = tasks.never()
    await tasks.started.wait()
    with anyio.move_on_after(SOON) as scope:
        await future
    return [scope.cancelled_caught, await tasks.quick()]


async def anyio_fails(tasks: Tasks) -> Any:
    anyio = pytest.importorskip("anyio")
    future = tasks.never()
    await tasks.started.wait()
    try:
        with anyio.fail_after(SOON):
            await future
    except TimeoutError:
        return [await tasks.quick()]


async def anyio_group(tasks: Tasks) -> Any:
    anyio = pytest.importorskip("anyio")

    async def wait(future: Any) -> None:
        await future

    async with anyio.create_task_group() as group:
        group.start_soon(wait, tasks.never())
        await tasks.started.wait()
        group.cancel_scope.cancel()
    return [await tasks.quick()]


async def callbacks(tasks: Tasks) -> Any:
    told: list[str] = []

    def one(future: Any) -> None:
        told.append(f"one {future.result()}")

    def two(future: Any) -> None:
        told.append("two")

    future = tasks.quick()
    future.add_done_callback(one)
    future.add_done_callback(two)
    removed = [future.remove_done_callback(two), future.remove_done_callback(two)]
    await future
    await asyncio.sleep(0)
    return [removed, told]


async def callback_of_a_cancelled_one(tasks: Tasks) -> Any:
    told: list[bool] = []
    future = tasks.never()
    future.add_done_callback(lambda ended: told.append(ended.cancelled()))
    await tasks.started.wait()
    future.cancel()
    return [await outcome(future), await tasks.quick(), told]


async def not_done(tasks: Tasks) -> Any:
    future = tasks.never()
    told: list[Any] = [future.done(), future.cancelled()]
    for ask in (future.result, future.exception):
        with pytest.raises(asyncio.InvalidStateError):
            ask()
    await tasks.started.wait()
    future.cancel()
    for ask in (future.result, future.exception):
        with pytest.raises(asyncio.CancelledError):
            ask()
    return told


async def done(tasks: Tasks) -> Any:
    well, badly = tasks.quick(), tasks.fails()
    tasks.started.set()
    await asyncio.wait([well, badly])
    with pytest.raises(ValueError, match="fails"):
        badly.result()
    return [well.result(), well.exception(), str(badly.exception()), badly.cancelled()]


async def nested(tasks: Tasks) -> Any:
    future = tasks.outer()
    await tasks.started.wait()
    future.cancel()
    return [await outcome(future), await tasks.quick()]


async def nested_wait_for(tasks: Tasks) -> Any:
    future = tasks.outer()
    await tasks.started.wait()
    return [await outcome(asyncio.wait_for(future, SOON)), await tasks.quick()]


async def goes_on(tasks: Tasks) -> Any:
    future = tasks.stubborn()
    await tasks.started.wait()
    future.cancel()
    return [await outcome(future), await tasks.quick()]


async def breaks(tasks: Tasks) -> Any:
    future = tasks.breaks()
    await tasks.started.wait()
    future.cancel()
    return [await outcome(future), await tasks.quick()]


async def retried(tasks: Tasks) -> Any:
    future = tasks.retried()
    await tasks.started.wait()
    future.cancel()
    return [await outcome(future), await tasks.quick()]


async def many(tasks: Tasks) -> Any:
    futures = [tasks.never() for _ in range(20)]
    await tasks.started.wait()
    await asyncio.sleep(0)
    return [all(future.cancel() for future in futures), await tasks.quick()]


async def blocked(tasks: Tasks) -> Any:
    future = tasks.blocks()
    timed_out = await outcome(asyncio.wait_for(future, SOON))
    tasks.release.set()
    return [timed_out, await tasks.quick()]


CANCELLED = ["cancelled"]
Program = Callable[[Tasks], Any]
ON_A_LOOP: list[tuple[Program, Any, Any]] = [
    (wait_for, ["TimeoutError", "quick"], CANCELLED),
    (wait_for_at_once, ["quick", "quick"], []),
    (timeout, ["quick", 0], CANCELLED),
    (task_group, ["quick", ["fails"]], CANCELLED),
    (cancel, [[False, False, True, False], "CancelledError", True, True, "quick"], CANCELLED),
    (cancel_before_it_starts, [True, "CancelledError", True, "quick"], []),
    (cancel_afterwards, [False, False, "quick"], []),
    (cancel_and_leave, [True], CANCELLED),
    (first_completed, [["quick"], [True]], CANCELLED),
    (first_exception, [["fails"], 1, "quick"], CANCELLED),
    (wait_times_out, [0, [True]], CANCELLED),
    (gather, ["ValueError", True, "quick"], CANCELLED),
    (gather_results, ["CancelledError", "quick", "ValueError"], CANCELLED),
    (cancelled_gather, ["CancelledError", "quick"], None),
    (as_completed, [0, 1, 2], []),
    (as_completed_times_out, [["quick", "TimeoutError"], True], CANCELLED),
    (shield, ["TimeoutError", False, True], ["went on"]),
    (ensure_future, [True, True, True, True], CANCELLED),
    (awaited_by_another, ["CancelledError", "quick"], CANCELLED),
    (anyio_moves_on, [True, "quick"], CANCELLED),
    (anyio_fails, ["quick"], CANCELLED),
    (anyio_group, ["quick"], CANCELLED),
    (callbacks, [[1, 0], ["one quick"]], []),
    (callback_of_a_cancelled_one, ["CancelledError", "quick", [True]], CANCELLED),
    (not_done, [False, False], CANCELLED),
    (done, ["quick", None, "fails", False], []),
    (nested, ["CancelledError", "quick"], ["cancelled", "outer cancelled"]),
    (nested_wait_for, ["TimeoutError", "quick"], ["cancelled", "outer cancelled"]),
    (goes_on, ["CancelledError", "quick"], ["went on"]),
    (breaks, ["CancelledError", "quick"], ["broke"]),
    (retried, ["CancelledError", "quick"], ["began"]),
    (many, [True, "quick"], None),
    (blocked, ["TimeoutError", "quick"], None),
]


# -- programs on threads


def plain_results(tasks: Tasks) -> Any:
    future = tasks.plain()
    return [future.result(PATIENCE), future.exception(), future.done(), future.cancelled()]


def result_times_out(tasks: Tasks) -> Any:
    future = tasks.blocks()
    told: list[Any] = []
    for ask in (future.result, future.exception):
        with pytest.raises(concurrent.futures.TimeoutError):
            ask(SOON)
    told.append(future.done())
    tasks.release.set()
    return [*told, future.result(PATIENCE), tasks.plain().result()]


def plain_cancel(tasks: Tasks) -> Any:
    future = tasks.blocks()
    told = [future.cancel(), future.cancelled(), future.done()]
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(PATIENCE)
    tasks.release.set()
    return [told, tasks.plain().result()]


def plain_cancel_afterwards(tasks: Tasks) -> Any:
    future = tasks.plain()
    future.result()
    return [future.cancel(), future.cancelled(), future.result()]


def plain_wait(tasks: Tasks) -> Any:
    blocked, quick = tasks.blocks(), tasks.plain()
    done, left = concurrent.futures.wait([blocked, quick], PATIENCE, "FIRST_COMPLETED")
    cancelled = [future.cancel() for future in left]
    tasks.release.set()
    done_at_last, none = concurrent.futures.wait([blocked, quick], PATIENCE)
    return [[future.result() for future in done], cancelled, len(done_at_last), len(none)]


def plain_as_completed(tasks: Tasks) -> Any:
    futures = [tasks.plain(at) for at in range(3)]
    return sorted(future.result() for future in concurrent.futures.as_completed(futures, PATIENCE))


def plain_as_completed_with_a_cancelled_one(tasks: Tasks) -> Any:
    futures = [tasks.blocks(), tasks.plain()]
    futures[0].cancel()
    tasks.release.set()
    found = [future.cancelled() for future in concurrent.futures.as_completed(futures, PATIENCE)]
    return sorted(found)


def plain_failure(tasks: Tasks) -> Any:
    future = tasks.fails_plainly()
    told = str(future.exception(PATIENCE))
    with pytest.raises(ValueError, match="fails"):
        future.result()
    return [told, tasks.plain().result()]


def plain_callbacks(tasks: Tasks) -> Any:
    told: list[Any] = []
    called = threading.Event()
    future = tasks.blocks()
    future.add_done_callback(lambda ended: told.append(ended.cancelled()))
    future.add_done_callback(lambda _ended: called.set())
    future.cancel()
    assert called.wait(PATIENCE)
    tasks.release.set()
    return told


def plain_leave(tasks: Tasks) -> Any:
    future = tasks.blocks()
    future.cancel()
    tasks.release.set()
    return ["left"]


ON_THREADS: list[tuple[Program, Any, Any]] = [
    (plain_results, ["plain", None, True, False], []),
    (result_times_out, [False, "blocks", "plain"], ["began", "ended"]),
    (plain_cancel, [[True, True, True], "plain"], None),
    (plain_cancel_afterwards, [False, False, "plain"], []),
    (plain_wait, [["plain"], [True], 2, 0], None),
    (plain_as_completed, [0, 1, 2], []),
    (plain_as_completed_with_a_cancelled_one, [False, True], None),
    (plain_failure, ["fails", "plain"], []),
    (plain_callbacks, [True], None),
    (plain_leave, ["left"], None),
]


# -- where they run


def in_an_entrypoint(tasks: Tasks, program: Program, checkpointer: Any) -> Any:
    if asyncio.iscoroutinefunction(program):

        async def flow(given: Any) -> Any:
            return await program(tasks)

    else:

        def flow(given: Any) -> Any:
            return program(tasks)

    return tasks.lib.entrypoint(checkpointer=checkpointer)(flow), 1, lambda found: found


def in_a_node(tasks: Tasks, program: Program, checkpointer: Any) -> Any:
    lib = tasks.lib
    if asyncio.iscoroutinefunction(program):

        async def node(state: Told) -> Any:
            return {"log": [await program(tasks)]}

    else:

        def node(state: Told) -> Any:
            return {"log": [program(tasks)]}

    builder = lib.StateGraph(Told).add_node("node", node).add_edge(lib.START, "node")
    return builder.compile(checkpointer=checkpointer), {"log": []}, lambda found: found["log"][0]


def beside_another_node(tasks: Tasks, program: Program, checkpointer: Any) -> Any:
    lib = tasks.lib
    graph, given, pick = in_a_node(tasks, program, None)

    def other(state: Told) -> Any:
        return {"log": []}

    builder = lib.StateGraph(Told).add_node("graph", graph).add_node("other", other)
    builder.add_edge(lib.START, "graph").add_edge(lib.START, "other")
    return builder.compile(checkpointer=checkpointer), given, pick


def in_a_task(tasks: Tasks, program: Program, checkpointer: Any) -> Any:
    if asyncio.iscoroutinefunction(program):

        @tasks.lib.task
        async def around() -> Any:
            return await program(tasks)

        async def flow(given: Any) -> Any:
            return await around()

    else:

        @tasks.lib.task
        def around() -> Any:
            return program(tasks)

        def flow(given: Any) -> Any:
            return around().result()

    return tasks.lib.entrypoint(checkpointer=checkpointer)(flow), 1, lambda found: found


PLACES = [in_an_entrypoint, in_a_node, beside_another_node, in_a_task]


def within_time(call: Callable[[], Any]) -> Any:
    """What it returns, or raises; a failure if that takes for ever."""
    settled: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def work() -> None:
        try:
            settled.set_result(call())
        except BaseException as error:
            settled.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        return settled.result(PATIENCE)
    except concurrent.futures.TimeoutError:
        if settled.done():
            raise
        pytest.fail("it hangs")


def named(rows: list[tuple[Program, Any, Any]]) -> list[Any]:
    return [pytest.param(*row, id=row[0].__name__.replace("_", " ")) for row in rows]


@pytest.fixture(params=[False, True], ids=["unsaved", "saved"])
def checkpointer(request: pytest.FixtureRequest, lib: Any) -> Any:
    return lib.InMemorySaver() if request.param else None


@pytest.fixture(params=PLACES, ids=lambda place: place.__name__.replace("_", " "))
def place(request: pytest.FixtureRequest) -> Any:
    return request.param


class TestTheFutureOfATask:
    @pytest.mark.parametrize(("program", "returns", "saw"), named(ON_A_LOOP))
    def test_ends_alike_in_both_libraries_on_a_loop(
        self, lib, place, checkpointer, program, returns, saw, caplog
    ):
        tasks = Tasks(lib)
        graph, given, pick = place(tasks, program, checkpointer)
        found = within_time(lambda: asyncio.run(graph.ainvoke(given, CONFIG)))
        assert pick(found) == returns
        assert saw is None or sorted(tasks.saw) == saw
        if checkpointer is not None:
            assert graph.get_state(CONFIG).next == ()
        if lib.name == "milepost":
            assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []

    @pytest.mark.parametrize(("program", "returns", "saw"), named(ON_A_LOOP))
    @pytest.mark.parametrize("saved", [False, True])
    def test_of_async_code_ends_in_a_sync_run_as_on_a_loop(
        self, place, program, returns, saw, saved
    ):
        """That is ours alone: LangGraph's `invoke` refuses async nodes."""
        lib = names_of("milepost")
        tasks = Tasks(lib)
        graph, given, pick = place(tasks, program, lib.InMemorySaver() if saved else None)
        found = within_time(lambda: graph.invoke(given, CONFIG))
        assert pick(found) == returns
        if program is not cancel_before_it_starts:  # a thread may have begun with it
            assert saw is None or sorted(tasks.saw) == saw

    @pytest.mark.parametrize(("program", "returns", "saw"), named(ON_THREADS))
    def test_ends_alike_in_both_libraries_on_threads(
        self, lib, place, checkpointer, program, returns, saw
    ):
        tasks = Tasks(lib)
        graph, given, pick = place(tasks, program, checkpointer)
        found = within_time(lambda: graph.invoke(given, CONFIG))
        assert pick(found) == returns
        assert saw is None or sorted(tasks.saw) == saw
        if checkpointer is not None:
            assert graph.get_state(CONFIG).next == ()

    @pytest.mark.parametrize(("program", "returns", "saw"), named(ON_THREADS))
    def test_of_sync_code_ends_on_a_loop_as_on_threads(
        self, lib, place, checkpointer, program, returns, saw
    ):
        tasks = Tasks(lib)
        graph, given, pick = place(tasks, program, checkpointer)
        found = within_time(lambda: asyncio.run(graph.ainvoke(given, CONFIG)))
        assert pick(found) == returns


class TestACancelledTask:
    def test_runs_again_when_the_run_is_resumed(self, lib):
        saver, saw, began = lib.InMemorySaver(), [], asyncio.Event()

        @lib.task
        async def slow() -> str:
            saw.append("slow")
            if len(saw) == 1:
                began.set()
                await asyncio.Event().wait()
            return "slow"

        @lib.entrypoint(checkpointer=saver)
        async def flow(given: Any) -> Any:
            future = slow()
            if len(saw) == 0:
                await began.wait()
                future.cancel()
                found = await outcome(future)
            else:
                found = await future
            return [found, lib.interrupt("sure?")]

        async def main() -> Any:
            opened = await flow.ainvoke(1, CONFIG)
            assert [i.value for i in opened["__interrupt__"]] == ["sure?"]
            return await flow.ainvoke(lib.Command(resume="yes"), CONFIG)

        assert within_time(lambda: asyncio.run(main())) == ["slow", "yes"]
        assert saw == ["slow", "slow"]

    def test_that_went_on_to_its_end_is_not_run_again(self, lib):
        tasks, saver = Tasks(lib), lib.InMemorySaver()

        @lib.entrypoint(checkpointer=saver)
        async def flow(given: Any) -> Any:
            future = tasks.stubborn()
            await tasks.started.wait()
            future.cancel()
            found = await outcome(future)
            return [found, lib.interrupt("sure?")]

        async def main() -> Any:
            await flow.ainvoke(1, CONFIG)
            return await flow.ainvoke(lib.Command(resume="yes"), CONFIG)

        assert within_time(lambda: asyncio.run(main()))[1] == "yes"
        assert tasks.saw == ["went on"]

    @pytest.mark.parametrize("mode", ["updates", "tasks", "values", "custom"])
    def test_lets_streams_go_on(self, lib, checkpointer, mode):
        tasks = Tasks(lib)
        graph, given, _ = in_an_entrypoint(tasks, cancel, checkpointer)

        async def main() -> list[Any]:
            return [part async for part in graph.astream(given, CONFIG, stream_mode=mode)]

        parts = within_time(lambda: asyncio.run(main()))
        if mode == "tasks":
            ended = [part for part in parts if part["name"] == "never" and "input" not in part]
            assert "CancelledError" in repr(ended[0]["error"])
        elif mode == "updates":
            assert [name for part in parts for name in part] == ["quick", "flow"]

    def test_ends_with_a_run_that_is_cancelled(self, lib, checkpointer):
        tasks = Tasks(lib)

        @lib.entrypoint(checkpointer=checkpointer)
        async def flow(given: Any) -> Any:
            return await tasks.outer()

        async def main() -> None:
            running = asyncio.create_task(flow.ainvoke(1, CONFIG))
            await tasks.started.wait()
            running.cancel()
            await asyncio.wait([running])
            assert running.cancelled()

        within_time(lambda: asyncio.run(main()))
        assert sorted(tasks.saw) == ["cancelled", "outer cancelled"]

    def test_of_an_async_function_ends_though_it_was_called_by_sync_code(self, run):
        tasks = Tasks(names_of("milepost"))
        began = threading.Event()

        @tasks.lib.task
        async def never() -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                tasks.saw.append("cancelled")

        @tasks.lib.entrypoint()
        def flow(given: Any) -> Any:
            future = never()
            assert began.wait(PATIENCE)
            return [future.cancel(), tasks.plain().result()]

        assert within_time(lambda: run.invoke(flow, 1, CONFIG)) == [True, "plain"]
        assert tasks.saw == ["cancelled"]


class TestTheEndOfATask:
    """Whatever fails when a task has ended, the run hears of its end."""

    def test_is_reported_though_its_future_cannot_be_settled(self, run, monkeypatch):
        tasks = Tasks(names_of("milepost"))

        def settle(self: Any, result: Any, error: Any) -> None:
            raise RuntimeError("cannot be settled")

        @tasks.lib.entrypoint()
        def flow(given: Any) -> Any:
            tasks.plain()
            return "done"

        monkeypatch.setattr(TaskFuture, "settle", settle)
        with pytest.raises(RuntimeError, match="cannot be settled"):
            within_time(lambda: run.invoke(flow, 1, CONFIG))

    def test_is_not_awaited_of_a_task_that_could_not_be_started(self, run, monkeypatch):
        tasks = Tasks(names_of("milepost"))

        def spawn(*_: Any) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(TaskThreadPool, "spawn", spawn)
        monkeypatch.setattr(AsyncDriver, "spawn", spawn)

        @tasks.lib.entrypoint()
        def flow(given: Any) -> Any:
            return tasks.plain().result()

        with pytest.raises(RuntimeError, match="can't start new thread"):
            within_time(lambda: run.invoke(flow, 1, CONFIG))

    def test_that_stops_an_iteration_is_an_error_where_it_is_awaited(self, run):
        tasks = Tasks(names_of("milepost"))

        @tasks.lib.task
        def stops() -> None:
            raise StopIteration

        @tasks.lib.entrypoint()
        async def flow(given: Any) -> Any:
            return await outcome(stops())

        assert within_time(lambda: run.invoke(flow, 1, CONFIG)) == "RuntimeError"
