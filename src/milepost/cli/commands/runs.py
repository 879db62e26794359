"""`milepost fork`, `answer`, `resume`, `run` and `merge`: threads that go on."""

from __future__ import annotations

import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Any

import click

from milepost import inspect
from milepost._internal.ids import random_uuid
from milepost.cli import options, output, values
from milepost.cli.exit_codes import FAILED
from milepost.cli.lines import Text, plain, plain_lines
from milepost.errors import MilepostError
from milepost.warnings import MilepostWarning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.inspect import Database, Merged, Ref, RunEvent


@click.command()
@click.argument("ref", type=options.REFERENCE, metavar="THREAD[@CHECKPOINT]")
@click.option("--set", "sets", multiple=True, metavar="KEY=JSON", help="A key and its new value.")
@click.option("--as-node", metavar="NODE", help="Write as this node (with --graph).")
@click.option("--go-on", is_flag=True, help="Run on from there (with --graph).")
@options.json_option
@options.graph_option
@options.database_option
def fork(
    ref: Ref,
    sets: tuple[str, ...],
    as_node: str | None,
    go_on: bool,
    graph: str | None,
) -> None:
    """Start a branch at a checkpoint, with some keys changed. The original stays.

    With a graph, values go through its reducers. Without one, keys are set, and what was to run
    next still is.
    """
    given = options.parsed_pairs(sets)
    if not given and not as_node:
        raise click.UsageError("What is to be different? Give --set KEY=JSON.")
    found = options.the_graph(graph, needed=bool(as_node or go_on))
    db = options.opened(write=True)
    made = inspect.fork(db, ref, given, graph=found, as_node=as_node)
    if not (go_on and output.wants("json")):
        output.show({"ref": str(made), "checkpoint_id": made.at}, [plain(str(made))])
    if go_on:
        _follow(db, made.thread_id, inspect.resume(db, found, made))


@click.command()
@click.argument("thread", type=options.THREAD)
@click.argument("given", metavar="[ID] JSON", nargs=-1, required=True)
@options.json_option
@options.graph_option
@options.database_option
def answer(thread: str, given: tuple[str, ...], graph: str | None) -> None:
    """Answer what a thread asks, and let it go on.

    ID is needed where it asks several questions; its beginning is enough.
    """
    if len(given) > 2:
        raise click.UsageError("Give one answer: THREAD JSON, or THREAD ID JSON.")
    id = given[0] if len(given) == 2 else None
    value = options.parsed_json(given[-1], "the answer")
    found = options.the_graph(graph)
    db = options.opened(write=True)
    events = inspect.answer(db, found, thread, value, interrupt_id=id)
    _follow(db, thread, events)


@click.command()
@click.argument("ref", type=options.REFERENCE, metavar="THREAD[@CHECKPOINT]")
@options.json_option
@options.graph_option
@options.database_option
def resume(ref: Ref, graph: str | None) -> None:
    """Go on where a thread stopped; from a checkpoint, replay what came after it."""
    found = options.the_graph(graph)
    db = options.opened(write=True)
    _follow(db, ref.thread_id, inspect.resume(db, found, ref))


@click.command()
@click.argument("graph", metavar="GRAPH", required=False)
@click.option(
    "--thread", "-t", type=options.THREAD, help="The thread; a new one if it is left out."
)
@click.option("--input", "-i", "given", metavar="JSON", help="The input, or - for standard input.")
@options.json_option
@options.database_option
def run(graph: str | None, thread: str | None, given: str | None) -> None:
    """Run a graph with an input, and keep its thread in the database.

    GRAPH is module:attribute, file.py:attribute or langgraph.json[:NAME]; it is imported. (A
    program that imports LangGraph is run with `milepost run --as-langgraph program.py`.)
    """
    if given is None:
        raise click.UsageError(
            "What is the input? Give --input JSON; `milepost resume` needs none."
        )
    value = options.parsed_json(given, "--input")
    found = options.the_graph(graph)
    thread = thread or random_uuid()
    db = options.opened(write=True, create=True)
    _follow(db, thread, inspect.run(db, found, thread, value))


def _follow(db: Database, thread: str, events: Iterator[RunEvent]) -> None:
    """Show a run as it goes on, and how the thread is afterwards."""
    if not output.wants("json"):
        output.show_lines([Text(f"thread {plain(thread)}", style="bold")])
    failure: Exception | None = None
    try:
        for event in _warning_plainly(events):
            if output.wants("json"):
                output.show_json(_event_data(event))
            else:
                output.show_lines(_event_lines(event))
    except MilepostError:
        raise
    except Exception as error:  # of the program, and shown as Python shows it
        failure = error
        print(*plain_lines(traceback.format_exc().rstrip("\n")), sep="\n", file=sys.stderr)
    view = inspect.show(db, inspect.Ref(thread))
    asked = [
        Text(f"asks {plain(one.id)}  {values.brief(one.value, 200)}", style="yellow")
        for one in view.interrupts
    ]
    following = f"next: {output.nodes_text(view.next)}" if view.next else "It has ended."
    output.show({"thread": view}, [*asked, Text(following, style="dim")])
    if failure is not None:
        raise SystemExit(FAILED)


def _warning_plainly(events: Iterator[RunEvent]) -> Iterator[RunEvent]:
    """The events of a run, whose warnings are remarks: the code that they point at is not the
    user's, but what calls the graph here."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, MilepostWarning):
                output.say(f"milepost: {message}")
            else:
                usual(message, category, *place, **more)

        warnings.showwarning = show
        yield from events


def _event_data(event: RunEvent) -> dict[str, Any]:
    data = event.data[0] if event.mode == "messages" else event.data
    return {"event": event.mode, "namespace": list(event.namespace), "data": inspect.as_data(data)}


def _event_lines(event: RunEvent) -> Iterator[Text]:
    data = inspect.as_data(event.data)
    if event.mode == "custom":
        yield Text(f"  {values.brief(data, 200)}", style="dim")
    if event.mode != "updates" or not isinstance(data, dict):
        return
    for node, update in data.items():
        if node == "__interrupt__":
            continue
        where = "".join(f"{space.partition(':')[0]}/" for space in event.namespace)
        shown = update if isinstance(update, dict) else {"": update}
        parts = ", ".join(f"{key}={values.brief(value)}" for key, value in shown.items())
        yield Text(f"  {plain(where)}{plain(node)}", "cyan") + Text(f"  {plain(parts)}")


@click.command()
@click.argument("ours", type=options.REFERENCE, metavar="THREAD@A")
@click.argument("theirs", type=options.REFERENCE, metavar="THREAD@B")
@click.option("--ours", "keep", multiple=True, metavar="KEY", help="In a conflict, keep A's value.")
@click.option(
    "--theirs", "take", multiple=True, metavar="KEY", help="In a conflict, take B's value."
)
@click.option("--as-node", metavar="NODE", help="Write as this node.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@options.json_option
@options.graph_option
@options.database_option
def merge(
    ours: Ref,
    theirs: Ref,
    keep: tuple[str, ...],
    take: tuple[str, ...],
    as_node: str | None,
    dry_run: bool,
    graph: str | None,
) -> None:
    """Bring what B changed since their common ancestor to A, as a new checkpoint after A.

    Where both changed a key, its reducer is given what the nodes of B wrote; a key without a
    reducer is a conflict, and nothing is written.
    """
    prefer: dict[str, Any] = {**dict.fromkeys(keep, "ours"), **dict.fromkeys(take, "theirs")}
    found = options.the_graph(graph)
    db = options.opened(write=not dry_run)
    done = inspect.merge(db, found, ours, theirs, prefer=prefer, as_node=as_node, dry_run=dry_run)
    ref = None if done.ref is None else str(done.ref)
    output.show({**done._asdict(), "ref": ref, "base": str(done.base)}, _merged_lines(done, ref))


def _merged_lines(done: Merged, ref: str | None) -> Iterator[str]:
    for key in done.taken:
        yield f"taken     {plain(key)}  {values.brief(done.values[key], 100)}"
    for key in done.combined:
        yield f"combined  {plain(key)}  + {values.brief(done.values[key], 100)}"
    if ref is not None:
        yield plain(ref)
    elif not done.values:
        yield "Nothing to merge: A has all that B changed."
