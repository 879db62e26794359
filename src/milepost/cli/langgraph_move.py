"""`milepost import --from-langgraph …` and `milepost export --to-langgraph …`."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from milepost.cli.text import Printer
from milepost.errors import MilepostError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from milepost.checkpoint.serde.registry import TypeRegistry
    from milepost.integrations.langgraph.moving import Report


def register(commands: Any) -> None:
    """Add both commands to the command line."""
    importing = commands.add_parser(
        "import",
        help="copy threads and store items from a LangGraph database",
        description=(
            "Copies threads with their checkpoints and pending writes, and the items of the store. "
            "The source is not changed. It can be run again: what is there is left, what is "
            "missing is added. Threads that cannot be read are named and left out."
        ),
    )
    importing.add_argument("--from-langgraph", required=True, metavar="ADDRESS", dest="source")
    importing.add_argument("--to", required=True, metavar="ADDRESS", dest="target")
    importing.set_defaults(run=run_import)
    exporting = commands.add_parser(
        "export",
        help="copy threads and store items to a LangGraph database",
        description="The way back: copies threads so that LangGraph can go on with them.",
    )
    exporting.add_argument("--from", required=True, metavar="ADDRESS", dest="source")
    exporting.add_argument("--to-langgraph", required=True, metavar="ADDRESS", dest="target")
    exporting.set_defaults(run=run_export)
    for parser in (importing, exporting):
        parser.add_argument(
            "--types",
            nargs="+",
            action="extend",
            default=[],
            metavar="MODULE[:CLASS]",
            help="modules, or classes in them, whose data types the threads hold; "
            "they are imported",
        )
        parser.add_argument(
            "--thread", action="append", default=[], metavar="ID", help="only this thread"
        )


def run_import(options: argparse.Namespace) -> int:
    """Run `milepost import`."""
    from milepost.integrations.langgraph.moving import move_items, move_threads
    from milepost.integrations.langgraph.sources import (
        open_theirs,
        our_saver,
        our_store,
        their_store,
    )

    registry = _registry(options.types)
    with open_theirs(options.source, registry) as source, our_saver(options.target) as target:
        report = move_threads(source, target, only=options.thread, progress=_progress())
    if not options.thread:
        with their_store(options.source) as items:
            if items is not None:
                with our_store(options.target, writing=True) as store:
                    assert store is not None
                    move_items(items, store, report)
    return _conclude(report)


def run_export(options: argparse.Namespace) -> int:
    """Run `milepost export`."""
    from milepost.integrations.langgraph import from_langgraph
    from milepost.integrations.langgraph.moving import move_items, move_threads
    from milepost.integrations.langgraph.sources import (
        OurDatabase,
        our_saver,
        our_store,
        their_saver,
        their_store,
    )

    _registry(options.types)
    with our_saver(options.source) as saver, their_saver(options.target) as theirs:
        report = move_threads(
            OurDatabase(saver),
            from_langgraph(theirs),
            to_langgraph=True,
            only=options.thread,
            progress=_progress(),
        )
    if not options.thread:
        with our_store(options.source) as store:
            if store is not None:
                with their_store(options.target, writing=True) as items:
                    assert items is not None
                    move_items(store, items, report)
    return _conclude(report)


def _registry(names: Sequence[str]) -> TypeRegistry:
    """The registry that all of our serializers share, with what the user allows."""
    from milepost.checkpoint.serde.registry import default_registry

    sys.path.insert(0, "")
    for name in names:
        module, _, attribute = name.partition(":")
        try:
            thing: Any = import_module(module)
            for part in attribute.split(".") if attribute else ():
                thing = getattr(thing, part)
        except (ImportError, AttributeError) as error:
            raise MilepostError(f"--types {name}: {error}") from error
        default_registry.register_data_types(thing)
    return default_registry


def _progress() -> Callable[[str, Report], None]:
    """Shows how far a move has come, where somebody can see it."""
    shown = sys.stderr.isatty()

    def tell(thread_id: str, report: Report) -> None:
        if shown:
            text = f"{report.threads} threads, {report.checkpoints} checkpoints: {thread_id}"
            print(f"\r\x1b[K{text[:78]}", end="", file=sys.stderr, flush=True)

    return tell


def _conclude(report: Report) -> int:
    printer = Printer()
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    printer.line(
        f"{report.threads} threads: {report.checkpoints} checkpoints and {report.writes} writes"
        " copied and verified."
    )
    if report.items:
        printer.line(f"{report.items} store items copied.")
    if report.again:
        printer.line(
            f"{report.again} finished tasks of interrupted steps are not recognisable here and"
            " will run again."
        )
    for thread_id in report.ahead:
        printer.line(f"left alone: thread '{thread_id}' has gone on in the target.")
    for reason in report.unreadable:
        print(f"not copied: {reason}", file=sys.stderr)
    return 1 if report.unreadable else 0
