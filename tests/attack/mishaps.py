"""Operations in which the program itself does something that it should not: names that no database
can hold, nodes and callers that break a run off, a sweep that fails, a pool that is too small.

Their threads are named like those that no graph of the workers' has made, so that a quiet moment
asks `verify()` about them and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import itertools
import operator
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

from typing_extensions import TypedDict

from attack.graph import marked
from attack.operation import Ask, Context, Operation, Steps, ask, listing, pause, plain
from attack.programs import BY_HAND
from milepost.checkpoint.base import empty_checkpoint
from milepost.errors import DatabaseBusyError, EmptyInputError, InvalidIdError, MilepostError
from milepost.graph import START, StateGraph
from milepost.runtime import Runtime

REFUSED = "a name that one saver refuses is refused by all, and leaves nothing"
ONCE = "a task that has ended does not run again"
ENDED = "nothing of a call goes on after it was broken off"
SWEPT = "a sweeper removes what is older than it was told"
BUSY = "an error says what has happened"
HALF = "an operation is stored whole or not at all"

PATIENCE = 10.0
"""Seconds that a program waits for what its nodes do. It has nothing to say if they are over."""


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def at(thread_id: Any, ns: Any = "", id: Any = None) -> dict[str, Any]:
    found = {"thread_id": thread_id, "checkpoint_ns": ns}
    return {"configurable": found if id is None else {**found, "checkpoint_id": id}}


def private(context: Context) -> str:
    """The id of a thread that nobody else knows."""
    return f"{BY_HAND}{context.token()}"


def wrong(context: Context, promise: str, what: str) -> None:
    context.recorder.note("wrong", promise=promise, what=what)


def until(context: Context, holds: Any) -> Steps:
    """Wait, in either colour. Returns whether it came true."""
    end = time.monotonic() + PATIENCE
    while not holds() and time.monotonic() < end:
        yield pause(0.002)
    return holds()


# -- names that no database can hold

ODD = ["a\0b", "é\0", "a\ud800", "x" * 1025]
NO_TEXT = [b"id", ["id"], 7]


def refused_calls(context: Context, thread_id: str) -> list[Ask]:
    """Calls that name something so that it cannot be stored; the last few as a thread."""
    saver, rng = context.saver, context.random
    odd = rng.choice(ODD)
    other = rng.choice([*ODD, *NO_TEXT])
    checkpoint = {**empty_checkpoint(), "channel_values": {}, "channel_versions": {}}
    metadata = {"source": "loop", "step": 0}
    put = (checkpoint, metadata, {})
    return [
        ask(saver, "put", at(thread_id, other), *put),
        ask(saver, "put", at(thread_id), {**checkpoint, "id": other}, metadata, {}),
        ask(saver, "put", at(thread_id, "", other), *put),
        ask(saver, "put", at(thread_id), checkpoint, {**metadata, "run_id": odd}, {}),
        ask(saver, "put_writes", at(thread_id, other, "0"), [("log", 1)], "task"),
        ask(saver, "put_writes", at(thread_id, "", other), [("log", 1)], "task"),
        ask(saver, "put_writes", at(thread_id, "", "0"), [("log", 1)], other),
        ask(saver, "get_tuple", at(thread_id, other)),
        ask(saver, "get_tuple", at(thread_id, "", other)),
        listing(saver, "list", at(thread_id), before=at(thread_id, "", other)),
        ask(saver, "get_delta_channel_history", config=at(thread_id, other), channels=["log"]),
        ask(context.graph, "invoke", marked(context.token()), at(odd)),
        ask(context.graph, "update_state", at(odd), marked(context.token()), "begin"),
        ask(saver, "put", at(odd), *put),
        ask(saver, "put_writes", at(odd, "", "0"), [("log", 1)], "task"),
        ask(saver, "get_tuple", at(odd)),
        ask(saver, "copy_thread", thread_id, odd),
        ask(saver, "copy_thread", odd, thread_id),
        ask(saver, "delete_thread", odd),
        ask(saver, "set_thread_metadata", odd, {"owner": "ann"}),
        ask(saver, "get_thread", odd),
        ask(saver, "prune", [odd]),
        ask(saver, "erase", [odd]),
    ]


def odd_name(context: Context) -> Steps:
    thread_id = private(context)
    asked = context.random.choice(refused_calls(context, thread_id))
    told = f"{asked.name}{asked.arguments} {asked.options or ''}"[:300]
    with context.recorder.call("look", thread=thread_id, how="odd name", called=told):
        try:
            yield asked
        except InvalidIdError:
            pass
        else:
            wrong(context, REFUSED, f"nobody refused {told}")
        infos = yield ask(context.saver, "list_threads", limit=10_000)
        left = [one.thread_id for one in infos if one.thread_id in (thread_id, *ODD)]
        if left:
            wrong(context, REFUSED, f"{told} left {left}")


# -- runs that are broken off


class Broken(BaseException):
    """What a node raises that no runtime has a reason to catch."""


class Nodes:
    """Four nodes side by side that are begun one after the other.

    Once the last of them has begun, the others have ended, and the runtime has been told of it.
    """

    NAMES = ("a", "b", "c", "d")

    def __init__(self, breaks: bool) -> None:
        self.begun: list[str] = []
        self.ran: Counter[str] = Counter()
        self._breaks = breaks
        self._is_over = threading.Event()

    def all_begun(self) -> bool:
        return len(self.begun) >= len(self.NAMES)

    def over(self) -> None:
        """The run has ended: nodes neither wait nor break from now on."""
        self._is_over.set()

    def must_be_kept(self) -> set[str]:
        """Those that had ended, though not by breaking, before the run was broken off."""
        if not self.all_begun():
            return set()
        return {
            name for order, name in enumerate(self.begun[:3]) if not (self._breaks and order == 1)
        }

    def compiled(self, context: Context) -> Any:
        builder = StateGraph(State)
        for name in self.NAMES:
            builder.add_node(name, self._node(name, context.is_async)).add_edge(START, name)
        return builder.compile(checkpointer=context.saver)

    def _node(self, name: str, is_async: bool) -> Any:
        def run(_: State) -> dict[str, list[str]]:
            if self._waits(name):
                self._is_over.wait(PATIENCE)
            return {"log": [name]}

        async def arun(_: State) -> dict[str, list[str]]:
            if self._waits(name):
                await asyncio.sleep(PATIENCE)  # the end of the run cancels it
            return {"log": [name]}

        return arun if is_async else run

    def _waits(self, name: str) -> bool:
        """Whether a node that begins is to wait for the end of the run."""
        self.ran[name] += 1
        if self._is_over.is_set():
            return False
        order = len(self.begun)
        self.begun.append(name)
        if self._breaks and order == 1:
            raise Broken
        return order == 3


def broken_off(context: Context) -> Steps:
    """A node raises a BaseException beside others, or the reader of the stream leaves.

    The reader holds the run up meanwhile, so that it hears of all that has ended at once.
    """
    rng, name = context.random, private(context)
    breaks = rng.random() < 0.5
    nodes = Nodes(breaks)
    graph = nodes.compiled(context)
    where = {**at(name), "max_concurrency": 1}
    options = {"stream_mode": "updates", "durability": rng.choice(("sync", "async", "exit"))}
    reading = Ask(graph, "stream", ({"log": []}, where), options, "leave", 1, until=nodes.all_begun)
    if breaks:
        reading = reading._replace(kind="slow")
    told = {"thread": name, "how": "broken off", "breaks": breaks, **options}
    with context.recorder.call("look", **told):
        try:
            with contextlib.suppress(Broken):
                yield reading
        finally:
            nodes.over()
        kept = nodes.must_be_kept()
        try:
            found = yield ask(graph, "invoke", None, at(name))
        except EmptyInputError:
            return  # swept
        if again := sorted(node for node in kept if nodes.ran[node] > 1):
            wrong(context, ONCE, f"{again} of {nodes.begun} ran again: {told}")
        if sorted(found["log"]) != [*nodes.NAMES]:
            wrong(context, ONCE, f"after it was broken off a run came to {found}: {told}")
    yield ask(context.saver, "delete_thread", name)


def interrupt(thread: int) -> None:
    """Raise KeyboardInterrupt in a thread, as Ctrl-C does in the main one.

    Not while it starts another: until that runs, Python takes it for the one that starts it.
    """
    while STARTING & set(calls_of(thread)):
        time.sleep(0.001)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt)
    )


STARTING = {"submit", "start"}


def calls_of(thread: int) -> Iterator[str]:
    """The names of the functions that a thread is in."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back


def interrupted_batch(context: Context) -> Steps:
    """The caller of `batch` is interrupted, or cancelled on a loop: no run of it goes on.

    The first run that ends wakes the caller. The others take longer, and have nodes before them.
    """
    rng, caller = context.random, threading.get_ident()
    names = [private(context) for _ in range(4)]
    ran: list[str] = []
    begun = itertools.count(1)
    steps = ("first", "second", "third")

    def node(step: str) -> Any:
        def begins(runtime: Runtime) -> float:
            ran.append(step)
            return 0.001 + 0.004 * names.index(runtime.execution_info.thread_id)

        def run(_: State, runtime: Runtime) -> dict[str, list[str]]:
            seconds = begins(runtime)
            if step == "first" and next(begun) == len(names):  # the last one was started
                interrupt(caller)
            time.sleep(seconds)
            return {"log": [step]}

        async def arun(_: State, runtime: Runtime) -> dict[str, list[str]]:
            await asyncio.sleep(begins(runtime))
            return {"log": [step]}

        return arun if context.is_async else run

    builder = StateGraph(State).add_sequence([(step, node(step)) for step in steps])
    graph = builder.add_edge(START, "first").compile(checkpointer=context.saver)
    configs = [at(name) for name in names]
    if context.is_async:
        configs = [{**where, "max_concurrency": 2} for where in configs]
    options = {"durability": rng.choice(("sync", "async", "exit"))}
    asked = Ask(graph, "batch", ([{"log": []}] * len(names), configs), options, "cancel")
    with context.recorder.call("look", how="interrupted batch", **options):
        with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
            yield asked._replace(after=rng.random() * 0.03)
        count = len(ran)
        yield pause(0.03)
        if len(ran) > count:
            wrong(context, ENDED, f"{ran[count:]} ran after a batch was broken off: {options}")
        for where in configs:
            state = yield ask(graph, "get_state", where)
            if not state.config["configurable"].get("checkpoint_id"):
                continue  # not begun, or swept
            try:
                found = yield ask(graph, "invoke", None, where)
            except EmptyInputError:
                continue
            if found["log"] != [*steps]:
                wrong(context, ONCE, f"a run of a batch that was broken off came to {found}")
    for name in names:
        yield ask(context.saver, "delete_thread", name)


# -- a sweep that fails


def failed_sweeper(context: Context) -> Steps:
    """The first sweep fails; a second start of the sweeper asks only for older items to go."""
    twin = context.saver.with_serde(context.saver.serde)
    twin.stop_sweeper()  # it is the twin's no more
    threads = twin.threads
    sweep = threads.sweep
    outcomes = iter([ZeroDivisionError("a sweep that fails")])
    has_swept = threading.Event()

    def failing(*, ttl: float) -> Any:
        for error in outcomes:
            raise error
        try:
            return sweep(ttl=ttl)
        finally:
            has_swept.set()

    threads.sweep = failing
    with context.recorder.call("look", how="failed sweeper"):
        try:
            first = yield plain(threads, "start_sweeper", ttl=0.001, every=0.001)
            if not (yield from until(context, first.done)) or first.exception() is None:
                return  # it was another actor's, which has stopped it
            second = yield plain(threads, "start_sweeper", ttl=86400.0, every=0.001)
            yield from until(context, has_swept.is_set)
        finally:
            twin.stop_sweeper()
        if not (yield from until(context, second.done)):
            wrong(context, SWEPT, "a sweeper that was stopped goes on")
        elif (error := second.exception()) is not None and has_swept.is_set():
            raise error  # otherwise it was the sweeper of another actor that fails


# -- a pool that is too small


def tiny_pool(context: Context) -> Steps:
    """The program itself has taken the only connection."""
    from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

    from attack.places import CONNECTION
    from milepost.checkpoint.postgres import PostgresSaver
    from milepost.checkpoint.postgres.aio import AsyncPostgresSaver

    kind: Any = AsyncConnectionPool if context.is_async else ConnectionPool
    size = {"min_size": 1, "max_size": 1, "timeout": 0.2}
    pool = kind(context.place.address, kwargs=CONNECTION, open=False, **size)
    saver: Any
    yield plain(pool, "open")
    try:
        try:
            connection = yield plain(pool, "getconn", PATIENCE)
        except PoolTimeout:
            return  # the server is away
        try:
            saver = AsyncPostgresSaver(pool) if context.is_async else PostgresSaver(pool)
            with context.recorder.call("look", how="tiny pool"):
                try:
                    yield ask(saver, "get_tuple", at(context.some_thread()))
                except DatabaseBusyError:
                    pass
                except MilepostError as error:
                    wrong(context, BUSY, f"a pool had no connection: {error!r}")
                else:
                    wrong(context, BUSY, "a saver read without a connection")
        finally:
            yield plain(pool, "putconn", connection)
    finally:
        yield plain(pool, "close")


# -- a parameter that raises StopIteration


class Stray(str):
    """Text that sqlite3 asks for a form to store, which it has a few times and then no more."""

    def __new__(cls, text: str, times: int) -> Stray:
        found = super().__new__(cls, text)
        found.left = iter(range(times))
        return found

    left: Iterator[int]

    def __str__(self) -> str:
        return self

    def __conform__(self, _: Any) -> str:
        next(self.left)
        return str.__str__(self)


def stray_stop(context: Context) -> Steps:
    """A thread is deleted by such an id: it is gone, or it is there as it was."""
    name = private(context)
    builder = StateGraph(State).add_sequence(
        [(step, lambda _, step=step: {"log": [step]}) for step in "abc"]
    )
    graph = builder.add_edge(START, "a").compile(checkpointer=context.saver)
    with context.recorder.call("look", thread=name, how="stray stop"):
        yield ask(graph, "invoke", {"log": []}, at(name))
        before = yield listing(context.saver, "list", at(name))
        deleted = True
        try:
            stray = Stray(name, context.random.randrange(6))
            yield ask(context.saver, "delete_thread", stray)
        except (RuntimeError, StopIteration):
            deleted = False
        after = yield listing(context.saver, "list", at(name))
        is_whole = after == before or not after  # it may have been swept
        if (deleted and after) or not is_whole:
            wrong(context, HALF, f"{len(after)} of {len(before)} checkpoints are left of {name}")
    yield ask(context.saver, "delete_thread", name)


_SQLITE = ("sqlite", "sqlite-encrypted")

OPERATIONS = [
    Operation("odd name", odd_name, ("saver.list_threads",), 1),
    Operation("broken off", broken_off, ("graph.stream", "graph.invoke"), 1),
    Operation("broken batch", interrupted_batch, ("graph.batch",), 0.5),
    Operation("failed sweeper", failed_sweeper, ("saver.start_sweeper",), 0.3),
    Operation("tiny pool", tiny_pool, ("saver.get_tuple",), 0.2, ("postgres-pool",)),
    Operation("stray stop", stray_stop, ("saver.delete_thread",), 0.5, _SQLITE),
]
