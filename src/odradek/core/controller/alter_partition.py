"""Processes AlterPartition: a leader changes the ISR of its partitions (KIP-497, KIP-903).

With this request a leader adds a replica that has caught up, removes a replica that lags, or
records that the leader has recovered from an unclean election (KIP-704). The request has the leader
epoch and the partition epoch on which the leader bases the change. The controller rejects the
change if the leader does not know the newest state. From version 3 on the request also has the
broker epoch of each replica, so that a replica that was restarted since then is not added.

If the new ISR contains all replicas that a reassignment adds, the change completes the
reassignment. Then another replica may become the leader.

Checks are made in Apache Kafka's order (ReplicationControlManager.alterPartition).
"""

from __future__ import annotations

from odradek.core.controller.partition_change import Election, PartitionChange
from odradek.core.controller.state import ControllerState, Decision
from odradek.core.metadata.image import TopicImage
from odradek.core.metadata.registrations import RECOVERED, RECOVERING, PartitionRegistration
from odradek.model.errors import ErrorCode
from odradek.wire.generated.alter_partition_request import AlterPartitionRequest
from odradek.wire.generated.alter_partition_request import PartitionData as Wanted
from odradek.wire.generated.alter_partition_response import (
    AlterPartitionResponse,
    PartitionData,
    TopicData,
)
from odradek.wire.primitives import Message

ANY_EPOCH = -1
"""The broker epoch of a replica that is not checked: all replicas before version 3."""
FIRST_VERSION_WITH_EPOCHS = 3


def alter_partition(
    state: ControllerState, request: AlterPartitionRequest, version: int
) -> Decision[AlterPartitionResponse]:
    """Change the ISR of each partition in the request, or return an error for it.

    If another replica becomes the leader, the partition gets the error NEW_LEADER_ELECTED, and the
    change is made nevertheless.

    Raises:
        ApiError: STALE_BROKER_EPOCH.
    """
    if not request.topics:  # then the epoch is not checked, as in Apache Kafka
        return Decision([], AlterPartitionResponse())
    state.check_broker_epoch(request.broker_id, request.broker_epoch)
    records: list[Message] = []
    changed: dict[tuple[bytes, int], PartitionRegistration] = {}
    topics: list[TopicData] = []
    for topic in request.topics:
        image = state.image.topics.by_id.get(topic.topic_id)
        outcomes: list[PartitionData] = []
        for each in topic.partitions:
            index = each.partition_index
            key = topic.topic_id, index
            partition = changed.get(key)
            if partition is None and image is not None:
                partition = image.partitions.get(index)
            isr = _isr(each, version)
            error = _problem(state, request.broker_id, image, partition, each, isr)
            if error is not ErrorCode.NONE:
                outcomes.append(PartitionData(partition_index=index, error_code=error))
                continue
            assert image is not None
            assert partition is not None
            record = _change(state, image, index, partition, each, isr).record()
            if record is not None:
                records.append(record)
                partition = changed[key] = partition.changed_by(record)
            outcomes.append(_outcome(index, request.broker_id, partition))
        topics.append(TopicData(topic_id=topic.topic_id, partitions=outcomes))
    return Decision(records, AlterPartitionResponse(topics=topics), is_atomic=False)


def _isr(wanted: Wanted, version: int) -> dict[int, int] | None:
    """Return the new ISR with the broker epochs; None if the request has a broker twice."""
    if version < FIRST_VERSION_WITH_EPOCHS:
        pairs = [(broker_id, ANY_EPOCH) for broker_id in wanted.new_isr]
    else:
        pairs = [(each.broker_id, each.broker_epoch) for each in wanted.new_isr_with_epochs]
    isr = dict(pairs)
    return isr if len(isr) == len(pairs) else None


def _problem(
    state: ControllerState,
    broker_id: int,
    topic: TopicImage | None,
    partition: PartitionRegistration | None,
    wanted: Wanted,
    isr: dict[int, int] | None,
) -> ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    # The leader knows a newer state than this controller, so another controller is active.
    if wanted.leader_epoch > partition.leader_epoch:
        return ErrorCode.NOT_CONTROLLER
    if wanted.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if wanted.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if wanted.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if isr is None or broker_id not in isr or not set(isr) <= set(partition.replicas):
        return ErrorCode.INVALID_REQUEST
    if not _is_valid_recovery(partition, wanted.leader_recovery_state, len(isr)):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(state, replica, epoch) for replica, epoch in isr.items()):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _is_valid_recovery(partition: PartitionRegistration, wanted: int, isr_size: int) -> bool:
    if wanted == RECOVERED:
        return True
    # A leader that recovers has no other replica in the ISR. A leader never begins to recover.
    is_recovering = partition.leader_recovery_state == RECOVERING
    return wanted == RECOVERING and is_recovering and isr_size == 1


def _is_eligible(state: ControllerState, replica: int, epoch: int) -> bool:
    """Return whether the replica may be in the ISR: its broker is active, with this epoch."""
    if not state.is_active(replica):
        return False
    return epoch in (ANY_EPOCH, state.image.cluster.brokers[replica].epoch)


def _change(
    state: ControllerState,
    topic: TopicImage,
    index: int,
    partition: PartitionRegistration,
    wanted: Wanted,
    isr: dict[int, int] | None,
) -> PartitionChange:
    may_be_unclean = state.unclean_election_enabled(topic.name)
    return PartitionChange(
        state,
        topic.name,
        topic.id,
        index,
        partition,
        election=Election.UNCLEAN if may_be_unclean else Election.ONLINE,
        isr=None if isr is None else list(isr),
        recovery_state=wanted.leader_recovery_state,
    )


def _outcome(index: int, broker_id: int, partition: PartitionRegistration) -> PartitionData:
    if partition.leader != broker_id:
        # The change has completed a reassignment without this leader.
        return PartitionData(partition_index=index, error_code=ErrorCode.NEW_LEADER_ELECTED)
    return PartitionData(
        partition_index=index,
        error_code=ErrorCode.NONE,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )
