"""`milepost tag` and `tags`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from milepost import inspect
from milepost.cli import options, output
from milepost.cli.lines import plain

if TYPE_CHECKING:
    from milepost.inspect import Ref


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
def tags(thread: str, as_json: bool) -> None:
    """List the tags of a thread."""
    found = inspect.tags(options.opened(), thread)
    if as_json:
        output.show_json({"tags": found})
        return
    if not found:
        output.say(f"Thread '{thread}' has no tags.")
        return
    output.show_table(
        ("tag", "checkpoint", "graph", ""),
        [
            (
                plain(one.name),
                plain(one.checkpoint_id),
                plain(one.namespace) or "-",
                "" if one.exists else "(removed)",
            )
            for one in found
        ],
    )
