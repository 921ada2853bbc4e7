"""`odradek format`: prepares log directories, as `kafka-storage format` does."""

from __future__ import annotations

from pathlib import Path

import click

from odradek.cli.arguments import parse_pairs
from odradek.cli.node_options import load_node, node_options, read_settings
from odradek.cli.output import warn
from odradek.cli.values import now_ms
from odradek.env.file_system import OsFileSystem
from odradek.env.randomness import system_random_bytes
from odradek.model import uuids
from odradek.node.format import FormatError, Formatter


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
    "--standalone/--no-initial-controllers",
    default=True,
    show_default=True,
    help="Whether this node is the first voter of the quorum.",
)
@click.option(
    "--ignore-formatted",
    "-g",
    is_flag=True,
    help="Do not fail if the directories are formatted already.",
)
def format_command(
    data: str | None,
    file: Path | None,
    overrides: tuple[str, ...],
    node_id: int | None,
    cluster_id: str | None,
    standalone: bool,
    ignore_formatted: bool,
) -> None:
    """Prepare the log directories of a new node.

    A node also prepares empty directories when it starts. Use this command to choose the cluster
    id.

    \b
    Examples:
      odradek format --data /var/lib/odradek
      odradek format --config server.properties -t MkU3OEVBNTcwNTJENDM2Qg
    """
    if node_id is not None:
        overrides = (*overrides, f"node.id={node_id}")
    given = parse_pairs(overrides)
    if data is not None:
        given["log.dirs"] = data
    loaded = load_node(read_settings(file), given)
    for warning in loaded.warnings:
        warn(warning)
    formatter = Formatter(loaded.config, OsFileSystem(), system_random_bytes, now_ms())
    try:
        known = formatter.read()
        if known is not None and ignore_formatted:
            click.echo(f"Formatted already, for cluster {known.cluster_id}")
            return
        identity = formatter.format(cluster_id, standalone)
    except FormatError as error:
        raise click.ClickException(str(error)) from error
    for path, directory_id in identity.directory_ids.items():
        click.echo(f"Formatted {path} (directory {uuids.to_text(directory_id)})")
    click.echo(f"Cluster {identity.cluster_id}, node {identity.node_id}")
