"""What a long thread costs: not more than a short one, where only a part of it is looked at."""

import os
import resource
import subprocess
import sys
from itertools import islice
from typing import Any, TypedDict

import pytest
from inspect_shop import at

from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import END, START, StateGraph
from milepost.inspect import Ref, bisect, blame, diff, log, namespaces, open_database, show, threads

LONG = bool(os.environ.get("MILEPOST_LONG"))


class State(TypedDict):
    number: int
    last: list[str]


def fill(path: str, steps: int, others: int) -> None:
    def step(state: State) -> dict[str, Any]:
        last = [*state["last"][-9:], f"text {state['number']}"]
        return {"number": state["number"] + 1, "last": last}

    builder = StateGraph(State)
    builder.add_node("step", step)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda s: "step" if s["number"] < steps else END)
    with SqliteSaver.from_conn_string(path, synchronous="NORMAL") as saver:
        graph = builder.compile(checkpointer=saver)
        config = {**at("t"), "recursion_limit": steps + 10}
        graph.invoke({"number": 0, "last": []}, config, durability="async")
        for number in range(others):
            saver.create_thread(f"other {number}")


LOOKS = {
    "log": lambda db: list(islice(log(db, "t"), 10)),
    "log before one": lambda db: list(islice(log(db, "t", before="1f"), 10)),
    "threads": lambda db: threads(db, limit=10),
    "unfinished threads": lambda db: threads(db, unfinished=True, limit=10),
    "show": lambda db: show(db, Ref("t")),
    "show an old one": lambda db: show(db, Ref.parse("t@~15")),
    "diff": lambda db: diff(db, Ref.parse("t@~3"), Ref("t")),
    "blame": lambda db: blame(db, Ref("t"), ("last",)),
    "namespaces": lambda db: namespaces(db, "t"),
    "halving": lambda db: bisect(db, Ref("t"), lambda _: True, halving=True),
}


def count(path: str, look: Any) -> tuple[int, Any]:
    """How many statements a look takes, and rows of values it steps through."""
    statements: list[str] = []
    with open_database(path) as db:
        look(db)  # the first one opens and prepares
        db.saver.conn.set_trace_callback(statements.append)
        look(db)
    return len(statements), statements


@pytest.mark.parametrize("name", LOOKS)
def test_a_look_takes_as_many_statements_in_a_long_thread(databases, name):
    look = LOOKS[name]
    short, _ = count(databases[60], look)
    long, statements = count(databases[600], look)
    allowed = 24 if name == "halving" else 4  # five more for each time that the line is halved
    assert long <= short + allowed, statements
    assert long < 80


@pytest.fixture(scope="module")
def databases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    made = {}
    for steps in (60, 600):
        made[steps] = str(folder / f"{steps}.db")
        fill(made[steps], steps, others=steps // 10)
    return made


def test_a_log_is_read_as_it_is_asked_for(databases):
    statements: list[str] = []
    with open_database(databases[600]) as db:
        db.saver.conn.set_trace_callback(statements.append)
        entries = log(db, "t")
        next(entries)
        first = len(statements)
        for _ in range(300):
            next(entries)
    assert len(statements) > first


@pytest.mark.skipif(not LONG, reason="makes 100,000 checkpoints: set MILEPOST_LONG=1")
def test_100_000_checkpoints_are_looked_at_within_a_second(tmp_path):
    path = str(tmp_path / "long.db")
    fill(path, 100_000, others=2_000)
    for command in (
        "log t | head",
        "threads",
        "threads --unfinished",
        "diff t@~1000 t",
        "diff t",
        "show t",
        "blame t last",
        "tail t",
    ):
        taken = min(
            cpu(f"{sys.executable} -m milepost.cli {command}", path, tmp_path) for _ in range(4)
        )
        # Of the processor, with the start of Python: other programs may take their turns meanwhile.
        assert taken < 0.4, command


def cpu(command: str, database: str, folder: Any) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # With compiled modules, as after an installation: the first time makes them.
    env = {**os.environ, "MILEPOST_DB": database, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run(["sh", "-c", command], check=True, capture_output=True, timeout=120, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
