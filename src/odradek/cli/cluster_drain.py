"""`odradek cluster`: drain, remove, unregister-controller and rebalance."""

from __future__ import annotations

from collections.abc import Mapping

import click

from odradek.cli.cluster_moves import Mover
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import Column, end_with_errors, note, number, print_json, print_table
from odradek.client.admin.cluster import (
    describe_quorum,
    unregister_broker,
    unregister_controller,
)
from odradek.client.admin.reassignments import (
    elect_preferred_leaders,
    list_reassignments,
    reassign,
)
from odradek.client.cluster import Cluster
from odradek.model.topic_partition import TopicPartition
from odradek.operations import cluster_layout
from odradek.operations.cluster_layout import check_removal, led_by_others, read_layout
from odradek.operations.cluster_plans import Replicas, plan_balance
from odradek.operations.texts import plural

AT_ONCE = 20


_at_once_option = click.option(
    "--at-once",
    type=click.IntRange(1),
    default=AT_ONCE,
    show_default=True,
    metavar="N",
    help="How many partitions to move at the same time.",
)


_dry_run_option = click.option(
    "--dry-run", "-n", is_flag=True, help="Only show what would be moved."
)


@click.command()
@click.argument("broker", type=click.IntRange(0))
@click.option("--cancel", is_flag=True, help="Cancel the moves away from this broker.")
@_dry_run_option
@_at_once_option
@json_option
@cluster_options
def drain(broker: int, cancel: bool, dry_run: bool, at_once: int, as_json: bool) -> None:
    """Move all replicas away from a broker, so that it can be removed.

    The other brokers get the replicas, where possible in racks without a replica of the same
    partition. Ctrl-C cancels the moves that are in progress, and keeps the completed ones. Run the
    command again to continue. A partition keeps its old replicas until the new one is in sync, so
    clients see no error.

    \b
    Examples:
      odradek cluster drain 4
      odradek cluster drain 4 --dry-run
      odradek cluster drain 4 --cancel
    """
    with connected() as client:
        if cancel:
            _cancel(client, broker, as_json)
            return
        moved: dict[TopicPartition, Replicas] = {}
        before: dict[TopicPartition, Replicas] = {}
        while True:  # topics that are created meanwhile may have replicas on the broker, too
            layout = read_layout(client)
            plan = cluster_layout.drain(layout, broker)
            leaving = layout.leaving(broker)
            before.update({key: layout.partitions[key] for key in plan.moves})
            moved.update(plan.moves)
            if dry_run or not (plan.moves or leaving):
                break
            moves = {**{key: layout.partitions[key] for key in leaving}, **plan.moves}
            _perform(client, moves, at_once)
        is_voter = _is_voter(client, broker)
    _print_moves(as_json, dry_run, before, moved, {"broker": broker})
    if dry_run or as_json:
        return
    note(f"Broker {broker} has no replicas.")
    if is_voter:
        note(
            f"Node {broker} is also a voter of the controllers' quorum. Remove it from the quorum "
            "before you stop it for good: kafka-metadata-quorum.sh remove-controller"
        )
    note(f"To remove it: stop it, then run: odradek cluster remove {broker}")


def _is_voter(cluster: Cluster, broker: int) -> bool:
    return any(each.id == broker for each in describe_quorum(cluster).voters)


def _perform(cluster: Cluster, moves: Mapping[TopicPartition, Replicas], at_once: int) -> None:
    mover = Mover(cluster, moves, at_once)
    mover.run()
    end_with_errors(mover.errors)


def _cancel(cluster: Cluster, broker: int, as_json: bool) -> None:
    moving = list_reassignments(cluster)
    wanted = {key: None for key, each in moving.items() if broker in each.removing}
    results = reassign(cluster, wanted)
    errors = [error for error in results.values() if error is not None]
    if as_json:
        print_json({"broker": broker, "cancelled": len(results) - len(errors)})
    else:
        note(f"Cancelled {plural(len(results) - len(errors), 'move')} away from broker {broker}.")
    end_with_errors(errors)


def _print_moves(
    as_json: bool,
    dry_run: bool,
    before: Mapping[TopicPartition, Replicas],
    after: Mapping[TopicPartition, Replicas],
    facts: dict[str, object],
) -> None:
    if as_json:
        moves = [
            {
                "topic": key.topic,
                "partition": key.partition,
                "from": before[key],
                "to": after[key],
            }
            for key in after
        ]
        print_json({**facts, "dry_run": dry_run, "moves": moves})
    elif dry_run:
        print_table(
            [Column("Topic"), number("Partition"), Column("Replicas"), Column("Then")],
            (
                [key.topic, key.partition, _ids(before[key]), _ids(after[key])]
                for key in sorted(after)
            ),
        )
    elif after:
        click.echo(f"Moved {plural(len(after), 'partition')}")


def _ids(replicas: Replicas) -> str:
    return ",".join(map(str, replicas))


@click.command()
@click.argument("broker", type=click.IntRange(0))
@click.option("--force", is_flag=True, help="Remove it even if partitions have replicas on it.")
@cluster_options
def remove(broker: int, force: bool) -> None:
    """Remove a broker that has stopped and will not return.

    \b
    Example:
      odradek cluster remove 4
    """
    with connected() as client:
        check_removal(read_layout(client), broker, may_hold_replicas=force)
        unregister_broker(client, broker)
    click.echo(f"Removed broker {broker}")


@click.command("unregister-controller")
@click.argument("controller", type=click.IntRange(0))
@cluster_options
def unregister(controller: int) -> None:
    """Forget a controller that has stopped and will not return.

    Until then, upgrades of features check what it supports. A controller that runs registers again.
    This does not change the voters of the quorum.

    \b
    Example:
      odradek cluster unregister-controller 3
    """
    with connected() as client:
        unregister_controller(client, controller)
    click.echo(f"Unregistered controller {controller}")


@click.command()
@_dry_run_option
@_at_once_option
@json_option
@cluster_options
def rebalance(dry_run: bool, at_once: int, as_json: bool) -> None:
    """Give all brokers equally many replicas and leaders, for example after one was added.

    The numbers are balanced, not the sizes or the traffic of the partitions. Ctrl-C cancels the
    moves that are in progress.

    \b
    Examples:
      odradek cluster rebalance --dry-run
      odradek cluster rebalance
    """
    with connected() as client:
        layout = read_layout(client)
        plan = plan_balance(layout.info.unfenced, layout.partitions)
        elected = 0
        if not dry_run:
            _perform(client, plan.moves, at_once)
            elected = _elect(client)
    before = {key: layout.partitions[key] for key in plan.moves}
    _print_moves(as_json, dry_run, before, plan.moves, {"elected": elected})
    if not as_json and not plan.moves:
        note("The brokers have equally many replicas and preferred leaders.")
    if not as_json and elected:
        click.echo(f"Moved {plural(elected, 'leader')} to the preferred replica")


def _elect(cluster: Cluster) -> int:
    """Elect the preferred leader of each partition that another replica leads; return how many."""
    wanted = led_by_others(cluster.refresh().topics.values())
    results = elect_preferred_leaders(cluster, wanted)
    end_with_errors([error for error in results.values() if error is not None])
    return len(results)
