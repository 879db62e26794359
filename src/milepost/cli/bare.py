"""Commands that work on the bare package, with the standard library's parser.

A command is a module with a function `register` that adds its parser, and with it the function
that runs it. To add one, write the module and name it in `MODULES`, the command in `BARE`.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from milepost.cli import demo, langgraph, ui
from milepost.cli.exit_codes import USAGE
from milepost.cli.names import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MODULES: Final = (demo, langgraph, ui)
"""In the order in which the help shows them."""


def run_bare(arguments: Sequence[str] | None) -> int:
    """Run such a command; returns the exit status."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    run: Callable[[argparse.Namespace], int] | None = getattr(options, "run", None)
    if run is None:
        parser.print_help(sys.stderr)
        return USAGE
    return run(options)


class _Version(argparse.Action):
    """Looks the version up when it is asked for: that takes longer than to read the arguments."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from milepost._internal.version import __version__

        print(f"milepost {__version__}")
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    """The parser with all such commands."""
    needing = ", ".join(name for name in COMMANDS if name != "run")
    parser = argparse.ArgumentParser(
        prog="milepost",
        description="A durable graph runtime: every super-step of a program is a checkpoint.",
        epilog=f"With `pip install 'milepost[cli]'` also: {needing}.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for module in MODULES:
        module.register(commands)
    return parser
