"""`odradek format`: prepares log directories, as `kafka-storage format` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from odradek.cli.arguments import parse_pairs
from odradek.cli.node_options import load_before_start, node_options, read_settings
from odradek.cli.output import warn
from odradek.cli.values import now_ms
from odradek.core.metadata.releases import LEVEL_NAMES
from odradek.core.metadata.versions import LEVEL_MAX, METADATA_VERSION
from odradek.env.file_system import OsFileSystem
from odradek.env.randomness import system_random_bytes
from odradek.model import uuids
from odradek.node.add_scram import parse_credential
from odradek.node.feature_levels import choose_levels
from odradek.node.format import FormatError, Formatter
from odradek.node.initial_controllers import parse_initial_controllers

if TYPE_CHECKING:
    from odradek.config.broker_config import BrokerConfig

DEFAULT_LISTENER = "CONTROLLER"
"""The name of the controller listener if controller.listener.names is not set."""


@click.command("format")
@node_options
@click.option(
    "--node-id",
    type=click.IntRange(0),
    metavar="N",
    help="The node's id; overrides the setting node.id.",
)
@click.option("--cluster-id", "-t", metavar="ID", help="An id of 22 characters; by default random.")
@click.option(
    "--standalone",
    "-s",
    is_flag=True,
    help="This controller is the only voter of a new quorum. The default if the configuration names "
    "no other controller.",
)
@click.option(
    "--initial-controllers",
    "-I",
    "initial",
    metavar="LIST",
    help="The voters of a new quorum: id@host:port:directory, ... The same for all nodes.",
)
@click.option(
    "--no-initial-controllers",
    "-N",
    "joins",
    is_flag=True,
    help="The node joins a quorum that exists.",
)
@click.option(
    "--ignore-formatted",
    "-g",
    is_flag=True,
    help="Do not fail if the directories are formatted already.",
)
@click.option(
    "--add-scram",
    "-S",
    "scram",
    multiple=True,
    metavar="CREDENTIAL",
    help="A SCRAM credential: MECHANISM=[name=USER,password=PASSWORD]. Repeat it for several users.",
)
@click.option(
    "--release-version",
    "-r",
    "release",
    metavar="RELEASE",
    help="A release of Apache Kafka, such as 4.1 or 3.7-IV4, with whose feature levels the cluster "
    f"begins. By default {LEVEL_NAMES[LEVEL_MAX]}.",
)
@click.option(
    "--feature",
    "-f",
    "features",
    multiple=True,
    metavar="NAME=LEVEL",
    help="The level of a feature, such as group.version=1. Repeat it for several features.",
)
def format_command(
    data: str | None,
    file: Path | None,
    overrides: tuple[str, ...],
    node_id: int | None,
    cluster_id: str | None,
    standalone: bool,
    initial: str | None,
    joins: bool,
    scram: tuple[str, ...],
    ignore_formatted: bool,
    release: str | None,
    features: tuple[str, ...],
) -> None:
    """Prepare the log directories of a new node.

    A node also prepares empty directories when it starts, if its configuration names no other
    controller. Use this command to choose the cluster id, or for a cluster of several nodes.

    \b
    Examples:
      odradek format --data /var/lib/odradek
      odradek format --config server.properties -t MkU3OEVBNTcwNTJENDM2Qg
      odradek format --config new.properties -t MkU3OEVBNTcwNTJENDM2Qg -N
      odradek format --data data -S 'SCRAM-SHA-256=[name=alice,password=secret]'
      odradek format --config server.properties -r 4.1 -f share.version=1
    """
    if node_id is not None:
        overrides = (*overrides, f"node.id={node_id}")
    given = parse_pairs(overrides)
    if data is not None:
        given["log.dirs"] = data
    loaded = load_before_start(read_settings(file), given)
    for warning in loaded.warnings:
        warn(warning)
    config = loaded.config
    is_first = _is_first_voter(config, standalone, initial, joins)
    controllers = None
    if initial is not None:
        name = next(iter(config.controller_listener_names), DEFAULT_LISTENER)
        try:
            controllers = parse_initial_controllers(initial, name)
        except ValueError as error:
            raise click.UsageError(f"--initial-controllers: {error}") from error
    try:
        credentials = [parse_credential(each, system_random_bytes) for each in scram]
        levels = choose_levels(release, features, is_dynamic=not config.quorum_voters)
        formatter = Formatter(
            config, OsFileSystem(), system_random_bytes, now_ms(), levels, credentials
        )
        known = formatter.read()
        if known is not None and ignore_formatted:
            click.echo(f"Formatted already, for cluster {known.cluster_id}")
            return
        identity = formatter.format(cluster_id, is_first, controllers)
    except FormatError as error:
        raise click.ClickException(str(error)) from error
    for path, directory_id in identity.directory_ids.items():
        click.echo(f"Formatted {path} (directory {uuids.to_text(directory_id)})")
    metadata_level = levels[METADATA_VERSION]
    click.echo(f"Features of {LEVEL_NAMES[metadata_level]} (metadata.version {metadata_level})")
    click.echo(f"Cluster {identity.cluster_id}, node {identity.node_id}")


def _is_first_voter(
    config: BrokerConfig, standalone: bool, initial: str | None, joins: bool
) -> bool:
    """Return whether the node is the only voter of a new quorum.

    Raises:
        UsageError: the options contradict each other or the configuration, or one is missing.
    """
    options = {
        "--standalone": standalone,
        "--initial-controllers": initial is not None,
        "--no-initial-controllers": joins,
    }
    given = [name for name, is_given in options.items() if is_given]
    if len(given) > 1:
        raise click.UsageError(f"choose one of {' and '.join(given)}")
    if config.quorum_voters:
        if given and not joins:
            raise click.UsageError(
                f"controller.quorum.voters already has the voters: remove this setting or {given[0]}"
            )
        return False
    if standalone and not config.is_controller:
        raise click.UsageError("--standalone is for nodes with the role controller")
    if not given and config.is_controller and not config.is_first_voter:
        raise click.UsageError(
            "the configuration names other controllers: choose one of --standalone, "
            "--initial-controllers or --no-initial-controllers"
        )
    return standalone or (not given and config.is_first_voter)
