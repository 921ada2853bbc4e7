"""DescribeShareGroupOffsets (90), versions 0-1: the start offsets of share groups.

- Without topics, all initialized partitions of the group are described. Topics that the client may
  not DESCRIBE are omitted.
- A partition without a start offset has the start offset -1.
- Version 1 adds the lag: the number of records that are not delivered completely.
"""

from __future__ import annotations

import asyncio

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.authorization import GROUP, TOPIC, AclOperation, denied, require
from odradek.handlers.handler import Handler
from odradek.handlers.pieces import Pieces
from odradek.handlers.share_groups import check_enabled
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from odradek.wire.generated.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def handle(
    broker: Broker, context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    """Return the start offsets of the groups."""
    described = (_describe(broker, context, each) for each in request.groups)
    return DescribeShareGroupOffsetsResponse(groups=list(await asyncio.gather(*described)))


async def _describe(
    broker: Broker, context: RequestContext, asked: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    """Describe one group. An error is part of the result."""
    try:
        check_enabled(broker)
        require(broker, context, AclOperation.DESCRIBE, GROUP, asked.group_id)
        if asked.topics is None:
            group = await broker.coordinators.share_groups.describe_offsets(asked)
            names = [each.topic_name for each in group.topics]
            refused = denied(broker, context, AclOperation.DESCRIBE, TOPIC, names)
            group.topics = [each for each in group.topics if each.topic_name not in refused]
            return group
        names = [each.topic_name for each in asked.topics]
        refused = denied(broker, context, AclOperation.DESCRIBE, TOPIC, names)
        allowed = DescribeShareGroupOffsetsRequestGroup(
            group_id=asked.group_id,
            topics=[each for each in asked.topics if each.topic_name not in refused],
        )
        group = await broker.coordinators.share_groups.describe_offsets(allowed)
        group.topics += [_refused(each) for each in asked.topics if each.topic_name in refused]
    except ApiError as error:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=asked.group_id, error_code=error.code, error_message=error.code.message
        )
    return group


def _refused(
    asked: DescribeShareGroupOffsetsRequestTopic,
) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=asked.topic_name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=each,
                start_offset=-1,
                error_code=_DENIED,
                error_message=_DENIED.message,
            )
            for each in asked.partitions
        ],
    )


HANDLER = Handler(
    request=DescribeShareGroupOffsetsRequest,
    handle=handle,
    pieces=Pieces("groups", "groups", 100),
)
