"""A group of commands that are imported only when they are called or described."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from odradek.operations.suggestions import did_you_mean


class LazyGroup(click.Group):
    """A group that imports a command when the command is called or described.

    `commands_by_name` has the location (`module:attribute`) and a line of help of each command.
    """

    def __init__(
        self, *args: Any, commands_by_name: Mapping[str, tuple[str, str]], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._modules = commands_by_name

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the given order, which is the typical order of use."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        entry = self._modules.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry[0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or fail with a suggestion."""
        if args[0] not in self._modules and not args[0].startswith("-"):
            meant = did_you_mean(args[0], self._modules)
            ctx.fail(f"There is no command {args[0]!r}. {meant}".rstrip())
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._modules.items()])
