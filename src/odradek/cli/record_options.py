"""The options of commands that print records: the format, and the parts of a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

keys_option = click.option("--keys", "-k", is_flag=True, help="Print keys too.")
headers_option = click.option("--headers", "-H", is_flag=True, help="Print headers too.")
offsets_option = click.option(
    "--offsets", "-o", is_flag=True, help="Print topic, partition and offset too."
)


def format_options(command: CommandT) -> CommandT:
    """Add `--format`, and `--json` for `--format json`. Their parameter is `form`."""
    command = click.option(
        "--json",
        "form",
        flag_value="json",
        help="Print one JSON object per line, as --format json.",
    )(command)
    return click.option(
        "--format",
        "-F",
        "form",
        metavar="FORMAT",
        default="text",
        show_default=True,
        help=r"text, json, or a template: '{offset}: {key}\t{value}\n'.",
    )(command)
