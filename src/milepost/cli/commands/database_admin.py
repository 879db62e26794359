"""`milepost dump`, `load`, `verify`, `salvage`, `reencrypt` and `migrate`: whole databases."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from milepost import inspect
from milepost.cli import options, output, values
from milepost.cli.exit_codes import FAILED
from milepost.cli.lines import Text, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from milepost.inspect import SalvagedState


@click.command()
@click.argument("threads", type=options.THREAD, nargs=-1)
@click.option("--output", "-o", "file", metavar="FILE", help="Default: standard output.")
@options.database_option
def dump(threads: tuple[str, ...], file: str | None) -> None:
    """Write threads, or all, as lines of text with checksums, which `load` takes."""
    db = options.opened()
    lines = inspect.dump(db, list(threads) or None)
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
@options.database_option
def load(file: str, rename: tuple[str, ...]) -> None:
    """Store the threads of a dump: a file, or - for standard input.

    A database that is not there is made.
    """
    names = options.parsed_names(rename)
    try:
        stream = click.open_file(file, encoding="utf-8")
    except OSError as error:
        raise click.BadParameter(f"'{file}' cannot be read: {error.strerror}.") from error
    with stream as lines, output.progress("loading", None) as step:
        db = options.opened(write=True, create=True)
        loaded = inspect.load_dump(db, _each(lines, step), rename=names)
    click.echo(f"{output.count_text(len(loaded), 'thread')} loaded.")


def _each(lines: Iterable[str], step: Callable[..., None]) -> Iterator[str]:
    for line in lines:
        yield line.rstrip("\n")
        step()


@click.command()
@click.argument("threads", type=options.THREAD, nargs=-1)
@options.json_option
@options.database_option
def verify(threads: tuple[str, ...]) -> None:
    """Check every row and value of threads, or of all; exits with 1 if something is wrong."""
    db = options.opened()
    with output.progress("verifying", len(threads) or None) as step:
        problems = list(inspect.verify(db, list(threads) or None, progress=step))
    rows = [
        (
            plain(p.thread_id),
            plain(p.table),
            plain(f"{p.checkpoint_ns} {p.key}".strip()),
            plain(p.reason),
        )
        for p in problems
    ]
    lines = output.table_lines(("thread", "table", "row", "problem"), rows)
    output.show({"problems": problems}, lines if problems else ["Everything can be read."])
    if problems:
        raise SystemExit(FAILED)


@click.command()
@click.argument("thread", type=options.THREAD)
@click.option("--limit", "-n", type=click.IntRange(1), help="At most so many checkpoints.")
@click.option("--full", is_flag=True, help="Show long texts and lists whole.")
@options.json_option
@options.database_option
def salvage(thread: str, limit: int | None, full: bool) -> None:
    """Show what can still be read of a damaged thread, newest first. Nothing is changed."""
    found = inspect.salvage(options.opened(), thread)[:limit]
    if not found and not output.wants("json"):
        output.say("Nothing of it can be read. `milepost verify` says why.")
        raise SystemExit(FAILED)
    output.show_each(found, _salvaged_lines(found, full))


def _salvaged_lines(found: Iterable[SalvagedState], full: bool) -> Iterator[Text]:
    for one in found:
        title = f"{one.checkpoint_id}  step {one.step}  {one.namespace}".rstrip()
        yield Text(plain(title), style="yellow")
        yield from values.tree(dict(one.values), depth=1, full=full)
        for what, why in one.lost.items():
            yield Text(f"  lost: {plain(what)}: {plain(why)}", style="red")


@click.command()
@click.argument("threads", type=options.THREAD, nargs=-1)
@click.option(
    "--old-key-env",
    multiple=True,
    metavar="VARIABLE",
    help="An environment variable with a key that values are sealed with now.",
)
@options.yes_option
@options.json_option
@options.database_option
def reencrypt(threads: tuple[str, ...], old_key_env: tuple[str, ...], yes: bool) -> None:
    """Seal everything with the key in MILEPOST_AES_KEY: what has an older key, or none."""
    from milepost.checkpoint.serde.encrypted import EncryptedSerializer

    new, *old = (_key(name) for name in ("MILEPOST_AES_KEY", *old_key_env))
    serde = EncryptedSerializer.from_pycryptodome_aes(key=new, old_keys=old, allow_plaintext=True)
    db = options.opened(write=True, serde=serde)
    options.confirm(f"Seal {'these threads' if threads else 'all threads'} of {db.url} again?", yes)
    with output.progress("sealing", None) as step:
        done = inspect.reencrypt(db, list(threads) or None, progress=step)
    output.show(done, [f"{done.resealed} rows sealed, {done.current} had the newest key."])
    for problem in () if output.wants("json") else done.refused:
        output.say(f"refused: thread '{problem.thread_id}': {problem.reason}")
    if done.refused:
        raise SystemExit(FAILED)


def _key(name: str) -> bytes:
    from milepost.checkpoint.serde.keyring import check_key

    value = os.environ.get(name)
    if not value:
        raise click.UsageError(f"The environment variable {name} is not set.")
    try:
        return check_key(value)
    except ValueError as error:
        raise click.UsageError(f"The environment variable {name}: {error}") from error


@click.command()
@click.argument("threads", type=options.THREAD, nargs=-1)
@click.option("--dry-run", is_flag=True, help="Say which threads the graph cannot go on with.")
@options.graph_option
@options.json_option
@options.database_option
def migrate(threads: tuple[str, ...], dry_run: bool, graph: str | None) -> None:
    """Check every thread against the code of today; exits with 1 if one does not fit.

    Stored values are migrated when they are read, so there is nothing to rewrite: this reads each
    thread as a run would, and changes nothing.
    """
    from milepost.inspect.parts import check_threads_exist

    if not dry_run:
        raise click.UsageError(
            "Values are migrated when they are read; there is nothing to do beforehand. "
            "--dry-run says which threads would fail."
        )
    found = options.the_graph(graph)
    db = options.opened()
    check_threads_exist(db, threads)
    ids = list(threads) or inspect.matching(db)
    failed = []
    with output.progress("checking", len(ids)) as step:
        for checked in inspect.check_threads(db, found, ids):
            step()
            if checked.problem is not None:
                failed.append(checked)
    rows = [(plain(one.thread_id), plain(one.problem or "")) for one in failed]
    lines = output.table_lines(("thread", "problem"), rows) if failed else ()
    fit = f"{len(ids) - len(failed)} of {len(ids)} threads fit."
    output.show({"threads": len(ids), "problems": failed}, [*lines, fit])
    if failed:
        raise SystemExit(FAILED)
