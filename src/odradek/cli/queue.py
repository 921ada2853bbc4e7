"""`odradek queue`: share groups, whose consumers share the records of topics (KIP-932).

`queue_work` has the command work, `queue_peek` the command peek, `queue_reset` the command reset,
and `queue_dead` the commands of dead letters.
"""

from __future__ import annotations

from collections.abc import Mapping

import click

from odradek.cli.arguments import group_argument, topics_option
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
from odradek.cli.queue_dead import dead
from odradek.cli.queue_delay import delay
from odradek.cli.queue_peek import peek
from odradek.cli.queue_reset import reset
from odradek.cli.queue_work import work
from odradek.client.admin.groups import delete_groups, list_groups
from odradek.client.admin.share_groups import delete_start_offsets, describe_share_groups
from odradek.client.errors import ClientError
from odradek.operations.queue_metrics import InFlight
from odradek.operations.share_groups import ShareGroupFacts, gather
from odradek.operations.texts import duration_text, plural


@click.group()
def queue() -> None:
    """Process the records of topics as queues (share groups).

    Each record is delivered to one consumer of the group. If the consumer does not accept the
    record, it is delivered again.

    \b
    Examples:
      odradek queue work workers orders --run ./handle-order
      odradek queue describe workers
      odradek queue peek workers
    """


@queue.command("list")
@json_option
@cluster_options
def list_command(as_json: bool) -> None:
    """List the share groups.

    \b
    Example:
      odradek queue list
    """
    with connected() as cluster:
        listed = list_groups(cluster, types=["share"])
        described = describe_share_groups(cluster, [each.id for each in listed])
    errors = [each for each in described.values() if isinstance(each, ClientError)]
    groups = [each for each in described.values() if not isinstance(each, ClientError)]
    if as_json:
        print_json(
            [
                {
                    "group": each.group.id,
                    "state": each.group.state,
                    "members": len(each.group.members),
                    "topics": list(each.topics),
                }
                for each in groups
            ]
        )
    elif groups:
        columns = [Column("Group"), Column("State"), number("Members"), Column("Topics")]
        rows = [
            [e.group.id, e.group.state, len(e.group.members), " ".join(e.topics) or None]
            for e in groups
        ]
        print_table(columns, rows)
    elif not errors:
        note_none("share groups", 0)
    end_with_errors(errors)


@queue.command()
@group_argument(nargs=-1, required=True)
@click.option("--members", "-m", is_flag=True, help="Show the members and their partitions.")
@json_option
@cluster_options
def describe(groups: tuple[str, ...], members: bool, as_json: bool) -> None:
    """Show the partitions of a share group: start offset, end, lag, and records in flight.

    All records before the start offset are done: accepted, rejected, or delivered as often as
    allowed. The lag is the number of records that are not done. Acquired are the records that
    consumers have at the moment; the oldest lock says for how long. Waiting are the others.
    Deliveries 2:7 means that 7 records that are not done were delivered twice; new records are not
    counted. The brokers know this: it is read from their metrics (odradek.metrics.port).

    \b
    Examples:
      odradek queue describe workers
      odradek queue describe workers --members
    """
    errors: list[ClientError] = []
    reports: list[ShareGroupFacts] = []
    with connected() as cluster:
        for found in describe_share_groups(cluster, dict.fromkeys(groups)).values():
            if isinstance(found, ClientError):
                errors.append(found)
            else:
                reports.append(gather(cluster, found))
    if as_json:
        print_json([report.as_json() for report in reports])
    else:
        for place, report in enumerate(reports):
            if place:
                click.echo()
            _print(report, with_members=members)
        if not members and any(report.lacks_metrics for report in reports):
            note(
                "The acquired records and locks of some partitions are not known: start the "
                "brokers with --metrics-port (odradek.metrics.port) to see them."
            )
    end_with_errors(errors)


def _print(facts: ShareGroupFacts, *, with_members: bool) -> None:
    group, topics, priority = facts.found.group, facts.found.topics, facts.priority
    lags = [lag for lag in map(facts.lag, facts.partitions) if lag is not None]
    unknown = len(facts.partitions) - len(lags)
    beside = f", and {plural(unknown, 'partition')} without a lag" if unknown else ""
    fields: list[tuple[str, object]] = [
        ("Group", group.id),
        ("State", group.state),
        ("Members", len(group.members)),
        ("Topics", " ".join(topics) or None),
        ("Lag", f"{sum(lags)}{beside}"),
    ]
    if isinstance(priority, ClientError):
        fields.append(("Priority", f"not known: {priority}"))
    elif priority:
        fields.append(("Priority", " ".join(priority.split(","))))
    print_fields(fields)
    if with_members and group.members:
        click.echo()
        columns = [Column("Member", wrap=False), Column("Client"), Column("Host")]
        shown = [
            [m.id, m.client_id, m.host.removeprefix("/"), " ".join(map(str, m.partitions))]
            for m in group.members
        ]
        print_table([*columns, Column("Partitions")], shown)
    elif facts.partitions:
        click.echo()
        columns = [Column("Topic"), *map(number, ("Partition", "Start", "End", "Lag"))]
        columns += map(number, ("Members", "Acquired", "Waiting", "Oldest lock"))
        members = facts.members()
        rows: list[list[object]] = [
            [
                *key,
                facts.start(key),
                facts.ends.get(key),
                facts.lag(key),
                members.get(key),
                *_shown(facts.in_flight.get(key), facts.waiting(key)),
            ]
            for key in facts.partitions
        ]
        print_table([*columns, Column("Deliveries")], rows)


def _shown(found: InFlight | None, waiting: int | None) -> list[object]:
    """Return the cells of records in flight."""
    if found is None:
        return [None, None, None, None]
    lock_ms = found.oldest_lock_ms
    return [
        found.acquired,
        waiting,
        None if lock_ms is None else duration_text(lock_ms),
        " ".join(f"{count}:{number}" for count, number in found.deliveries.items()) or None,
    ]


@queue.command()
@group_argument()
@topics_option()
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@cluster_options
def delete(group_id: str, topics: tuple[str, ...], yes: bool) -> None:
    """Delete a share group without members, or only its offsets in some topics.

    On a terminal the command asks for confirmation.

    \b
    Example:
      odradek queue delete workers --topic orders
    """
    what = f"the offsets of {group_id} in {', '.join(topics)}" if topics else group_id
    confirm(f"Delete {what}?", yes=yes)
    with connected() as cluster:
        found = describe_share_groups(cluster, [group_id])[group_id]
        if isinstance(found, ClientError):
            raise found
        results: Mapping[str, ClientError | None] = (
            delete_start_offsets(cluster, group_id, topics)
            if topics
            else delete_groups(cluster, [group_id])
        )
    for name, error in results.items():
        if error is None:
            click.echo(f"Deleted {name}")
    end_with_errors([error for error in results.values() if error is not None])


queue.add_command(work)
queue.add_command(dead)
queue.add_command(delay)
queue.add_command(peek)
queue.add_command(reset)
