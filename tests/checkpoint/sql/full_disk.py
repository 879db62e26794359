"""A run until the disk is full, and on when there is room: `python full_disk.py FILE DURABILITY`.

As a program it is its own quota: no file of the process may grow beyond a limit, so that writes
fail as they do on a full disk, until the limit is lifted.
"""

import operator
import random
import resource
import signal
import sqlite3
import sys
from base64 import b64encode
from collections.abc import Callable
from typing import Annotated, Any

from typing_extensions import TypedDict

from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import StorageError, StorageFullError
from milepost.graph import END, START, StateGraph

CONFIG: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 100}
STEPS = 60


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def growing(saver: Any, ran: list[int]) -> Any:
    """A loop of STEPS steps; each adds 20 KB that cannot be compressed or shared."""

    def node(state: State) -> Any:
        at = len(state["log"])
        ran.append(at)
        noise = b64encode(random.Random(at).randbytes(15_000)).decode()
        return {"log": [f"{at}:{noise}"]}

    builder = StateGraph(State).add_node("node", node).add_edge(START, "node")
    builder.add_conditional_edges("node", lambda s: END if len(s["log"]) >= STEPS else "node")
    return builder.compile(checkpointer=saver)


def prove(
    saver: Any,
    durability: str,
    make_room: Callable[[], None],
    kind: type[StorageError] = StorageFullError,
) -> None:
    """Typed error, an intact committed prefix, and nothing acknowledged runs again."""
    other: Any = {"configurable": {"thread_id": "before"}, "recursion_limit": 100}
    ran: list[int] = []
    graph = growing(saver, ran)
    graph.update_state(other, {"log": ["kept"]}, as_node="node")
    full: StorageError | None = None
    try:
        graph.invoke({"log": []}, CONFIG, durability=durability)
    except StorageError as error:
        full = error
    assert full is not None, "the disk did not become full"
    assert type(full) is kind
    assert "make room" in str(full).lower()
    assert saver.verify() == []
    assert graph.get_state(other).values == {"log": ["kept"]}
    stored = graph.get_state(CONFIG).values.get("log", [])
    assert [int(entry.split(":")[0]) for entry in stored] == list(range(len(stored)))
    if durability == "exit":
        assert stored == []
    if durability == "sync":
        assert len(stored) > 3
        assert len(stored) in (len(ran) - 1, len(ran))
    make_room()
    ran.clear()
    begun = saver.get_tuple(CONFIG) is not None
    result = graph.invoke(None if begun else {"log": []}, CONFIG, durability=durability)
    assert len(result["log"]) == STEPS
    assert ran == list(range(len(stored), STEPS))
    assert result["log"][: len(stored)] == stored
    assert saver.verify() == []


def intact(path: str) -> bool:
    connection = sqlite3.connect(path)
    try:
        return bool(connection.execute("PRAGMA integrity_check").fetchone() == ("ok",))
    finally:
        connection.close()


def main() -> None:
    path, durability = sys.argv[1:]
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    with SqliteSaver.from_conn_string(path) as saver:
        saver.setup()
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, most))
        prove(
            saver,
            durability,
            lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
            StorageError,  # SQLite says no more than that a write has failed
        )
    assert intact(path)
    print("proved")


if __name__ == "__main__":
    main()
