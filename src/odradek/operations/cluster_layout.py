"""Where the replicas of a cluster are, and what may be done with its brokers.

The functions that decide raise `ClientError` with an advice if a change is not possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from odradek.client.admin.cluster import ClusterInfo, describe_cluster
from odradek.client.admin.reassignments import Reassignment, list_reassignments
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.metadata import Topic
from odradek.model.topic_partition import TopicPartition
from odradek.operations.cluster_plans import Plan, Replicas, final_replicas, plan_drain
from odradek.operations.texts import plural

_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Layout:
    """The brokers of a cluster, and the replicas of its partitions."""

    info: ClusterInfo
    moving: Mapping[TopicPartition, Reassignment]
    partitions: Mapping[TopicPartition, Replicas]
    """The replicas after the moves that are in progress."""
    present: Mapping[TopicPartition, Replicas]
    """The replicas now, those that are added and those that are removed included."""

    def leaving(self, broker_id: int) -> list[TopicPartition]:
        """Return the partitions that are being moved away from a broker."""
        return [key for key, each in self.moving.items() if broker_id in each.removing]

    def held(self, broker_id: int) -> int:
        """Return how many partitions have a replica on a broker.

        A move away keeps the old replica until the new one is in sync.
        """
        return sum(broker_id in replicas for replicas in self.present.values())


def read_layout(cluster: Cluster) -> Layout:
    """Read where the replicas are.

    Raises:
        ClientError: the controller does not respond, or refuses.
    """
    info = describe_cluster(cluster)
    moving = list_reassignments(cluster)
    topics = cluster.refresh().topics.values()
    return Layout(info, moving, final_replicas(topics, moving), final_replicas(topics, {}))


def drain(layout: Layout, broker_id: int) -> Plan:
    """Return the plan that leaves no replica on a broker.

    Raises:
        ClientError: there is no such broker, or no other broker can take a replica.
    """
    known = {each.id for each in layout.info.brokers}
    known.update(each for replicas in layout.partitions.values() for each in replicas)
    if broker_id not in known:
        raise _no_broker(layout.info, broker_id)
    plan = plan_drain(broker_id, layout.info.unfenced, layout.partitions)
    if plan.impossible:
        shown = ", ".join(map(str, plan.impossible[:_SHOWN_MAX]))
        more = "" if len(plan.impossible) <= _SHOWN_MAX else ", …"
        raise ClientError(
            f"every broker that runs has a replica already of "
            f"{plural(len(plan.impossible), 'partition')}: {shown}{more}",
            "Add a broker first: odradek cluster add-broker",
        )
    return plan


def check_removal(layout: Layout, broker_id: int, *, may_hold_replicas: bool = False) -> None:
    """Check that the registration of a broker may be removed.

    Raises:
        ClientError: there is no such broker, it runs, or it has replicas and `may_hold_replicas` is
            false.
    """
    found = next((each for each in layout.info.brokers if each.id == broker_id), None)
    if found is None:
        raise _no_broker(layout.info, broker_id)
    if not found.fenced:
        raise ClientError(
            f"broker {broker_id} runs at {found.address}",
            f"Move its replicas away (odradek cluster drain {broker_id}), and stop it first.",
        )
    held = layout.held(broker_id)
    if held and not may_hold_replicas:
        raise ClientError(
            f"broker {broker_id} has replicas of {plural(held, 'partition')}",
            f"Move them away first: odradek cluster drain {broker_id}. With --force they stay "
            "assigned to it, and their partitions stay under-replicated.",
        )


def led_by_others(topics: Iterable[Topic]) -> list[TopicPartition]:
    """Return the partitions that another replica leads, although the preferred one is in sync."""
    return [
        TopicPartition(topic.name, index)
        for topic in topics
        for index, each in topic.partitions.items()
        if each.leader >= 0 and each.leader != each.replicas[0] and each.replicas[0] in each.in_sync
    ]


def _no_broker(info: ClusterInfo, broker_id: int) -> ClientError:
    ids = ", ".join(str(each.id) for each in info.brokers)
    return ClientError(f"there is no broker {broker_id}", f"The brokers of the cluster: {ids}")
