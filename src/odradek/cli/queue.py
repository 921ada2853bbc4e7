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
from odradek.client.admin.share_groups import (
    ShareGroup,
    StartOffset,
    delete_start_offsets,
    describe_share_groups,
    describe_start_offsets,
)
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.offsets import LATEST, list_offsets
from odradek.model.topic_partition import TopicPartition
from odradek.operations.group_settings import read_setting
from odradek.operations.queue_metrics import InFlight, read_in_flight
from odradek.operations.texts import duration_text, plural

PRIORITY = "odradek.share.priority"
_OFFSETS_TIMEOUT_MS = 2_000


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
    reports: list[_Report] = []
    with connected() as cluster:
        for found in describe_share_groups(cluster, dict.fromkeys(groups)).values():
            if isinstance(found, ClientError):
                errors.append(found)
            else:
                reports.append(_Report(cluster, found))
    if as_json:
        print_json([report.as_json() for report in reports])
    else:
        for place, report in enumerate(reports):
            if place:
                click.echo()
            report.print(with_members=members)
        if not members and any(report.lacks_metrics for report in reports):
            note(
                "The acquired records and locks of some partitions are not known: start the "
                "brokers with --metrics-port (odradek.metrics.port) to see them."
            )
    end_with_errors(errors)


class _Report:
    """The facts about a share group to print."""

    def __init__(self, cluster: Cluster, found: ShareGroup) -> None:
        self.group = found.group
        self.topics = found.topics
        self.members: dict[TopicPartition, int] = {}
        """How many members have the partition."""
        for member in self.group.members:
            for key in member.partitions:
                self.members[key] = self.members.get(key, 0) + 1
        self.priority = read_setting(cluster, [self.group.id], PRIORITY)[self.group.id]
        """The priorities of topics, e.g. `urgent:10,bulk:-10`."""
        starts = describe_start_offsets(cluster, self.group.id)
        self.starts: Mapping[TopicPartition, StartOffset] = {
            key: each for key, each in starts.items() if not isinstance(each, ClientError)
        }
        self.partitions = sorted({*starts, *self.members})
        self.ends: dict[TopicPartition, int] = {}
        cluster.refresh({key.topic for key in self.partitions})
        self.in_flight = read_in_flight(cluster, self.group.id, self.partitions)
        wanted = dict.fromkeys(self.partitions, LATEST)
        for key, result in list_offsets(cluster, wanted, timeout_ms=_OFFSETS_TIMEOUT_MS).items():
            if not isinstance(result, ClientError):
                self.ends[key] = result.offset

    def _start(self, key: TopicPartition) -> int | None:
        start = self.starts.get(key)
        return None if start is None or start.offset < 0 else start.offset

    def _lag(self, key: TopicPartition) -> int | None:
        start = self.starts.get(key)
        return None if start is None or start.lag < 0 else start.lag

    @property
    def lacks_metrics(self) -> bool:
        """Whether a leader did not say which records are acquired."""
        return any(key not in self.in_flight for key in self.partitions)

    def _waiting(self, key: TopicPartition) -> int | None:
        lag, found = self._lag(key), self.in_flight.get(key)
        return None if lag is None or found is None else max(0, lag - found.acquired)

    def print(self, *, with_members: bool) -> None:
        """Print the report as text."""
        lags = [lag for lag in map(self._lag, self.partitions) if lag is not None]
        unknown = len(self.partitions) - len(lags)
        beside = f", and {plural(unknown, 'partition')} without a lag" if unknown else ""
        fields: list[tuple[str, object]] = [
            ("Group", self.group.id),
            ("State", self.group.state),
            ("Members", len(self.group.members)),
            ("Topics", " ".join(self.topics) or None),
            ("Lag", f"{sum(lags)}{beside}"),
        ]
        if isinstance(self.priority, ClientError):
            fields.append(("Priority", f"not known: {self.priority}"))
        elif self.priority:
            fields.append(("Priority", " ".join(self.priority.split(","))))
        print_fields(fields)
        if with_members and self.group.members:
            click.echo()
            columns = [Column("Member", wrap=False), Column("Client"), Column("Host")]
            rows = [
                [m.id, m.client_id, m.host.removeprefix("/"), " ".join(map(str, m.partitions))]
                for m in self.group.members
            ]
            print_table([*columns, Column("Partitions")], rows)
        elif self.partitions:
            click.echo()
            columns = [Column("Topic"), *map(number, ("Partition", "Start", "End", "Lag"))]
            columns += map(number, ("Members", "Acquired", "Waiting", "Oldest lock"))
            facts: list[list[object]] = [
                [
                    *key,
                    self._start(key),
                    self.ends.get(key),
                    self._lag(key),
                    self.members.get(key),
                    *_shown(self.in_flight.get(key), self._waiting(key)),
                ]
                for key in self.partitions
            ]
            print_table([*columns, Column("Deliveries")], facts)

    def as_json(self) -> dict[str, object]:
        """The report as JSON."""
        return {
            "group": self.group.id,
            "state": self.group.state,
            "epoch": self.group.epoch,
            "assignor": self.group.assignor or None,
            "topics": list(self.topics),
            "priority": None if isinstance(self.priority, ClientError) else _parsed(self.priority),
            "members": [
                {
                    "id": m.id,
                    "client_id": m.client_id,
                    "host": m.host.removeprefix("/"),
                    "partitions": [key._asdict() for key in m.partitions],
                }
                for m in self.group.members
            ],
            "partitions": [
                {
                    **key._asdict(),
                    "start": self._start(key),
                    "end": self.ends.get(key),
                    "lag": self._lag(key),
                    "members": self.members.get(key, 0),
                    **_as_json(self.in_flight.get(key), self._waiting(key)),
                }
                for key in self.partitions
            ],
        }


def _parsed(priority: str) -> dict[str, int]:
    """Return the priorities by topic."""
    pairs = (each.partition(":") for each in priority.split(",") if each)
    return {topic: int(number) for topic, _, number in pairs}


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


def _as_json(found: InFlight | None, waiting: int | None) -> dict[str, object]:
    return {
        "acquired": None if found is None else found.acquired,
        "waiting": waiting,
        "oldest_lock_ms": None if found is None else found.oldest_lock_ms,
        "deliveries": None if found is None else {str(k): v for k, v in found.deliveries.items()},
    }


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
