"""Requests of a transactional producer: begin, add partitions, and end a transaction (KIP-98).

Several processes can write in one transaction if they share the producer id and the epoch of
`init_producer`. Each partition must then be written by one process only, because a broker checks
the sequence numbers of a producer in each partition.

With the feature `transaction.version` 2 (KIP-890) a broker adds a partition to the transaction when
it receives the first batch, and each end of a transaction increases the epoch. Without the feature,
`add_partitions` must be called first, and requests must use older versions: the version of a
request tells the broker which rules the client follows. `Rules` has both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from odradek.client.cluster import TRANSACTION, Cluster
from odradek.client.connection import Connection
from odradek.client.deadline import Deadline
from odradek.client.errors import BrokerError, ClientError, check
from odradek.client.fan_out import by_topic
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from odradek.wire.generated.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from odradek.wire.generated.end_txn_request import EndTxnRequest
from odradek.wire.generated.end_txn_response import EndTxnResponse
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse
from odradek.wire.primitives import Message

TRANSACTION_VERSION = "transaction.version"
ADD_PARTITIONS_VERSION_MAX = 3
"""Later versions of AddPartitionsToTxn are for brokers."""
FENCED = frozenset([ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])

T = TypeVar("T")
ResponseT = TypeVar("ResponseT", bound=Message)


@dataclass(frozen=True, slots=True)
class TransactionalProducer:
    """A producer id and an epoch, which all processes of a transaction share."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Rules:
    """How a cluster handles transactions."""

    adds_partitions: bool
    """Whether a broker adds a partition to the transaction when it receives the first batch."""
    produce_version_max: int
    end_version_max: int


CLASSIC = Rules(adds_partitions=False, produce_version_max=11, end_version_max=4)
VERSION_2 = Rules(adds_partitions=True, produce_version_max=12, end_version_max=5)


def rules(connection: Connection) -> Rules:
    """Return the rules of the cluster, by its finalized features."""
    for feature in connection.features.finalized_features:
        if feature.name == TRANSACTION_VERSION and feature.max_version_level >= 2:
            return VERSION_2
    return CLASSIC


def init_producer(
    cluster: Cluster, transactional_id: str, transaction_timeout_ms: int
) -> TransactionalProducer:
    """Return a new epoch of a transactional id.

    Producers with an older epoch are fenced. An open transaction of theirs is aborted. If it was
    about to be committed, it is committed first.

    Raises:
        ClientError: the coordinator does not respond, or returns an error.
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=transaction_timeout_ms
    )

    def check_answer(response: InitProducerIdResponse) -> None:
        check(response.error_code, subject=f"transactional id {transactional_id}")

    response = _ask(cluster, transactional_id, request, InitProducerIdResponse, check_answer)
    return TransactionalProducer(transactional_id, response.producer_id, response.producer_epoch)


def add_partitions(
    cluster: Cluster, producer: TransactionalProducer, partitions: Iterable[TopicPartition]
) -> None:
    """Add partitions to the transaction. Only needed without `Rules.adds_partitions`.

    Raises:
        ClientError: the coordinator does not respond, or refuses a partition.
    """
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ],
    )

    def check_answer(response: AddPartitionsToTxnResponse) -> None:
        # If one partition is refused, all others have OPERATION_NOT_ATTEMPTED.
        results = [
            (each.partition_error_code, f"partition {topic.name}-{each.partition_index}")
            for topic in response.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        ]
        for code, subject in sorted(results, key=_not_attempted):
            check(code, subject=subject)

    _ask(
        cluster,
        producer.transactional_id,
        request,
        AddPartitionsToTxnResponse,
        check_answer,
        lambda _: ADD_PARTITIONS_VERSION_MAX,
    )


def _not_attempted(result: tuple[int, str]) -> bool:
    return result[0] == ErrorCode.OPERATION_NOT_ATTEMPTED


def end_transaction(cluster: Cluster, producer: TransactionalProducer, *, committed: bool) -> None:
    """Commit or abort the transaction.

    The request is repeated until the coordinator responds. It may be repeated by later calls too:
    the coordinator recognizes a repeated request.

    Raises:
        ClientError: the coordinator does not respond, or returns an error. After an error other
            than a BrokerError it is unknown whether the transaction has ended.
    """
    request = EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=committed,
    )

    def check_answer(response: EndTxnResponse) -> None:
        check(response.error_code, subject=f"transactional id {producer.transactional_id}")

    _ask(
        cluster,
        producer.transactional_id,
        request,
        EndTxnResponse,
        check_answer,
        lambda connection: rules(connection).end_version_max,
    )


def is_fenced(error: ClientError) -> bool:
    """Return whether a newer epoch of the transactional id exists."""
    return isinstance(error, BrokerError) and error.code in FENCED


def _ask(
    cluster: Cluster,
    transactional_id: str,
    request: Message,
    response_class: type[ResponseT],
    check_answer: Callable[[ResponseT], None],
    version_max: Callable[[Connection], int] = lambda _: 32767,
) -> ResponseT:
    """Send a request to the coordinator, and retry it after retriable errors."""

    def attempt(deadline: Deadline) -> ResponseT:
        try:
            connection = cluster.coordinator(transactional_id, TRANSACTION)
            pending = connection.send(request, response_class, version_max(connection))
            response = connection.receive(pending, deadline.remaining_ms)
            check_answer(response)
        except ClientError as error:
            if error.retriable:
                cluster.forget_coordinator(transactional_id, TRANSACTION)
            raise
        return response

    return cluster.retrying(attempt)
