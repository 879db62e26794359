"""`milepost demo`: kill a run, resume it, look at its history, fork it.

By file:

    order.py    the graph that the demo runs
    worker.py   the process that is killed
    story.py    what the user sees
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.cli.names import BARE

if TYPE_CHECKING:
    import argparse

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def register(commands: Subparsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "demo",
        help=BARE["demo"],
        description=(
            "Runs a small graph in another process, kills that process half-way, resumes the "
            "thread from its SQLite file, then shows the history and forks it. Everything is "
            "kept in a temporary directory that is removed at the end."
        ),
    )
    parser.set_defaults(run=run)


def run(_options: Any) -> int:
    """Run the command."""
    from milepost.cli.demo.story import run_demo

    return run_demo()
