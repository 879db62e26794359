"""A process that leaves streams open exits: soon, quietly, and with what it has shown stored.

Each program is a process of its own. One that does not exit is ended, and that is a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import milepost
from milepost.checkpoint.sqlite import SqliteSaver
from warm import ENGINE, Warm, warm

PATIENCE = 60.0
CONFIG = {"configurable": {"thread_id": "t"}}

PROGRAM = """
import asyncio, operator, sqlite3, sys, threading
from typing import Annotated, TypedDict
from milepost.config import get_stream_writer
from milepost.graph import START, StateGraph

saver_kind, place, durability, mode, ending, parts = sys.argv[1:]
on_loop = ending.startswith("loop")
CONFIG = {"configurable": {"thread_id": "t"}}
OPTIONS = {"stream_mode": mode, "durability": durability}
never = threading.Event()

class State(TypedDict):
    log: Annotated[list, operator.add]

def step(name):
    def run(state: State):
        get_stream_writer()(name)
        if name == "blocks":
            never.wait()
        return {"log": [name]}
    async def arun(state: State):
        get_stream_writer()(name)
        if name == "blocks":
            await asyncio.Event().wait()
        return {"log": [name]}
    return arun if "async node" in ending or (on_loop and "sync node" not in ending) else run

def graph_with(saver):
    names = ["a", "b", "blocks" if "blocks" in ending else "c", "d"]
    builder = StateGraph(State).add_sequence([(name, step(name)) for name in names])
    return builder.add_edge(START, "a").compile(checkpointer=saver)

def new_saver():
    if saver_kind == "memory":
        from milepost.checkpoint.memory import InMemorySaver
        return InMemorySaver()
    if saver_kind == "sqlite":
        connection = sqlite3.connect(place, check_same_thread=False)
        if on_loop:
            from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver as Saver
        else:
            from milepost.checkpoint.sqlite import SqliteSaver as Saver
        return Saver(connection)
    import psycopg
    from psycopg.rows import dict_row
    from milepost.checkpoint.postgres import PostgresSaver
    # Held, so that it is not dropped open.
    saver = PostgresSaver(psycopg.connect(place, autocommit=True, row_factory=dict_row))
    saver.setup()
    return saver

def consume():
    stream = graph_with(new_saver()).stream({"log": []}, CONFIG, **OPTIONS)
    for _ in range(int(parts)):
        print(next(stream), flush=True)
    left.append(stream)

async def aconsume():
    stream = graph_with(new_saver()).astream({"log": []}, CONFIG, **OPTIONS)
    for _ in range(int(parts)):
        print(await anext(stream), flush=True)
    if "dropped" not in ending:
        left.append(stream)

left = []
if ending.startswith("daemon"):
    inside = threading.Event()
    def go_through():
        for part in graph_with(new_saver()).stream({"log": []}, CONFIG, **OPTIONS):
            if part == "blocks":
                inside.set()
    threading.Thread(target=go_through, daemon=True).start()
    inside.wait()
elif not on_loop:
    consume()
elif "run" in ending:
    asyncio.run(aconsume())
else:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(aconsume())
    if "closed" in ending:
        loop.close()
if "exits" in ending:
    sys.exit(0)
"""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(Path(milepost.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@pytest.fixture(scope="module")
def programs() -> Iterator[Warm]:
    with warm("asyncio", *ENGINE) as started:
        yield started


@pytest.fixture
def exits(tmp_path: Path, request: pytest.FixtureRequest, programs: Warm) -> Any:
    """Runs the program to its exit; returns the state that it has left, if that can be seen.

    In a fork, if it does not have to be a new interpreter.
    """

    def run(
        saver: str, durability: str, mode: str, ending: str, parts: int, *, new: bool = False
    ) -> Any:
        place = str(tmp_path / "threads.db")
        if saver == "postgres":
            place = request.getfixturevalue("uri")
        program = tmp_path / "program.py"
        program.write_text(PROGRAM)
        start = python if new else programs.run
        done = start(str(program), saver, place, durability, mode, ending, str(parts))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.count("\n") == parts
        if saver == "memory":
            return None
        with _opened(saver, place) as opened:
            found = opened.get_tuple(CONFIG)
            assert opened.verify() == []
            return None if found is None else found.checkpoint["channel_values"].get("log", [])

    return run


@contextmanager
def _opened(saver: str, place: str) -> Any:
    if saver == "sqlite":
        with SqliteSaver.from_conn_string(place) as opened:
            yield opened
    else:
        from milepost.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(place) as opened:
            yield opened


SAVERS = ["memory", "sqlite", "postgres"]
DURABILITIES = ["sync", "async", "exit"]


class TestAProcessWithAnOpenStream:
    @pytest.mark.parametrize("saver", SAVERS)
    @pytest.mark.parametrize("durability", DURABILITIES)
    def test_exits_and_keeps_what_it_has_shown(self, exits, saver, durability):
        kept = exits(saver, durability, "updates", "plain", 2)
        assert saver == "memory" or kept[:2] == ["a", "b"]

    @pytest.mark.parametrize("mode", ["values", "custom", "tasks", "debug", "checkpoints"])
    def test_exits_whatever_it_streams(self, exits, mode):
        exits("sqlite", "async", mode, "plain", 2, new=True)

    @pytest.mark.parametrize("durability", DURABILITIES)
    @pytest.mark.parametrize("ending", ["blocks", "blocks, async node", "blocks, exits"])
    def test_exits_though_a_node_is_at_work(self, exits, durability, ending):
        assert exits("sqlite", durability, "custom", ending, 3) == ["a", "b"]

    def test_exits_though_a_daemon_thread_is_in_it(self, exits):
        exits("sqlite", "async", "custom", "daemon, blocks", 0)

    def test_exits_though_nothing_was_taken_of_it(self, exits):
        assert exits("sqlite", "async", "updates", "plain", 0) is None


class TestAProcessWithAnOpenAsyncStream:
    @pytest.mark.parametrize("saver", ["memory", "sqlite"])
    @pytest.mark.parametrize("durability", DURABILITIES)
    @pytest.mark.parametrize("ending", ["run", "run, dropped", "open", "closed"])
    def test_exits_quietly_and_keeps_what_it_has_shown(self, exits, saver, durability, ending):
        kept = exits(saver, durability, "updates", f"loop {ending}", 2)
        if ending != "closed" or durability == "sync":  # on a closed loop nothing can be stored
            assert saver == "memory" or kept[:2] == ["a", "b"]

    @pytest.mark.parametrize("ending", ["run", "open"])
    @pytest.mark.parametrize("node", ["async node", "sync node"])
    @pytest.mark.parametrize("durability", DURABILITIES)
    def test_exits_quietly_though_a_node_is_at_work(self, exits, ending, node, durability):
        kept = exits("sqlite", durability, "custom", f"loop {ending}, blocks, {node}", 3)
        assert kept == ["a", "b"]


def test_a_stream_that_cannot_be_ended_at_exit_is_told_of(tmp_path):
    source = PROGRAM.replace("left.append(stream)", "left.append(stream); taken[0].close()")
    source = source.replace(
        "return Saver(connection)", "taken.append(connection); return Saver(connection)"
    )
    source = source.replace("left = []", "left = []; taken = []")
    done = python("-c", source, "sqlite", str(tmp_path / "t.db"), "exit", "updates", "x", "2")
    assert done.returncode == 0
    assert "A stream that was open when the interpreter exited could not be ended" in done.stderr
