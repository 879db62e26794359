"""What a called task has returned is stored while its caller still runs, on both libraries.

The next process finds the result again after a crash.
"""

from __future__ import annotations

import asyncio
import operator
import time
from types import ModuleType
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from graphs import PATIENCE


class Told(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


@pytest.fixture
def saver(lib: Any) -> Any:
    return lib.InMemorySaver()


@pytest.fixture
def is_stored(saver: Any, config: Any) -> Any:
    """Whether the result of the first call is stored for the next run."""

    def look() -> bool:
        found = saver.get_tuple(config)
        return found is not None and "first" in [value for _, _, value in found.pending_writes]

    return look


async def until(holds: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - a saver tells nobody
            await asyncio.sleep(0.001)


@pytest.fixture
def calls(run: Any, lib: Any, is_stored: Any) -> Any:
    """Functions that call tasks one after the other: directly, by way of another, of a module.

    The second task waits until the result of the first is stored.
    """

    @lib.task
    def first() -> str:
        return "first"

    @lib.task
    def second() -> str:
        until = time.monotonic() + PATIENCE
        while not is_stored():
            assert time.monotonic() < until
            time.sleep(0.001)
        return "second"

    def directly(given: Any) -> Any:
        return {"log": [called().result() for called in (first, second)]}

    def by_way(given: Any) -> Any:
        return directly(given)

    tools: Any = ModuleType("tools")
    tools.first, tools.second = first, second

    def of_a_module(given: Any) -> Any:
        return {"log": [tools.first().result(), tools.second().result()]}

    @lib.task
    async def asecond() -> str:
        await until(is_stored)
        return "second"

    async def adirectly(given: Any) -> Any:
        return {"log": [await called() for called in (first, asecond)]}

    async def aby_way(given: Any) -> Any:
        return await adirectly(given)

    tools.asecond = asecond

    async def aof_a_module(given: Any) -> Any:
        return {"log": [await tools.first(), await tools.asecond()]}

    if run.colour == "sync":
        return (directly, by_way, of_a_module)
    return (adirectly, aby_way, aof_a_module)


@pytest.mark.parametrize("durability", ["sync", "async"])
@pytest.mark.parametrize("way", [0, 1, 2], ids=["directly", "by way of another", "of a module"])
class TestTheResultOfACall:
    DONE = {"log": ["first", "second"]}

    def test_is_stored_while_a_function_runs(self, run, lib, saver, config, calls, way, durability):
        flow = lib.entrypoint(checkpointer=saver)(calls[way])
        assert run.invoke(flow, 1, config, durability=durability) == self.DONE

    def test_is_stored_while_a_node_runs(self, run, lib, saver, config, calls, way, durability):
        builder = lib.StateGraph(Told).add_node("node", calls[way])
        graph = builder.add_edge(lib.START, "node").compile(checkpointer=saver)
        assert run.invoke(graph, {"log": []}, config, durability=durability) == self.DONE


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_cancelled_run_does_not_repeat_it(lib, saver, config, is_stored, durability):
    ran: list[str] = []

    @lib.task
    async def first() -> str:
        ran.append("first")
        return "first"

    @lib.task
    async def second() -> str:
        ran.append("second")
        if len(ran) == 2:
            await asyncio.sleep(PATIENCE)
        return "second"

    @lib.entrypoint(checkpointer=saver)
    async def flow(given: int) -> Any:
        return [await first(), await second()]

    async def stop_and_go_on() -> Any:
        running = asyncio.create_task(flow.ainvoke(1, config, durability=durability))
        await until(lambda: len(ran) == 2 and is_stored())
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return await flow.ainvoke(None, config, durability=durability)

    assert asyncio.run(stop_and_go_on()) == ["first", "second"]
    assert ran == ["first", "second", "second"]
