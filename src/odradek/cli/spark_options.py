"""What commands that run something on Spark share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from odradek.config import extras

_Command = Callable[..., Any]


def conf_option(command: _Command) -> _Command:
    """Add `--conf`, with settings of Spark."""
    return click.option(
        "--conf",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_read_conf,
        help="A setting of Spark; repeatable.",
    )(command)


def check_installed(subject: str) -> None:
    """Check that Spark is installed. `subject` says what needs it, in the plural.

    Raises:
        ClickException: packages are missing.
    """
    lacking = extras.missing(("pyspark", "pyarrow", "numpy"))
    if lacking:
        raise click.ClickException(
            f"{subject} need {', '.join(lacking)}: {extras.install(extras.SPARK)}"
        )


def _read_conf(
    context: click.Context, parameter: click.Parameter, pairs: Sequence[str]
) -> dict[str, str]:
    del context, parameter
    conf = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.startswith("spark."):
            raise click.BadParameter(f"{pair!r}: write spark.NAME=VALUE")
        conf[name] = value
    return conf
