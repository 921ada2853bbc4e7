"""Lists, describes and aborts transactions, and finds hanging transactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from odradek.client.admin.cluster import describe_producers
from odradek.client.cluster import TRANSACTION, Cluster
from odradek.client.errors import ClientError, broker_error, check
from odradek.client.fan_out import fan_out, to_coordinators
from odradek.client.producer.transactions import TransactionalProducer, init_producer
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.describe_producers_response import ProducerState
from odradek.wire.generated.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.generated.describe_transactions_response import DescribeTransactionsResponse
from odradek.wire.generated.list_transactions_request import ListTransactionsRequest
from odradek.wire.generated.list_transactions_response import ListTransactionsResponse
from odradek.wire.generated.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.wire.generated.write_txn_markers_response import WriteTxnMarkersResponse


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id in a list."""

    id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id. `start_ms` is -1 before its first transaction."""

    id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """An open transaction in one partition: its producer and its first offset."""

    partition: TopicPartition
    producer: ProducerState


def list_transactions(
    cluster: Cluster,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    duration_ms: int = -1,
    pattern: str | None = None,
) -> list[TransactionListing]:
    """List the transactional ids of all brokers that match the filters, sorted by id.

    Raises:
        ClientError: a broker does not respond, or rejects the pattern.
    """
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=duration_ms,
        transactional_id_pattern=pattern,
    )
    found = {}
    for node_id in cluster.refresh([]).nodes:
        response = cluster.ask_node(node_id, request, ListTransactionsResponse, _check_list)
        for each in response.transaction_states:
            found[each.transactional_id] = TransactionListing(
                each.transactional_id, each.producer_id, each.transaction_state, node_id
            )
    return sorted(found.values(), key=lambda each: each.id)


def _check_list(response: ListTransactionsResponse) -> None:
    check(response.error_code, subject="list of transactions")


def describe_transactions(
    cluster: Cluster, ids: Iterable[str]
) -> dict[str, Transaction | ClientError]:
    """Describe transactional ids, as their coordinators report them.

    Raises:
        ClientError: a coordinator does not respond.
    """

    def read(response: DescribeTransactionsResponse) -> dict[str, Transaction | ClientError]:
        found: dict[str, Transaction | ClientError] = {}
        for each in response.transaction_states:
            name = each.transactional_id
            error = broker_error(each.error_code, None, f"transactional id {name}")
            found[name] = error or Transaction(
                name,
                each.transaction_state,
                each.producer_id,
                each.producer_epoch,
                each.transaction_timeout_ms,
                each.transaction_start_time_ms,
                tuple(TopicPartition(t.topic, p) for t in each.topics for p in t.partitions),
            )
        return found

    return fan_out(
        ids,
        to_coordinators(cluster, TRANSACTION),
        lambda some: DescribeTransactionsRequest(transactional_ids=some),
        DescribeTransactionsResponse,
        read,
        cluster.timeout_ms,
    )


def open_transactions(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> list[OpenTransaction]:
    """Return the open transactions in partitions.

    Raises:
        ClientError: a broker does not respond, or returns an error for a partition.
    """
    found = []
    for partition, producers in describe_producers(cluster, partitions).items():
        if isinstance(producers, ClientError):
            raise producers
        found += [
            OpenTransaction(partition, each)
            for each in producers
            if each.current_txn_start_offset >= 0
        ]
    return found


def hanging_transactions(
    cluster: Cluster, partitions: Iterable[TopicPartition], before_ms: int
) -> list[OpenTransaction]:
    """Return the open transactions that no coordinator will ever end.

    Such a transaction is hanging. There are two cases. No transactional id has the producer id of
    the transaction, or the current transaction of this transactional id does not include the
    partition. Transactions whose producer wrote at or after `before_ms` are ignored.

    Raises:
        ClientError: a broker does not respond.
    """
    candidates = [
        each
        for each in open_transactions(cluster, partitions)
        if each.producer.last_timestamp < before_ms
    ]
    return [each for each, known in coordinated(cluster, candidates) if known is None]


def coordinated(
    cluster: Cluster, transactions: Sequence[OpenTransaction]
) -> list[tuple[OpenTransaction, Transaction | None]]:
    """Pair each open transaction with its coordinator's description of the transaction.

    The description is None if no coordinator will end the transaction.

    Raises:
        ClientError: a broker does not respond.
    """
    if not transactions:
        return []
    producer_ids = list({each.producer.producer_id for each in transactions})
    listed = list_transactions(cluster, producer_ids=producer_ids)
    described = describe_transactions(cluster, [each.id for each in listed])
    known = {
        (each.producer_id, partition): each
        for each in described.values()
        if not isinstance(each, ClientError)
        for partition in each.partitions
    }
    return [(each, known.get((each.producer.producer_id, each.partition))) for each in transactions]


def fence_producers(
    cluster: Cluster, ids: Iterable[str]
) -> dict[str, TransactionalProducer | ClientError]:
    """End the transactions of transactional ids, and let their producers write no more.

    Return the producer id and epoch that fence them.
    """
    found: dict[str, TransactionalProducer | ClientError] = {}
    for each in ids:
        try:
            found[each] = init_producer(cluster, each, cluster.timeout_ms)
        except ClientError as error:
            found[each] = error
    return found


def abort_transaction(cluster: Cluster, transaction: OpenTransaction) -> None:
    """Abort a transaction in one partition, regardless of the state in its coordinator.

    Raises:
        ClientError: the leader does not respond, or returns an error.
    """
    name, producer = transaction.partition, transaction.producer
    topics = [WritableTxnMarkerTopic(name=name.topic, partition_indexes=[name.partition])]
    request = WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                transaction_result=False,
                topics=topics,
                coordinator_epoch=max(producer.coordinator_epoch, 0),
            )
        ]
    )
    response = cluster.ask_node(cluster.leader(name), request, WriteTxnMarkersResponse)
    for marker in response.markers:
        for topic in marker.topics:
            for partition in topic.partitions:
                check(partition.error_code, subject=f"marker in {name}")
