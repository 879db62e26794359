"""Event loops whose task factory begins tasks at once, as `asyncio.eager_task_factory` does."""

import asyncio
import operator
from typing import Annotated, Any, TypedDict

import pytest

from milepost.checkpoint.memory import InMemorySaver
from milepost.func import entrypoint, task
from milepost.graph import START, StateGraph
from milepost.types import Command, Send, interrupt


def enters_the_context(loop: Any, work: Any, *, context: Any = None, **_more: Any) -> Any:
    """Enters the task's context as an eager factory does; Python 3.11 has none."""
    if context is not None:
        context.run(int)
    return asyncio.Task(work, loop=loop, context=context)


FACTORIES = [enters_the_context]
if hasattr(asyncio, "eager_task_factory"):  # since Python 3.12
    FACTORIES.append(asyncio.eager_task_factory)


@pytest.fixture(params=FACTORIES, ids=lambda factory: factory.__name__)
def eagerly(request: pytest.FixtureRequest) -> Any:
    """Runs something on a loop with such a factory."""

    def run(work: Any) -> Any:
        async def main() -> Any:
            asyncio.get_running_loop().set_task_factory(request.param)
            async with asyncio.timeout(20):
                return await work

        return asyncio.run(main())

    return run


class State(TypedDict):
    log: Annotated[list[Any], operator.add]


@task
async def double(number: int) -> int:
    if number % 2:
        await asyncio.sleep(0)
    return 2 * number


@task
def half(number: int) -> float:
    return number / 2


CONFIG: Any = {"configurable": {"thread_id": "1"}}


def test_tasks_of_an_entrypoint_end(eagerly):
    @entrypoint(checkpointer=InMemorySaver())
    async def flow(numbers: list[int]) -> Any:
        doubled = await asyncio.gather(*map(double, numbers))
        waited = await asyncio.wait_for(double(7), 10)
        return doubled, waited, await half(8)

    assert eagerly(flow.ainvoke([1, 2, 3], CONFIG)) == ([2, 4, 6], 14, 4.0)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_run_with_parallel_nodes_stops_and_is_resumed(eagerly, durability):
    async def ask(state: State) -> Any:
        return {"log": [interrupt("?"), await double(2)]}

    async def work(state: Any) -> Any:
        if state["number"] % 2:
            await asyncio.sleep(0)
        return {"log": [state["number"]]}

    def fan(state: State) -> list[Send]:
        return [Send("work", {"number": number}) for number in range(5)]

    builder = StateGraph(State).add_node(ask).add_node("beside", lambda _: {"log": ["beside"]})
    builder.add_node("work", work).add_edge(START, "ask").add_edge(START, "beside")
    builder.add_conditional_edges("ask", fan, ["work"])
    graph = builder.compile(checkpointer=InMemorySaver())

    async def main() -> Any:
        asked = [e async for e in graph.astream({"log": []}, CONFIG, durability=durability)]
        return asked, await graph.ainvoke(Command(resume="!"), CONFIG, durability=durability)

    asked, found = eagerly(main())
    assert "__interrupt__" in asked[-1]
    assert found["log"] == ["!", 4, "beside", 0, 1, 2, 3, 4]


def test_graphs_within_graphs_do_not_pile_up_on_one_stack(eagerly):
    inner: Any = StateGraph(State).add_node("leaf", lambda _: {"log": ["leaf"]})
    inner = inner.add_edge(START, "leaf").compile()
    for _ in range(200):

        async def call(state: State, inside: Any = inner) -> Any:
            return await inside.ainvoke({"log": []})

        inner = StateGraph(State).add_node(call).add_edge(START, "call").compile()
    assert eagerly(inner.ainvoke({"log": []}))["log"] == ["leaf"]
