"""`milepost completion`: what a shell needs to complete commands, options and threads."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands, options and threads in a shell.

    \b
    eval "$(milepost completion bash)"           # in ~/.bashrc
    eval "$(milepost completion zsh)"            # in ~/.zshrc
    milepost completion fish > ~/.config/fish/completions/milepost.fish
    """
    maker = get_completion_class(shell)
    assert maker is not None
    root = click.get_current_context().find_root().command
    click.echo(maker(root, {}, "milepost", "_MILEPOST_COMPLETE").source())
