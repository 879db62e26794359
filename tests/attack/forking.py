"""Children by fork() that have a saver which their parent has made, as a preforking server does."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import time
import warnings
from typing import Any

from attack.graph import build, marked, told
from attack.history import Recorder
from milepost.errors import MilepostError

CHILDREN = 2
RUNS = 20
PR_SET_PDEATHSIG = 1
PATIENCE = 60
"""Seconds after which a child ends itself, because it hangs."""


def fork(name: str, history: int, settings: dict[str, Any], saver: Any) -> list[int]:
    """Use a saver, then fork. Returns the children's ids, while the parent goes on using it."""
    recorder = Recorder(history, name, -2)
    graph = build(recorder, is_async=False).compile(checkpointer=saver)
    graph.get_state({"configurable": {"thread_id": "k0"}})
    children = []
    for at in range(CHILDREN):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a pool has threads
            child = os.fork()
        if child == 0:
            _live(f"{name}f{at}", history, settings, saver)
        children.append(child)
    return children


def _live(name: str, history: int, settings: dict[str, Any], saver: Any) -> None:
    """A child's life. It never returns."""
    code = 1
    try:
        signal.alarm(PATIENCE)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # it dies with its parent
        rng = random.Random(f"{settings['seed']} {name}")
        recorder = Recorder(history, name, 0)
        graph = build(Recorder(history, name, -1), is_async=False).compile(checkpointer=saver)
        for at in range(RUNS):
            token, thread_id = f"{name}-{at}", rng.choice(("k0", "k1"))
            _run(recorder, graph, thread_id, token)
        code = 0
    finally:
        os._exit(code)


def _run(recorder: Recorder, graph: Any, thread_id: str, token: str) -> None:
    run = f"sync:{token}"
    arguments = {"thread": thread_id, "run": run, "durability": "sync", "token": token}
    config = {"configurable": {"thread_id": thread_id}, "run_id": run}
    try:
        with recorder.call("run", how="forked", at=None, since=None, **arguments) as call:
            call.result = told(graph.invoke(marked(token), config, durability="sync"))
    except MilepostError:
        pass  # the checks judge it


def hanging(children: list[int]) -> list[str]:
    """Wait for the children. Returns how those ended that did not end by themselves."""
    found = []
    until = time.monotonic() + PATIENCE + 10
    for child in children:
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended or time.monotonic() > until:
                break
            time.sleep(0.01)
        code = os.waitstatus_to_exitcode(status) if ended else "still there"
        if code != 0:
            found.append(f"child {child}: {code}")
    return found
