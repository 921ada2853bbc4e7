"""AlterShareGroupOffsets (91), version 0: change the start offsets of an empty share group.

The group is created if it does not exist. If the share coordinator fails, the partitions get its
error.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.authorization import GROUP, TOPIC, AclOperation, denied, require
from odradek.handlers.handler import Handler
from odradek.handlers.share_groups import check_enabled
from odradek.model.errors import ErrorCode
from odradek.wire.generated.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
)
from odradek.wire.generated.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)


async def handle(
    broker: Broker, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    """Return a result for each partition."""
    check_enabled(broker)
    require(broker, context, AclOperation.READ, GROUP, request.group_id)
    names = [each.topic_name for each in request.topics]
    refused = denied(broker, context, AclOperation.READ, TOPIC, names)
    failed = [_refused(broker, each) for each in request.topics if each.topic_name in refused]
    allowed = AlterShareGroupOffsetsRequest(
        group_id=request.group_id,
        topics=[each for each in request.topics if each.topic_name not in refused],
    )
    response = await broker.coordinators.share_groups.alter_offsets(allowed)
    response.responses[:0] = failed
    return response


def _refused(
    broker: Broker, asked: AlterShareGroupOffsetsRequestTopic
) -> AlterShareGroupOffsetsResponseTopic:
    topic = broker.metadata.image.topics.by_name.get(asked.topic_name)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    result = AlterShareGroupOffsetsResponseTopic(
        topic_name=asked.topic_name,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition_index=each.partition_index, error_code=code, error_message=code.message
            )
            for each in asked.partitions
        ],
    )
    if topic is not None:
        result.topic_id = topic.id
    return result


HANDLER = Handler(request=AlterShareGroupOffsetsRequest, handle=handle)
