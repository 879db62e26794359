"""A fresh process: the first turn of a program with a saver, and the import of the graph API."""

from __future__ import annotations

import os
from pathlib import Path

from bench.context import Case, Context
from bench.measure import Reading, in_process, turns
from bench.records import Record, Target, faster, timed

_IMPORT = "from {root}.graph import StateGraph, START, END\n"
_COMPILE = (
    f"{_IMPORT}builder = StateGraph(dict).add_node('n', lambda state: state)\n"
    "builder.add_edge(START, 'n').add_edge('n', END).compile()\n"
)
_FIRST_TURN = """
import operator
from typing import Annotated, TypedDict
from {root}.graph import StateGraph, START, END
from {root}.checkpoint.sqlite import SqliteSaver
class State(TypedDict):
    messages: Annotated[list, operator.add]
def reply(state):
    return {{"messages": [{{"role": "assistant", "content": "x" * 500}}]}}
builder = StateGraph(State).add_node("reply", reply)
builder.add_edge(START, "reply").add_edge("reply", END)
with SqliteSaver.from_conn_string({file!r}) as saver:
    saver.conn.execute("PRAGMA journal_mode=WAL")
    saver.conn.execute("PRAGMA synchronous=FULL")
    graph = builder.compile(checkpointer=saver)
    given = {{"messages": [{{"role": "user", "content": "x" * 500}}]}}
    config = {{"configurable": {{"thread_id": "1"}}}}
    assert len(graph.invoke(given, config, durability="sync")["messages"]) == 2
"""
_SPOKEN = (
    _FIRST_TURN.replace("import operator", "from langchain_core.messages import *")
    .replace("operator.add", "add_messages")
    .replace("import StateGraph", "import add_messages, StateGraph")
    .replace('{{"role": "assistant", "content": "x" * 500}}', 'AIMessage("x" * 500)')
    .replace('{{"role": "user", "content": "x" * 500}}', 'HumanMessage("x" * 500)')
)
_PROGRAM = (
    "import time\nw, c = time.perf_counter(), time.process_time()\n"
    "{work}"
    "print(time.perf_counter() - w, time.process_time() - c)"
)


def _run(work: str, root: str, folder: Path, file: Path) -> Reading:
    program = _PROGRAM.format(work=work.format(root=root, file=str(file)))
    # Byte code is kept, as it is once a package was installed or used.
    keeping = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return Reading(*in_process("-c", program, env={**keeping, "PYTHONPYCACHEPREFIX": str(folder)}))


def _cold(context: Context, work: str) -> dict[str, list[Reading]]:
    taken: dict[str, list[Reading]] = {seat.name: [] for seat in context.seats}
    folder = context.folder / "bytecode"
    for seat in context.seats:
        _run(work, seat.root, folder, context.file())
    for seat in turns(context.seats, context.plan.rounds):
        taken[seat.name].append(_run(work, seat.root, folder, context.file()))
    return taken


def _case(name: str, title: str, work: str, *targets: Target) -> Case:
    def run(context: Context) -> list[Record]:
        return [timed(name, title, "ms", 1e3, _cold(context, work), *targets)]

    return Case(name, title, run)


_TURN = "new process: import, build, compile, open SQLite, first turn"
_MESSAGES = "the same with LangChain's messages, which load LangChain"

CASES = (
    _case("imports.turn", _TURN, _FIRST_TURN, faster(5)),
    _case("imports.messages", _MESSAGES, _SPOKEN),
    _case("imports.graph", "cold import of the graph API", _IMPORT, faster(15)),
    _case("imports.compiled", "the same, and a graph compiled", _COMPILE),
)
