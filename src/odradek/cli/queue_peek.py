"""`odradek queue peek`: prints the next records of a share group without acquiring them."""

from __future__ import annotations

import sys

import click

from odradek.cli.arguments import count_option, group_argument, topics_option
from odradek.cli.options import cluster_options, connected
from odradek.cli.output import note
from odradek.cli.record_options import headers_option, keys_option
from odradek.cli.rendering import TextColumns, make_renderer
from odradek.client.admin.share_groups import describe_share_groups, describe_start_offsets
from odradek.client.cluster import Cluster
from odradek.client.consuming.to_ends import read_to_ends, records_of
from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition
from odradek.records.record import Record


@click.command()
@group_argument()
@topics_option()
@count_option("Print at most N records of each partition.", 10)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@keys_option
@headers_option
@click.option("--timestamps", "-T", is_flag=True, help="Print times too.")
@cluster_options
def peek(
    group_id: str,
    topics: tuple[str, ...],
    count: int,
    as_json: bool,
    keys: bool,
    headers: bool,
    timestamps: bool,
) -> None:
    """Print the next records of a share group, without acquiring them.

    The command reads records from the start offset of each partition. Some of them may be done or
    acquired by a consumer: brokers do not tell clients which.

    \b
    Examples:
      odradek queue peek workers
      odradek queue peek workers --topic orders --count 1 --json
    """
    columns = TextColumns(timestamps, offsets=True, keys=keys, headers=headers)
    render = make_renderer("json" if as_json else "text", columns, r"\t", "null")
    with connected() as cluster:
        starts = _starts(cluster, group_id, topics)
        found = _read(cluster, starts, count)
    for key in sorted(found):
        for record in found[key]:
            sys.stdout.buffer.write(render(key, record))
    sys.stdout.buffer.flush()
    if not any(found.values()):
        note(f"No records wait for group {group_id}.")


def _starts(cluster: Cluster, group_id: str, topics: tuple[str, ...]) -> dict[TopicPartition, int]:
    """Return where the group starts, without the partitions in which no record waits."""
    found = describe_share_groups(cluster, [group_id])[group_id]
    if isinstance(found, ClientError):
        raise found
    starts: dict[TopicPartition, int] = {}
    for key, each in describe_start_offsets(cluster, group_id).items():
        if isinstance(each, ClientError):
            raise each
        if each.offset >= 0 and each.lag and (not topics or key.topic in topics):
            starts[key] = each.offset
    return starts


def _read(
    cluster: Cluster, starts: dict[TopicPartition, int], count: int
) -> dict[TopicPartition, list[Record]]:
    """Read up to `count` records from each partition, up to its current end."""
    found: dict[TopicPartition, list[Record]] = {key: [] for key in starts}
    batches = read_to_ends(cluster, starts)
    for batch in batches:
        found[batch.topic_partition] += records_of(batch)
        if all(len(records) >= count for records in found.values()):
            break
    batches.close()
    return {key: records[:count] for key, records in found.items()}
