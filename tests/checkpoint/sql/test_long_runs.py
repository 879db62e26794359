"""Long runs on slow storage: what waits to be stored is bounded, and memory stays flat."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import TypedDict

from graphs import PATIENCE, thread
from milepost._engine import write_behind
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import END, START, StateGraph


class Counter(TypedDict, total=False):
    n: int
    data: bytes


def counting(saver: Any, steps: int, size: int = 0) -> Any:
    """A loop of many steps, each with new data of some size."""

    def node(state: Counter) -> Any:
        n = state.get("n", 0) + 1
        return {"n": n, "data": os.urandom(size)}

    builder = StateGraph(Counter).add_node("node", node).add_edge(START, "node")
    builder.add_conditional_edges("node", lambda s: END if s["n"] >= steps else "node")
    return builder.compile(checkpointer=saver)


class Slow(SqliteSaver):
    """Stores nothing until the run itself waits; counts what waits meanwhile."""

    most_steps = 0
    most_bytes = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.queued: dict[int, int] = {}
        self.run_waits = threading.Event()

    def prepare(self, step: Any) -> Any:
        prepared = super().prepare(step)
        self.queued[id(prepared)] = self.weight(prepared)
        self.most_steps = max(self.most_steps, len(self.queued))
        self.most_bytes = max(self.most_bytes, sum(self.queued.values()))
        return prepared

    def commit(self, steps: Any) -> Any:
        assert self.run_waits.wait(PATIENCE)
        outcome = super().commit(steps)
        for step in steps:
            del self.queued[id(step)]
        return outcome

    async def acommit(self, steps: Any) -> Any:
        import asyncio

        return await asyncio.to_thread(self.commit, steps)


@pytest.fixture
def slow(path, monkeypatch):
    """A saver that is as slow as can be: it goes on only when the run cannot."""
    with Slow.from_conn_string(path) as saver:
        is_above, stored = (
            write_behind.WriteBehindQueue.is_above,
            write_behind.WriteBehindQueue.stored,
        )

        def watched(backlog: Any, limit: int, tell: Any) -> bool:
            above = is_above(backlog, limit, tell)
            if above:
                saver.run_waits.set()
            return above

        def told(backlog: Any, error: Any = None) -> None:
            saver.run_waits.clear()
            stored(backlog, error)
            if backlog._watchers:
                saver.run_waits.set()

        monkeypatch.setattr(write_behind.WriteBehindQueue, "is_above", watched)
        monkeypatch.setattr(write_behind.WriteBehindQueue, "stored", told)
        yield saver


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Any:
    from harness import AsyncHarness, SyncHarness

    harness = SyncHarness() if request.param == "sync" else AsyncHarness()
    yield harness
    harness.close()


def test_no_more_than_a_certain_number_of_steps_wait(slow, colour):
    steps = 300
    config = {**thread("t"), "recursion_limit": 2 * steps}
    assert colour.invoke(counting(slow, steps), {}, config, durability="async")["n"] == steps
    # One step more than the limit is made before the run waits; an input comes with its step.
    assert write_behind.QUEUE_LIMIT <= slow.most_steps <= write_behind.QUEUE_LIMIT + 2


def test_no_more_than_a_certain_number_of_bytes_wait(slow, colour):
    size = 8_000_000
    result = colour.invoke(counting(slow, 30, size), {}, thread("t"), durability="async")
    assert result["n"] == 30
    assert size <= slow.most_bytes
    assert slow.most_bytes <= write_behind.QUEUE_LIMIT * write_behind.LARGE_STEP + 3 * size


MEASURED = """
import ctypes, resource, sys, time
sys.path[:0] = sys.argv[1:3]
from test_long_runs import counting
from graphs import thread
from milepost.checkpoint.sqlite import SqliteSaver

class Lagging(SqliteSaver):
    def commit(self, steps):
        time.sleep(0.02)
        return super().commit(steps)

give_back = getattr(ctypes.CDLL(None), "malloc_trim", id)  # id: another C library than glibc

def resident():
    give_back(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

steps = int(sys.argv[4])
with Lagging.from_conn_string(sys.argv[3], synchronous="NORMAL") as saver:
    graph = counting(saver, steps, int(sys.argv[5]))
    config = {**thread("t"), "recursion_limit": 2 * steps}
    sizes = []
    for n, _ in enumerate(graph.stream({}, config, durability="async", stream_mode="updates")):
        if n % (steps // 10) == 0:
            sizes.append(resident())
print(*sizes)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_the_memory_of_a_long_run_stays_flat(path):
    """A process of its own; 10,000 steps with MILEPOST_LONG=1."""
    steps, size = 10_000 if os.environ.get("MILEPOST_LONG") else 2_000, 30_000
    here = Path(__file__).parent
    arguments = [str(here), str(here.parents[1]), path, str(steps), str(size)]
    command = [sys.executable, "-c", MEASURED, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr
    sizes = [int(size) for size in ended.stdout.split()]
    # SQLite's cache of pages fills in the first half. The second writes 30 MB and more: a fifth
    # of that kept would show. What is free and not given back would look like it.
    grown = max(sizes[5:]) - max(sizes[:5])
    assert grown < 0.2 * (steps / 2) * size, " ".join(f"{at / 1e6:.1f}" for at in sizes)


def test_what_a_saver_remembers_of_inner_graphs_is_bounded(tmp_path):
    def inner(state: dict[str, Any]) -> dict[str, Any]:
        return {"n": state["n"]}

    class Count(TypedDict):
        n: int

    child = StateGraph(Count).add_node("inner", inner).add_edge(START, "inner").compile()
    builder = StateGraph(Count).add_node("child", child).add_node("up", lambda s: {"n": s["n"] + 1})
    builder.add_edge(START, "child").add_edge("child", "up")
    builder.add_conditional_edges("up", lambda s: "child" if s["n"] < 300 else END)
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        graph = builder.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "t"}, "recursion_limit": 1000}
        assert graph.invoke({"n": 0}, config) == {"n": 300}
        (remembered,) = saver._cache._threads.values()
        assert len(remembered) == 256
        assert 0 < remembered.size == saver._cache._size <= 256 * 4096
