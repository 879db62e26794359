"""The command line: `milepost COMMAND`.

bare.py       commands that work on the bare package: demo, import, export, …
app.py        all commands, with the extra `cli` (Click)
names.py      what they are called, known without the extra
commands/     one file for each kind
output.py     what they print; lines.py makes it harmless
options.py    what they are given
"""

from __future__ import annotations

import io
import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from milepost.cli.exit_codes import DONE, FAILED, INTERRUPTED, NOT_INSTALLED, USAGE, status_of
from milepost.cli.lines import plain, plain_lines
from milepost.cli.names import BARE, COMMANDS
from milepost.errors import MilepostError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that the locale has no characters for is shown as escapes, as on stderr.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = _run(given)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output has closed it; print nothing more when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (MilepostError, OSError) as error:
        print(f"milepost: {plain(str(error))}", file=sys.stderr)
        return status_of(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _run(given: list[str]) -> int:
    is_completing = "_MILEPOST_COMPLETE" in os.environ
    name = given[0] if given else ""
    # `run` is two commands: of a graph, and of a program that imports LangGraph.
    is_bare = name in BARE and (name not in COMMANDS or "--as-langgraph" in given)
    if is_completing or not is_bare:
        if find_spec("click"):
            return _run_app(given)
        if name in COMMANDS:
            print(
                f"milepost {name} needs Click: pip install 'milepost[cli]'",
                file=sys.stderr,
            )
            return NOT_INSTALLED
    from milepost.cli.bare import run_bare

    return run_bare(given)


def _run_app(given: list[str]) -> int:
    import click

    from milepost.cli.app import app

    if not given and "_MILEPOST_COMPLETE" not in os.environ:
        print(app.get_help(click.Context(app, info_name="milepost")), file=sys.stderr)
        return USAGE
    try:
        result = app.main(given, prog_name="milepost", standalone_mode=False)
    except click.Abort as end:
        if isinstance(end.__cause__, KeyboardInterrupt):
            return INTERRUPTED
        print("Nothing was done.", file=sys.stderr)
        # Click raises it in place of a Ctrl-C at a question.
        return INTERRUPTED if isinstance(end.__context__, KeyboardInterrupt) else FAILED
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        print(*plain_lines(shown.getvalue().rstrip("\n")), sep="\n", file=sys.stderr)
        return USAGE
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else FAILED
    return result if isinstance(result, int) else DONE
