"""`odradek serve`: runs a node."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from odradek.cli.arguments import parse_pairs
from odradek.cli.client_settings import NO_FILE, beside, security_option
from odradek.cli.node_options import load_node, node_options, read_settings
from odradek.cli.output import note, styled, warn
from odradek.config.listeners import with_address
from odradek.operations.listener_health import is_authenticated, is_loopback

if TYPE_CHECKING:
    from odradek.config.broker_config import BrokerConfig
    from odradek.node.node import Node

DEFAULT_PORT = 9092


def _address(
    file: Mapping[str, str], given: Mapping[str, str], host: str | None, port: int | None
) -> dict[str, str]:
    """Return the settings that give the listener for clients the address `--host` and `--port`.

    Raises:
        UsageError: there is not exactly one listener for clients, or `--override` sets `listeners`.
    """
    if host is None and port is None:
        return {}
    if "listeners" in given:
        raise click.UsageError("--host and --port cannot be used with --override listeners=...")
    settings = {**file, **given}
    controllers = [n.strip() for n in settings.get("controller.listener.names", "").split(",")]
    listeners = settings.get("listeners", f"PLAINTEXT://:{DEFAULT_PORT}")
    names = [entry.partition("://")[0].strip() for entry in listeners.split(",")]
    names = [name for name in names if name not in controllers]
    if len(names) != 1:
        raise click.UsageError(
            "--host and --port need exactly one listener for clients, but the listeners are: "
            f"{', '.join(names) or 'none'}. Use --override listeners=..."
        )
    moved = {"listeners": with_address(listeners, names[0], host, port)}
    advertised = settings.get("advertised.listeners")
    if advertised is not None and "advertised.listeners" not in given:
        moved["advertised.listeners"] = with_address(advertised, names[0], host, port)
    return moved


@click.command(
    epilog="""\b
Examples:
  odradek
  odradek serve --port 0 --data /tmp/try
  odradek serve --config server.properties --override log.retention.hours=24
  odradek serve --shards 4
"""
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port to listen on. 0 means any free port.  [default: 9092]",
)
@click.option("--host", help="Address to listen on.  [default: all addresses of this machine]")
@node_options
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    help="Format of log lines.  [default: text]",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Log level.  [default: info with --config, warning without]",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Port of the Prometheus metrics. The address is 127.0.0.1, unless "
    "odradek.metrics.host is set.  [default: off]",
)
@click.option(
    "--shards",
    type=click.IntRange(1),
    metavar="N",
    help="Run N nodes of one cluster, each in a process, to use more cores.",
)
@click.option(
    "--cluster-id",
    metavar="ID",
    help="The cluster id of new shards: the same on each machine.  [default: random]",
)
def serve(
    port: int | None,
    host: str | None,
    data: str | None,
    file: Path | None,
    overrides: tuple[str, ...],
    log_format: str | None,
    log_level: str | None,
    metrics_port: int | None,
    shards: int | None,
    cluster_id: str | None,
) -> int:
    """Run a node: a broker for Kafka clients, a controller, or both (process.roles).

    Without options the node listens on port 9092 and stores its data in ~/.local/share/odradek.
    Ctrl-C shuts the node down cleanly.

    A node serves its clients with one core. With --shards, N nodes of one cluster share the work:
    node ids, ports and metrics ports are consecutive, and each node has its own directory in the
    data directory. A process that ends is started again.
    """
    settings = read_settings(file)
    given = parse_pairs(overrides)
    given.update(_address(settings or {}, given, host, port))
    if settings is None:
        given.setdefault("odradek.log.level", "warning")
    options = {
        "odradek.log.format": log_format,
        "odradek.log.level": log_level,
        "odradek.metrics.port": metrics_port,
        "log.dirs": data,
    }
    given.update({name: str(value) for name, value in options.items() if value is not None})
    if shards is not None:
        from odradek.cli.shards import run_shards

        return run_shards(shards, settings, given, cluster_id, beside(file))
    if cluster_id is not None:
        raise click.UsageError(
            "--cluster-id needs --shards. To choose the id of a single node's cluster, run "
            "`odradek format` first."
        )
    return _run(settings, given, beside(file))


def _run(
    settings: Mapping[str, str] | None, given: Mapping[str, str], client_settings: Path | None
) -> int:
    """Run one node in this process. `client_settings` is the file that clients use, if they need it."""
    loaded = load_node(settings, given)
    config = loaded.config
    # What is imported stays. Collections would take a quarter of the time of the imports; `run`
    # enables them again.
    gc.disable()
    from odradek.node.run import StartError, run
    from odradek.telemetry.log_lines import configure_logging

    configure_logging(
        config.odradek_log_level, config.odradek_log_format, sys.stderr, colour=sys.stderr.isatty()
    )
    for text in (*loaded.warnings, *_open_listeners(config)):
        warn(text)
    try:
        is_text = config.odradek_log_format == "text"
        return run(config, partial(_greet, client_settings) if is_text else lambda node: None)
    except StartError as error:
        raise click.ClickException(str(error)) from error


def _open_listeners(config: BrokerConfig) -> Iterator[str]:
    """Yield a warning if everyone who reaches this machine may use the node."""
    names = [
        each.name
        for each in config.listeners
        if not is_loopback(each.host) and not is_authenticated(config, each.name)
    ]
    if names:
        yield (
            f"everyone who can reach this machine may use the node: no authentication on "
            f"{', '.join(names)}. Listen on localhost only (--host localhost), or see: odradek secure"
        )


def _greet(client_settings: Path | None, node: Node) -> None:
    """Print the addresses of the node, and commands to try first."""
    from odradek import __version__

    config: BrokerConfig = node.config
    title = styled(f"Odradek {__version__}", bold=True)
    note(f"{title}  node {config.node_id}, cluster {node.identity.cluster_id}")
    for endpoint in node.server.endpoints:
        where = _host_and_port(endpoint.host, endpoint.port)
        reach = "" if endpoint.host else " (all addresses of this machine)"
        note(f"  listening   {styled(where, fg='green')}  {endpoint.name}{reach}")
    note(f"  data        {', '.join(map(os.path.abspath, config.log_dirs))}")
    if config.odradek_metrics_port >= 0:
        metrics = node.metrics_port()
        note(f"  metrics     http://{_host_and_port(config.odradek_metrics_host, metrics)}/metrics")
    if config.is_broker:
        _suggest(node, client_settings)
    note("Ctrl-C stops it.")


def _suggest(node: Node, client_settings: Path | None) -> None:
    """Print commands to try first. If the first listener has TLS or SASL, they use a file."""
    first = node.server.endpoints[0]
    where = _host_and_port(first.host, first.port)
    security = security_option(node.config, first.name, client_settings)
    if security is None:
        note(f"  say hello   {NO_FILE}")
        return
    option = ("" if where == f"localhost:{DEFAULT_PORT}" else f" -b {where}") + security
    commands = [f"produce{option} greetings hello", f"consume{option} greetings"]
    if not node.config.auto_create_topics_enable:
        commands.insert(0, f"topic create{option} greetings")
    for place, command in enumerate(commands):
        note(f"  {'' if place else 'say hello':<11} odradek {command}")


def _host_and_port(host: str, port: int) -> str:
    """Return an address as clients write it."""
    host = host or "localhost"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
