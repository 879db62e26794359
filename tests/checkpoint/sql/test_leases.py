"""Two processes on one thread: who is refused, who goes on, and who is taken for dead."""

import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from graphs import line, thread
from milepost.errors import ThreadConflict

CHILD = str(Path(__file__).with_name("holder_child.py"))


@pytest.fixture
def place(request: pytest.FixtureRequest, saver: Any) -> tuple[str, str]:
    """The backend of the saver, and where its database is."""
    backend = request.node.callspec.params["saver"]
    return backend, request.getfixturevalue("path" if backend == "sqlite" else "uri")


@contextmanager
def holding(*arguments: Any) -> Any:
    """A process whose run is in the middle of a node."""
    command = [sys.executable, CHILD, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"here\n"
            yield child
        finally:
            child.kill()


def statuses(saver: Any) -> tuple[str, list[str], list[str]]:
    """What is said of the thread when it is asked for, and which listings it is in."""
    return (
        saver.get_thread("t").status,
        [info.thread_id for info in saver.list_threads(status="running")],
        [info.thread_id for info in saver.list_threads(status="stale")],
    )


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_another_process_is_refused_until_the_run_has_ended(saver, place, tmp_path, durability):
    go = tmp_path / "go"
    graph = line("x").compile(checkpointer=saver, on_conflict="reject")
    with holding(*place, "reject", durability, go) as child:
        before = list(saver.list(thread("t")))
        with pytest.raises(ThreadConflict, match="Another run has thread 't'"):
            graph.invoke({}, thread("t"))
        with pytest.raises(ThreadConflict, match="Another run has thread 't'"):
            graph.update_state(thread("t"), {"log": ["edit"]}, as_node="x")
        assert list(saver.list(thread("t"))) == before
        go.touch()
        assert child.wait(60) == 0
    assert graph.invoke({}, thread("t"))["log"] == ["in", "a", "late", "x"]


def grow_old(saver: Any) -> None:
    """Let an hour go by since the last sign of life."""
    saver.conn.execute("UPDATE threads SET updated_at = updated_at - 3600")


def test_a_killed_run_holds_its_thread_until_its_lease_is_over(saver, place):
    graph = line("x").compile(checkpointer=saver, on_conflict="reject")
    with holding(*place, "reject", "sync") as child:
        child.kill()
        assert child.wait(60) == -signal.SIGKILL
        with pytest.raises(ThreadConflict):
            graph.invoke({}, thread("t"))
        grow_old(saver)
        assert graph.invoke({}, thread("t"))["log"] == ["in", "a", "x"]


@pytest.mark.parametrize("policy", ["newest", "reject"])
def test_a_run_that_was_killed_shows_as_stale_once_its_lease_is_over(saver, place, policy):
    with holding(*place, policy, "sync") as child:
        assert statuses(saver) == ("running", ["t"], [])
        child.kill()
        assert child.wait(60) == -signal.SIGKILL
        assert statuses(saver) == ("running", ["t"], [])
        grow_old(saver)
        assert statuses(saver) == ("stale", [], ["t"])
    assert line("a", "node").compile(checkpointer=saver).invoke(None, thread("t"))
    assert statuses(saver) == ("idle", [], [])


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_a_stopped_writer_that_goes_on_later_gets_a_conflict(saver, place, tmp_path, durability):
    go = tmp_path / "go"
    with holding(*place, "newest", durability, go) as stopped:
        stopped.send_signal(signal.SIGSTOP)
        graph = line("x", "y").compile(checkpointer=saver)
        graph.invoke({"log": ["b"]}, thread("t"), durability="sync")
        go.touch()
        stopped.send_signal(signal.SIGCONT)
        assert stopped.wait(60) == 42
    history = list(graph.get_state_history(thread("t")))
    assert history[0].values["log"][-3:] == ["b", "x", "y"]
    assert "late" not in repr(history)
    assert [s.parent_config for s in history] == [*(s.config for s in history[1:]), None]


INCREMENTS = """
import sys
sys.path[:0] = sys.argv[4:6]
from crash_child import opened
from graphs import line, thread
from milepost.errors import ThreadConflict

with opened(sys.argv[1], sys.argv[2]) as saver:
    graph = line("a").compile(checkpointer=saver)
    for n in range(5):
        while True:
            try:
                graph.invoke({"log": [[sys.argv[3], n]]}, thread("t"), durability="sync")
                break
            except ThreadConflict:
                continue
"""


def test_increments_of_several_processes_lose_none(saver, place):
    saver.setup()
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    workers = [
        subprocess.Popen([sys.executable, "-c", INCREMENTS, *place, str(worker), *paths])
        for worker in range(3)
    ]
    assert [worker.wait(120) for worker in workers] == [0, 0, 0]
    graph = line("a").compile(checkpointer=saver)
    state = graph.get_state(thread("t")).values["log"]
    done = sorted((name, n) for name, n in (item for item in state if item != "a"))
    assert set(done) == {(str(worker), n) for worker in range(3) for n in range(5)}
    parents = [
        s.parent_config["configurable"]["checkpoint_id"]
        for s in graph.get_state_history(thread("t"))
        if s.parent_config
    ]
    assert len(parents) == len(set(parents))
