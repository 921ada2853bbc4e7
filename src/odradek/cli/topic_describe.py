"""`odradek topic describe`."""

from __future__ import annotations

from dataclasses import replace

import click

from odradek.cli.arguments import topic_argument
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import (
    Column,
    end_with_errors,
    number,
    print_fields,
    print_json,
    print_table,
)
from odradek.client.errors import ClientError
from odradek.client.metadata import Partition
from odradek.model import uuids
from odradek.operations.suggestions import suggest_topics
from odradek.operations.texts import size_text
from odradek.operations.topics import TopicFacts, gather_facts, read_settings


@click.command()
@topic_argument(nargs=-1, required=True)
@click.option("--all-settings", "-a", is_flag=True, help="Also show settings with default values.")
@json_option
@cluster_options
def describe(topics: tuple[str, ...], all_settings: bool, as_json: bool) -> None:
    """Show a topic's partitions, replicas, offsets, size and settings.

    \b
    Examples:
      odradek topic describe flights
      odradek topic describe flights --json
    """
    errors: list[ClientError] = []
    found: list[TopicFacts] = []
    with connected() as cluster:
        for name in dict.fromkeys(topics):
            try:
                (facts,) = gather_facts(cluster, [cluster.topic(name)], with_sizes=True)
                settings = read_settings(cluster, name, with_defaults=all_settings)
            except ClientError as error:
                errors.append(error)
            else:
                found.append(replace(facts, settings=settings))
        errors = suggest_topics(cluster, errors)
    if as_json:
        print_json([_full_json(each) for each in found])
    else:
        for place, each in enumerate(found):
            if place:
                click.echo()
            _print(each)
    end_with_errors(errors)


def _print(facts: TopicFacts) -> None:
    topic = facts.topic
    settings = [(f"  {entry.name}", entry.value) for entry in facts.settings]
    print_fields(
        [
            ("Topic", topic.name),
            ("Id", uuids.to_text(topic.id)),
            ("Partitions", f"{len(topic.partitions)}, replicas {topic.replication_factor}"),
            ("Records", "unknown" if facts.records is None else facts.records),
            ("Size", size_text(facts.size_bytes)),
            *([("State", facts.state)] if facts.state else []),
            *([("Settings", "")] if settings else []),
            *settings,
        ]
    )
    click.echo()
    columns = [
        number("Partition"),
        number("Leader"),
        Column("Replicas"),
        Column("In sync"),
        number("Start"),
        number("End"),
        number("Size"),
    ]
    print_table(columns, (_row(facts, p) for p in topic.partitions.values()))


def _row(facts: TopicFacts, partition: Partition) -> list[object]:
    index = partition.index
    return [
        index,
        partition.leader if partition.leader >= 0 else "none",
        ",".join(map(str, partition.replicas)),
        ",".join(map(str, partition.in_sync)),
        facts.starts.get(index),
        facts.ends.get(index),
        size_text(facts.sizes.get(index, -1)),
    ]


def _full_json(facts: TopicFacts) -> dict[str, object]:
    value = facts.as_json()
    value["partitions"] = [
        {
            "partition": p.index,
            "leader": p.leader if p.leader >= 0 else None,
            "leader_epoch": p.leader_epoch,
            "replicas": p.replicas,
            "in_sync": p.in_sync,
            "offline_replicas": p.offline,
            "start_offset": facts.starts.get(p.index),
            "end_offset": facts.ends.get(p.index),
            "size_bytes": facts.sizes.get(p.index),
        }
        for p in facts.topic.partitions.values()
    ]
    value["settings"] = {entry.name: entry.value for entry in facts.settings}
    return value
