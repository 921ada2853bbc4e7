"""`odradek queue reset`: sets where a share group starts in its partitions."""

from __future__ import annotations

from collections.abc import Sequence

import click

from odradek.cli.arguments import group_argument, partitions_option, select_partitions
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import Column, end_with_errors, note, number, print_json, print_table
from odradek.cli.values import POSITION, POSITION_HELP
from odradek.client.admin.share_groups import alter_start_offsets
from odradek.client.errors import ClientError
from odradek.operations.positions import resolve_position
from odradek.operations.share_groups import start_offsets
from odradek.operations.texts import Position


@click.command()
@group_argument()
@partitions_option("all in which the group has offsets")
@click.option(
    "--to",
    "target",
    type=POSITION,
    metavar="POSITION",
    required=True,
    help=f"Reset to {POSITION_HELP}.",
)
@click.option("--execute", is_flag=True, help="Set the offsets. By default they are only shown.")
@json_option
@cluster_options
def reset(
    group_id: str, topics: tuple[str, ...], target: Position, execute: bool, as_json: bool
) -> None:
    """Set the start offsets of a share group without members.

    All records from this offset on are delivered, also those that were accepted before.

    \b
    Examples:
      odradek queue reset workers --to beginning
      odradek queue reset workers --topic orders --to 15m --execute
    """
    with connected() as cluster:
        starts = start_offsets(cluster, group_id)
        partitions = select_partitions(cluster, topics) if topics else list(starts)
        if not partitions:
            raise click.ClickException(
                f"group {group_id} has no offsets; choose topics with --topic"
            )
        plan = resolve_position(cluster, partitions, target, clamped=True)
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
