"""`odradek cluster`: drain, remove and rebalance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import click

from odradek.cli.cluster_moves import Mover
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import Column, end_with_errors, note, number, print_json, print_table
from odradek.client.admin.cluster import (
    ClusterInfo,
    describe_cluster,
    describe_quorum,
    unregister_broker,
)
from odradek.client.admin.reassignments import (
    Reassignment,
    elect_preferred_leaders,
    list_reassignments,
    reassign,
)
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition
from odradek.operations.cluster_plans import (
    Plan,
    Replicas,
    final_replicas,
    plan_balance,
    plan_drain,
)
from odradek.operations.texts import plural

AT_ONCE = 20
SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class _Facts:
    info: ClusterInfo
    moving: Mapping[TopicPartition, Reassignment]
    partitions: Mapping[TopicPartition, Replicas]
    """The replicas after the moves that are in progress."""
    present: Mapping[TopicPartition, Replicas]
    """The replicas now, those that are added and those that are removed included."""

    @property
    def usable(self) -> list[int]:
        return [each.id for each in self.info.unfenced]


def _gather(cluster: Cluster) -> _Facts:
    info = describe_cluster(cluster)
    moving = list_reassignments(cluster)
    topics = cluster.refresh().topics.values()
    return _Facts(info, moving, final_replicas(topics, moving), final_replicas(topics, {}))


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
            facts = _gather(client)
            plan = _plan_drain(facts, broker)
            leaving = {key for key, each in facts.moving.items() if broker in each.removing}
            before.update({key: facts.partitions[key] for key in plan.moves})
            moved.update(plan.moves)
            if dry_run or not (plan.moves or leaving):
                break
            moves = {**{key: facts.partitions[key] for key in leaving}, **plan.moves}
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


def _plan_drain(facts: _Facts, broker: int) -> Plan:
    """Return the plan.

    Raises:
        ClientError: there is no such broker, or no other broker can take a replica.
    """
    known = {each.id for each in facts.info.brokers}
    known.update(each for replicas in facts.partitions.values() for each in replicas)
    if broker not in known:
        raise _no_broker(facts.info, broker)
    usable = facts.info.unfenced
    plan = plan_drain(broker, usable, facts.partitions)
    if plan.impossible:
        shown = ", ".join(map(str, plan.impossible[:SHOWN_MAX]))
        more = "" if len(plan.impossible) <= SHOWN_MAX else ", …"
        raise ClientError(
            f"every broker that runs has a replica already of "
            f"{plural(len(plan.impossible), 'partition')}: {shown}{more}",
            "Add a broker first: odradek cluster add-broker",
        )
    return plan


def _no_broker(info: ClusterInfo, broker: int) -> ClientError:
    ids = ", ".join(str(each.id) for each in info.brokers)
    return ClientError(f"there is no broker {broker}", f"The brokers of the cluster: {ids}")


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
        facts = _gather(client)
        found = next((each for each in facts.info.brokers if each.id == broker), None)
        if found is None:
            raise _no_broker(facts.info, broker)
        if not found.fenced:
            raise ClientError(
                f"broker {broker} runs at {found.address}",
                f"Move its replicas away (odradek cluster drain {broker}), and stop it first.",
            )
        # A move away keeps the old replica until the new one is in sync.
        held = sum(broker in replicas for replicas in facts.present.values())
        if held and not force:
            raise ClientError(
                f"broker {broker} has replicas of {plural(held, 'partition')}",
                f"Move them away first: odradek cluster drain {broker}. With --force they stay "
                "assigned to it, and their partitions stay under-replicated.",
            )
        unregister_broker(client, broker)
    click.echo(f"Removed broker {broker}")


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
        facts = _gather(client)
        usable = facts.info.unfenced
        plan = plan_balance(usable, facts.partitions)
        elected = 0
        if not dry_run:
            _perform(client, plan.moves, at_once)
            elected = _elect(client)
    before = {key: facts.partitions[key] for key in plan.moves}
    _print_moves(as_json, dry_run, before, plan.moves, {"elected": elected})
    if not as_json and not plan.moves:
        note("The brokers have equally many replicas and preferred leaders.")
    if not as_json and elected:
        click.echo(f"Moved {plural(elected, 'leader')} to the preferred replica")


def _elect(cluster: Cluster) -> int:
    """Elect the preferred leader of each partition that another replica leads; return how many."""
    wanted = [
        TopicPartition(topic.name, index)
        for topic in cluster.refresh().topics.values()
        for index, each in topic.partitions.items()
        if each.leader >= 0 and each.leader != each.replicas[0] and each.replicas[0] in each.in_sync
    ]
    results = elect_preferred_leaders(cluster, wanted)
    end_with_errors([error for error in results.values() if error is not None])
    return len(results)
