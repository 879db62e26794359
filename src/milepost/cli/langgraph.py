"""Programs and databases of LangGraph.

`milepost run --as-langgraph program.py` runs a LangGraph program on milepost; `milepost import
--from-langgraph …` and `milepost export --to-langgraph …` copy threads and store items.
"""

from __future__ import annotations

import argparse
import os
import sys
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from milepost._internal.progress import shown
from milepost.cli.names import BARE
from milepost.errors import MilepostError

if TYPE_CHECKING:
    from milepost.checkpoint.serde.registry import TypeRegistry
    from milepost.integrations.langgraph._moving.threads import Report


def register(commands: Any) -> None:
    """Add the three commands to the command line."""
    _register_run(commands)
    importing = commands.add_parser(
        "import",
        help=BARE["import"],
        description=(
            "Copies threads with their checkpoints and pending writes, and the items of the store. "
            "The source is not changed. It can be run again: what is there is left, what is "
            "missing is added. Threads and items that cannot be read are named and left out."
        ),
    )
    importing.add_argument(
        "--from-langgraph", type=_address, required=True, metavar="ADDRESS", dest="source"
    )
    importing.add_argument("--to", type=_address, required=True, metavar="ADDRESS", dest="target")
    importing.set_defaults(run=run_import)
    exporting = commands.add_parser(
        "export",
        help=BARE["export"],
        description="The way back: copies threads so that LangGraph can go on with them.",
    )
    exporting.add_argument("--from", type=_address, required=True, metavar="ADDRESS", dest="source")
    exporting.add_argument(
        "--to-langgraph", type=_address, required=True, metavar="ADDRESS", dest="target"
    )
    exporting.set_defaults(run=run_export)
    for parser in (importing, exporting):
        parser.add_argument(
            "--types",
            nargs="+",
            action="extend",
            default=[],
            metavar="MODULE[:CLASS]",
            help="modules, or classes in them, whose data types the threads hold; they are "
            "imported. Types of a script: __main__=MODULE",
        )
        parser.add_argument(
            "--program",
            nargs="+",
            action="extend",
            default=[],
            metavar="PATH",
            help="source files, or folders of them, whose @task functions an interrupted run has "
            "called; they are read, not run, so that finished calls are recognised",
        )
        parser.add_argument(
            "--encrypted",
            action="store_true",
            help="LangGraph's values are sealed with the key in LANGGRAPH_AES_KEY, milepost's with "
            "the one in MILEPOST_AES_KEY, or with the same if that is not set",
        )
        parser.add_argument(
            "--thread", action="append", default=[], metavar="ID", help="only this thread"
        )
        parser.add_argument("--quiet", action="store_true", help="do not show progress")


def _address(text: str) -> str:
    """An address; a bare path is a SQLite file, as for the other commands."""
    return text if "://" in text else f"sqlite:///{text}"


def _register_run(commands: Any) -> None:
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
    # An option of its own: what begins with a dash is not taken for the start of the program.
    parser.add_argument(
        "-m",
        nargs=argparse.REMAINDER,
        default=[],
        metavar="module",
        dest="module",
        help="run a module as a program, with all arguments that follow",
    )
    parser.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="program.py ...",
        help="the program and its own arguments",
    )
    parser.set_defaults(run=run_as_langgraph, usage_error=parser.error)


def run_as_langgraph(options: Any) -> int:
    from milepost.integrations.langgraph._alias import run_program

    program = ["-m", *options.module] if options.module else options.program
    if not program:
        options.usage_error("which program?")
    if not options.module and not os.path.exists(program[0]):
        raise MilepostError(f"There is no file '{program[0]}'.")
    try:
        run_program(program, options.original)
    except Exception:
        # An error of the program, not of this command: it is shown as Python shows it.
        import traceback

        traceback.print_exc()
        return 1
    return 0


def run_import(options: argparse.Namespace) -> int:
    from milepost.integrations.langgraph._moving import addresses
    from milepost.integrations.langgraph._moving.sources import BadAddressError
    from milepost.integrations.langgraph._moving.threads import Route, move_threads

    registry, called = _registry(options)
    sealed = options.encrypted
    with (
        addresses.plain_errors(BadAddressError),
        addresses.open_theirs(options.source, registry, encrypted=sealed) as source,
        addresses.our_saver(options.target, encrypted=sealed) as target,
        addresses.our_saver(options.target, encrypted=sealed) as reader,
    ):
        route = Route(source, target, reader, called=called)
        bar = shown("import", "checkpoints", quiet=options.quiet)
        with addresses.plain_errors(), bar as progress:
            report = move_threads(route, only=options.thread, progress=progress)
    return _conclude(options, report, addresses.their_items, addresses.our_items)


def run_export(options: argparse.Namespace) -> int:
    _, called = _registry(options)  # first: without LangGraph it says what to install
    from milepost._db.addresses import is_redis
    from milepost.integrations.langgraph._adapters.their_saver_for_ours import ForeignSaver
    from milepost.integrations.langgraph._moving import addresses
    from milepost.integrations.langgraph._moving.sources import BadAddressError, our_tables
    from milepost.integrations.langgraph._moving.threads import Route, move_threads

    sealed = options.encrypted
    if is_redis(options.source):
        raise addresses.bad_address(options.source)
    addresses.check_exists(options.source)
    with (
        addresses.plain_errors(BadAddressError),
        addresses.our_saver(options.source, encrypted=sealed) as saver,
        addresses.their_saver(options.target, encrypted=sealed) as target,
        addresses.their_saver(options.target, encrypted=sealed) as reader,
    ):
        route = Route(
            our_tables(saver),
            ForeignSaver(target, translates=False),
            ForeignSaver(reader, translates=False),
            to_langgraph=True,
            called=called,
        )
        bar = shown("export", "checkpoints", quiet=options.quiet)
        with addresses.plain_errors(), bar as progress:
            report = move_threads(route, only=options.thread, progress=progress)
    return _conclude(options, report, addresses.our_items, addresses.their_items)


def _rename(registry: TypeRegistry, module: Any, stored: str) -> None:
    """Know the data types of a module under the name that it had when they were stored.

    LangGraph names a class by its module, so for a script they are given that as well, or an
    export would write names that the script, run as `__main__`, does not have.
    """
    from milepost.checkpoint.serde._types.records import is_data_type

    for cls in list(vars(module).values()):
        if isinstance(cls, type) and cls.__module__ == module.__name__ and is_data_type(cls):
            registry.register(cls, name=f"{stored}:{cls.__qualname__}")
            if stored == "__main__":
                cls.__module__ = stored
                setattr(sys.modules[stored], cls.__name__, cls)


def _move_items(opened: Any, made: Any, options: argparse.Namespace, report: Report) -> None:
    from milepost.integrations.langgraph._moving.addresses import plain_errors
    from milepost.integrations.langgraph._moving.items import move_items

    try:
        with plain_errors(), opened(options.source) as source:
            if source is not None:
                with (
                    made(options.target, writing=True) as target,
                    made(options.target, writing=True) as reader,
                    shown("store", "items", quiet=options.quiet) as progress,
                ):
                    move_items(source, target, reader, report, progress)
    except MilepostError as error:
        # The threads have been copied by now, and the report on them must still be printed.
        report.unreadable.append(f"the other items of the store: {error}")


def _registry(options: argparse.Namespace) -> tuple[TypeRegistry, list[str]]:
    """The registry that all of our serializers share, with what the user allows, and the names
    that the program's functions have."""
    from milepost._internal.supported import needed
    from milepost.checkpoint.serde.registry import default_registry
    from milepost.integrations.langgraph._formats.names import names_in

    needed("langgraph.types")
    sys.path.insert(0, "")
    for name in options.types:
        stored, is_renamed, place = name.rpartition("=")
        try:
            thing: Any = resolve_name(place if ":" in place else f"{place}:")
        except (ImportError, AttributeError, ValueError) as error:
            raise MilepostError(f"--types {name}: {error}") from error
        default_registry.register_data_types(thing)
        if is_renamed:
            _rename(default_registry, thing, stored)
    return default_registry, names_in(options.program)


def _conclude(options: argparse.Namespace, report: Report, opened: Any, made: Any) -> int:
    """Move the items of the store, unless only some threads are moved, and say what was done."""
    if not options.thread:
        _move_items(opened, made, options, report)
    print(
        f"{report.threads} threads: {report.checkpoints} checkpoints and {report.writes} writes"
        " copied and verified."
    )
    if report.items:
        print(f"{report.items} store items copied and verified.")
    if report.again:
        print(
            f"{report.again} finished tasks of interrupted steps are not recognisable and will run"
            " again; if they are calls of @task functions, name the program with --program."
        )
    for thread_id in report.ahead:
        print(f"left alone: thread '{thread_id}' has gone on in the target.")
    for reason in report.unreadable:
        print(f"not copied: {reason}", file=sys.stderr)
    return 1 if report.unreadable else 0
