"""`odradek transaction`: lists, describes and aborts transactions; finds hanging transactions."""

from __future__ import annotations

from collections.abc import Sequence

import click

from odradek.cli.arguments import topic_argument
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import (
    Column,
    confirm,
    end_with_errors,
    note,
    note_none,
    number,
    print_fields,
    print_json,
    print_table,
)
from odradek.cli.values import DURATION, now_ms
from odradek.client.admin.transactions import (
    OpenTransaction,
    Transaction,
    abort_transaction,
    describe_transactions,
    hanging_transactions,
    list_transactions,
)
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition
from odradek.operations.texts import duration_text, time_text
from odradek.operations.transactions import HANGING_MS, OPEN, beginning_at, check_hangs

STATE = click.Choice(
    [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "PrepareEpochFence",
        "Dead",
    ],
    case_sensitive=False,
)


@click.group()
def transaction() -> None:
    """List, describe and abort transactions.

    \b
    Examples:
      odradek transaction list --state Ongoing
      odradek transaction describe orders-job-1
      odradek transaction find-hanging
    """


@transaction.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=STATE,
    metavar="STATE",
    help="Only ids in this state, such as Ongoing; repeatable.",
)
@click.option(
    "--producer-id",
    "producer_ids",
    multiple=True,
    type=int,
    metavar="N",
    help="Only ids with this producer id; repeatable.",
)
@click.option(
    "--running-longer-than",
    "duration_ms",
    type=DURATION,
    help="Only ids with a transaction that has been open for longer than this.",
)
@click.option(
    "--id-pattern", "pattern", metavar="REGEX", help="Only ids that match this as a whole."
)
@click.option("--quiet", "-q", is_flag=True, help="Print ids only.")
@json_option
@cluster_options
def list_command(
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    duration_ms: int | None,
    pattern: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """List the transactional ids.

    \b
    Examples:
      odradek transaction list
      odradek transaction list --state Ongoing --running-longer-than 5m
    """
    with connected() as cluster:
        found = list_transactions(
            cluster,
            states=states,
            producer_ids=producer_ids,
            duration_ms=-1 if duration_ms is None else duration_ms,
            pattern=pattern,
        )
        in_all = len(found or list_transactions(cluster))
    if as_json:
        print_json(
            [
                {
                    "transactional_id": each.id,
                    "producer_id": each.producer_id,
                    "state": each.state,
                    "coordinator": each.coordinator,
                }
                for each in found
            ]
        )
    elif quiet:
        for each in found:
            click.echo(each.id)
    elif found:
        columns = [
            Column("Transactional id"),
            number("Producer id"),
            Column("State"),
            number("Coordinator"),
        ]
        rows = ([each.id, each.producer_id, each.state, each.coordinator] for each in found)
        print_table(columns, rows)
    else:
        note_none("transactional ids", in_all)


@transaction.command()
@click.argument("ids", metavar="ID…", nargs=-1, required=True)
@json_option
@cluster_options
def describe(ids: tuple[str, ...], as_json: bool) -> None:
    """Show the producer, state and partitions of transactional ids.

    \b
    Example:
      odradek transaction describe orders-job-1
    """
    with connected() as cluster:
        described = describe_transactions(cluster, dict.fromkeys(ids))
    found = [each for each in described.values() if not isinstance(each, ClientError)]
    if as_json:
        print_json([_as_json(each) for each in found])
    else:
        for place, each in enumerate(found):
            if place:
                click.echo()
            _print(each)
    end_with_errors([each for each in described.values() if isinstance(each, ClientError)])


def _print(found: Transaction) -> None:
    fields: list[tuple[str, object]] = [
        ("Transactional id", found.id),
        ("State", found.state),
        ("Producer", f"{found.producer_id}, epoch {found.producer_epoch}"),
        ("Timeout", duration_text(found.timeout_ms)),
    ]
    if found.start_ms >= 0:
        fields.append(("Started", time_text(found.start_ms)))
    if found.state in OPEN:
        fields.append(("Open for", duration_text(now_ms() - found.start_ms)))
        fields.append(("Partitions", " ".join(map(str, found.partitions)) or None))
    print_fields(fields)


def _as_json(found: Transaction) -> dict[str, object]:
    return {
        "transactional_id": found.id,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "start_ms": found.start_ms if found.start_ms >= 0 else None,
        "partitions": [each._asdict() for each in found.partitions],
    }


@transaction.command("find-hanging")
@topic_argument(nargs=-1)
@click.option(
    "--older-than",
    "age_ms",
    type=DURATION,
    default=HANGING_MS,
    help="Only transactions without new records for this long.  [default: 20m]",
)
@json_option
@cluster_options
def find_hanging(topics: tuple[str, ...], age_ms: int, as_json: bool) -> None:
    """Find open transactions that no coordinator will end. They block read_committed consumers.

    Without TOPIC the command searches all topics. End a hanging transaction with `odradek
    transaction abort`.

    \b
    Example:
      odradek transaction find-hanging orders
    """
    with connected() as cluster:
        partitions = _partitions(cluster, topics)
        found = hanging_transactions(cluster, partitions, now_ms() - age_ms)
    if as_json:
        print_json(
            [
                {
                    **each.partition._asdict(),
                    "producer_id": each.producer.producer_id,
                    "producer_epoch": each.producer.producer_epoch,
                    "start_offset": each.producer.current_txn_start_offset,
                    "last_timestamp_ms": each.producer.last_timestamp,
                }
                for each in found
            ]
        )
    elif found:
        _print_open(found)
    else:
        note("No transaction hangs.")


def _partitions(cluster: Cluster, topics: Sequence[str]) -> list[TopicPartition]:
    names = topics or sorted(cluster.refresh().topics)
    return [
        TopicPartition(name, index) for name in names for index in cluster.topic(name).partitions
    ]


def _print_open(found: Sequence[OpenTransaction]) -> None:
    columns = [
        Column("Topic"),
        number("Partition"),
        number("Producer id"),
        number("Epoch"),
        number("Start offset"),
        Column("Last record"),
    ]
    rows = [
        [
            *each.partition,
            each.producer.producer_id,
            each.producer.producer_epoch,
            each.producer.current_txn_start_offset,
            time_text(each.producer.last_timestamp),
        ]
        for each in found
    ]
    print_table(columns, rows)


@transaction.command()
@topic_argument()
@click.argument("partition", type=click.IntRange(min=0))
@click.argument("start_offset", metavar="START-OFFSET", type=click.IntRange(min=0))
@click.option("--force", is_flag=True, help="Abort even if a coordinator will end it.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@cluster_options
def abort(topic: str, partition: int, start_offset: int, force: bool, yes: bool) -> None:
    """Abort the transaction that begins at an offset of a partition, in that partition only.

    Use this command for hanging transactions. Without --force the command refuses to abort a
    transaction that a coordinator will end. The producer could still commit such a transaction, but
    the records in this partition would be lost. On a terminal the command asks for confirmation.

    \b
    Example:
      odradek transaction abort orders 3 81234
    """
    name = TopicPartition(topic, partition)
    with connected() as cluster:
        found = beginning_at(cluster, name, start_offset)
        producer = found.producer.producer_id
        if not force:
            check_hangs(cluster, found)
        confirm(f"Abort the transaction of producer {producer} in {name}?", yes=yes)
        abort_transaction(cluster, found)
    click.echo(f"Aborted the transaction of producer {producer} in {name}")
