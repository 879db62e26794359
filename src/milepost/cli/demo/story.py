"""What `milepost demo` does and shows, scene by scene."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milepost import inspect
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.cli.demo import order
from milepost.cli.demo.worker import SAVED, STALLED
from milepost.cli.lines import Text, table
from milepost.constants import START

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.graph.state import CompiledStateGraph

    Graph = CompiledStateGraph[Any, Any, Any, Any]


def _styled(style: str, text: str) -> str:
    """`text` in a style, or as it is where standard output is no terminal."""
    has_styles = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return Text(text, style).styled if has_styles else text


def _line(text: str = "") -> None:
    """Print a line at once. Only ASCII, so that it shows whatever the encoding is."""
    print(text, flush=True)


def _heading(text: str) -> None:
    """A line that starts a section."""
    _line()
    _line(_styled("bold", text))


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as their widest cell."""
    cells = [[Text(cell) for cell in row] for row in rows]
    head, *lines = (line.plain for line in table(header, cells, [False] * len(header)))
    for line in (_styled("dim", head), *lines):
        _line(f"  {line}")


def run_demo() -> int:
    """The whole demo; returns the exit status."""
    with tempfile.TemporaryDirectory(prefix="milepost-demo-") as directory:
        database = str(Path(directory, "demo.sqlite"))
        journal = order.Journal(Path(directory, "journal.txt"))
        _line("An order is quoted, then charged and packed at the same time, then shipped.")
        _line("Every super-step is saved to an SQLite file.")
        if not _crash(database, journal):
            return 1
        with SqliteSaver.from_conn_string(database) as saver:
            graph = order.build(saver, journal)
            if not _resume(graph, journal):
                return 1
            original = graph.get_state(order.CONFIG)
            _fork(graph)
            _show(inspect.Database.of(saver), original.config["configurable"]["checkpoint_id"])
    _farewell()
    return 0


def _crash(database: str, journal: order.Journal) -> bool:
    """Start the order in a process of its own, and kill that when half of a step is saved."""
    _heading("1. A run is killed half-way")
    # -P: a file in the working directory must not replace a module of milepost.
    command = [sys.executable, "-P", "-m", "milepost.cli.demo.worker"]
    expected = {f"{SAVED} quote", f"{SAVED} charge", STALLED}
    with subprocess.Popen(
        [*command, database, str(journal.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for us
    ) as worker:
        assert worker.stdout is not None
        try:
            for report in worker.stdout:
                what, _, node = report.strip().partition(" ")
                if what == SAVED:
                    _line(f"  process {worker.pid}: {node} is done and saved")
                expected.discard(report.strip())
                if not expected:
                    break
        finally:
            worker.kill()  # SIGKILL: no handler runs, nothing is tidied up
    if expected:
        _line(_styled("red", "  The process ended by itself, which it should not do."))
        return False
    _line(_styled("red", f"  process {worker.pid}: killed with SIGKILL while packing"))
    return True


def _resume(graph: Graph, journal: order.Journal) -> bool:
    """Finish the order, and show which calls that took; False if a finished one was repeated."""
    _heading("2. Another process resumes the thread")
    waiting = [task.name for task in graph.get_state(order.CONFIG).tasks if task.result is None]
    _line(f"  graph.get_state(config): this step still has to run {', '.join(waiting)}")
    result = graph.invoke(None, order.CONFIG, durability="sync")
    _line(f"  graph.invoke(None, config): {_styled('green', result['sent'])}")
    _line("  The calls of nodes, as the nodes themselves noted them in a file:")
    calls = journal.calls()
    _table(
        ("process", "node", ""),
        [(str(pid), node, "finished" if finished else "cut off") for pid, node, finished in calls],
    )
    completed = [node for _, node, finished in calls if finished]
    repeated = {node for node in completed if completed.count(node) > 1}
    if repeated:
        _line(_styled("red", f"  Ran again after it was saved: {', '.join(repeated)}."))
        return False
    _line("  What was saved did not run again: the order was charged once.")
    return True


def _fork(graph: Graph) -> None:
    """Go back to the quote, change it, and run the order from there."""
    _heading("3. A fork: back to the quote, with another price")
    history = graph.get_state_history(order.CONFIG)
    quoted = next(snapshot for snapshot in history if snapshot.next == ("charge", "pack"))
    edited = graph.update_state(quoted.config, {"price": 10})
    before, after = (_short(at["configurable"]["checkpoint_id"]) for at in (quoted.config, edited))
    _line(f"  graph.update_state(<{before}>, {{'price': 10}}): <{after}>")
    result = graph.invoke(None, edited, durability="sync")
    _line(f"  graph.invoke(None, <{after}>): {_styled('green', result['sent'])}")


def _show(db: inspect.Database, original: str) -> None:
    """Both branches, and what differs between them."""
    _heading("4. The history, newest first; `milepost log` has the times too")
    for lanes, entry in inspect.graph_rows(inspect.log(db, order.THREAD)):
        if entry is None:
            _line(f"  {lanes}")
            continue
        wrote = {"input" if node == START else node: keys for node, keys in entry.writes.items()}
        made = "; ".join(f"{name}: {', '.join(keys)}" for name, keys in wrote.items())
        then = f"  -> {', '.join(entry.next)}".replace(START, "start") if entry.next else ""
        about = f"{entry.step:>3} {entry.source:<6}  {made}{then}"
        _line(f"  {lanes} {_short(entry.checkpoint_id)} {about}")
    _heading("5. What differs between the branches; `milepost diff` shows it too")
    latest = inspect.Ref(order.THREAD)
    for change in inspect.diff(db, inspect.Ref(order.THREAD, at=original), latest):
        _line(f"  ~ {change.path[0]}: {change.before} -> {change.after}")


def _short(id: str) -> str:
    """The end of a checkpoint's id: ids that are made together begin alike."""
    return id[-8:]


def _farewell() -> None:
    _heading("What to read next, in the project's source")
    _line("  README.md        a first program, and how to bring one over from LangGraph")
    _line("  docs/index.md    where everything is described")
    _line("  ARCHITECTURE.md  how a super-step is run and saved")
