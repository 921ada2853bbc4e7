"""AddPartitionsToTxn (24), versions 0-5: partitions are added to a transaction.

- Clients send versions 0-3, which contain one transaction. Brokers send versions 4 and 5, which
  contain many transactions. With `verify_only` a broker only verifies that the partitions were
  added (KIP-890).
- If a partition does not exist, no partition of its transaction is added. The missing partition
  gets the error UNKNOWN_TOPIC_OR_PARTITION. The other partitions get OPERATION_NOT_ATTEMPTED.
- A fenced producer gets the error PRODUCER_FENCED (before version 2: INVALID_PRODUCER_EPOCH).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.core.transaction.transaction import Partitions, each, gathered
from odradek.handlers.authorization import (
    TOPIC,
    TRANSACTIONAL_ID,
    AclOperation,
    denied,
    permits,
    require_cluster,
)
from odradek.handlers.handler import Handler
from odradek.handlers.transactions import answered, error_for
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_name import is_internal
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.wire.generated.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

FENCED_VERSION = 2
BATCHED_VERSION = 4
EPOCH_BUMP_REQUEST_VERSION = 5
"""From this version on, a request means that the producer uses transaction protocol version 2."""

Codes = Mapping[TopicPartition, ErrorCode]


async def handle(
    broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Add the partitions of each transaction, or verify them."""
    version = context.api_version
    if version < BATCHED_VERSION:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        codes = _unauthorized(broker, context, transaction)
        if not codes:
            codes = await _add(broker, version, transaction)
        topics = _topics(transaction.topics, codes)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
    require_cluster(broker, context, AclOperation.CLUSTER_ACTION)
    transactions = request.transactions
    answers = await asyncio.gather(*(_add(broker, version, one) for one in transactions))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=_topics(transaction.topics, codes),
            )
            for transaction, codes in zip(transactions, answers, strict=True)
        ]
    )


def _unauthorized(
    broker: Broker, context: RequestContext, asked: AddPartitionsToTxnTransaction
) -> Codes:
    """Return the result of each partition if the client may not add all of them; otherwise nothing.

    Clients never add partitions of internal topics.
    """
    if broker.authorizer is None:
        return {}
    write, names = AclOperation.WRITE, list(each(_partitions(asked.topics)))
    if not permits(broker, context, write, TRANSACTIONAL_ID, asked.transactional_id):
        return dict.fromkeys(names, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    topics = [topic.name for topic in asked.topics]
    refused = {name for name in topics if is_internal(name)}
    refused |= denied(broker, context, write, TOPIC, [n for n in topics if n not in refused])
    if not refused:
        return {}
    known = broker.metadata.image.topics
    return {
        name: ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if name.topic in refused
        else ErrorCode.OPERATION_NOT_ATTEMPTED
        if known.partition(name.topic, name.partition) is not None
        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for name in names
    }


async def _add(broker: Broker, version: int, asked: AddPartitionsToTxnTransaction) -> Codes:
    """Return the result of each partition of one transaction."""
    partitions = _partitions(asked.topics)
    known = broker.metadata.image.topics
    names = list(each(partitions))
    missing = {name for name in names if known.partition(name.topic, name.partition) is None}
    if missing:
        return {
            name: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if name in missing
            else ErrorCode.OPERATION_NOT_ATTEMPTED
            for name in names
        }
    who = (asked.transactional_id, asked.producer_id, asked.producer_epoch, partitions)
    if asked.verify_only:
        verified: Codes = await answered(
            broker.coordinators.transactions.verify_partitions,
            *who,
            refused=_for_all(names, version),
        )
        return verified
    client_version = 2 if version >= EPOCH_BUMP_REQUEST_VERSION else 0
    refused: Codes | None = await answered(
        broker.coordinators.transactions.add_partitions,
        *who,
        client_version,
        refused=_for_all(names, version),
    )
    return refused or dict.fromkeys(names, ErrorCode.NONE)


def _for_all(names: list[TopicPartition], version: int) -> Callable[[ApiError], Codes]:
    return lambda error: dict.fromkeys(names, error_for(error, version, FENCED_VERSION))


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> Partitions:
    return gathered(
        TopicPartition(topic.name, index) for topic in topics for index in topic.partitions
    )


def _topics(
    topics: list[AddPartitionsToTxnTopic], codes: Codes
) -> list[AddPartitionsToTxnTopicResult]:
    """Return the results in the form of the request, which may contain a partition twice."""
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=codes[TopicPartition(topic.name, index)],
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _error_response(
    request: AddPartitionsToTxnRequest, error: ApiError
) -> AddPartitionsToTxnResponse:
    """Fill the fields of all versions. The encoder selects the fields of the request's version."""
    topics = request.v3_and_below_topics
    codes = dict.fromkeys(each(_partitions(topics)), error.code)
    return AddPartitionsToTxnResponse(
        error_code=error.code, results_by_topic_v3_and_below=_topics(topics, codes)
    )


HANDLER = Handler(
    request=AddPartitionsToTxnRequest,
    handle=handle,
    error_response=_error_response,
)
