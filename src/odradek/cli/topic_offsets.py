"""`odradek topic offsets` and `odradek topic delete-records`."""

from __future__ import annotations

import click

from odradek.cli.arguments import parse_numbers, select_partitions, topic_argument
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import Column, confirm, end_with_errors, number, print_json, print_table
from odradek.cli.values import POSITION, POSITION_HELP
from odradek.client.admin.topics import delete_records as delete_records_before
from odradek.client.errors import ClientError
from odradek.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, offsets_at
from odradek.operations.positions import resolve_position
from odradek.operations.texts import Position, plural


@click.command()
@topic_argument(nargs=-1, required=True)
@click.option("--at", type=POSITION, help=f"Show only the offset of: {POSITION_HELP}.")
@click.option("--committed", is_flag=True, help="Show the last stable offset as the end.")
@json_option
@cluster_options
def offsets(topics: tuple[str, ...], at: Position | None, committed: bool, as_json: bool) -> None:
    """Show the start and end offsets of partitions, or the offset of a time.

    TOPIC may name partitions: flights:0,2-4.

    \b
    Examples:
      odradek topic offsets flights
      odradek topic offsets flights --at 2026-11-20T10:00
      odradek topic offsets flights:0 --at 15m
    """
    isolation = READ_COMMITTED if committed else READ_UNCOMMITTED
    with connected() as cluster:
        partitions = select_partitions(cluster, topics)
        if at is not None:
            found = resolve_position(cluster, partitions, at, isolation=isolation)
            names = ["offset"]
            values = [[found[key]] for key in partitions]
        else:
            starts = offsets_at(cluster, partitions, EARLIEST, isolation=isolation)
            ends = offsets_at(cluster, partitions, LATEST, isolation=isolation)
            names = ["start", "end", "records"]
            values = [[starts[k], ends[k], ends[k] - starts[k]] for k in partitions]
    if as_json:
        rows = zip(partitions, values, strict=True)
        print_json([{**key._asdict(), **dict(zip(names, row, strict=True))} for key, row in rows])
        return
    columns = [Column("Topic"), number("Partition"), *(number(name.capitalize()) for name in names)]
    print_table(columns, ([*key, *row] for key, row in zip(partitions, values, strict=True)))


@click.command("delete-records")
@topic_argument()
@click.option(
    "--before",
    type=POSITION,
    required=True,
    help=f"Delete the records before {POSITION_HELP}. `end` deletes all records.",
)
@click.option("--partition", "-p", "numbers", metavar="0,2-4", help="Only in these partitions.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@json_option
@cluster_options
def delete_records(
    topic: str, before: Position, numbers: str | None, yes: bool, as_json: bool
) -> None:
    """Delete the oldest records of a topic. On a terminal the command asks for confirmation.

    \b
    Examples:
      odradek topic delete-records flights --before 7d
      odradek topic delete-records flights --before 1200 --partition 0
      odradek topic delete-records flights --before end
    """
    only = parse_numbers(numbers) if numbers else None
    with connected() as cluster:
        partitions = select_partitions(cluster, [topic], only)
        starts = offsets_at(cluster, partitions, EARLIEST)
        limits = resolve_position(cluster, partitions, before)
        limits = {key: limit for key, limit in limits.items() if limit > starts[key]}
        count = sum(limit - starts[key] for key, limit in limits.items())
        if count:
            confirm(f"Delete {plural(count, 'record')} of {topic}?", yes=yes)
        results = delete_records_before(cluster, limits)
    done = {key: start for key, start in results.items() if not isinstance(start, ClientError)}
    if as_json:
        print_json([{**key._asdict(), "start": start} for key, start in done.items()])
    else:
        deleted = sum(start - starts[key] for key, start in done.items())
        click.echo(f"Deleted {plural(deleted, 'record')} of {topic}")
    end_with_errors([each for each in results.values() if isinstance(each, ClientError)])
