"""Runs that are broken off at awkward moments: Ctrl-C and cancellation, once and again.

Whatever the moment, the thread is at a state that it was in, and goes on from there.
"""

import asyncio
import threading
from itertools import count
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from graphs import PATIENCE, Log, appends
from hitl_graphs import State, fan, step
from milepost._engine.drivers import aio
from milepost._engine.drivers.aio import AsyncDriver
from milepost._engine.drivers.sync import SyncDriver
from milepost._engine.drivers.thread_pool import TaskThreadPool
from milepost._engine.thread_writer import Fence, ThreadWriter
from milepost._engine.write_behind import WriteBehindQueue
from milepost.channels import DeltaChannel, LastValue
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver
from milepost.errors import DamagedRowError, SaverError, ThreadConflict
from milepost.graph import START, StateGraph
from savers import WholeSaver


class Once:
    """Raises KeyboardInterrupt, once, when it is called after it was armed."""

    def __init__(self) -> None:
        self._armed = False
        self._done = False

    def arm(self) -> None:
        self._armed = not self._done

    def __call__(self) -> None:
        if self._armed:
            self._armed, self._done = False, True
            raise KeyboardInterrupt


@pytest.fixture
def ctrl_c() -> Once:
    return Once()


class TestBetweenTwoStates:
    def test_in_a_reducer_of_one_of_two_keys(self, saver, config, durability, ctrl_c):
        def add(old: list[str], new: list[str]) -> list[str]:
            ctrl_c()
            return old + new

        class State(TypedDict):
            number: int
            log: Annotated[list[str], add]

        def node(state: State) -> dict[str, Any]:
            ctrl_c.arm()
            return {"number": state["number"] + 1, "log": ["node"]}

        builder = StateGraph(State).add_node(node).add_edge(START, "node")
        graph = builder.compile(checkpointer=saver)
        with pytest.raises(KeyboardInterrupt):
            graph.invoke({"number": 0, "log": ["in"]}, config, durability=durability)
        state = graph.get_state(config)
        assert (state.values, state.next) == ({"number": 0, "log": ["in"]}, ("node",))
        assert graph.invoke(None, config) == {"number": 1, "log": ["in", "node"]}

    def test_between_two_plain_keys(self, saver, config, durability, ctrl_c, monkeypatch):
        """Nothing there can fail by itself, so nobody has taken down how to go back."""

        class State(TypedDict, total=False):
            one: int
            two: int

        def node(_: State) -> dict[str, Any]:
            ctrl_c.arm()
            return {"one": 1, "two": 2}

        update = LastValue.update

        def interrupted(self: Any, values: Any) -> bool:
            if values == [2]:
                ctrl_c()
            return update(self, values)

        monkeypatch.setattr(LastValue, "update", interrupted)
        builder = StateGraph(State).add_node(node).add_edge(START, "node")
        graph = builder.compile(checkpointer=saver)
        with pytest.raises(KeyboardInterrupt):
            graph.invoke({"one": 0}, config, durability=durability)
        state = graph.get_state(config)
        # Under `exit` the run is as if it had never been.
        assert (state.values, state.next) == (
            ({}, ()) if durability == "exit" else ({"one": 0}, ("node",))
        )
        again = {"one": 0} if durability == "exit" else None
        assert graph.invoke(again, config) == {"one": 1, "two": 2}


class TestAnUpdate:
    """With a delta channel, it is a checkpoint and the writes that its value is made from."""

    class State(TypedDict):
        log: Annotated[list[str], DeltaChannel(lambda old, new: sum(new, old))]

    def graph(self, saver: Any) -> Any:
        builder = StateGraph(self.State).add_node("a", appends("a")).add_edge(START, "a")
        return builder.compile(checkpointer=saver)

    def test_is_stored_at_once(self, saver, config, monkeypatch):
        graph = self.graph(saver)
        graph.invoke({"log": ["in"]}, config)
        commit, commits = saver.commit, []
        monkeypatch.setattr(saver, "commit", lambda steps: commits.append(1) or commit(steps))
        graph.update_state(config, {"log": ["edited"]}, as_node="a")
        assert commits == [1]
        assert graph.get_state(config).values == {"log": ["in", "a", "edited"]}

    def test_is_whole_where_a_saver_gets_no_further_than_the_checkpoint(self, config, monkeypatch):
        saver = WholeSaver()
        graph = self.graph(saver)
        graph.invoke({"log": ["in"]}, config)

        def fail(*_: Any) -> None:
            raise OSError("gone")

        monkeypatch.setattr(saver, "put_writes", fail)
        with pytest.raises(OSError):
            graph.update_state(config, {"log": ["edited"]}, as_node="a")
        assert graph.get_state(config).values == {"log": ["in", "a", "edited"]}


class TestCancelledAgain:
    """The second request comes while the run sees to what the first one leaves."""

    def graph(self, saver: Any) -> Any:
        async def quick(_: Log) -> dict[str, list[str]]:
            await asyncio.sleep(0)
            return {"log": ["quick"]}

        async def slow(_: Log) -> dict[str, list[str]]:
            try:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            finally:
                await asyncio.sleep(0)
            return {"log": ["slow"]}

        inner = StateGraph(Log).add_node("quick", quick).add_edge(START, "quick").compile()
        builder = StateGraph(Log).add_node("first", quick).add_node("slow", slow)
        builder.add_node("inner", inner).add_edge(START, "first")
        builder.add_edge("first", "slow").add_edge("first", "inner")
        return builder.compile(checkpointer=saver)

    @pytest.mark.parametrize("gap", [1, 3])
    def test_at_any_moment_leaves_a_thread_that_goes_on(self, durability, gap):
        async def broken_off(graph: Any, config: Any, at: int) -> bool:
            """Whether the run was over before it could be cancelled."""
            running = asyncio.create_task(
                graph.ainvoke({"log": ["in"]}, config, durability=durability)
            )
            for _ in range(at):
                await asyncio.sleep(0)
            over = running.done()
            for _ in range(2):
                running.cancel()
                for _ in range(gap):
                    await asyncio.sleep(0)
            await asyncio.wait([running])
            assert running.cancelled() or running.result()
            return over

        async def main() -> int:
            async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
                graph = self.graph(saver)
                whole = sorted((await graph.ainvoke({"log": ["in"]}, thread(-1)))["log"])
                for at in count():
                    over = await broken_off(graph, thread(at), at)
                    entry = await saver.aget_thread(str(at))
                    assert entry is None or entry.status != "running"
                    if entry is not None:
                        resumed = await graph.ainvoke(None, thread(at), durability=durability)
                        assert sorted(resumed["log"]) == whole
                    if over:
                        return at
            raise AssertionError

        def thread(number: int) -> dict[str, Any]:
            return {"configurable": {"thread_id": str(number)}}

        assert asyncio.run(main()) > 10
        assert not aio._background


def test_a_commit_that_fails_after_the_consumer_left_is_told_and_the_thread_given_back(config):
    class Failing(SqliteSaver):
        fails = False

        def commit(self, steps: Any) -> Any:
            if self.fails:
                raise OSError("disk gone")
            return super().commit(steps)

    with Failing.from_conn_string(":memory:") as saver:
        builder = StateGraph(Log).add_sequence([("a", appends("a")), ("b", appends("b"))])
        graph = builder.add_edge(START, "a").compile(checkpointer=saver, on_conflict="reject")
        stream = graph.stream({"log": []}, config, durability="exit")
        next(stream)
        saver.fails = True
        with pytest.raises(SaverError, match="disk gone"):
            stream.close()
        saver.fails = False
        assert graph.invoke({"log": []}, config) == {"log": ["a", "b"]}


def test_what_keeps_an_inner_graph_from_loading_is_what_is_raised(run, saver, config, monkeypatch):
    fails = [True]

    def node(_: Log) -> dict[str, list[str]]:
        if fails:
            raise ValueError("first attempt")
        return {"log": ["inner"]}

    inner = StateGraph(Log).add_node("node", node).add_edge(START, "node").compile()
    outer = StateGraph(Log).add_node("inner", inner).add_edge(START, "inner")
    graph = outer.compile(checkpointer=saver)
    with pytest.raises(ValueError, match="first attempt"):
        run.invoke(graph, {"log": []}, config)
    fails.clear()
    for name in ("get_tuple", "aget_tuple"):
        method = getattr(type(saver), name)

        def damaged(self: Any, config: Any, method: Any = method) -> Any:
            if config["configurable"].get("checkpoint_ns"):
                raise DamagedRowError("the row is damaged")
            return method(self, config)

        monkeypatch.setattr(type(saver), name, damaged)
    with pytest.raises(DamagedRowError):
        run.invoke(graph, None, config)


def test_ctrl_c_during_the_last_wait_does_not_cost_what_was_shown(tmp_path, config, monkeypatch):
    wait = SyncDriver._wait_for
    interrupted = []

    def wait_or_not(queue: Any, limit: int) -> None:
        if limit == 0 and not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        wait(queue, limit)

    with SqliteSaver.from_conn_string(str(tmp_path / "a.db")) as saver:
        builder = StateGraph(Log).add_sequence([(name, appends(name)) for name in "abc"])
        graph = builder.add_edge(START, "a").compile(checkpointer=saver)
        shown: list[Any] = []
        monkeypatch.setattr(SyncDriver, "_wait_for", staticmethod(wait_or_not))
        with pytest.raises(KeyboardInterrupt):
            shown.extend(graph.stream({"log": []}, config, durability="async"))
        assert interrupted
        assert [node for part in shown for node in part] == ["a", "b", "c"]
        assert graph.get_state(config).values == {"log": ["a", "b", "c"]}
        assert saver.get_thread("t").status != "running"


def test_a_task_that_outlives_its_run_stores_nothing(tmp_path, config, monkeypatch):
    go_on, refused, ran = threading.Event(), threading.Event(), []
    is_over = ThreadWriter._run_ended_error

    def noticed(self: ThreadWriter) -> ThreadConflict:
        refused.set()
        return is_over(self)

    def waits(_: Log) -> dict[str, list[str]]:
        assert go_on.wait(PATIENCE)
        return {"log": ["late"]}

    def stops(_: Log) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadWriter, "_run_ended_error", noticed)
    inner = StateGraph(Log).add_sequence([("waits", waits), ("after", appends("after", ran))])
    builder = StateGraph(Log).add_node("inner", inner.add_edge(START, "waits").compile())
    builder.add_node("stops", stops).add_edge(START, "inner").add_edge(START, "stops")
    with SqliteSaver.from_conn_string(str(tmp_path / "a.db")) as saver:
        graph = builder.compile(checkpointer=saver)
        with pytest.raises(KeyboardInterrupt):
            graph.invoke({"log": []}, config, durability="sync")
        before = list(saver.list(config))
        go_on.set()
        assert refused.wait(PATIENCE)
        assert list(saver.list(config)) == before
        assert saver.get_thread("t").status == "interrupted"
    assert ran == []


def test_graphs_side_by_side_share_one_queue():
    writer = ThreadWriter(WholeSaver(), "t", "async", Fence(None))
    start, opened = threading.Barrier(8), []

    def opens() -> None:
        start.wait()
        opened.append(writer.open_queue())

    threads = [threading.Thread(target=opens) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert {queue for queue, _ in opened} == {writer.queue}
    assert sum(is_new for _, is_new in opened) == 1


def test_no_other_queue_takes_steps_after_a_failed_one_when_the_loop_of_the_worker_ends():
    writer = ThreadWriter(WholeSaver(), "t", "async", Fence(None))
    queue, _ = writer.open_queue()
    queue.add(["step"])
    assert queue.take(lambda: None) == ["step"]
    queue.stored(OSError("the disk is full"))
    assert queue.abandon()
    assert writer.open_queue() == (queue, False)
    with pytest.raises(OSError, match="full"):
        queue.raise_error()


def test_steps_are_stored_though_ctrl_c_came_before_their_writer_was_woken(monkeypatch):
    queue, woken = WriteBehindQueue(lambda _: 1), []
    assert queue.take(lambda: woken.append(True)) == []

    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(queue, "_wake_worker", interrupted)
        with pytest.raises(KeyboardInterrupt):
            queue.add(["step"])
    assert queue.is_above(0, lambda: None)
    assert woken == [True]
    assert queue.take(lambda: None) == ["step"]


class TestASiblingThatHasEnded:
    """What ended just before the run was broken off is stored, whatever broke it off."""

    @pytest.fixture
    def graph(self, saver: Any, trace: list[str]) -> Any:
        def exits(state: State) -> Any:
            trace.append("exits")
            if trace.count("exits") == 1:
                raise SystemExit
            return {"log": ["exits"]}

        def ends(state: State) -> Any:
            trace.append("ends")
            return {"log": ["ends"]}

        return fan(("exits", exits), ("ends", ends), checkpointer=saver)

    def test_does_not_run_again_if_it_is_heard_of_after_the_crash(
        self, run, graph, config, durability, trace, monkeypatch
    ):
        """Both have ended by the time that anything is heard of, the crash first."""
        of_pool, of_driver = TaskThreadPool.collect, AsyncDriver._collect
        held: list[Any] = []

        def crash_first(item: Any) -> bool:
            return item[1] is None

        def collect(self: TaskThreadPool, item: Any) -> Any:
            crash, other = sorted([item, self._mailbox.get()], key=crash_first)
            self._mailbox.put(other)
            monkeypatch.undo()
            return of_pool(self, crash)

        def acollect(self: AsyncDriver) -> Any:
            held.extend(self._ended)
            self._ended.clear()
            if len(held) < 2:
                return []
            self._ended.extend(sorted(held, key=crash_first))
            monkeypatch.undo()
            return of_driver(self)

        monkeypatch.setattr(TaskThreadPool, "collect", collect)
        monkeypatch.setattr(AsyncDriver, "_collect", acollect)
        with pytest.raises(SystemExit):
            run.invoke(graph, {"log": []}, config, durability=durability)
        assert sorted(run.invoke(graph, None, config)["log"]) == ["ends", "exits"]
        assert sorted(trace) == ["ends", "exits", "exits"]

    def test_does_not_run_again_if_ctrl_c_comes_before_it_is_heard_of(
        self, saver, config, durability, trace, monkeypatch
    ):
        graph = fan(("a", step(trace, "a")), ("b", step(trace, "b")), checkpointer=saver)

        def wait(self: TaskThreadPool, _deadline: float | None) -> Any:
            for item in [self._mailbox.get() for _ in range(2)]:
                self._mailbox.put(item)
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(TaskThreadPool, "wait", wait)
        with pytest.raises(KeyboardInterrupt):
            graph.invoke({"log": []}, config, durability=durability)
        assert graph.invoke(None, config) == {"log": ["a", "b"]}
        assert sorted(trace) == ["a", "b"]

    @pytest.mark.parametrize("read", [1, 2])
    @pytest.mark.parametrize("colour", ["sync", "async"])
    def test_does_not_run_again_if_the_reader_leaves_before_it_is_heard_of(
        self, colour, read, saver, config, durability, trace
    ):
        """One at a time: when the last one begins, the others have ended."""
        is_last, over = threading.Event(), threading.Event()

        def node(name: str) -> Any:
            def called(_: State) -> Any:
                trace.append(name)
                if name == "d" and trace.count("d") == 1:
                    is_last.set()
                    over.wait(PATIENCE)
                return {"log": [name]}

            return called

        graph = fan(*((name, node(name)) for name in "abcd"), checkpointer=saver)
        one_by_one = {**config, "max_concurrency": 1}

        async def leave() -> None:
            stream = graph.astream({"log": []}, one_by_one, durability=durability)
            for _ in range(read):
                await anext(stream)
            assert await asyncio.to_thread(is_last.wait, PATIENCE)
            over.set()
            await stream.aclose()

        if colour == "async":
            asyncio.run(leave())
        else:
            stream = graph.stream({"log": []}, one_by_one, durability=durability)
            for _ in range(read):
                next(stream)
            assert is_last.wait(PATIENCE)
            over.set()
            stream.close()
        assert sorted(graph.invoke(None, config)["log"]) == [*"abcd"]
        assert [trace.count(name) for name in "abc"] == [1, 1, 1]
