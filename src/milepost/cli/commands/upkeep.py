"""`milepost copy`, `delete`, `erase`, `prune`, `dump`, `load`, `verify`, `salvage`, `reencrypt` and
`migrate`: whole threads and whole databases."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from milepost.cli import output
from milepost.cli.exit_codes import FAILED
from milepost.cli.options import (
    THREAD,
    Age,
    confirm,
    database_option,
    graph_option,
    json_option,
    opened,
    parsed_metadata,
    the_graph,
    yes_option,
)
from milepost.cli.plain import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from milepost.inspect import Database


def choosing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Threads by id, or by what the registry says of them."""
    for option in (
        click.option("--status", help="Those with this status."),
        click.option("--older-than", type=Age(), help="Those that were not used for so long: 30d."),
        click.option("--prefix", help="Those whose ids begin with this."),
        click.option("--metadata", "-m", multiple=True, metavar="KEY=VALUE"),
        click.argument("threads", type=THREAD, nargs=-1),
    ):
        command = option(command)
    return command


def _chosen(db: Database, threads: tuple[str, ...], **wanted: Any) -> list[str]:
    from milepost.inspect import matching

    metadata = parsed_metadata(wanted.pop("metadata"))
    if threads and (metadata or any(wanted.values())):
        raise click.UsageError("Name threads, or describe them; not both.")
    if threads:
        from milepost.inspect._upkeep import check_threads_exist

        check_threads_exist(db, threads)
        return list(dict.fromkeys(threads))
    if not metadata and not any(wanted.values()):
        raise click.UsageError("Which threads? Name them, or give --older-than, --metadata, …")
    return matching(db, metadata=metadata, **wanted)


def _threads(ids: list[str]) -> str:
    return output.count_text(len(ids), "thread")


def _listed(ids: list[str]) -> str:
    shown = ", ".join(f"'{id}'" for id in ids[:5])
    return f"{shown} and {len(ids) - 5} more" if len(ids) > 5 else shown


@click.command()
@click.argument("source", type=THREAD)
@click.argument("target")
@database_option
def copy(source: str, target: str, database: str | None) -> None:
    """Copy a thread with its whole history to a new id."""
    from milepost.inspect import copy_thread

    copy_thread(opened(database, write=True), source, target)


@click.command()
@choosing_options
@yes_option
@database_option
def delete(database: str | None, yes: bool, **chosen: Any) -> None:
    """Remove threads. Their bytes stay in the files until they are overwritten: see erase."""
    from milepost.inspect import delete_threads

    db = opened(database, write=True)
    ids = _chosen(db, **chosen)
    if not ids:
        click.echo("No thread fits.")
        return
    confirm(f"Delete {_threads(ids)}, {_listed(ids)}, from {db.url}?", yes)
    with output.progress("deleting", len(ids)) as step:
        delete_threads(db, ids, progress=step)
    click.echo(f"{_threads(ids)} deleted.")


@click.command()
@choosing_options
@yes_option
@database_option
def erase(database: str | None, yes: bool, **chosen: Any) -> None:
    """Remove threads for good: the files hold none of their bytes afterwards."""
    from milepost.inspect import erase_threads

    db = opened(database, write=True)
    ids = _chosen(db, **chosen)
    if not ids:
        click.echo("No thread fits.")
        return
    confirm(f"Erase {_threads(ids)}, {_listed(ids)}, from {db.url} for good?", yes)
    removed = erase_threads(db, ids)
    click.echo(f"{_threads(ids)} erased: {_counted(removed)}.")


@click.command()
@choosing_options
@click.option("--all", "everything", is_flag=True, help="All threads.")
@click.option("--keep", type=click.IntRange(1), default=1, show_default=True, help="Checkpoints.")
@click.option("--keep-younger", type=Age(), help="Keep what is younger than this: 7d.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@yes_option
@json_option
@database_option
def prune(
    database: str | None,
    as_json: bool,
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
    from milepost.inspect import matching, prune_preview
    from milepost.inspect import prune as pruned

    db = opened(database, write=not dry_run)
    ids = matching(db) if everything else _chosen(db, **chosen)
    removed = prune_preview(db, ids, keep=keep, older_than=keep_younger)
    if not dry_run and removed.checkpoints:
        said = f"{_counted(removed)} of {_threads(ids)}"
        confirm(f"Remove {said} from {db.url}?", yes)
        with output.progress("pruning", len(ids)) as step:
            removed = pruned(db, ids, keep=keep, older_than=keep_younger, progress=step)
    if as_json:
        output.show_json({"dry_run": dry_run, "threads": len(ids), "removed": removed})
        return
    verb = "would be removed" if dry_run else "removed"
    click.echo(f"{_counted(removed)} of {_threads(ids)} {verb}.")


def _counted(removed: Any) -> str:
    return ", ".join(
        output.count_text(count, noun)
        for count, noun in (
            (removed.checkpoints, "checkpoint"),
            (removed.writes, "write"),
            (removed.values, "value"),
        )
    )


@click.command()
@click.argument("threads", type=THREAD, nargs=-1)
@click.option("--output", "-o", "file", metavar="FILE", help="Default: standard output.")
@database_option
def dump(threads: tuple[str, ...], file: str | None, database: str | None) -> None:
    """Write threads, or all, as lines of text with checksums, which `load` takes."""
    from milepost.inspect import dump as dumped

    db = opened(database)
    lines = dumped(db, list(threads) or None)
    if file is None:
        for line in lines:
            sys.stdout.write(f"{line}\n")
        return
    with (
        click.open_file(file, "w", encoding="utf-8", atomic=True) as out,
        output.progress("dumping", None) as step,
    ):
        for line in lines:
            out.write(f"{line}\n")
            step()


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="Store a thread under another id.")
@database_option
def load(file: str, rename: tuple[str, ...], database: str | None) -> None:
    """Store the threads of a dump, from a file or - for standard input; a file that is not there
    is made."""
    from milepost.inspect import load_dump

    names = dict(pair.partition("=")[::2] for pair in rename)
    try:
        stream = click.open_file(file, encoding="utf-8")
    except OSError as error:
        raise click.BadParameter(f"'{file}' cannot be read: {error.strerror}.") from error
    with stream as lines, output.progress("loading", None) as step:
        db = opened(database, write=True, create=True)
        loaded = load_dump(db, _each(lines, step), rename=names)
    click.echo(f"{_threads(loaded)} loaded.")


def _each(lines: Iterable[str], step: Callable[..., None]) -> Iterator[str]:
    for line in lines:
        yield line.rstrip("\n")
        step()


@click.command()
@click.argument("threads", type=THREAD, nargs=-1)
@json_option
@database_option
def verify(threads: tuple[str, ...], as_json: bool, database: str | None) -> None:
    """Check every row and value of threads, or of all; exits with 1 if something is wrong."""
    from milepost.inspect import verify as verified

    db = opened(database)
    with output.progress("verifying", len(threads) or None) as step:
        problems = list(verified(db, list(threads) or None, progress=step))
    if as_json:
        output.show_json({"problems": problems})
    elif problems:
        output.show_table(
            ("thread", "table", "row", "problem"),
            [
                (
                    plain(p.thread_id),
                    plain(p.table),
                    plain(f"{p.checkpoint_ns} {p.key}".strip()),
                    plain(p.reason),
                )
                for p in problems
            ],
        )
    else:
        click.echo("Everything can be read.")
    if problems:
        raise SystemExit(FAILED)


@click.command()
@click.argument("thread", type=THREAD)
@click.option("--limit", "-n", type=click.IntRange(1), help="At most so many checkpoints.")
@click.option("--full", is_flag=True, help="Show long texts and lists whole.")
@json_option
@database_option
def salvage(
    thread: str, limit: int | None, full: bool, as_json: bool, database: str | None
) -> None:
    """Show what can still be read of a damaged thread, newest first. Nothing is changed."""
    from milepost.inspect import salvage as salvaged

    found = salvaged(opened(database), thread)[:limit]
    if as_json:
        output.show_json_lines(found)
        return
    for one in found:
        title = f"{one.checkpoint_id}  step {one.step}  {one.namespace}".rstrip()
        output.show_lines([Text(plain(title), style="yellow")])
        output.show_lines(output.tree(dict(one.values), depth=1, full=full))
        for what, why in one.lost.items():
            output.show_lines([Text(f"  lost: {plain(what)}: {plain(why)}", style="red")])


@click.command()
@click.argument("threads", type=THREAD, nargs=-1)
@click.option(
    "--old-key-env",
    multiple=True,
    metavar="VARIABLE",
    help="An environment variable with a key that values are sealed with now.",
)
@yes_option
@json_option
@database_option
def reencrypt(
    threads: tuple[str, ...],
    old_key_env: tuple[str, ...],
    yes: bool,
    as_json: bool,
    database: str | None,
) -> None:
    """Seal everything with the key in MILEPOST_AES_KEY: what has an older key, or none."""
    from milepost.checkpoint.serde.encrypted import EncryptedSerializer
    from milepost.inspect import reencrypt as resealed

    old = [_key(name) for name in old_key_env]
    try:
        serde = EncryptedSerializer.from_pycryptodome_aes(old_keys=old, allow_plaintext=True)
    except ValueError as error:
        raise click.UsageError(f"The new key: {error}") from error
    db = opened(database, write=True, serde=serde)
    confirm(f"Seal {'these threads' if threads else 'all threads'} of {db.url} again?", yes)
    with output.progress("sealing", None) as step:
        done = resealed(db, list(threads) or None, progress=step)
    if as_json:
        output.show_json(done)
    else:
        click.echo(f"{done.resealed} rows sealed, {done.current} had the newest key.")
        for problem in done.refused:
            click.echo(plain(f"refused: thread '{problem.thread_id}': {problem.reason}"), err=True)
    if done.refused:
        raise SystemExit(FAILED)


def _key(name: str) -> bytes:
    value = os.environ.get(name)
    if not value:
        raise click.UsageError(f"The environment variable {name} is not set.")
    return value.encode()


@click.command()
@click.argument("threads", type=THREAD, nargs=-1)
@click.option("--dry-run", is_flag=True, help="Say which threads the graph cannot go on with.")
@graph_option
@json_option
@database_option
def migrate(
    threads: tuple[str, ...],
    dry_run: bool,
    graph: str | None,
    as_json: bool,
    database: str | None,
) -> None:
    """Check every thread against the code of today; exits with 1 if one does not fit.

    Stored values are migrated when they are read, so there is nothing to rewrite: this reads each
    thread as a run would, and changes nothing.
    """
    from milepost.inspect import check_threads, matching
    from milepost.inspect._upkeep import check_threads_exist

    if not dry_run:
        raise click.UsageError(
            "Values are migrated when they are read; there is nothing to do beforehand. "
            "--dry-run says which threads would fail."
        )
    found = the_graph(graph)
    db = opened(database)
    check_threads_exist(db, threads)
    ids = list(threads) or matching(db)
    failed = []
    with output.progress("checking", len(ids)) as step:
        for checked in check_threads(db, found, ids):
            step()
            if checked.problem is not None:
                failed.append(checked)
    if as_json:
        output.show_json({"threads": len(ids), "problems": failed})
    else:
        if failed:
            rows = [(plain(one.thread_id), plain(one.problem or "")) for one in failed]
            output.show_table(("thread", "problem"), rows)
        click.echo(f"{len(ids) - len(failed)} of {len(ids)} threads fit.")
    if failed:
        raise SystemExit(FAILED)
