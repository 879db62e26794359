"""The process that the demo kills: `python -m milepost.cli.demo.worker DATABASE JOURNAL`.

It prints a line when a node's update has been saved and when it comes to the node that never
finishes, so that the other side of the pipe knows when to kill it. That node waits for an end of
input that comes only if the other side goes away.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from milepost.checkpoint.sqlite import SqliteSaver
from milepost.cli.demo import order

SAVED = "saved"
STALLED = "stalled"


def work(database: str, journal: str) -> None:
    """Start the order, and stall."""
    with SqliteSaver.from_conn_string(database) as saver:
        graph = order.build(saver, order.Journal(Path(journal)), stall)
        # Under "sync" a node's update is streamed after it has been saved.
        for update in graph.stream(order.INPUT, order.CONFIG, durability="sync"):
            for node in update:
                report(f"{SAVED} {node}")


def stall() -> None:
    """Wait to be killed; leave if the parent process has ended."""
    report(STALLED)
    sys.stdin.read()
    raise SystemExit("the demo has gone away")


def report(line: str) -> None:
    """Tell the other side; in one piece, since two threads report at the same time."""
    os.write(sys.stdout.fileno(), f"{line}\n".encode("ascii"))


if __name__ == "__main__":
    work(*sys.argv[1:])
