"""A process is killed while tools run: another one goes on, and repeats no call that had ended."""

from __future__ import annotations

import signal
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from warm import ENGINE, Warm, warm

PROGRAM = textwrap.dedent(
    """
    import os, signal, sys, time
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import tool
    from fake_models import ScriptedModel
    from milepost.prebuilt import ToolRuntime, create_react_agent

    database, log, version, colour, doomed = sys.argv[1:]

    def note(line):
        with open(log, "a") as file:
            file.write(line + "\\n")
            file.flush()
            os.fsync(file.fileno())

    def stored():
        if database.startswith("postgres"):
            from milepost.checkpoint.postgres import PostgresSaver as Saver
        else:
            from milepost.checkpoint.sqlite import SqliteSaver as Saver
        with Saver.from_conn_string(database) as other:
            found = other.get_tuple(config)
            return found is not None and "paid 5" in repr(found.pending_writes)

    @tool
    def pay(sum: int, runtime: ToolRuntime) -> str:
        "Pay."
        note(f"pay {runtime.idempotency_key}")
        return f"paid {sum}"

    @tool
    def ship(to: str, runtime: ToolRuntime) -> str:
        "Ship."
        note(f"ship {runtime.idempotency_key}")
        if doomed == "yes":
            while not stored():  # until the other call has ended and is stored
                time.sleep(0.005)
            os.kill(os.getpid(), signal.SIGKILL)
        return f"shipped to {to}"

    calls = [("pay", {"sum": 5}, "1"), ("ship", {"to": "home"}, "2")]
    config = {"configurable": {"thread_id": "t"}}
    given = {"messages": [("user", "go")]} if doomed == "yes" else None

    def show(state):
        print([m.content for m in state["messages"] if isinstance(m, ToolMessage)])

    def agent(saver):
        model = ScriptedModel(script=[calls, "done"])
        return create_react_agent(model, [pay, ship], checkpointer=saver, version=version)

    if colour == "sync":
        if database.startswith("postgres"):
            from milepost.checkpoint.postgres import PostgresSaver as Saver
        else:
            from milepost.checkpoint.sqlite import SqliteSaver as Saver
        with Saver.from_conn_string(database) as saver:
            saver.setup()
            show(agent(saver).invoke(given, config))
    else:
        import asyncio
        if database.startswith("postgres"):
            from milepost.checkpoint.postgres.aio import AsyncPostgresSaver as Saver
        else:
            from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver as Saver
        async def main():
            async with Saver.from_conn_string(database) as saver:
                await saver.setup()
                show(await agent(saver).ainvoke(given, config))
        asyncio.run(main())
    """
)


@pytest.fixture(scope="module")
def programs() -> Iterator[Warm]:
    modules = (*ENGINE, "langchain_core.tools", "milepost.prebuilt.chat_agent_executor")
    with warm("fake_models", *modules, PYTHONPATH=str(Path(__file__).parent)) as started:
        yield started


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("database", ["sqlite", pytest.param("uri", marks=pytest.mark.postgres)])
def test_a_call_that_was_stored_is_not_repeated_after_a_kill(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    programs: Warm,
    database: str,
    version: str,
    colour: str,
) -> None:
    place = str(tmp_path / "threads.db")
    if database == "uri":
        place = request.getfixturevalue("uri")
    program, log = tmp_path / "program.py", tmp_path / "log"
    program.write_text(PROGRAM)

    def start(doomed: str) -> subprocess.CompletedProcess[str]:
        return programs.run(program, place, log, version, colour, doomed)

    killed = start("yes")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    ended = start("no")
    assert (ended.returncode, ended.stdout.strip()) == (0, "['paid 5', 'shipped to home']"), (
        ended.stderr
    )
    lines = sorted(log.read_text().splitlines())
    assert [line.split()[0] for line in lines] == ["pay", "ship", "ship"]
    assert lines[1] == lines[2], "the key of a repeated call is the same"
    assert lines[0].split()[1] != lines[1].split()[1]
