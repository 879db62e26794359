"""`milepost log`, `diff`, `blame`, `bisect` and `tail`; `tag` and `tags`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from milepost import inspect
from milepost.cli import options, output, values
from milepost.cli.exit_codes import FAILED
from milepost.cli.lines import Text, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from milepost.inspect import Blame, Change, LogEntry, Ref


@click.command()
@click.argument("ref", type=options.REFERENCE, metavar="THREAD[@CHECKPOINT]")
@click.option("--limit", "-n", type=click.IntRange(1), help="At most so many.")
@click.option("--graph/--no-graph", "drawn", default=True, help="Draw forks.")
@click.option("--ids", is_flag=True, help="Show ids whole.")
@options.json_option
@options.pager_option
@options.database_option
def log(ref: Ref, limit: int | None, drawn: bool, ids: bool) -> None:
    """Show the checkpoints of a thread with its forks, newest first.

    With a checkpoint, those before it. --json prints a line for each.
    """
    db = options.opened()
    before = None
    if ref.at is not None or ref.back:
        from milepost.inspect.parts import id_of, resolve

        before = id_of(resolve(db, ref))
    entries = inspect.log(db, ref.thread_id, namespace=ref.namespace, limit=limit, before=before)
    if drawn:
        lines = (entry_line(row.entry, row.lanes, ids) for row in inspect.graph_rows(entries))
    else:
        lines = (entry_line(entry, "", ids) for entry in entries)
    output.show_each(entries, lines)


def entry_line(entry: LogEntry | None, lanes: str, full_id: bool = False) -> Text:
    if entry is None:
        return Text(lanes, style="dim")
    line = Text(f"{lanes} " if lanes else "", "dim")
    id = plain(entry.checkpoint_id) if full_id else output.short(entry.checkpoint_id)
    line += Text(id, style="yellow")
    for tag in entry.tags:
        line += Text(f" ({plain(tag)})", style="bold green")
    if entry.problem is not None:
        return line + Text(f"  damaged: {plain(entry.problem)}", style="red")
    step = "-" if entry.step is None else str(entry.step)
    line += Text(f"  {output.when(entry.created_at)}", style="dim")
    line += Text(f"  {step:>3} {plain(entry.source):<6}", style="cyan")
    line += Text(f"  {_writes(entry.writes)}")
    if entry.next:
        line += Text(f"  -> {output.nodes_text(entry.next)}", style="blue")
    for task in entry.tasks:
        if task.error is not None:
            line += Text(f"  failed: {plain(task.name)}: {values.brief(task.error)}", style="red")
        for question in task.interrupts:
            if not question.answered:
                line += Text(f"  asks: {values.brief(question.value)}", style="yellow")
    return line


_NAMES = {"__start__": "input", "__set__": "set", "__command__": "command"}


def _writes(writes: Any) -> str:
    parts = []
    for node, keys in writes.items():
        name = plain(_NAMES.get(node, node))
        parts.append(f"{name}: {', '.join(map(plain, keys))}" if keys else name)
    return "; ".join(parts)


@click.command()
@click.argument("a", type=options.REFERENCE, metavar="A")
@click.argument("b", type=options.REFERENCE, metavar="[B]", required=False)
@click.option("--exit-code", is_flag=True, help="Exit with 1 if there are differences.")
@options.json_option
@options.pager_option
@options.database_option
def diff(a: Ref, b: Ref | None, exit_code: bool) -> None:
    """Show what differs between two states: checkpoints, branches or threads.

    With one checkpoint, what its step changed.
    """
    db = options.opened()
    if b is None:
        a, b = inspect.Ref(a.thread_id, a.namespace, a.at, a.back + 1), a
    changes = inspect.diff(db, a, b)
    lines = _diff_lines(changes) if changes else [Text("No differences.", style="dim")]
    output.show({"changes": changes}, lines)
    if exit_code and changes:
        raise SystemExit(FAILED)


def _diff_lines(changes: Iterable[Change]) -> Iterator[Text]:
    for change in changes:
        where = values.path_text(change.path) or "(the whole state)"
        if change.kind == "added":
            yield Text(f"+ {where}: {values.brief(change.after, 200)}", style="green")
        elif change.kind == "removed":
            yield Text(f"- {where}: {values.brief(change.before, 200)}", style="red")
        elif change.lines is None:
            yield (
                Text(f"~ {where}: ", "yellow")
                + Text(values.brief(change.before, 200), style="red")
                + Text(" -> ")
                + Text(values.brief(change.after, 200), style="green")
            )
        else:
            yield Text(f"~ {where}:", style="yellow")
            for line in change.lines:
                style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
                cut = line if len(line) <= values.LONG else f"{line[: values.LONG]}…"
                yield Text(f"    {plain(cut)}", style=style)


@click.command()
@click.argument("ref", type=options.REFERENCE, metavar="THREAD[@CHECKPOINT]")
@click.argument("path", metavar="KEY[.PATH]")
@options.json_option
@options.pager_option
@options.database_option
def blame(ref: Ref, path: str) -> None:
    """Show which step, node and run wrote each part of a value."""
    parts = inspect.blame(options.opened(), ref, values.parse_path(path))
    header = ("part", "checkpoint", "step", "node", "run", "when", "value")
    output.show({"parts": parts}, output.table_lines(header, map(_blame_row, parts)))


def _blame_row(part: Blame) -> list[Any]:
    return [
        Text(values.path_text(part.path), style="cyan"),
        Text(output.short(part.checkpoint_id), style="yellow"),
        "-" if part.step is None else str(part.step),
        plain(", ".join(_NAMES.get(node, node) for node in part.nodes)) or "-",
        output.short(part.run_id),
        output.when(part.created_at),
        values.brief(part.value, 80),
    ]


@click.command()
@click.argument("ref", type=options.REFERENCE, metavar="THREAD[@CHECKPOINT]")
@click.argument("expression")
@click.option("--halving", is_flag=True, help="It stays true once it is: look at few states.")
@options.json_option
@options.database_option
def bisect(ref: Ref, expression: str, halving: bool) -> None:
    """Find the first checkpoint at which a Python expression is true.

    The keys of the state are names in it, with values as `show --json` prints them; `state` is
    all of them. The expression is your own code: it is evaluated by Python as it is, in this
    process. Where it fails, as for a key that is not there yet, it counts as not true.

    \b
    milepost bisect customer-17 'len(messages) > 40'
    milepost bisect customer-17 'order["total"] < 0'
    """
    try:
        code = compile(expression, "<expression>", "eval")
    except (SyntaxError, ValueError) as error:
        raise click.BadParameter(f"'{expression}' is no Python expression: {error}.") from error
    failures: list[Exception] = []
    looked_at = 0

    def holds(state: Any) -> bool:
        nonlocal looked_at
        looked_at += 1
        data = inspect.as_data(state)
        names = {**(data if isinstance(data, dict) else {}), "state": data}
        try:
            return bool(eval(code, names))
        except Exception as error:
            failures.append(error)
            return False

    entry = inspect.bisect(options.opened(), ref, holds, halving=halving)
    output.show({"entry": entry}, [] if entry is None else [entry_line(entry, "", full_id=True)])
    if entry is None:
        why = ""
        if failures and len(failures) == looked_at:
            why = f" It failed everywhere: {type(failures[-1]).__name__}: {failures[-1]}."
        output.say(f"It is true at none of {looked_at} checkpoints.{why}")
        raise SystemExit(FAILED)


@click.command()
@click.argument("ref", type=options.REFERENCE, metavar="THREAD")
@click.option("--follow", "-f", is_flag=True, help="Go on as checkpoints are added.")
@click.option(
    "--lines", "-n", type=click.IntRange(0), default=10, show_default=True, help="How many."
)
@click.option(
    "--poll",
    type=click.FloatRange(0.05),
    default=0.5,
    show_default=True,
    help="Seconds between two looks.",
)
@options.json_option
@options.database_option
def tail(ref: Ref, follow: bool, lines: int, poll: float) -> None:
    """Show the last checkpoints of a thread, oldest first; with -f, those that follow."""
    db = options.opened()
    entries = inspect.tail(
        db, ref.thread_id, namespace=ref.namespace, poll=poll, last=lines, follow=follow
    )
    for entry in entries:
        output.show_each([entry], [entry_line(entry, "")])


@click.command()
@click.argument("ref", type=options.REFERENCE, metavar="THREAD[@CHECKPOINT]")
@click.argument("name")
@click.option("--delete", "-d", is_flag=True, help="Remove the tag; the checkpoint stays.")
@options.database_option
def tag(ref: Ref, name: str, delete: bool) -> None:
    """Name a checkpoint: THREAD@NAME means it from then on."""
    db = options.opened(write=True)
    if delete:
        inspect.untag(db, ref.thread_id, name)
        return
    made = inspect.tag(db, ref, name)
    click.echo(plain(f"{ref.thread_id}@{name} is {made.checkpoint_id}"))


@click.command()
@click.argument("thread", type=options.THREAD)
@options.json_option
@options.database_option
def tags(thread: str) -> None:
    """List the tags of a thread."""
    found = inspect.tags(options.opened(), thread)
    if not found and not output.wants("json"):
        output.say(f"Thread '{thread}' has no tags.")
        return
    rows = [
        (
            plain(one.name),
            plain(one.checkpoint_id),
            plain(one.namespace) or "-",
            "" if one.exists else "(removed)",
        )
        for one in found
    ]
    output.show({"tags": found}, output.table_lines(("tag", "checkpoint", "graph", ""), rows))
