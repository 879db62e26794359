"""`milepost threads`, `show` and `stats`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from milepost import inspect
from milepost.cli import options, output, values
from milepost.cli.lines import Text, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.cli.output import Line
    from milepost.inspect import Ref, Stats, ThreadView


@click.command()
@options.status_option
@click.option("--unfinished", is_flag=True, help="Only those that wait, run or have failed.")
@options.metadata_option
@click.option("--search", "-s", metavar="TEXT", help="A part of the id, or of the metadata.")
@click.option(
    "--since",
    type=options.moment,
    metavar="TIME",
    help="Used since: 2026-05-01, or 3d (three days ago).",
)
@click.option("--before", type=options.moment, metavar="TIME", help="Not used since.")
@click.option(
    "--sort",
    type=click.Choice(["updated_at", "created_at", "thread_id"]),
    default="updated_at",
    show_default=True,
    help="The last used or made at first, or by id.",
)
@click.option(
    "--limit", "-n", type=click.IntRange(0), default=50, show_default=True, help="At most so many."
)
@click.option("--offset", type=click.IntRange(0), default=0, help="Leave out the first so many.")
@click.option("--count", is_flag=True, help="Print only how many there are.")
@options.json_option
@options.pager_option
@options.database_option
def threads(count: bool, **wanted: Any) -> None:
    """List threads, those that were used last at first."""
    wanted["metadata"] = options.parsed_metadata(wanted["metadata"])
    db = options.opened()
    page = inspect.threads(db, **({**wanted, "limit": 0} if count else wanted))
    if count:
        output.show({"count": page.total}, [str(page.total)])
        return
    rows = [
        (
            Text(plain(row.thread_id), style="bold"),
            output.status_text(row.status),
            output.when(row.updated_at),
            _about(row.metadata),
        )
        for row in page.items
    ]
    if not page.total and not output.wants("json"):
        names = ("status", "unfinished", "metadata", "search", "since", "before")
        narrowed = any(wanted[name] for name in names)
        output.say("There is no such thread." if narrowed else "There are no threads yet.")
        return
    lines = output.table_lines(("thread", "status", "last used", "metadata"), rows)
    output.show({"threads": page.items, "total": page.total}, lines)
    shown = len(page.items)
    if wanted["offset"] + shown < page.total and not output.wants("json"):
        output.say(f"{shown} of {page.total} threads; --limit and --offset show others.")


def _about(metadata: Any) -> str:
    return " ".join(
        f"{plain(str(key))}={values.brief(value, 40)}" for key, value in metadata.items()
    )


@click.command()
@click.argument("ref", type=options.REFERENCE, metavar="THREAD[@CHECKPOINT]")
@click.option("--path", "-p", metavar="PATH", help="Only this part: messages.0.content")
@click.option("--full", is_flag=True, help="Show long texts and lists whole.")
@options.json_option
@options.pager_option
@options.database_option
def show(ref: Ref, path: str | None, full: bool) -> None:
    """Show the state of a thread, what follows, and what it asks."""
    view = inspect.show(options.opened(), ref, path=values.parse_path(path) if path else ())
    output.show(view, _lines(view, path, full))


def _lines(view: ThreadView, path: str | None, full: bool) -> Iterator[Text]:
    head = Text("thread      ", "dim") + Text(plain(view.thread_id), style="bold")
    yield head + Text("  ") + output.status_text(view.status)
    if view.namespace:
        yield _line("graph", plain(view.namespace))
    if view.checkpoint_id is None:
        yield Text("It has no checkpoint yet.")
        return
    yield _line("checkpoint", plain(view.checkpoint_id), *(f"({plain(tag)})" for tag in view.tags))
    step, source = view.metadata.get("step"), view.metadata.get("source")
    yield _line("made", output.when(view.created_at), f"step {step}", plain(str(source)))
    if view.bytes is not None:
        yield _line(
            "size", output.count_text(view.checkpoints or 0, "checkpoint"), output.size(view.bytes)
        )
    if view.thread_metadata:
        yield _line("metadata", _about(view.thread_metadata))
    yield _line("next", output.nodes_text(view.next) or "nothing: it has ended")
    for task in view.tasks:
        if task.error is not None:
            yield _line("failed", f"{plain(task.name)}: {plain(task.error)}", style="red")
    for question in view.interrupts:
        value = values.brief(question.value, 200)
        yield _line("asks", plain(question.id), value, style="yellow")
    yield Text()
    yield Text(f"values{f' at {plain(path)}' if path else ''}", style="dim")
    if view.values in ({}, [], None):
        yield Text("  (none)", style="dim")
        return
    yield from values.tree(view.values, depth=1, full=full)


def _line(label: str, *parts: str, style: str = "") -> Text:
    return Text(f"{label:<12}", "dim") + Text("  ".join(parts), style=style)


@click.command()
@click.argument("thread", type=options.THREAD, required=False)
@options.json_option
@options.database_option
def stats(thread: str | None) -> None:
    """Show what takes how much room: by thread, key and kind."""
    found = inspect.stats(options.opened(), thread)
    output.show(found, _stats_lines(found, largest=thread is None))


def _stats_lines(found: Stats, *, largest: bool) -> Iterator[Line]:
    counts = (
        output.count_text(found.threads, "thread"),
        output.count_text(found.checkpoints, "checkpoint"),
        output.size(found.bytes),
    )
    yield Text(", ".join(counts), style="bold")
    for name, sizes in (("kind", found.kinds), ("key", found.channels)):
        if sizes:
            yield ""
            shares = [
                (plain(key), output.size(n), _share(n, found.bytes)) for key, n in sizes.items()
            ]
            yield from output.table_lines((name, "bytes", "share"), shares)
    if found.statuses:
        yield ""
        counted = [(output.status_text(key), str(n)) for key, n in found.statuses.items()]
        yield from output.table_lines(("status", "threads"), counted)
    if found.largest and largest:
        yield ""
        rows = [
            (plain(one.thread_id), str(one.checkpoints), output.size(one.bytes))
            for one in found.largest
        ]
        yield from output.table_lines(("thread", "checkpoints", "bytes"), rows)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"
