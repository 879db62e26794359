"""The command line: `milepost COMMAND`.

A command is a module with a function `register` that adds its parser, and with it the function
that runs it. To add one, write the module and name it in `COMMANDS`.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Final

from milepost._internal.version import __version__
from milepost.cli import demo, langgraph_move, langgraph_run, ui
from milepost.errors import MilepostError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COMMANDS: Final = (demo, langgraph_run, langgraph_move, ui)
"""In the order in which the help shows them."""

INTERRUPTED: Final = 130
"""What a shell reports of a program that was ended with Ctrl-C."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    run: Callable[[argparse.Namespace], int] | None = getattr(options, "run", None)
    if run is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        status = run(options)
        sys.stdout.flush()
    except (MilepostError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # The reader of the output has closed it; print nothing more when Python exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        print(f"milepost: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def build_parser() -> argparse.ArgumentParser:
    """The parser with all commands."""
    parser = argparse.ArgumentParser(
        prog="milepost",
        description="A durable graph runtime: every super-step of a program is a checkpoint.",
    )
    parser.add_argument("--version", action="version", version=f"milepost {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        command.register(commands)
    return parser
