"""The requests of transactional producers, and the checks of their responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter

from odradek.client.core.producer_batch import ProducerIdentity
from odradek.client.errors import check, error_code
from odradek.client.group_metadata import CommittedOffset, GroupMetadata
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from odradek.wire.generated.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from odradek.wire.generated.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from odradek.wire.generated.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from odradek.wire.generated.end_txn_request import EndTxnRequest
from odradek.wire.generated.end_txn_response import EndTxnResponse
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse
from odradek.wire.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.generated.txn_offset_commit_response import TxnOffsetCommitResponse

ADD_PARTITIONS_VERSION_MAX = 3
"""Later versions of AddPartitionsToTxn are for brokers."""
ADD_GROUP_VERSION_MAX = 3
OFFSETS_VERSION_MAX = 5
OFFSETS_VERSION_1_MAX = 4
END_VERSION_MAX = 5
END_VERSION_1_MAX = 4
PRODUCE_VERSION_1_MAX = 11
"""The versions `..._1_MAX` tell the brokers that the client uses version 1 of transactions."""

_PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


def init(
    transactional_id: str, transaction_timeout_ms: int, known: ProducerIdentity
) -> InitProducerIdRequest:
    """Ask for a new epoch. `known` is the identity whose epoch is incremented, or -1 and -1."""
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=transaction_timeout_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
    )


def check_init(response: InitProducerIdResponse, transactional_id: str) -> None:
    """Raise BrokerError for an error of InitProducerId."""
    check(response.error_code, subject=f"transactional id {transactional_id}")


def add_partitions(
    transactional_id: str, identity: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    """Add partitions to a transaction."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=indexes)
            for topic, indexes in topics.items()
        ],
    )


def check_partitions(response: AddPartitionsToTxnResponse) -> None:
    """Raise BrokerError if a partition is refused. All others then have OPERATION_NOT_ATTEMPTED."""
    results = [
        (each.partition_error_code, f"partition {topic.name}-{each.partition_index}")
        for topic in response.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ]
    for code, subject in sorted(results, key=_not_attempted):
        check(code, subject=subject)


def _not_attempted(result: tuple[int, str]) -> bool:
    return result[0] == ErrorCode.OPERATION_NOT_ATTEMPTED


def add_group(
    transactional_id: str, identity: ProducerIdentity, group_id: str
) -> AddOffsetsToTxnRequest:
    """Add the offsets of a group to a transaction."""
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        group_id=group_id,
    )


def check_group(response: AddOffsetsToTxnResponse, transactional_id: str) -> None:
    """Raise BrokerError for an error of AddOffsetsToTxn."""
    check(response.error_code, subject=f"transactional id {transactional_id}")


def commit_offsets(
    transactional_id: str,
    identity: ProducerIdentity,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> TxnOffsetCommitRequest:
    """Commit the offsets of a group when the transaction is committed."""
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (topic, index), offset in sorted(offsets.items(), key=itemgetter(0)):
        topics.setdefault(topic, []).append(
            TxnOffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        generation_id_or_member_epoch=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[TxnOffsetCommitRequestTopic(name=t, partitions=p) for t, p in topics.items()],
    )


def check_offsets(response: TxnOffsetCommitResponse, group_id: str) -> list[TopicPartition]:
    """Return the partitions whose offset must be sent again; raise BrokerError if that is useless.

    If any partition must be repeated, the error of the first one is raised when all must be.
    """
    left: list[TopicPartition] = []
    passing: tuple[int, str] | None = None
    accepted = 0
    for topic in response.topics:
        for each in topic.partitions:
            subject = f"group {group_id}, partition {topic.name}-{each.partition_index}"
            if each.error_code and error_code(each.error_code) in _PASSING:
                left.append(TopicPartition(topic.name, each.partition_index))
                passing = passing or (each.error_code, subject)
            else:
                check(each.error_code, subject=subject)
                accepted += 1
    if passing is not None and not accepted:
        check(passing[0], subject=passing[1])
    return left


def end(transactional_id: str, identity: ProducerIdentity, *, is_commit: bool) -> EndTxnRequest:
    """Commit or abort a transaction."""
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        committed=is_commit,
    )


def check_end(response: EndTxnResponse, transactional_id: str) -> None:
    """Raise BrokerError for an error of EndTxn."""
    check(response.error_code, subject=f"transactional id {transactional_id}")
