"""The commands list, describe and delete of `odradek group`.

`group_history` has the command history. `group_offsets` has the command reset-offsets.
"""

from __future__ import annotations

from collections.abc import Mapping

import click

from odradek.cli.arguments import group_argument
from odradek.cli.group_history import history
from odradek.cli.group_offsets import reset_offsets
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import (
    Column,
    confirm,
    end_with_errors,
    note_none,
    number,
    print_fields,
    print_json,
    print_table,
)
from odradek.client.admin.groups import Group, Member, delete_groups, describe_groups, list_groups
from odradek.client.admin.share_groups import SHARE_GROUP_DESCRIBE_KEY, describe_share_groups
from odradek.client.cluster import Cluster
from odradek.client.commits import CommittedOffset, fetch_offsets
from odradek.client.errors import BrokerError, ClientError
from odradek.client.offsets import LATEST, list_offsets
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.operations.texts import plural

STATE = click.Choice(
    [
        "Empty",
        "Stable",
        "PreparingRebalance",
        "CompletingRebalance",
        "Assigning",
        "Reconciling",
        "NotReady",
        "Dead",
    ],
    case_sensitive=False,
)
TYPE = click.Choice(["classic", "consumer", "share", "streams"], case_sensitive=False)
_OFFSETS_TIMEOUT_MS = 2_000


@click.group()
def group() -> None:
    """Show consumer groups, and change their committed offsets.

    \b
    Examples:
      odradek group list
      odradek group describe reports
      odradek group reset-offsets reports --topic flights --to 15m
    """


group.add_command(history)
group.add_command(reset_offsets)


@group.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=STATE,
    metavar="STATE",
    help="Only groups in this state, such as Stable; repeatable.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    type=TYPE,
    metavar="TYPE",
    help="Only groups of this type, such as classic; repeatable.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print ids only.")
@json_option
@cluster_options
def list_command(
    states: tuple[str, ...], types: tuple[str, ...], quiet: bool, as_json: bool
) -> None:
    """List the groups.

    \b
    Example:
      odradek group list --state Stable
    """
    with connected() as cluster:
        groups = list_groups(cluster, states=states, types=types)
        in_all = len(groups or list_groups(cluster))
    if as_json:
        print_json(
            [
                {
                    "group": g.id,
                    "type": g.type,
                    "state": g.state,
                    "protocol_type": g.protocol_type,
                    "coordinator": g.coordinator,
                }
                for g in groups
            ]
        )
    elif quiet:
        for each in groups:
            click.echo(each.id)
    elif groups:
        columns = [Column("Group"), Column("Type"), Column("State"), number("Coordinator")]
        print_table(columns, ([g.id, g.type, g.state, g.coordinator] for g in groups))
    else:
        note_none("groups", in_all)


@group.command()
@group_argument(nargs=-1, required=True)
@click.option("--members", "-m", is_flag=True, help="Show the members and their partitions.")
@json_option
@cluster_options
def describe(groups: tuple[str, ...], members: bool, as_json: bool) -> None:
    """Show a group's members, committed offsets and lag.

    Lag is the number of offsets from the committed offset to the end of the partition. With
    --members, members of a Streams group are shown with their tasks. `odradek queue describe` shows
    share groups.

    \b
    Examples:
      odradek group describe reports
      odradek group describe reports --members
    """
    with connected() as cluster:
        described = describe_groups(cluster, dict.fromkeys(groups))
        _advise(cluster, described)
        found = [each for each in described.values() if not isinstance(each, ClientError)]
        reports = [_Report(cluster, each) for each in found]
    if as_json:
        print_json([report.as_json() for report in reports])
    else:
        for place, report in enumerate(reports):
            if place:
                click.echo()
            report.print(with_members=members)
    end_with_errors([each for each in described.values() if isinstance(each, ClientError)])


def _advise(cluster: Cluster, described: dict[str, Group | ClientError]) -> None:
    """Say which of the groups that were not found are share groups."""
    missing = [
        name
        for name, each in described.items()
        if isinstance(each, BrokerError) and each.code is ErrorCode.GROUP_ID_NOT_FOUND
    ]
    if not missing or SHARE_GROUP_DESCRIBE_KEY not in cluster.any().versions:
        return
    for name, found in describe_share_groups(cluster, missing).items():
        if not isinstance(found, ClientError):
            described[name] = BrokerError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                "This is a share group.",
                f"group {name}",
                f"Describe it with: odradek queue describe {name}",
            )


class _Report:
    """The facts about a group to print."""

    def __init__(self, cluster: Cluster, group: Group) -> None:
        self.group = group
        self.committed: Mapping[TopicPartition, CommittedOffset] = fetch_offsets(cluster, group.id)
        self.owners = {each: member for member in group.members for each in member.partitions}
        self.partitions = sorted({*self.committed, *self.owners})
        self.ends: dict[TopicPartition, int] = {}
        wanted = dict.fromkeys(self.partitions, LATEST)
        ends = list_offsets(cluster, wanted, timeout_ms=_OFFSETS_TIMEOUT_MS)
        for key, result in ends.items():
            if not isinstance(result, ClientError):
                self.ends[key] = result.offset

    def _committed(self, key: TopicPartition) -> int | None:
        return self.committed[key].offset if key in self.committed else None

    def _lag(self, key: TopicPartition) -> int | None:
        committed, end = self._committed(key), self.ends.get(key)
        return None if committed is None or end is None else max(0, end - committed)

    def print(self, *, with_members: bool) -> None:
        """Print the report as text."""
        group = self.group
        lags = [lag for lag in map(self._lag, self.partitions) if lag is not None]
        unknown = len(self.partitions) - len(lags)
        beside = f", and {plural(unknown, 'partition')} with nothing committed" if unknown else ""
        print_fields(
            [
                ("Group", group.id),
                ("Type", group.type),
                ("State", group.state),
                *([("Assignor", group.assignor)] if group.assignor else []),
                ("Members", len(group.members)),
                ("Lag", f"{sum(lags)}{beside}"),
            ]
        )
        if with_members and group.members:
            click.echo()
            self._print_members()
        elif self.partitions:
            click.echo()
            self._print_partitions()

    def _print_partitions(self) -> None:
        columns = [
            Column("Topic"),
            number("Partition"),
            number("Committed"),
            number("End"),
            number("Lag"),
            Column("Client"),
            Column("Host"),
        ]
        rows = []
        for key in self.partitions:
            owner = self.owners.get(key)
            row = [*key, self._committed(key), self.ends.get(key), self._lag(key)]
            rows.append([*row, *((owner.client_id, _host(owner)) if owner else (None, None))])
        print_table(columns, rows)

    def _print_tasks(self) -> None:
        """Print the members of a Streams group with their tasks (subtopology_partition)."""
        titles = ("Client", "Host", "Active", "Standby", "Warm-up")
        rows = []
        for m in self.group.members:
            held = (m.tasks.active, m.tasks.standby, m.tasks.warm_up)
            tasks = [" ".join(map(str, some)) or None for some in held]
            rows.append([m.instance_id or m.id, m.client_id, _host(m), *tasks])
        print_table([Column("Member", wrap=False), *map(Column, titles)], rows)

    def _print_members(self) -> None:
        if self.group.type == "streams":
            self._print_tasks()
            return
        columns = [
            Column("Member", wrap=False),
            Column("Client"),
            Column("Host"),
            Column("Partitions"),
        ]
        print_table(
            columns,
            (
                [m.instance_id or m.id, m.client_id, _host(m), " ".join(map(str, m.partitions))]
                for m in self.group.members
            ),
        )

    def as_json(self) -> dict[str, object]:
        """The report as JSON."""
        group = self.group
        return {
            "group": group.id,
            "type": group.type,
            "state": group.state,
            "assignor": group.assignor or None,
            "epoch": group.epoch if group.epoch >= 0 else None,
            "members": [
                {
                    "id": m.id,
                    "instance_id": m.instance_id,
                    "client_id": m.client_id,
                    "host": _host(m),
                    "partitions": [key._asdict() for key in m.partitions],
                    **(_tasks_json(m) if group.type == "streams" else {}),
                }
                for m in group.members
            ],
            "partitions": [self._partition_json(key) for key in self.partitions],
        }

    def _partition_json(self, key: TopicPartition) -> dict[str, object]:
        owner = self.owners.get(key)
        committed = self.committed.get(key)
        return {
            **key._asdict(),
            "committed": self._committed(key),
            "metadata": committed.metadata if committed else None,
            "end": self.ends.get(key),
            "lag": self._lag(key),
            "member": owner.id if owner else None,
        }


def _tasks_json(member: Member) -> dict[str, object]:
    tasks = member.tasks
    held = {"active": tasks.active, "standby": tasks.standby, "warm_up": tasks.warm_up}
    return {"tasks": {role: [task._asdict() for task in some] for role, some in held.items()}}


def _host(member: Member) -> str:
    return member.host.removeprefix("/")


@group.command()
@group_argument(nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@cluster_options
def delete(groups: tuple[str, ...], yes: bool) -> None:
    """Delete groups without members, and their committed offsets.

    On a terminal the command asks for confirmation.

    \b
    Example:
      odradek group delete reports
    """
    confirm(f"Delete {', '.join(groups)} with its offsets?", yes=yes)
    with connected() as cluster:
        results = delete_groups(cluster, dict.fromkeys(groups))
    for name, error in results.items():
        if error is None:
            click.echo(f"Deleted {name}")
    end_with_errors([error for error in results.values() if error is not None])
