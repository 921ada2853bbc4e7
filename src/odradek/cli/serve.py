"""`odradek serve`: runs a node."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from odradek.cli.output import note, styled, warn

if TYPE_CHECKING:
    from odradek.config.broker_config import BrokerConfig
    from odradek.node.node import Node

EXIT_FAILED = 1


def _overrides(
    host: str | None, port: int | None, pairs: tuple[str, ...], settings: dict[str, str | None]
) -> dict[str, str]:
    """The command line as settings."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{pair!r} is not of the form name=value")
        found[name.strip()] = value.strip()
    if (host is not None or port is not None) and "listeners" not in found:
        found["listeners"] = f"PLAINTEXT://{host or ''}:{9092 if port is None else port}"
    found.update({name: value for name, value in settings.items() if value is not None})
    return found


@click.command(
    epilog="""\b
Examples:
  odradek
  odradek serve --port 0 --data /tmp/try
  odradek serve --config server.properties --override log.retention.hours=24
"""
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 takes a free one.  [default: 9092]",
)
@click.option("--host", help="Address to listen on.  [default: all of this machine]")
@click.option(
    "--data",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Where data lives.  [default: odradek in your data directory]",
)
@click.option(
    "--config",
    "file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="A server.properties file, such as Apache Kafka's.",
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting that goes before the file; may be given several times.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), help="How log lines look.  [default: text]"
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="How much is logged.  [default: info with a file, else warning]",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Serve Prometheus metrics there.  [default: off]",
)
def serve(
    port: int | None,
    host: str | None,
    data: str | None,
    file: str | None,
    overrides: tuple[str, ...],
    log_format: str | None,
    log_level: str | None,
    metrics_port: int | None,
) -> int:
    """Run a node: a broker that every Kafka client speaks to.

    Without options it listens on port 9092 and keeps its data in your data directory. Ctrl-C
    stops it in good order.
    """
    from odradek.config.checks import ConfigurationError
    from odradek.config.load import default_data_directory, load, read_file
    from odradek.node.run import StartError, run
    from odradek.telemetry.log_lines import configure_logging

    settings = _overrides(
        host, port, overrides,
        {
            "odradek.log.format": log_format,
            "odradek.log.level": log_level or (None if file else "warning"),
            "odradek.metrics.port": None if metrics_port is None else str(metrics_port),
            "log.dirs": data,
        },
    )  # fmt: skip
    try:
        loaded = load(
            read_file(Path(file)) if file is not None else None,
            settings,
            default_data_directory(os.environ),
        )
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from error
    config = loaded.config
    configure_logging(
        config.odradek_log_level, config.odradek_log_format, sys.stderr, colour=sys.stderr.isatty()
    )
    for text in loaded.warnings:
        warn(text)
    try:
        return run(config, _greet if config.odradek_log_format == "text" else lambda node: None)
    except StartError as error:
        raise click.ClickException(str(error)) from error


def _greet(node: Node) -> None:
    """Say where the node is and how to say hello."""
    from odradek import __version__

    config: BrokerConfig = node.config
    title = styled(f"Odradek {__version__}", bold=True)
    note(f"{title}  node {config.node_id}, cluster {node.identity.cluster_id}")
    for endpoint in node.server.endpoints:
        where = f"{endpoint.host or 'localhost'}:{endpoint.port}"
        reach = "" if endpoint.host else " (all addresses of this machine)"
        note(f"  listening   {styled(where, fg='green')}  {endpoint.name}{reach}")
    note(f"  data        {', '.join(config.log_dirs)}")
    if config.odradek_metrics_port >= 0:
        metrics = node.metrics_port()
        note(f"  metrics     http://{config.odradek_metrics_host}:{metrics}/metrics")
    first = node.server.endpoints[0]
    option = "" if first.port == 9092 else f" -b {first.host or 'localhost'}:{first.port}"
    note(f"  say hello   odradek produce{option} greetings hello")
    note(f"              odradek consume{option} greetings")
    note("Ctrl-C stops it.")
