"""The command line with its extra: every command, loaded when it is called."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module

import click

from milepost.cli.names import BARE, COMMANDS
from milepost.cli.options import database_option, given_address


class Lazy(click.Group):
    """A group whose commands are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [*COMMANDS, *(name for name in BARE if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name in COMMANDS:
            module = import_module(f"milepost.cli.commands.{COMMANDS[cmd_name].module}")
            command: click.Command = getattr(module, cmd_name)
            return command
        help = BARE.get(cmd_name)
        return None if help is None else _passed_on(cmd_name, help)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and args[0] not in BARE:
            import difflib

            names = self.list_commands(ctx)
            close = difflib.get_close_matches(args[0], names, n=3)
            hint = f"Did you mean {' or '.join(close)}?" if close else "milepost --help lists them."
            ctx.fail(f"There is no command '{args[0]}'. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        groups: dict[str, list[tuple[str, str]]] = {}
        for name, command in COMMANDS.items():
            groups.setdefault(command.group, []).append((name, command.help))
        others = [(name, help) for name, help in BARE.items() if name not in COMMANDS]
        for title, rows in (*groups.items(), ("Others", others)):
            with formatter.section(title):
                formatter.write_dl(rows)


def _passed_on(name: str, help: str) -> click.Command:
    """A command that works without the extra, and reads its arguments itself."""

    @click.command(
        name,
        help=help,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: Sequence[str]) -> None:
        address = given_address(click.get_current_context())
        if address:
            os.environ["MILEPOST_DB"] = address
        from milepost.cli.bare import run_bare

        raise SystemExit(run_bare([name, *arguments]))

    return command


def _show_version(ctx: click.Context) -> None:
    from milepost._internal.version import __version__

    click.echo(f"milepost {__version__}")
    ctx.exit()


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=lambda ctx, _, given: _show_version(ctx) if given else None,
    help="Show the version and exit.",
)
@database_option
def app() -> None:
    """Threads of a durable graph runtime: look at them, compare them, go back.

    THREAD@CHECKPOINT means a checkpoint: its id, of which the end or a beginning is enough, a tag,
    or ~3 for three before the latest. The database is --db, or MILEPOST_DB.
    """
