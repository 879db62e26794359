"""Options that many commands share, and how a command gets its database and its graph."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from milepost import inspect
from milepost.cli.lines import plain
from milepost.cli.names import GRAPH_VARIABLE

if TYPE_CHECKING:
    from milepost.inspect import Database, Ref


def _keep(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    """Keep the value of an option with the command; `--db` of a command replaces the one before
    the command."""
    if value is not None:
        ctx.meta[f"milepost.{option.name}"] = value


database_option = click.option(
    "--db",
    "database",
    metavar="ADDRESS",
    expose_value=False,
    callback=_keep,
    help="The database: sqlite:///file.db, a path, postgresql://…, redis://… Default: MILEPOST_DB.",
)
status_option = click.option(
    "--status",
    type=click.Choice(["idle", "interrupted", "error", "running", "stale"]),
    help="Those with this status.",
)
metadata_option = click.option(
    "--metadata",
    "-m",
    multiple=True,
    metavar="KEY=VALUE",
    help="Those of which this is stored; may be repeated.",
)
json_option = click.option(
    "--json", is_flag=True, expose_value=False, callback=_keep, help="Print JSON."
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
graph_option = click.option(
    "--graph",
    "-g",
    metavar="GRAPH",
    help="The graph: module:attribute, file.py:attribute or langgraph.json[:NAME]; it is "
    f"imported. Default: {GRAPH_VARIABLE}, or langgraph.json here.",
)
pager_option = click.option(
    "--pager/--no-pager",
    default=True,
    expose_value=False,
    callback=_keep,
    help="Page through long output.",
)


def given_address(ctx: click.Context) -> str | None:
    """The address in `--db`."""
    address: str | None = ctx.meta.get("milepost.database")
    return address


def opened(*, write: bool = False, create: bool = False, serde: Any = None) -> Database:
    """The database of a command; it is closed when the command ends."""
    ctx = click.get_current_context()
    db = inspect.open_database(given_address(ctx), write=write, create=create, serde=serde)
    ctx.call_on_close(db.close)
    return db


def the_graph(spec: str | None, *, needed: bool = True) -> Any:
    """The graph of a command; None if it is not `needed`, none was given and there is no
    langgraph.json."""
    spec = spec or os.environ.get(GRAPH_VARIABLE)
    if spec is None and Path("langgraph.json").is_file():
        spec = "langgraph.json"
    if spec is None and needed:
        raise click.UsageError(
            "Which graph? Give --graph module:attribute (or file.py:attribute), or have a "
            "langgraph.json here."
        )
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


def _split(
    pairs: Sequence[str], form: str, *, may_be_empty: bool = True
) -> Iterator[tuple[str, str]]:
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key or not (value or may_be_empty):
            raise click.BadParameter(f"{form}, not '{pair}'.")
        yield key, value


def parsed_pairs(pairs: Sequence[str]) -> dict[str, Any]:
    """Values that were given as KEY=JSON."""
    given = _split(pairs, "--set is KEY=JSON")
    return {key: parsed_json(value, f"--set {key}") for key, value in given}


def parsed_names(pairs: Sequence[str]) -> dict[str, str]:
    """Ids and what to call them, given as OLD=NEW."""
    return dict(_split(pairs, "--rename is OLD=NEW", may_be_empty=False))


def parsed_metadata(pairs: Sequence[str]) -> dict[str, Any]:
    """Metadata that was given as KEY=VALUE; a value that is no JSON is a text."""
    found: dict[str, Any] = {}
    for key, value in _split(pairs, "--metadata is KEY=VALUE"):
        found[key] = value
        with suppress(ValueError):
            found[key] = json.loads(value)
    return found


_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def age(text: str) -> float:
    """A length of time in seconds: 90s, 15m, 12h, 30d, 2w."""
    try:
        return float(text[:-1]) * _UNITS[text[-1:]]
    except (ValueError, KeyError):
        raise click.BadParameter(
            f"'{text}' is no length of time: write 90s, 15m, 12h, 30d or 2w."
        ) from None


def moment(text: str) -> float:
    """A point in time: a length of time before now, or 2026-05-01 or 2026-05-01T12:00."""
    if text[-1:] in _UNITS and text[:-1].replace(".", "", 1).isdigit():
        return (datetime.now().astimezone() - timedelta(seconds=age(text))).timestamp()
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except ValueError:
        raise click.BadParameter(
            f"'{text}' is no time: write 2026-05-01, 2026-05-01T12:00 or 3d."
        ) from None


class ThreadName(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """The id of a thread; a shell completes it from the database."""

    name = "thread"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        del param
        # A shell waits for this, and an error has no place to be shown.
        with suppress(Exception), inspect.open_database(given_address(ctx)) as db:
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
