"""Asks the leader of a partition where a leader epoch ends (OffsetForLeaderEpoch, KIP-320)."""

from __future__ import annotations

from odradek.client.cluster import Cluster
from odradek.client.errors import check
from odradek.client.metadata import Partition
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.wire.generated.offset_for_leader_epoch_response import OffsetForLeaderEpochResponse


def end_of_epoch(
    cluster: Cluster, topic_partition: TopicPartition, leader: Partition, epoch: int
) -> tuple[int, int]:
    """Return the largest epoch that is not above `epoch` in the leader's log, and its end offset.

    Both are -1 if the leader does not know such an epoch. `leader` names the leader and its epoch.

    Raises:
        ClientError: this leader does not respond, or is not the leader in this epoch.
    """
    wanted = OffsetForLeaderPartition(
        partition=topic_partition.partition,
        current_leader_epoch=leader.leader_epoch,
        leader_epoch=epoch,
    )
    response = cluster.node(leader.leader).request(
        OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic=topic_partition.topic, partitions=[wanted])]
        ),
        OffsetForLeaderEpochResponse,
        cluster.timeout_ms,
    )
    found = response.topics[0].partitions[0]
    check(found.error_code, subject=f"partition {topic_partition}")
    return found.leader_epoch, found.end_offset
