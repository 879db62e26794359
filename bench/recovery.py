"""In processes of their own: a run that is killed in one of its steps, and its recovery.

python -m bench.recovery ROOT WHERE STEPS die    kills itself in the middle
python -m bench.recovery ROOT WHERE STEPS go     ends the run

The latter prints the seconds of the program, and those that follow its imports.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

from bench.measure import UNTRACED, in_process

ROOT = Path(__file__).resolve().parent.parent
THREAD = "killed"


def killed(root: str, where: Path | str, steps: int) -> None:
    """Start a run, and have it killed halfway."""
    command = [sys.executable, "-m", "bench.recovery", root, str(where), str(steps), "die"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **UNTRACED}, capture_output=True)
    if done.returncode != -signal.SIGKILL:
        raise RuntimeError(f"a run was not killed: {done.stderr.decode()[-2000:]}")


def recovered(root: str, where: Path | str, steps: int) -> tuple[float, float]:
    """Go on with it in a new process: seconds of the whole program, and of what follows imports."""
    return in_process("-m", "bench.recovery", root, str(where), str(steps), "go", folder=ROOT)


def _workflow(where: Path | str, steps: int, *, die: bool) -> tuple[float, float]:
    """When it was loaded, and when the run had ended."""
    from bench import durable

    loaded = time.perf_counter()
    durable.die_at = steps // 2 if die else 0
    with durable.launched(where):
        if die:
            durable.start(steps)
        assert durable.recovered() == steps
        return loaded, time.perf_counter()


def _graph(root: str, where: Path | str, steps: int, *, die: bool) -> tuple[float, float]:
    """The same with a graph."""
    from bench.graphs import Count, on_thread
    from bench.libraries import Library

    library = Library(root, root)
    open = library.sqlite if isinstance(where, Path) else library.postgres
    module = "sqlite" if isinstance(where, Path) else "postgres"
    __import__(f"{root}.checkpoint.{module}")
    loaded = time.perf_counter()

    def count(state: Count) -> dict[str, int]:
        if die and state["n"] + 1 == steps // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"n": state["n"] + 1}

    builder = library.StateGraph(Count)
    builder.add_node("count", count)
    builder.add_edge(library.START, "count")
    builder.add_conditional_edges(
        "count",
        lambda state: "count" if state["n"] < state["last"] else library.END,
        ["count", library.END],
    )
    with open(where) as saver:  # type: ignore[arg-type]
        graph = builder.compile(checkpointer=saver)
        given = {"n": 0, "last": steps} if die else None
        found = graph.invoke(given, on_thread(THREAD, steps), durability="sync")
        assert found["n"] == steps
        return loaded, time.perf_counter()


def main(root: str, told: str, steps: int, *, die: bool) -> None:
    """Run, and print."""
    start = time.perf_counter()
    where = told if "://" in told else Path(told)
    if root == "dbos":
        loaded, end = _workflow(where, steps, die=die)
    else:
        loaded, end = _graph(root, where, steps, die=die)
    print(end - start, end - loaded)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), die=sys.argv[4] == "die")
