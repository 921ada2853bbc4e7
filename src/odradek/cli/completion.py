"""`odradek completion`: prints scripts that let a shell complete commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a completion script. The script requests names of topics and groups from the cluster.

    \b
    Install it with one line in your shell's start-up file:
      ~/.bashrc:                   eval "$(odradek completion bash)"
      ~/.zshrc:                    eval "$(odradek completion zsh)"
      ~/.config/fish/config.fish:  odradek completion fish | source
    """
    kind = get_completion_class(shell)
    assert kind is not None
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, "odradek", "_ODRADEK_COMPLETE").source())
