"""`milepost ui`: a page in the browser to look at threads, and the API behind it."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from html import escape
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from milepost import inspect
from milepost.cli.lines import plain
from milepost.cli.names import BARE, GRAPH_VARIABLE
from milepost.errors import MilepostError

if TYPE_CHECKING:
    import asyncio

TOKEN: Final = "MILEPOST_UI_TOKEN"
"""The environment variable that sets the token, for a server that is started again and again."""


def register(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "ui",
        help=BARE["ui"],
        description=(
            "Serves a page on this machine, and prints its address. It only reads, unless "
            "--write is given."
        ),
    )
    parser.add_argument(
        "database",
        nargs="?",
        help="sqlite:///file.db, a path, postgresql://…, redis://… (default MILEPOST_DB)",
    )
    parser.add_argument("--db", metavar="ADDRESS", help="the same")
    parser.add_argument(
        "--graph",
        action="append",
        default=[],
        metavar="MODULE:ATTRIBUTE",
        help="a graph to draw and, with --write, to run; or file.py:attribute, or a langgraph.json",
    )
    parser.add_argument("--write", action="store_true", help="allow changes and runs")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=_port, help="2024, or a free one if that is taken")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a name of this machine"
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="another page's origin that may call the API, such as https://smith.langchain.com",
    )
    parser.set_defaults(run=run, usage_error=parser.error)


def _port(text: str) -> int:
    """A number that a port can have."""
    number = int(text) if text.isascii() and text.isdigit() else -1
    if not 0 <= number < 65_536:
        raise argparse.ArgumentTypeError(f"'{text}' is no port: 0 to 65535.")
    return number


def run(options: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C; returns the exit status."""
    import asyncio

    import milepost.server  # noqa: F401 - fails with the command that installs it

    if options.database and options.db:
        options.usage_error("give one database: its address, or --db with its address.")
    with asyncio.Runner() as runner:
        return _serve(options, runner)


def _graphs(options: argparse.Namespace, runner: asyncio.Runner) -> dict[str, Any]:
    """The graphs by name; those of a langgraph.json that cannot be loaded are left out."""

    def skip(name: str, error: MilepostError) -> None:
        print(plain(f"milepost: graph '{name}' is left out. {error}"), file=sys.stderr)

    found: dict[str, Any] = {}
    for spec in options.graph or [spec for spec in (os.environ.get(GRAPH_VARIABLE),) if spec]:
        for name, graph in inspect.load_graphs(spec, wait=runner.run, skip=skip).items():
            if name in found:
                raise MilepostError(
                    f"Two graphs are called '{name}', the second in '{spec}': give them names of "
                    "their own, as in compile(name=…) or a langgraph.json."
                )
            found[name] = graph
    return found


def _serve(options: argparse.Namespace, runner: asyncio.Runner) -> int:
    """Serve the page on a loop, the one on which async functions have made graphs."""
    from milepost.server import create_app
    from milepost.server._guard import is_address, is_token
    from milepost.server._serve import address_of, bind, serve

    host, write = options.host, options.write
    graphs = _graphs(options, runner)
    token = os.environ.get(TOKEN) or secrets.token_urlsafe(32)
    if not is_token(token):
        raise MilepostError(f"{TOKEN} must be one word of printable ASCII.")
    with inspect.open_database(options.database or options.db, write=write) as opened:
        app = create_app(
            opened,
            token=token,
            graphs=graphs,
            write=write,
            hosts=[*options.allow_host, *([] if is_address(host) else [host])],
            origins=options.allow_origin,
        )
        listening = bind(host, options.port)
        address = f"{address_of(listening, host)}/?token={token}"
        print(plain(f"{opened.url} ({'read and write' if write else 'read only'})"))
        print(address)
        if not (ip_address(host).is_loopback if is_address(host) else host == "localhost"):
            print(
                f"milepost: {host} can be reached from other machines. All who have the token can "
                "use this server, and nothing is encrypted on the way.",
                file=sys.stderr,
            )
        sys.stdout.flush()
        with nullcontext() if options.no_browser else _opened_in_browser(address):
            serve(app, listening, runner)
    return 0


@contextmanager
def _opened_in_browser(address: str) -> Iterator[None]:
    """Show the page in a browser.

    The browser is given a file that only this user can read: other users of the machine see the
    arguments of processes, and the address has the token in it.
    """
    import tempfile
    import threading
    import webbrowser

    with tempfile.TemporaryDirectory(prefix="milepost-ui-") as folder:
        file = Path(folder) / "open.html"
        file.touch(mode=0o600)
        file.write_text(
            '<!doctype html><meta charset="utf-8"><title>milepost</title>'
            f'<meta http-equiv="refresh" content="0;url={escape(address)}">',
            encoding="utf-8",
        )
        # The socket listens already, so the browser may come first.
        opening = threading.Thread(target=webbrowser.open, args=(file.as_uri(),), daemon=True)
        opening.start()
        yield
