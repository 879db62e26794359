"""Tasks that end while the consumer of a stream has an event: they are stored, and never repeated.

What the consumer does then may take long, and its process may die.
"""

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

import milepost
from graphs import PATIENCE, Log
from milepost._engine.drivers import standby as standby_module
from milepost._engine.drivers.standby import PATIENCE as PATIENCE_OF_STANDBY
from milepost._engine.drivers.standby import Standby
from milepost.checkpoint.memory import InMemorySaver
from milepost.config import get_stream_writer
from milepost.errors import InvalidUpdateError
from milepost.func import entrypoint, task
from milepost.graph import START, StateGraph

SAVED = pytest.mark.parametrize("durability", ["sync", "async"])


class Pay:
    """A node that streams an event and ends when it is told to; `ran` counts its runs."""

    def __init__(self) -> None:
        self.ran = 0
        self.may_end = threading.Event()

    def sync(self, state: Log) -> dict[str, Any]:
        self.ran += 1
        get_stream_writer()("paying")
        assert self.may_end.wait(PATIENCE)
        return {"log": ["paid"]}

    async def on_loop(self, state: Log) -> dict[str, Any]:
        self.ran += 1
        get_stream_writer()("paying")
        assert await asyncio.to_thread(self.may_end.wait, PATIENCE)
        return {"log": ["paid"]}


@pytest.fixture
def pay() -> Iterator[Pay]:
    made = Pay()
    yield made
    made.may_end.set()


def paying(node: Any) -> Any:
    return StateGraph(Log).add_node("pay", node).add_edge(START, "pay")


def is_stored(graph: Any, config: Any) -> bool:
    """Whether what `Pay` returns shows in the state."""
    return graph.get_state(config).values.get("log") == ["paid"]


def soon(is_so: Callable[[], bool]) -> bool:
    """Whether something becomes true."""
    end = time.monotonic() + PATIENCE
    while not is_so() and time.monotonic() < end:
        time.sleep(0.005)
    return is_so()


@SAVED
def test_the_end_of_a_node_is_stored_while_the_consumer_has_an_event(
    saver, config, durability, pay
):
    graph = paying(pay.sync).compile(checkpointer=saver)
    shown = []
    for event in graph.stream({"log": []}, config, stream_mode="custom", durability=durability):
        shown.append(event)
        pay.may_end.set()
        assert soon(partial(is_stored, graph, config))
    assert shown == ["paying"]
    state = graph.get_state(config)
    assert (state.values, state.next, pay.ran) == ({"log": ["paid"]}, (), 1)


@SAVED
@pytest.mark.parametrize("kind", ["on_loop", "sync"])
def test_on_an_event_loop_too(saver, config, durability, pay, kind):
    graph = paying(getattr(pay, kind)).compile(checkpointer=saver)

    async def consume() -> None:
        options = {"stream_mode": "custom", "durability": durability}
        async for _ in graph.astream({"log": []}, config, **options):
            pay.may_end.set()
            stored = partial(is_stored, graph, config)
            assert await asyncio.to_thread(soon, stored)

    asyncio.run(consume())
    state = graph.get_state(config)
    assert (state.values, state.next, pay.ran) == ({"log": ["paid"]}, (), 1)


def test_a_task_beside_the_one_whose_update_the_consumer_has(saver, config, pay):
    builder = paying(pay.sync)
    builder.add_node("quick", lambda state: {"log": ["quick"]}).add_edge(START, "quick")
    graph = builder.compile(checkpointer=saver)
    for event in graph.stream({"log": []}, config, stream_mode="updates", durability="sync"):
        if "quick" in event:
            pay.may_end.set()
            assert soon(lambda: "paid" in graph.get_state(config).values["log"])
    assert graph.get_state(config).values == {"log": ["paid", "quick"]}
    assert pay.ran == 1


def test_a_task_that_a_node_calls(saver, config):
    may_end, ended, ran = threading.Event(), threading.Event(), []

    @task
    def book(n: int) -> int:
        ran.append(n)
        return n

    @entrypoint(checkpointer=saver)
    def trip(n: int) -> int:
        get_stream_writer()("booking")
        booked = book(n).result()
        ended.set()
        assert may_end.wait(PATIENCE)
        return booked

    stream = trip.stream(7, config, stream_mode="custom", durability="sync")
    assert next(stream) == "booking"
    assert ended.wait(PATIENCE)

    def stored() -> bool:
        found = saver.get_tuple(config)
        return any(value == 7 for _, _, value in found.pending_writes)

    assert soon(stored)
    may_end.set()
    assert list(stream) == []
    assert (trip.get_state(config).values, ran) == (7, [7])


class TestWhatCannotBeStored:
    def test_goes_the_usual_way(self, config, pay):
        class FailsOnce(InMemorySaver):
            failures = 0

            def commit(self, steps: Any) -> Any:
                if pay.may_end.is_set() and not self.failures:
                    self.failures += 1
                    raise OSError("for once")
                return super().commit(steps)

        saver = FailsOnce()
        graph = paying(pay.sync).compile(checkpointer=saver)
        for _ in graph.stream({"log": []}, config, stream_mode="custom", durability="sync"):
            pay.may_end.set()
            assert soon(lambda: saver.failures == 1)
        assert graph.get_state(config).values == {"log": ["paid"]}
        assert pay.ran == 1

    def test_as_what_a_reducer_refuses(self, saver, config, pay):
        asked = threading.Event()

        def refuse(old: list[str], new: list[str]) -> list[str]:
            if not new:
                return old
            asked.set()
            raise InvalidUpdateError("no")

        class State(TypedDict):
            log: Annotated[list[str], refuse]

        builder = StateGraph(State).add_node("pay", lambda state: pay.sync(state))
        builder.add_node("beside", lambda state: None).add_edge(START, "beside")
        graph = builder.add_edge(START, "pay").compile(checkpointer=saver)
        with pytest.raises(InvalidUpdateError, match="no"):  # noqa: PT012
            for _ in graph.stream({"log": []}, config, stream_mode="custom", durability="sync"):
                pay.may_end.set()
                assert asked.wait(PATIENCE)
        assert "paid" not in str(saver.get_tuple(config).pending_writes)


def test_a_reducer_that_works_in_place_gets_the_write_of_a_lone_task_once(saver, config, pay):
    def extended(old: list[str], new: list[str]) -> list[str]:
        old.extend(new)
        return old

    class State(TypedDict):
        log: Annotated[list[str], extended]

    builder = StateGraph(State).add_node("pay", lambda state: pay.sync(state))
    graph = builder.add_edge(START, "pay").compile(checkpointer=saver)
    for _ in graph.stream({"log": ["in"]}, config, stream_mode="custom", durability="sync"):
        pay.may_end.set()
        time.sleep(5 * PATIENCE_OF_STANDBY)
    assert graph.get_state(config).values == {"log": ["in", "paid"]}


def test_tasks_that_end_while_another_is_stored(saver, config):
    """All of them are stored, however long the saver takes for each."""
    may_end, names = threading.Event(), "abcd"

    def node(name: str) -> Any:
        def called(state: Log) -> dict[str, Any]:
            get_stream_writer()(name)
            assert may_end.wait(PATIENCE)
            time.sleep(2 * PATIENCE_OF_STANDBY * names.index(name))
            return {"log": [name]}

        return called

    builder = StateGraph(Log)
    for name in names:
        builder.add_node(name, node(name)).add_edge(START, name)
    graph = builder.compile(checkpointer=saver)
    stream = graph.stream({"log": []}, config, stream_mode="custom", durability="sync")
    first = next(stream)
    may_end.set()
    assert soon(lambda: sorted(graph.get_state(config).values["log"]) == [*names])
    assert sorted([first, *stream]) == [*names]
    assert graph.get_state(config).values == {"log": [*names]}


def test_a_driver_that_is_interrupted_while_it_waits_comes_back_again(monkeypatch):
    standby = Standby((), lambda effect: None)
    standby.leave()
    standby._is_storing = True

    def interrupted(seconds: float) -> None:
        standby._is_storing = False
        raise KeyboardInterrupt

    monkeypatch.setattr(standby_module.time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        standby.come_back()
    standby.come_back()
    assert not standby.is_away


def test_ctrl_c_at_any_point_of_a_stream_does_not_hang_it(tmp_path):
    """A lock that the driver takes would be taken still where Ctrl-C comes as it has been."""
    program = """
        import signal
        from typing import TypedDict
        from milepost.graph import START, StateGraph

        class State(TypedDict):
            n: int

        def stop(*_):
            raise KeyboardInterrupt

        def read(delay):
            try:
                signal.setitimer(signal.ITIMER_REAL, delay)
                options = {"stream_mode": ["values", "updates", "tasks", "checkpoints"]}
                for _ in graph.stream({"n": 0}, {"recursion_limit": 10**6}, **options):
                    pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)

        signal.signal(signal.SIGALRM, stop)
        builder = StateGraph(State).add_node("a", lambda state: {"n": state["n"] + 1})
        builder.add_edge(START, "a").add_conditional_edges("a", lambda state: "a")
        graph = builder.compile()
        for number in range(400):
            try:
                read(0.001 + number % 37 * 0.0001)
            except KeyboardInterrupt:
                pass
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": str(Path(milepost.__file__).parents[1])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
    )
    assert done.returncode == 0, done.stderr


class TestAConsumerThatLeaves:
    """The node is on a thread, which nothing can stop: what it does is stored, not repeated."""

    @SAVED
    @pytest.mark.parametrize("how", ["close", "throw"])
    def test_waits_for_the_nodes_that_run(self, saver, config, durability, pay, how):
        graph = paying(pay.sync).compile(checkpointer=saver)
        options = {"stream_mode": "custom", "durability": durability}
        stream = graph.stream({"log": []}, config, **options)
        assert next(stream) == "paying"
        ending = threading.Timer(0.05, pay.may_end.set)
        ending.start()
        if how == "close":
            stream.close()
        else:
            with pytest.raises(LookupError):
                stream.throw(LookupError("left"))
        state = graph.get_state(config)
        assert state.values == {"log": ["paid"]}
        assert graph.invoke(None, config) == {"log": ["paid"]}
        assert pay.ran == 1

    def test_begins_no_other(self, saver, config, pay):
        ran = []
        builder = paying(pay.sync)
        for name in ("a", "b", "c"):
            builder.add_node(name, lambda state, name=name: ran.append(name))
            builder.add_edge("pay", name)
        graph = builder.compile(checkpointer=saver)
        stream = graph.stream({"log": []}, config, stream_mode="custom", durability="sync")
        assert next(stream) == "paying"
        pay.may_end.set()
        stream.close()
        assert ran == []
        graph.invoke(None, config)
        assert (sorted(ran), pay.ran) == (["a", "b", "c"], 1)

    def test_in_one_of_its_nodes_does_not_wait_for_itself(self, config):
        held: list[Any] = []

        def drops(state: Log) -> dict[str, Any]:
            get_stream_writer()("here")
            while not held:
                time.sleep(0.001)
            held.pop().close()
            return {"log": ["dropped"]}

        graph = paying(drops).compile(checkpointer=InMemorySaver())
        stream = graph.stream({"log": []}, config, stream_mode="custom")
        assert next(stream) == "here"
        held.append(stream)
        assert soon(lambda: not graph.get_state(config).next or not held)
