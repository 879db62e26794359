"""A run that does not end: `python holder_child.py BACKEND WHERE POLICY DURABILITY [GO]`.

Its node says `here` and waits until the file GO exists, for ever if none is named. Exits with 42
if the run gets a conflict.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parent))

from crash_child import opened

from graphs import line, thread
from milepost.errors import ThreadConflict


def main() -> None:
    backend, where, policy, durability, *go = sys.argv[1:]

    def node(state: Any) -> Any:
        print("here", flush=True)
        while not go or not os.path.exists(go[0]):
            time.sleep(0.01)
        return {"log": ["late"]}

    with opened(backend, where) as saver:
        builder = line("a").add_node("node", node).add_edge("a", "node")
        graph = builder.compile(checkpointer=saver, on_conflict=policy)
        try:
            graph.invoke({"log": ["in"]}, thread("t"), durability=durability)
        except ThreadConflict:
            sys.exit(42)


if __name__ == "__main__":
    main()
