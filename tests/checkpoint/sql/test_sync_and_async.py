"""Every method of every saver from sync code, from the loop, from another thread and from another
loop: a result or a typed error, and nothing hangs."""

import asyncio
import inspect
import threading
import time
from contextlib import asynccontextmanager
from typing import Any

import aiosqlite
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from graphs import line, thread
from milepost.checkpoint._contract.step_saver import Fence
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver
from milepost.errors import ColourError, MilepostError

CONFIG = thread("t")
SOON = 15.0
"""Seconds for one call: far more than a busy machine takes, and less than what a connection, a
lock or a pool is waited for before it fails."""
HANGS = 120.0
"""Seconds after which a test fails instead of waiting on."""

_EMPTY = ['{"milepost": "threads", "version": 1}', '{"end": 0}']


def arguments(saver: Any, at: int) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """For each method what to call it with; `at` keeps calls apart that change something."""
    found: Any = {"v": 4, "id": f"1f0{at:05}-0000-6000-8000-000000000000", "ts": "2026-01-01"}
    checkpoint = {**found, "channel_values": {}, "channel_versions": {}, "versions_seen": {}}
    place = {"configurable": {"thread_id": f"put{at}", "checkpoint_ns": "", "checkpoint_id": "x"}}
    return {
        "commit": (([],), {}),
        "copy_thread": (("t", f"copy{at}"), {}),
        "create_thread": ((f"made{at}", {"owner": "ann"}), {}),
        "delete_for_runs": ((["nobody"],), {}),
        "delete_thread": (("gone",), {}),
        "dump": ((), {}),
        "erase": ((["gone"],), {}),
        "get": ((CONFIG,), {}),
        "get_delta_channel_history": ((), {"config": CONFIG, "channels": ["log"]}),
        "get_thread": (("t",), {}),
        "get_tuple": ((CONFIG,), {}),
        "head": (("t",), {}),
        "hold": ((f"hold{at}", Fence(None)), {}),
        "list": ((CONFIG,), {}),
        "list_threads": ((), {}),
        "load": ((_EMPTY,), {}),
        "prune": ((["gone"],), {}),
        "put": ((place, checkpoint, {}, {}), {}),
        "put_writes": ((place, [("log", 1)], "task"), {}),
        "reencrypt": ((), {}),
        "release": (("gone", Fence(None), "idle"), {}),
        "salvage": (("t",), {}),
        "set_thread_metadata": (("t", {"owner": "ann"}), {}),
        "setup": ((), {}),
        "sweep": ((), {"ttl": 3600}),
        "vacuum": ((), {}),
        "verify": ((), {}),
    }


def methods(saver: Any) -> list[str]:
    """The public methods that may wait: those with an `a` twin, and `setup`."""
    names = {name for name, value in inspect.getmembers(type(saver)) if callable(value)}
    return sorted(name for name in names if f"a{name}" in names or name == "setup")


def finished(result: Any) -> Any:
    return list(result) if inspect.isgenerator(result) else result


async def awaited(result: Any) -> Any:
    if inspect.isasyncgen(result):
        return [item async for item in result]
    return await result if inspect.isawaitable(result) else finished(result)


class Calls:
    """Calls methods of one saver, and notes what came of it."""

    def __init__(self, saver: Any) -> None:
        self.saver = saver
        self.count = 0
        self.wrong: list[str] = []
        self.refused: set[tuple[str, str]] = set()

    def method(self, name: str, colour: str) -> Any:
        self.count += 1
        given, named = arguments(self.saver, self.count)[name]
        method = getattr(self.saver, colour + name, None) or getattr(self.saver, name)
        return lambda: method(*given, **named)

    def note(self, where: str, name: str, began: float, error: BaseException | None) -> None:
        if isinstance(error, ColourError):
            self.refused.add((where, name))
        elif error is not None:
            self.wrong.append(f"{name} {where}: {error!r}")
        if time.monotonic() - began > SOON and name != "vacuum":
            self.wrong.append(f"{name} {where}: took {time.monotonic() - began:.1f} s")

    def sync(self, where: str) -> None:
        """Every sync method, right here. `setup` of an async saver is async only."""
        for name in methods(self.saver):
            if inspect.iscoroutinefunction(getattr(self.saver, name)):
                continue
            began, error = time.monotonic(), None
            try:
                finished(self.method(name, "")())
            except BaseException as failure:
                error = failure
            self.note(where, name, began, error)

    async def on_loop(self, where: str) -> None:
        """Every async method, on the loop that runs here."""
        for name in methods(self.saver):
            began, error = time.monotonic(), None
            try:
                await asyncio.wait_for(awaited(self.method(name, "a")()), SOON)
            except BaseException as failure:
                error = failure
            self.note(where, name, began, error)


@asynccontextmanager
async def opened(kind: str, request: pytest.FixtureRequest) -> Any:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"k" * 32)  # one method is about that
    if kind == "memory":
        yield InMemorySaver(serde=serde)
        return
    place = request.getfixturevalue("path" if "sqlite" in kind else "uri")
    if kind == "sqlite":
        with SqliteSaver.from_conn_string(place, serde=serde) as saver:
            yield saver
    elif kind == "async sqlite":
        async with AsyncSqliteSaver.from_conn_string(place, serde=serde) as saver:
            yield saver
    elif kind == "aiosqlite":
        async with aiosqlite.connect(place) as connection:
            yield AsyncSqliteSaver(connection, serde=serde)
    elif kind == "postgres":
        with PostgresSaver.from_conn_string(place, serde=serde) as saver:
            saver.setup()
            yield saver
    elif kind == "postgres pool":
        with ConnectionPool(place, min_size=1, max_size=4, open=True) as pool:
            saver = PostgresSaver(pool, serde=serde)
            saver.setup()
            yield saver
    elif kind == "async postgres":
        async with AsyncPostgresSaver.from_conn_string(place, serde=serde) as saver:
            await saver.setup()
            yield saver
    else:
        async with AsyncConnectionPool(place, min_size=1, max_size=4, open=False) as pool:
            saver = AsyncPostgresSaver(pool, serde=serde)
            await saver.setup()
            yield saver


BOUND = ("aiosqlite", "async postgres", "async postgres pool")
"""Savers that belong to the loop that their connection was made on."""


@pytest.mark.parametrize(
    "kind", ["memory", "sqlite", "async sqlite", "postgres", "postgres pool", *BOUND]
)
def test_every_method_answers_from_everywhere(kind, request):
    if kind != "memory":  # fixtures are made in the test's own thread
        request.getfixturevalue("path" if "sqlite" in kind else "uri")
    done: list[Calls] = []

    async def main() -> None:
        async with opened(kind, request) as saver:
            graph = line("a").compile(checkpointer=saver)
            await graph.ainvoke({}, CONFIG)
            calls = Calls(saver)
            calls.wrong += [
                f"{name} is not tried" for name in methods(saver) if name not in arguments(saver, 0)
            ]
            if calls.wrong:
                done.append(calls)
                return
            await calls.on_loop("on the loop")
            calls.sync("in sync code on the loop")
            await asyncio.to_thread(calls.sync, "in another thread")
            await asyncio.to_thread(lambda: asyncio.run(calls.on_loop("on another loop")))
            done.append(calls)

    worker = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    worker.start()
    worker.join(HANGS)
    assert not worker.is_alive(), "a call hangs"
    assert len(done) == 1
    assert done[0].wrong == []
    refused = {where for where, _ in done[0].refused}
    if kind not in BOUND:
        assert refused == set()
    else:
        # A sync call would block the very loop that has to answer it; others are answered.
        assert "in sync code on the loop" in refused
        assert "on the loop" not in refused
        assert "in another thread" not in refused


@pytest.mark.parametrize("kind", BOUND)
def test_when_its_loop_has_gone_a_saver_says_so(kind, request):
    request.getfixturevalue("path" if "sqlite" in kind else "uri")
    kept: list[Any] = []

    async def main() -> None:
        async with opened(kind, request) as saver:
            await line("a").compile(checkpointer=saver).ainvoke({}, CONFIG)
            kept.append(saver)

    asyncio.run(main())
    calls = Calls(kept[0])
    answered: list[str] = []

    def later() -> None:
        for name in methods(kept[0]):
            if name in ("commit", "load", "setup"):  # nothing to do, or async only
                continue
            began = time.monotonic()
            try:
                finished(calls.method(name, "")())
                answered.append(name)
            except MilepostError:
                calls.note("after the loop", name, began, None)

    worker = threading.Thread(target=later, daemon=True)
    worker.start()
    worker.join(HANGS)
    assert not worker.is_alive(), "a call hangs"
    assert answered == []
    assert calls.wrong == []
