"""Runs a part of a test in a forked child process."""

import asyncio
import faulthandler
import gc
import os
import pickle
import select
import signal
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from graphs import single, thread, two_nodes

LIMIT = 30.0
"""Seconds after which a child is taken to hang."""


class Child:
    """A forked process that calls a function, and tells what came of it."""

    def __init__(self, function: Callable[[], Any], *, ends: Callable[[], None] | None = None):
        self._ours, theirs = os.pipe()
        self._stacks, path = tempfile.mkstemp()
        os.unlink(path)
        gc.collect()  # what other tests have left behind is not what is forked here
        with warnings.catch_warnings():
            # Newer Pythons warn of forks beside threads: that they work is what is tested.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._ours)
                faulthandler.dump_traceback_later(LIMIT - 5, file=self._stacks)
                os.write(theirs, pickle.dumps(_outcome(function)))
                os.close(theirs)
                if ends is not None:
                    ends()
            finally:
                os._exit(0)
        os.close(theirs)

    def result(self) -> Any:
        """What the function returned; an error that it raised is raised here."""
        data = b""
        until = time.monotonic() + LIMIT
        try:
            while True:
                left = until - time.monotonic()
                if left <= 0 or not select.select([self._ours], [], [], left)[0]:
                    os.kill(self.pid, signal.SIGKILL)
                    stacks = os.pread(self._stacks, 100_000, 0).decode()
                    raise AssertionError(f"the child has not ended within {LIMIT} s:\n{stacks}")
                if not (read := os.read(self._ours, 65536)):
                    break
                data += read
        finally:
            os.close(self._ours)
            self.wait()
        result, error, trace = pickle.loads(data)
        if error is not None:
            error.add_note(trace)
            raise error
        return result

    def wait(self) -> None:
        """Wait for the end of the process."""
        os.close(self._stacks)
        until = time.monotonic() + LIMIT
        while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise AssertionError(f"the child has not exited within {LIMIT} s")
            time.sleep(0.005)


def _outcome(function: Callable[[], Any]) -> tuple[Any, BaseException | None, str]:
    try:
        return function(), None, ""
    except BaseException as error:
        error.__traceback__, trace = None, traceback.format_exc()
        error.__cause__ = error.__context__ = None
        return None, error, trace


# -- what savers and stores on every database do around a fork

DONE = {"foo": "b", "bar": ["a", "b"]}


def runs(saver: Any, thread_id: str = "t") -> Any:
    graph = two_nodes().compile(checkpointer=saver)
    graph.invoke({"foo": ""}, thread(thread_id), durability="sync")
    return graph.get_state(thread(thread_id)).values


async def aruns(saver: Any, thread_id: str = "t") -> Any:
    graph = two_nodes().compile(checkpointer=saver)
    async with asyncio.timeout(LIMIT):
        await graph.ainvoke({"foo": ""}, thread(thread_id), durability="sync")
        return (await graph.aget_state(thread(thread_id))).values


def put_and_find(store: Any, key: str) -> Any:
    store.put(("a",), key, {"text": key})
    return sorted(item.key for item in store.search(("a",), filter={"text": key}))


def children_run_beside(saver: Any) -> None:
    """Children use the saver while a run of the parent goes on, and the parent does, too."""
    in_node, go_on = threading.Event(), threading.Event()

    def waits(_: Any) -> Any:
        in_node.set()
        assert go_on.wait(LIMIT)
        return {"log": ["parent"]}

    graph = single(waits).compile(checkpointer=saver)
    run = threading.Thread(target=lambda: graph.invoke({"log": []}, thread("p"), durability="sync"))
    run.start()
    assert in_node.wait(LIMIT)
    children = [Child(partial(runs, saver, f"c{n}")) for n in range(3)]
    assert runs(saver, "beside") == DONE
    assert [child.result() for child in children] == [DONE] * 3
    go_on.set()
    run.join(LIMIT)
    assert graph.get_state(thread("p")).values == {"log": ["parent"]}
    found = {info.thread_id for info in saver.list_threads()}
    assert found == {"p", "beside", "c0", "c1", "c2"}
    assert saver.verify() == []


def sweepers_are_apart(saver: Any) -> None:
    """A child has none of its parent's sweeper, and can start its own."""
    saver.start_sweeper(ttl=3600.0)

    def in_child() -> bool:
        saver.stop_sweeper()
        ended = saver.start_sweeper(ttl=3600.0)
        running = not ended.done()
        saver.stop_sweeper()
        ended.result(LIMIT)
        return running

    assert Child(in_child).result()
    saver.stop_sweeper()
