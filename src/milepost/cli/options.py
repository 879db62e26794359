"""Options that many commands share, and how a command gets its database and its graph."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from milepost import inspect
from milepost.cli.plain import plain

if TYPE_CHECKING:
    from milepost.inspect import Database, Ref

F = TypeVar("F", bound=Callable[..., Any])

GRAPH_VARIABLE: Final = "MILEPOST_GRAPH"


def database_option(command: F) -> F:
    return click.option(
        "--db",
        "database",
        metavar="ADDRESS",
        help="The database: sqlite:///file.db, a path, postgresql://…, redis://… "
        "Default: MILEPOST_DB.",
    )(command)


def status_option(command: F) -> F:
    return click.option(
        "--status",
        type=click.Choice(["idle", "interrupted", "error", "running", "stale"]),
        help="Those with this status.",
    )(command)


def metadata_option(command: F) -> F:
    return click.option(
        "--metadata",
        "-m",
        multiple=True,
        metavar="KEY=VALUE",
        help="Those of which this is stored; may be repeated.",
    )(command)


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def yes_option(command: F) -> F:
    return click.option("--yes", "-y", is_flag=True, help="Do not ask.")(command)


def graph_option(command: F) -> F:
    return click.option(
        "--graph",
        "-g",
        metavar="GRAPH",
        help="The graph: module:attribute, file.py:attribute or langgraph.json[:NAME]; it is "
        f"imported. Default: {GRAPH_VARIABLE}, or langgraph.json here.",
    )(command)


def pager_option(command: F) -> F:
    return click.option("--pager/--no-pager", default=True, help="Page through long output.")(
        command
    )


def address(database: str | None) -> str | None:
    """The address that was given: here, before the command, or in the environment."""
    context = click.get_current_context(silent=True)
    if database is None and context is not None:
        database = context.find_root().params.get("database")
    return database


def opened(
    database: str | None, *, write: bool = False, create: bool = False, serde: Any = None
) -> Database:
    """The database of a command; it is closed when the command ends."""
    db = inspect.open_database(address(database), write=write, create=create, serde=serde)
    click.get_current_context().call_on_close(db.close)
    return db


def the_graph(spec: str | None) -> Any:
    graph = graph_or_none(spec)
    if graph is None:
        raise click.UsageError(
            "Which graph? Give --graph module:attribute (or file.py:attribute), or have a "
            "langgraph.json here."
        )
    return graph


def graph_or_none(spec: str | None) -> Any:
    """The same; None if none was given and there is no langgraph.json."""
    spec = spec or os.environ.get(GRAPH_VARIABLE)
    if spec is None and Path("langgraph.json").is_file():
        spec = "langgraph.json"
    return None if spec is None else inspect.load_graph(spec)


def confirm(question: str, yes: bool) -> None:
    """Ask before something is removed."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{plain(question)} There is no terminal to ask: add --yes.")
    click.confirm(plain(question), abort=True, err=True)


def parsed_json(text: str, what: str) -> Any:
    """A value that was given as JSON; `-` reads it from standard input."""
    if text == "-":
        text = sys.stdin.read()
    try:
        return json.loads(text)
    except ValueError as error:
        hint = ""
        if text and not text.startswith(("{", "[", '"')):
            hint = f" For a text write '{json.dumps(text)}'."
        raise click.BadParameter(f"{what} is no JSON: {error}.{hint}") from error


def _split(pairs: Sequence[str], form: str) -> Iterator[tuple[str, str]]:
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{form}, not '{pair}'.")
        yield key, value


def parsed_pairs(pairs: Sequence[str], what: str) -> dict[str, Any]:
    """Values that were given as KEY=JSON."""
    given = _split(pairs, f"{what} is KEY=JSON")
    return {key: parsed_json(value, f"{what} {key}") for key, value in given}


def parsed_metadata(pairs: Sequence[str]) -> dict[str, Any]:
    """Metadata that was given as KEY=VALUE; a value that is no JSON is a text."""
    found: dict[str, Any] = {}
    for key, value in _split(pairs, "--metadata is KEY=VALUE"):
        found[key] = value
        with suppress(ValueError):
            found[key] = json.loads(value)
    return found


_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Age(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A length of time: 90s, 15m, 12h, 30d, 2w."""

    name = "age"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        number, unit = str(value)[:-1], str(value)[-1:]
        try:
            return float(number) * _UNITS[unit]
        except (ValueError, KeyError):
            self.fail(
                f"'{value}' is no length of time: write 90s, 15m, 12h, 30d or 2w.", param, ctx
            )


class Moment(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A point in time: a length of time before now, or 2026-05-01 or 2026-05-01T12:00."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        if str(value)[-1:] in _UNITS and str(value)[:-1].replace(".", "", 1).isdigit():
            seconds = Age().convert(value, param, ctx)
            return (datetime.now().astimezone() - timedelta(seconds=seconds)).timestamp()
        try:
            return datetime.fromisoformat(str(value)).astimezone().timestamp()
        except ValueError:
            self.fail(
                f"'{value}' is no time: write 2026-05-01, 2026-05-01T12:00 or 3d.", param, ctx
            )


class ThreadName(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """The id of a thread; a shell completes it from the database."""

    name = "thread"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        del param
        given = ctx.params.get("database") or ctx.find_root().params.get("database")
        # A shell waits for this, and an error has no place to be shown.
        with suppress(Exception), inspect.open_database(given) as db:
            thread, at, rest = incomplete.partition("@")
            if at:
                return _checkpoints(db, thread, rest)
            found = inspect.threads(db, search=incomplete or None, limit=50).items
            return [
                CompletionItem(plain(row.thread_id), help=row.status)
                for row in found
                if row.thread_id.startswith(incomplete)
            ]
        return []


class Reference(ThreadName):
    """A thread, or a checkpoint of one: THREAD@CHECKPOINT."""

    name = "ref"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Ref:
        if isinstance(value, inspect.Ref):
            return value
        try:
            return inspect.Ref.parse(value)
        except inspect.BadReferenceError as error:
            self.fail(str(error), param, ctx)


def _checkpoints(db: Any, thread: str, rest: str) -> list[CompletionItem]:
    found = [CompletionItem(f"{thread}@{tag.name}", help="tag") for tag in inspect.tags(db, thread)]
    for entry in inspect.log(db, thread, limit=20):
        found.append(CompletionItem(f"{thread}@{entry.checkpoint_id[-8:]}", help=entry.source))
    return [item for item in found if str(item.value).startswith(f"{thread}@{rest}")]


THREAD: Final = ThreadName()
REFERENCE: Final = Reference()
