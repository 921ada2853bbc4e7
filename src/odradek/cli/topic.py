"""The commands list, create, alter and delete of `odradek topic`.

`topic_describe` has the command describe. `topic_offsets` has offsets and delete-records.
"""

from __future__ import annotations

import click

from odradek.cli.arguments import parse_pairs, topic_argument
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import (
    Column,
    confirm,
    end_with_errors,
    note,
    number,
    print_json,
    print_table,
)
from odradek.cli.topic_describe import describe
from odradek.cli.topic_offsets import delete_records, offsets
from odradek.client.admin.topics import (
    CreatedTopic,
    NewTopic,
    create_partitions,
    create_topics,
    delete_topics,
    exists_already,
)
from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError, ClientError
from odradek.model import uuids
from odradek.model.errors import ErrorCode
from odradek.operations.suggestions import suggest_topics
from odradek.operations.texts import plural, size_text
from odradek.operations.topics import TopicFacts, gather_facts


@click.group()
def topic() -> None:
    """List, create, describe, change and delete topics.

    \b
    Examples:
      odradek topic create flights --partitions 6
      odradek topic list
      odradek topic describe flights
    """


topic.add_command(describe)
topic.add_command(offsets)
topic.add_command(delete_records)


@topic.command("list")
@click.option("--internal", is_flag=True, help="Also show internal topics.")
@click.option("--long", "-l", "is_long", is_flag=True, help="Also show records and sizes.")
@click.option("--quiet", "-q", is_flag=True, help="Print names only.")
@json_option
@cluster_options
def list_command(internal: bool, is_long: bool, quiet: bool, as_json: bool) -> None:
    """List the topics.

    \b
    Examples:
      odradek topic list --long
      odradek topic list --json
    """
    with connected() as cluster:
        metadata = cluster.refresh()
        topics = [t for _, t in sorted(metadata.topics.items()) if internal or not t.is_internal]
        facts = gather_facts(cluster, topics, with_sizes=is_long and not quiet)
    if as_json:
        print_json([each.as_json() for each in facts])
    elif quiet:
        for each in facts:
            click.echo(each.topic.name)
    elif facts:
        _print_list(facts, is_long)
    else:
        note(
            "There are no topics yet, or none that this user may see. Create one with: "
            "odradek topic create NAME"
        )


def _print_list(facts: list[TopicFacts], is_long: bool) -> None:
    columns = [Column("Topic"), number("Partitions"), number("Replicas")]
    if is_long:
        columns += [number("Records"), number("Size")]
    with_state = any(each.state for each in facts)
    if with_state:
        columns.append(Column("State", style="yellow"))
    rows = []
    for each in facts:
        row: list[object] = [
            each.topic.name,
            len(each.topic.partitions),
            each.topic.replication_factor,
        ]
        if is_long:
            row += [each.records, size_text(each.size_bytes)]
        if with_state:
            row.append(each.state or "ok")
        rows.append(row)
    print_table(columns, rows)


@topic.command()
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@click.option(
    "--partitions",
    "-p",
    type=click.IntRange(1),
    help="Number of partitions; by default the setting of the cluster.",
)
@click.option(
    "--replication-factor",
    "-r",
    type=click.IntRange(1),
    help="Replicas of each partition; by default the setting of the cluster.",
)
@click.option(
    "--config", "-c", "configs", multiple=True, metavar="NAME=VALUE", help="A setting; repeatable."
)
@click.option(
    "--assignment",
    metavar="IDS,IDS,…",
    help="Broker ids of each partition: 1:2,2:3 places two partitions with two replicas each.",
)
@click.option("--if-not-exists", is_flag=True, help="Do not fail if a topic exists already.")
@click.option("--validate-only", is_flag=True, help="Only check whether the change is possible.")
@json_option
@cluster_options
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    assignment: str | None,
    if_not_exists: bool,
    validate_only: bool,
    as_json: bool,
) -> None:
    """Create topics.

    \b
    Examples:
      odradek topic create flights --partitions 6
      odradek topic create state -p 3 -c cleanup.policy=compact
    """
    if assignment and (partitions or replication_factor):
        raise click.UsageError(
            "--assignment cannot be used with --partitions or --replication-factor"
        )
    settings = parse_pairs(configs)
    assignments = _parse_assignment(assignment) if assignment else ()
    wanted = [
        NewTopic(name, partitions or -1, replication_factor or -1, settings, assignments)
        for name in dict.fromkeys(names)
    ]
    with connected() as cluster:
        results = create_topics(cluster, wanted, validate_only=validate_only)
        created = [each for each in results.values() if not isinstance(each, ClientError)]
        if not validate_only:
            for each in created:
                _wait_for(cluster, each.name)
    if as_json:
        print_json([_created_json(each) for each in created])
    else:
        for each in created:
            verb = "Could create" if validate_only else "Created"
            click.echo(f"{verb} {each.name}{_shape(each)}")
    errors = [each for each in results.values() if isinstance(each, ClientError)]
    end_with_errors([e for e in errors if not (if_not_exists and exists_already(e))])


def _parse_assignment(text: str) -> list[list[int]]:
    try:
        return [[int(broker) for broker in each.split(":")] for each in text.split(",")]
    except ValueError:
        raise click.UsageError(f"--assignment {text!r}: write broker ids as 1:2,2:3") from None


def _wait_for(cluster: Cluster, name: str) -> None:
    """Wait for a new topic, because brokers get it a moment later, unless the user may not see it."""
    try:
        cluster.topic(name)
    except BrokerError as error:
        if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise


def _shape(created: CreatedTopic) -> str:
    """Return the numbers in parentheses; nothing if the user may not know them."""
    if not created.is_described:
        return ""
    replicas = plural(created.replication_factor, "replica")
    return f" ({plural(created.partitions, 'partition')}, {replicas})"


def _created_json(created: CreatedTopic) -> dict[str, object]:
    value: dict[str, object] = {"name": created.name, "id": uuids.to_text(created.id)}
    if created.is_described:
        value["partitions"] = created.partitions
        value["replication_factor"] = created.replication_factor
    return value


@topic.command()
@topic_argument()
@click.option(
    "--partitions",
    "-p",
    type=click.IntRange(1),
    required=True,
    help="The new, larger number of partitions. Keys may then go to other partitions.",
)
@click.option("--validate-only", is_flag=True, help="Only check whether the change is possible.")
@cluster_options
def alter(topic: str, partitions: int, validate_only: bool) -> None:
    """Add partitions to a topic. To change settings use `odradek config`.

    \b
    Example:
      odradek topic alter flights --partitions 12
    """
    with connected() as cluster:
        create_partitions(cluster, topic, partitions, validate_only=validate_only)
    verb = "could have" if validate_only else "now has"
    click.echo(f"{topic} {verb} {plural(partitions, 'partition')}")


@topic.command()
@topic_argument(nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--if-exists", is_flag=True, help="Do not fail if a topic does not exist.")
@cluster_options
def delete(topics: tuple[str, ...], yes: bool, if_exists: bool) -> None:
    """Delete topics with all their records. On a terminal the command asks for confirmation.

    \b
    Example:
      odradek topic delete flights --yes
    """
    confirm(f"Delete {', '.join(topics)} with all records?", yes=yes)
    with connected() as cluster:
        results = delete_topics(cluster, topics)
        failed = [error for error in results.values() if error is not None]
        errors = suggest_topics(cluster, failed)
    for name, error in results.items():
        if error is None:
            click.echo(f"Deleted {name}")
    end_with_errors([e for e in errors if not (if_exists and _is_unknown(e))])


def _is_unknown(error: ClientError) -> bool:
    return isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
