"""A program that opens savers and stores and never closes them ends without a word.

Each program is a process of its own, which ends with all that it has opened in global names.
MILEPOST_LONG=1 tries more ways in which a program can end.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from milepost._internal.left_open import lend, quiet_at_exit

LIMIT = 60.0
LONG = bool(os.environ.get("MILEPOST_LONG"))

OPENED = """
import asyncio, os, sys
from importlib import import_module
from typing import TypedDict
from milepost.cache.sqlite import SqliteCache
from milepost.graph import START, StateGraph

name, place, how = sys.argv[1:]
CONFIG = {"configurable": {"thread_id": "t"}}

class State(TypedDict):
    x: int

def node(state):
    return {"x": state["x"] + 1}

def graph_with(saver):
    return StateGraph(State).add_node("node", node).add_edge(START, "node").compile(checkpointer=saver)
"""

SYNC = """
Saver = getattr(import_module(f"milepost.checkpoint.{name.lower()}"), f"{name}Saver")
Store = getattr(import_module(f"milepost.store.{name.lower()}"), f"{name}Store")
opened = Saver.from_conn_string(place), Store.from_conn_string(place)
saver, store = (each.__enter__() for each in opened)
saver.setup(), store.setup()
cache = SqliteCache(path=f"cache-{os.getpid()}.db")
cache.set({(("n",), "k"): (1, None)})
store.put(("a",), "k", {"n": 1})
graph = graph_with(saver)
print(graph.invoke({"x": 0}, CONFIG))
if how == "fork":
    sys.stdout.flush()
    pid = os.fork()
    thread = {"configurable": {"thread_id": str(pid)}}
    print(graph.invoke({"x": 1}, thread), store.get(("a",), "k").value)
    if pid:
        os.waitpid(pid, 0)
elif how == "worker":  # a thread of the saver's own is there
    asyncio.run(graph.ainvoke({"x": 1}, CONFIG))
history = graph.get_state_history(CONFIG)
next(history)
"""

ASYNC = """
Saver = getattr(import_module(f"milepost.checkpoint.{name.lower()}.aio"), f"Async{name}Saver")
Store = getattr(import_module(f"milepost.store.{name.lower()}.aio"), f"Async{name}Store")

async def main():
    global opened, saver, store, graph
    opened = Saver.from_conn_string(place), Store.from_conn_string(place)
    saver, store = [await each.__aenter__() for each in opened]
    await saver.setup(), await store.setup()
    await store.aput(("a",), "k", {"n": 1})
    graph = graph_with(saver)
    print(await graph.ainvoke({"x": 0}, CONFIG))

if how == "run":
    asyncio.run(main())
else:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    if how == "closed":
        loop.close()
"""


@pytest.fixture(params=["Sqlite", "Postgres", "Redis"])
def server(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The part of the classes' names, and an address."""
    if request.param == "Sqlite":
        return request.param, "threads.db"
    return request.param, request.getfixturevalue(
        "uri" if request.param == "Postgres" else "redis_url"
    )


def ends_quietly(program: str, server: tuple[str, str], how: str, folder: Path) -> None:
    ended = subprocess.run(
        # Python 3.12 and later warn of every fork beside threads.
        [sys.executable, "-W", "ignore:This process:DeprecationWarning",
         "-c", OPENED + program, *server, how],
        capture_output=True, text=True, timeout=LIMIT, check=False, cwd=folder,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("{'x': 1}\n")


@pytest.mark.parametrize("how", ["", "fork", "worker"] if LONG else ["fork"])
def test_a_program_in_sync_code_ends_without_a_word(
    server: tuple[str, str], how: str, tmp_path: Path
) -> None:
    ends_quietly(SYNC, server, how, tmp_path)


@pytest.mark.parametrize("how", ["run", "open", "closed"] if LONG else ["open"])
def test_a_program_on_an_event_loop_ends_without_a_word(
    server: tuple[str, str], how: str, tmp_path: Path
) -> None:
    ends_quietly(ASYNC, server, how, tmp_path)


@pytest.mark.parametrize("how", ["", "worker"])
def test_a_program_on_sqlite_leaves_no_log_behind(how: str, tmp_path: Path) -> None:
    ends_quietly(SYNC, ("Sqlite", "threads.db"), how, tmp_path)
    names = [name.partition(".")[2] for name in os.listdir(tmp_path)]
    assert names == ["db", "db"]


# -- before the end of the interpreter, what is left is closed as ever


class Opened:
    """Notes what was closed."""

    def __init__(self) -> None:
        self.closed: list[str] = []
        self.one_more = asyncio.Event()

    @asynccontextmanager
    @quiet_at_exit
    async def on_a_loop(self, name: str) -> AsyncGenerator[str, None]:
        try:
            yield name
        finally:
            await asyncio.sleep(0)
            self.closed.append(name)
            self.one_more.set()

    @contextmanager
    def at_once(self, name: str) -> Iterator[str]:
        yield from lend(name, lambda: self.closed.append(name))


def test_what_is_left_in_sync_code_is_closed_also_after_a_failure() -> None:
    opened = Opened()
    with opened.at_once("a"):
        assert opened.closed == []
    with pytest.raises(ZeroDivisionError), opened.at_once("b"):
        raise ZeroDivisionError
    dropped = opened.at_once("c")
    dropped.__enter__()
    del dropped
    gc.collect()
    assert opened.closed == ["a", "b", "c"]


def test_what_is_left_on_a_loop_is_closed_and_what_is_dropped_and_what_the_loop_ends_with() -> None:
    opened = Opened()
    kept = opened.on_a_loop("c")

    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            async with opened.on_a_loop("a"):
                raise ZeroDivisionError
        dropped = opened.on_a_loop("b")
        await dropped.__aenter__()
        opened.one_more.clear()
        del dropped
        gc.collect()
        await asyncio.wait_for(opened.one_more.wait(), LIMIT)
        await kept.__aenter__()

    asyncio.run(main())
    assert opened.closed == ["a", "b", "c"]
