"""`milepost copy`, `delete`, `erase` and `prune`: whole threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from milepost import inspect
from milepost.cli import options, output

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.inspect import Database


def choosing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Threads by id, or by their status, age, prefix and metadata."""
    for option in (
        options.status_option,
        click.option(
            "--older-than", type=options.age, help="Those that were not used for so long: 30d."
        ),
        click.option("--prefix", help="Those whose ids begin with this."),
        options.metadata_option,
        click.argument("threads", type=options.THREAD, nargs=-1),
    ):
        command = option(command)
    return command


def _chosen(db: Database, threads: tuple[str, ...], **wanted: Any) -> list[str]:
    metadata = options.parsed_metadata(wanted.pop("metadata"))
    described = bool(metadata) or any(wanted.values())
    if threads and described:
        raise click.UsageError("Name threads, or describe them; not both.")
    if threads:
        from milepost.inspect.parts import check_threads_exist

        check_threads_exist(db, threads)
        return list(dict.fromkeys(threads))
    if not described:
        raise click.UsageError("Which threads? Name them, or give --older-than, --metadata, …")
    return inspect.matching(db, metadata=metadata, **wanted)


def _threads(ids: list[str]) -> str:
    return output.count_text(len(ids), "thread")


def _listed(ids: list[str]) -> str:
    shown = ", ".join(f"'{id}'" for id in ids[:5])
    return f"{shown} and {len(ids) - 5} more" if len(ids) > 5 else shown


@click.command()
@click.argument("source", type=options.THREAD)
@click.argument("target")
@options.database_option
def copy(source: str, target: str) -> None:
    """Copy a thread with its whole history to a new id."""
    if not target:
        raise click.UsageError("The copy needs an id.")
    inspect.copy_thread(options.opened(write=True), source, target)


@click.command()
@choosing_options
@options.yes_option
@options.database_option
def delete(yes: bool, **chosen: Any) -> None:
    """Remove threads. Their bytes stay in the files until they are overwritten: see erase."""
    _remove(inspect.delete_threads, yes, "Delete", "", **chosen)


@click.command()
@choosing_options
@options.yes_option
@options.database_option
def erase(yes: bool, **chosen: Any) -> None:
    """Remove threads for good: the files hold none of their bytes afterwards."""
    _remove(inspect.erase_threads, yes, "Erase", " for good", **chosen)


def _remove(remove: Callable[..., Any], yes: bool, verb: str, how: str, **chosen: Any) -> None:
    db = options.opened(write=True)
    ids = _chosen(db, **chosen)
    if not ids:
        click.echo("No thread fits.")
        return
    options.confirm(f"{verb} {_threads(ids)}, {_listed(ids)}, from {db.url}{how}?", yes)
    with output.progress(f"{verb.lower()[:-1]}ing", len(ids)) as step:
        removed = remove(db, ids, progress=step)
    counted = "" if removed is None else f": {_counted(removed)}"
    click.echo(f"{_threads(ids)} {verb.lower()}d{counted}.")


@click.command()
@choosing_options
@click.option("--all", "everything", is_flag=True, help="All threads.")
@click.option(
    "--keep",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="How many checkpoints of each thread to keep.",
)
@click.option("--keep-younger", type=options.age, help="Keep what is younger than this: 7d.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@options.yes_option
@options.json_option
@options.database_option
def prune(
    yes: bool,
    dry_run: bool,
    keep: int,
    keep_younger: float | None,
    everything: bool,
    **chosen: Any,
) -> None:
    """Remove history: all but the last checkpoints of threads, and what those need.

    It counts first, and asks.
    """
    db = options.opened(write=not dry_run)
    ids = inspect.matching(db) if everything else _chosen(db, **chosen)
    removed = inspect.prune_preview(db, ids, keep=keep, older_than=keep_younger)
    if not dry_run and removed.checkpoints:
        options.confirm(f"Remove {_counted(removed)} of {_threads(ids)} from {db.url}?", yes)
        with output.progress("pruning", len(ids)) as step:
            removed = inspect.prune(db, ids, keep=keep, older_than=keep_younger, progress=step)
    verb = "would be removed" if dry_run else "removed"
    done = {"dry_run": dry_run, "threads": len(ids), "removed": removed}
    output.show(done, [f"{_counted(removed)} of {_threads(ids)} {verb}."])


def _counted(removed: Any) -> str:
    return ", ".join(
        output.count_text(count, noun)
        for count, noun in (
            (removed.checkpoints, "checkpoint"),
            (removed.writes, "write"),
            (removed.values, "value"),
        )
    )
