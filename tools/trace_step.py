"""Prints the way of one super-step on SQLite under `sync`: every call inside milepost, in order.

    python tools/trace_step.py            # the figures, and the list of calls
    python tools/trace_step.py --figures  # the figures alone

A graph of one node goes round in a loop. Steps in the middle of the run are traced, from the
planning of a task to the planning of the next one, when caches are warm and nothing is loaded for
the first time; the shortest is shown, since once a second a step also renews the thread's entry.
`sys.setprofile` counts a call whenever Python code of milepost is entered; a generator that is
resumed counts again. Calls into C are not counted. A change of folder is a call whose code is in
another folder than the code of the call before it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, TypedDict

import milepost
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import END, START, StateGraph

ROOT = Path(milepost.__file__).parent
STEPS = 9
TRACED = slice(4, 7)
FIRST = "plan"
"""The function that a step begins with."""


class Call(NamedTuple):
    """One call of a function of milepost."""

    file: str
    function: str
    depth: int

    @property
    def folder(self) -> str:
        """The folder that the function is in."""
        return str(Path(self.file).parent)


class State(TypedDict):
    """How often the node has run."""

    count: int


def count(state: State) -> dict[str, int]:
    """The node."""
    return {"count": state["count"] + 1}


def again(state: State) -> str:
    """The router after the node."""
    return "count" if state["count"] < STEPS else END


def trace_step() -> list[Call]:
    """The calls of one super-step, in order."""
    builder = StateGraph(State)
    builder.add_node("count", count)
    builder.add_edge(START, "count")
    builder.add_conditional_edges("count", again)
    with (
        tempfile.TemporaryDirectory() as folder,
        SqliteSaver.from_conn_string(str(Path(folder) / "trace.db")) as saver,
    ):
        graph = builder.compile(checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "1"}}
        graph.invoke({"count": 0}, config, durability="sync")  # what is loaded once is loaded
        calls: list[Call] = []
        sys.setprofile(_recorder(calls))
        try:
            graph.invoke({"count": 0}, config, durability="sync")
        finally:
            sys.setprofile(None)
    begins = [at for at, call in enumerate(calls) if call.function == FIRST]
    steps = [calls[first:after] for first, after in pairwise(begins)]
    step = min(steps[TRACED], key=len)
    top = min(call.depth for call in step)
    return [call._replace(depth=call.depth - top) for call in step]


def _recorder(calls: list[Call]) -> Callable[[FrameType, str, Any], None]:
    depth = 0

    def record(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal depth
        path = Path(frame.f_code.co_filename)
        if event not in ("call", "return") or not path.is_relative_to(ROOT):
            return
        if event == "return":
            depth -= 1
            return
        calls.append(Call(str(path.relative_to(ROOT)), frame.f_code.co_qualname, depth))
        depth += 1

    return record


def figures(calls: list[Call]) -> dict[str, int]:
    """How many calls there are, in how many files, and how often the folder changes."""
    changes = sum(before.folder != after.folder for before, after in pairwise(calls))
    return {
        "calls": len(calls),
        "files": len({call.file for call in calls}),
        "changes of folder": changes,
    }


def main() -> None:
    """Trace a step, and print its way."""
    parser = argparse.ArgumentParser(description="The way of one super-step on SQLite.")
    parser.add_argument("--figures", action="store_true", help="print no list of calls")
    options = parser.parse_args()
    calls = trace_step()
    print(", ".join(f"{number} {what}" for what, number in figures(calls).items()))
    if not options.figures:
        width = max(len(call.file) for call in calls)
        for call in calls:
            print(f"{call.file:{width}}  {'  ' * call.depth}{call.function}")


if __name__ == "__main__":
    main()
