"""Produce (0), versions 3-13: append record batches to partitions.

- acks 0, 1 and all (-1); anything else is INVALID_REQUIRED_ACKS. With acks 0 there is no
  answer, and an error closes the connection, so that the producer notices (as Apache Kafka).
- Each partition has a result of its own; what the log refuses comes with the indices of the
  refused records (KIP-467).
- From version 13 on partitions are named by topic id; an unknown one is UNKNOWN_TOPIC_ID.
- On NOT_LEADER_OR_FOLLOWER the answer names the leader (KIP-951).
- Internal topics accept records only from the client id `__admin_client`.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.model.errors import ApiError
from odradek.wire.generated.produce_request import ProduceRequest
from odradek.wire.generated.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

TOPIC_IDS_VERSION = 13
ADMIN_CLIENT_ID = "__admin_client"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def handle(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | None:
    """Append each partition's batches; the answer when all are as safe as `acks` asks."""
    response = ProduceResponse()
    failed = False
    for topic in request.topic_data:
        result = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        partitions, unknown = _partitions(broker, context, topic)
        for data in topic.partition_data:
            answer = PartitionProduceResponse(index=data.index)
            result.partition_responses.append(answer)
            try:
                partition = partitions.get(data.index)
                if partition is None:
                    raise ApiError(unknown)
                _append(context, request.acks, partition, data.records, answer)
            except ApiError as error:
                failed = True
                _fail(broker, partitions.get(data.index), answer, error, response)
        response.responses.append(result)
    if request.acks:
        return response
    if failed:
        broker.close_connection(context, "a Produce request with acks=0 failed")
    return None
