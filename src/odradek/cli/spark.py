"""The command `odradek spark`: what concerns checkpoints of Spark's queries."""

from __future__ import annotations

from pathlib import Path

import click

from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import note, print_json


@click.group()
def spark() -> None:
    """Change checkpoints of Spark's streaming queries.

    \b
    Example:
      odradek spark adopt-checkpoint checkpoints/copy checkpoints/copy-odradek
    """


@spark.command("adopt-checkpoint")
@click.argument("old", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option(
    "--may-repeat",
    is_flag=True,
    help="Also if the last micro-batch is not complete: it is written again.",
)
@json_option
@cluster_options
def adopt_checkpoint(old: Path, new: Path, may_repeat: bool, as_json: bool) -> None:
    """Copy a checkpoint of format("kafka") for format("odradek").

    OLD is the checkpointLocation of a query that has stopped, and NEW is a directory that does not
    exist. Start the same query with format("odradek") and NEW: it continues after the last complete
    micro-batch, with its state and watermark. The topics must be in the cluster, with the records that
    the query has not read. OLD is not changed, so the other connector can continue from it.

    \b
    Example:
      odradek spark adopt-checkpoint checkpoints/copy checkpoints/copy-odradek
    """
    from odradek.spark.adoption import AdoptionError, adopt

    with connected() as cluster:
        try:
            adopted = adopt(cluster, old, new, may_repeat=may_repeat)
        except (AdoptionError, OSError) as error:
            raise click.ClickException(str(error)) from error
    partitions = [each for offsets in adopted.offsets for each in offsets]
    topics = sorted({each.topic for each in partitions})
    if as_json:
        print_json(
            {
                "query_id": adopted.query_id,
                "batch": adopted.batch,
                "topics": topics,
                "partitions": len(partitions),
                "checkpoint": str(new),
            }
        )
        return
    click.echo(
        f"Adopted query {adopted.query_id} after micro-batch {adopted.batch}: "
        f"{len(partitions)} partitions of {', '.join(topics)}"
    )
    note(f'Start the query with format("odradek") and checkpointLocation {new}')
