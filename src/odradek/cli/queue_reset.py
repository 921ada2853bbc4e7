"""`odradek queue reset`: sets where a share group starts in its partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from odradek.cli.arguments import group_argument, partitions_option, select_partitions
from odradek.cli.group_offsets import read_plan
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import Column, end_with_errors, note, number, print_json, print_table
from odradek.cli.values import POSITION, POSITION_HELP
from odradek.client.admin.share_groups import alter_start_offsets
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition
from odradek.operations.group_offsets import Offsets, clamped
from odradek.operations.positions import resolve_position
from odradek.operations.share_groups import start_offsets
from odradek.operations.texts import Position


@click.command()
@group_argument()
@partitions_option("all in which the group has offsets")
@click.option(
    "--to", "target", type=POSITION, metavar="POSITION", help=f"Reset to {POSITION_HELP}."
)
@click.option(
    "--to-current",
    is_flag=True,
    help="Keep the start offsets; with --json, this is a copy of them for --file.",
)
@click.option(
    "--file",
    "-f",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Reset to offsets in a file: lines of topic,partition,offset, or the output of --json.",
)
@click.option("--execute", is_flag=True, help="Set the offsets. By default they are only shown.")
@json_option
@cluster_options
def reset(
    group_id: str,
    topics: tuple[str, ...],
    target: Position | None,
    to_current: bool,
    path: Path | None,
    execute: bool,
    as_json: bool,
) -> None:
    """Set the start offsets of a share group without members.

    All records from this offset on are delivered, also those that were accepted before.

    \b
    Examples:
      odradek queue reset workers --to beginning
      odradek queue reset workers --topic orders --to 15m --execute
      odradek queue reset workers --to-current --json > starts.json
      odradek queue reset workers --file starts.json --execute
    """
    if (target is not None) + to_current + (path is not None) != 1:
        raise click.UsageError("say where to reset: use one of --to, --to-current and --file")
    with connected() as cluster:
        starts = start_offsets(cluster, group_id)
        if path is not None:
            plan = clamped(cluster, read_plan(path, topics))
        else:
            partitions = select_partitions(cluster, topics) if topics else list(starts)
            if not partitions:
                raise click.ClickException(
                    f"group {group_id} has no offsets; choose topics with --topic"
                )
            plan = _plan(cluster, partitions, starts, target)
        errors: Sequence[ClientError] = ()
        if execute:
            results = alter_start_offsets(cluster, group_id, plan)
            errors = [error for error in results.values() if error is not None]
    if as_json:
        print_json(
            [
                {**key._asdict(), "start": starts.get(key), "new": offset}
                for key, offset in sorted(plan.items())
            ]
        )
    else:
        columns = [Column("Topic"), number("Partition"), number("Start"), number("New")]
        rows = [[*key, starts.get(key), offset] for key, offset in sorted(plan.items())]
        print_table(columns, rows)
    if not execute:
        note("This was a dry run. Add --execute to set the offsets.")
    end_with_errors(errors)


def _plan(
    cluster: Cluster,
    partitions: Sequence[TopicPartition],
    starts: Mapping[TopicPartition, int | None],
    target: Position | None,
) -> Offsets:
    """Return the new start offsets. Without a target they are the present ones."""
    if target is not None:
        return resolve_position(cluster, partitions, target, clamped=True)
    found = {key: offset for key in partitions if (offset := starts.get(key)) is not None}
    return clamped(cluster, found)
