"""Real kills: a process dies with SIGKILL in mid-run, and another one goes on with its thread."""

import signal
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from warm import ENGINE, Warm, warm

PROGRAM = textwrap.dedent(
    """
    import contextlib, operator, os, signal, sqlite3, sys, time
    from typing import Annotated
    from typing_extensions import TypedDict
    from milepost.checkpoint.sqlite import SqliteSaver
    from milepost.graph import START, StateGraph
    from milepost.runtime import Runtime

    database, log, durability, doomed = sys.argv[1:]

    class State(TypedDict):
        done: Annotated[list, operator.add]

    def saved_at_all():
        with contextlib.closing(sqlite3.connect(database)) as other:
            return other.execute("SELECT count(*) FROM checkpoints").fetchone()[0] > 0

    def note(name, runtime):
        with open(log, "a") as file:
            file.write(f"{name} {runtime.execution_info.idempotency_key}\\n")
            file.flush()
            os.fsync(file.fileno())

    def node(name):
        def run(state: State, runtime: Runtime):
            note(name, runtime)
            if name == doomed:
                # Under `async` the writer may not have come round yet, and a thread of which
                # nothing is saved cannot be resumed.
                while durability == "async" and not saved_at_all():
                    time.sleep(0.001)
                os.kill(os.getpid(), signal.SIGKILL)
            return {"done": [name]}
        run.__name__ = name
        return run

    builder = StateGraph(State).add_sequence([node("first"), node("charge"), node("last")])
    builder.add_edge(START, "first")
    with SqliteSaver.from_conn_string(database) as saver:
        graph = builder.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "t"}}
        run_id = {"run_id": "6a1f0000-0000-4000-8000-000000000001"} if durability == "exit" else {}
        saved = graph.get_state(config).metadata is not None
        given = None if saved else {"done": []}
        print(graph.invoke(given, {**config, **run_id}, durability=durability)["done"])
    """
)


@pytest.fixture(scope="module")
def programs() -> Iterator[Warm]:
    with warm(*ENGINE, PYTHONWARNINGS="error") as started:
        yield started


@pytest.fixture
def start(tmp_path: Path, programs: Warm) -> Any:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def start(durability: str, doomed: str) -> subprocess.CompletedProcess[str]:
        arguments = [tmp_path / "threads.db", tmp_path / "log", durability, doomed]
        return programs.run(program, *arguments)

    return start


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_an_effect_that_a_kill_cut_off_from_its_commit_is_repeated_under_the_same_key(
    start, tmp_path, durability
):
    assert start(durability, "charge").returncode == -signal.SIGKILL
    done = start(durability, "nobody")
    assert (done.stdout, done.stderr) == ("['first', 'charge', 'last']\n", "")
    calls = [line.split() for line in tmp_path.joinpath("log").read_text().splitlines()]
    keys = {name: [key for called, key in calls if called == name] for name, _ in calls}
    assert len(keys["charge"]) == 2
    assert len(set(keys["charge"])) == 1
    assert len({keys[name][0] for name in keys}) == 3
    if durability == "sync":
        assert len(keys["first"]) == 1, "what was acknowledged does not run again"
