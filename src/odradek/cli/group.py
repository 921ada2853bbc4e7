"""The commands list, describe and delete of `odradek group`.

`group_history` has the command history. `group_offsets` has the command reset-offsets.
"""

from __future__ import annotations

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
from odradek.client.admin.groups import Group, Member, delete_groups, list_groups
from odradek.client.errors import ClientError
from odradek.operations.groups import GroupFacts, gather, host_of
from odradek.operations.groups import describe as describe_groups
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
        described = describe_groups(cluster, groups)
        found = [each for each in described.values() if not isinstance(each, ClientError)]
        reports = [gather(cluster, each) for each in found]
    if as_json:
        print_json([report.as_json() for report in reports])
    else:
        for place, report in enumerate(reports):
            if place:
                click.echo()
            _print(report, with_members=members)
    end_with_errors([each for each in described.values() if isinstance(each, ClientError)])


def _print(facts: GroupFacts, *, with_members: bool) -> None:
    group = facts.group
    lags = [lag for lag in map(facts.lag, facts.partitions) if lag is not None]
    unknown = len(facts.partitions) - len(lags)
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
    unread = any(each.unread_assignment for each in group.members)
    if group.members and (with_members or unread):
        click.echo()
        _print_members(group)
    if facts.partitions and not with_members:
        click.echo()
        _print_partitions(facts)


def _print_partitions(facts: GroupFacts) -> None:
    columns = [
        Column("Topic"),
        number("Partition"),
        number("Committed"),
        number("End"),
        number("Lag"),
        Column("Client"),
        Column("Host"),
    ]
    owners, rows = facts.owners, []
    for key in facts.partitions:
        owner = owners.get(key)
        row = [*key, facts.committed_offset(key), facts.ends.get(key), facts.lag(key)]
        rows.append([*row, *((owner.client_id, host_of(owner)) if owner else (None, None))])
    print_table(columns, rows)


def _print_tasks(group: Group) -> None:
    """Print the members of a Streams group with their tasks (subtopology_partition)."""
    titles = ("Client", "Host", "Active", "Standby", "Warm-up")
    rows = []
    for m in group.members:
        held = (m.tasks.active, m.tasks.standby, m.tasks.warm_up)
        tasks = [" ".join(map(str, some)) or None for some in held]
        rows.append([m.instance_id or m.id, m.client_id, host_of(m), *tasks])
    print_table([Column("Member", wrap=False), *map(Column, titles)], rows)


def _print_members(group: Group) -> None:
    if group.type == "streams":
        _print_tasks(group)
        return
    columns = [
        Column("Member", wrap=False),
        Column("Client"),
        Column("Host"),
        Column("Partitions"),
    ]
    print_table(
        columns,
        ([m.instance_id or m.id, m.client_id, host_of(m), _assigned(m)] for m in group.members),
    )


def _assigned(member: Member) -> str:
    if not member.unread_assignment:
        return " ".join(map(str, member.partitions))
    size = plural(len(member.unread_assignment), "byte")
    return f"{size} that cannot be read: {member.assignment_problem}"


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
