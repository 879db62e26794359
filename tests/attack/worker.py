"""A process that does random operations: `python -m attack.worker DIRECTORY SLOT LIFE`.

The parent writes commands to its input, one a line, and reads answers from its output:

    go COUNT SECONDS   each thread and task does so many operations, in that time at most → done
    pause              stop after the operation that is going on → done, from the `go`
    observe            tell what is there → observed
    tidy               remove what has become too much → tidied
    clock SECONDS      the clocks of the process are off by so much from now on → clock
    quota BYTES        no file may grow beyond that, 0 for any size → quota
    stop               close everything and exit → stopped and what is left

When it is ready it says where its milepost is.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import json
import logging
import os
import random
import resource
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import milepost
from attack import forking
from attack.graph import build, marked
from attack.history import Recorder, open_history
from attack.operation import Context, Operation, adrive, drive
from attack.places import PLACES
from attack.plants import PLANTS
from attack.workloads import WORKLOADS
from milepost.warnings import MilepostWarning

THREADS = ["t0", "t1", "t2", "c0", "k0", "k1"]
"""Few, so that operations meet. Those with a `k` are never removed."""


class Clock:
    """Puts the clocks of this process off."""

    def __init__(self) -> None:
        self.seconds = 0.0
        real, real_ns = time.time, time.time_ns
        time.time = lambda: real() + self.seconds
        time.time_ns = lambda: real_ns() + int(self.seconds * 1e9)


class Round:
    """So many operations for each actor, until a time at most."""

    def __init__(self, count: int, seconds: float) -> None:
        self.count = count
        self.until = time.monotonic() + seconds
        self.is_over = False

    def goes_on(self, done: int) -> bool:
        return done < self.count and not self.is_over and time.monotonic() < self.until


class Worker:
    def __init__(self, settings: dict[str, Any], slot: int, life: int) -> None:
        self.settings = settings
        self.name = f"{slot}.{life}"
        self.random = random.Random(f"{settings['seed']} {self.name}")
        random.seed(self.random.random())
        self.history = open_history(settings["directory"], self.name)
        self.place = PLACES[settings["place"]](settings["address"])
        self.workloads = [WORKLOADS[name] for name in settings["workloads"]]
        self.clock = Clock()
        self.shared: dict[str, Any] = {"plant": settings["plant"]}
        self.stack = contextlib.ExitStack()
        self.children: list[int] = []
        self.hung: list[str] = []
        self.loop = asyncio.new_event_loop()
        self.astack = contextlib.AsyncExitStack()
        # Operations may open more on these; they are closed when the worker stops.
        self.shared["stack"], self.shared["astack"] = self.stack, self.astack

    # -- opening and closing

    def open(self) -> None:
        store_settings: dict[str, Any] = {}
        for workload in self.workloads:
            store_settings |= workload.settings
        saver = self.stack.enter_context(self.place.saver())
        if self.settings["forks"] and self.place.can_fork:
            self.children = forking.fork(self.name, self.history, self.settings, saver)
        store = self.stack.enter_context(self.place.store(**store_settings))
        self.sync = [self._context(at, saver, store, False) for at in range(self.settings["sync"])]
        self.looping = threading.Thread(target=self.loop.run_forever, name="loop")
        self.looping.start()
        asaver = self._on_loop(self.astack.enter_async_context(self.place.async_saver()))
        first = self.settings["sync"]
        tasks = range(first, first + self.settings["async"])
        # The first task shares a saver with the threads, the others have the loop's own.
        self.tasks = [
            self._context(at, saver if at == first else asaver, store, True) for at in tasks
        ]

    def _context(self, at: int, saver: Any, store: Any, is_async: bool) -> Context:
        nodes = Recorder(self.history, self.name, -1)
        graph = build(nodes, is_async=is_async).compile(checkpointer=saver, store=store)
        return Context(
            recorder=Recorder(self.history, self.name, at),
            random=random.Random(f"{self.settings['seed']} {self.name} {at}"),
            graph=graph,
            saver=saver,
            store=store,
            threads=THREADS,
            place=self.place,
            is_async=is_async,
            shared=self.shared,
        )

    def _on_loop(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def close(self) -> None:
        self._on_loop(self.astack.aclose())
        self._on_loop(self.loop.shutdown_asyncgens())
        self._on_loop(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.looping.join()
        self.loop.close()
        self.stack.close()

    # -- operations

    def choose(self, context: Context) -> Operation:
        """An operation that can be done here."""
        only = self.settings["only"]
        found = [
            operation
            for workload in self.workloads
            for operation in workload.operations
            if (not operation.places or self.place.name in operation.places)
            and (not only or operation.name in only)
        ]
        return context.random.choices(found, [one.weight for one in found])[0]

    def act(self, context: Context, now: Round) -> None:
        done = 0
        while now.goes_on(done):
            done += 1
            operation = self.choose(context)
            with self.judged(context, operation):
                drive(operation.run(context))

    async def aact(self, context: Context, now: Round) -> None:
        done = 0
        while now.goes_on(done):
            done += 1
            operation = self.choose(context)
            with self.judged(context, operation):
                await adrive(operation.run(context))

    @contextlib.contextmanager
    def judged(self, context: Context, operation: Operation) -> Any:
        """Count the operation. The checks judge errors that a call has recorded already."""
        outcome = "ok"
        try:
            yield
        except (Exception, asyncio.CancelledError) as error:
            outcome = type(error).__name__
        finally:
            context.recorder.note("did", name=operation.name, outcome=outcome)

    def go(self, count: int, seconds: float) -> Round:
        now = Round(count, seconds)
        threads = [threading.Thread(target=self.act, args=(one, now)) for one in self.sync]
        futures = [
            asyncio.run_coroutine_threadsafe(self.aact(one, now), self.loop) for one in self.tasks
        ]

        def wait() -> None:
            for thread in threads:
                thread.join()
            for future in futures:
                future.result()
            self.hung += forking.hanging(self.children)
            self.children = []
            answer("done")

        for thread in (*threads, threading.Thread(target=wait, name="wait")):
            thread.start()
        return now

    def observe(self) -> None:
        for workload in self.workloads:
            drive(workload.observe(self.sync[0]))

    def tidy(self) -> None:
        for workload in self.workloads:
            if workload.tidy is not None:
                drive(workload.tidy(self.sync[0]))

    # -- commands

    def serve(self) -> None:
        now: Round | None = None
        for line in sys.stdin:
            command, *given = line.split()
            if command == "go":
                now = self.go(int(given[0]), float(given[1]))
            elif command == "pause" and now is not None:
                now.is_over = True
            elif command == "observe":
                self.observe()
                answer("observed")
            elif command == "tidy":
                self.tidy()
                answer("tidied")
            elif command == "clock":
                self.clock.seconds = float(given[0])
                answer("clock")
            elif command == "quota":
                most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
                resource.setrlimit(resource.RLIMIT_FSIZE, (int(given[0]) or most, most))
                answer("quota")
            elif command == "stop":
                return


_answering = threading.Lock()


def answer(word: str) -> None:
    with _answering:
        os.write(1, (word + "\n").encode())


def descriptors() -> set[str]:
    """What the process has open, by what it is."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
    return found


def main() -> None:
    directory, slot, life = sys.argv[1:]
    settings = json.loads((Path(directory) / "settings.json").read_text())
    stacks = open(Path(directory) / f"stacks-{slot}.{life}.txt", "w")  # noqa: SIM115
    faulthandler.register(signal.SIGUSR1, stacks)
    # They tell of terminated backends, refused commits and whatever else is done to them here.
    for logger in ("psycopg.pool", "milepost"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    # An answer that comes too late is told of, and is no mistake here.
    warnings.simplefilter("ignore", MilepostWarning)
    if settings["plant"]:
        PLANTS[settings["plant"]].put_back()
    worker = Worker(settings, int(slot), int(life))
    before = descriptors()
    worker.open()
    answer(f"ready {milepost.__file__}")
    worker.serve()
    worker.close()
    left = {
        "descriptors": sorted(descriptors() - before),
        "threads": [one.name for one in threading.enumerate() if not one.daemon][1:],
        "children": worker.hung,
    }
    answer("stopped " + json.dumps(left))
    if settings["forks"] and worker.place.name != "postgres-pool":
        leave_open(worker)


OPEN: list[Any] = []
"""What is open when the interpreter ends."""


def leave_open(worker: Worker) -> None:
    """A run in the middle, of a saver that nobody closes: the process exits all the same."""
    manager = worker.place.saver()
    graph = build(Recorder(worker.history, worker.name, -1), is_async=False)
    compiled = graph.compile(checkpointer=manager.__enter__())
    config: Any = {"configurable": {"thread_id": f"p{worker.name}"}}
    stream = compiled.stream(marked(f"{worker.name}-open"), config)
    OPEN.extend([manager, stream, next(stream)])


if __name__ == "__main__":
    main()
