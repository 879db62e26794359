"""`milepost run --as-langgraph program.py`: a LangGraph program, run on milepost."""

from __future__ import annotations

import argparse
from typing import Any

from milepost.cli.names import BARE


def register(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "run",
        help=BARE["run"],
        description=(
            "Runs a Python program in which every `import langgraph` is answered with milepost. "
            "What milepost has no counterpart for fails at its import, with a list of what there "
            "is. LangGraph need not be installed."
        ),
    )
    parser.add_argument(
        "--as-langgraph",
        action="store_true",
        required=True,
        help="answer for langgraph; so far the only way to run a program",
    )
    parser.add_argument(
        "--original",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="load this package below langgraph, such as prebuilt, from where LangGraph is "
        "installed; what it imports is milepost's",
    )
    parser.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="program.py ... | -m module ...",
        help="the program and its own arguments",
    )
    parser.set_defaults(run=run, usage_error=parser.error)


def run(options: Any) -> int:
    from milepost.integrations.langgraph._alias import run_program

    if not options.program or options.program == ["-m"]:
        options.usage_error("which program?")
    try:
        run_program(options.program, options.original)
    except Exception:
        # An error of the program, not of this command: it is shown as Python shows it.
        import traceback

        traceback.print_exc()
        return 1
    return 0
